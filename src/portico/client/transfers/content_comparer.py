"""Compares files on the gateway with local ones, by checksum or content."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from portico.client import files
from portico.client.auth.session import AuthSession
from portico.client.errors import Changed, Forbidden, IsAFolder, NotAFolder, NotFound
from portico.client.http.effects import Concurrently, Operation, Piece, blocking
from portico.client.transfers.downloads import RangeDownload, receive

_MD5 = re.compile(r'"([0-9a-f]{32})"')
"""An ETag that may be the MD5 of the content, as S3 sets it for single-part uploads."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two files of the same size."""

    path: str
    local: str
    etag: str | None = None
    """The version known to have the content of the local file, if any."""


@dataclass(slots=True)
class ContentComparer:
    session: AuthSession
    limit: int
    read: bool
    """Whether to download files to compare them if their checksum is unknown."""
    digests: bool | None = None
    """Whether the gateway reports checksums; None if unknown."""

    def equal(self, candidates: Iterable[Candidate]) -> Operation[dict[str, str | None]]:
        """The paths of the candidates that are equal, each with its current ETag."""
        found: dict[str, str | None] = {}

        def job(candidate: Candidate) -> Operation[None]:
            try:
                etag, equal = yield from self._compared(candidate)
            except (NotFound, NotAFolder, IsAFolder, Forbidden, Changed, OSError):
                return  # the transfer will report the error
            if equal:
                found[candidate.path] = etag

        yield Concurrently(map(job, candidates), self.limit)
        return found

    def _compared(self, candidate: Candidate) -> Operation[tuple[str | None, bool]]:
        entry = yield from files.head(self.session, candidate.path)
        if candidate.etag:
            return entry.etag, entry.etag == candidate.etag
        digest = _MD5.fullmatch(entry.etag or "")
        self.digests = bool(digest) or self.digests or False
        if digest and digest[1] == (yield from blocking(lambda: _md5(candidate.local))):
            return entry.etag, True
        # The ETag of an encrypted object is not its MD5, so a different one proves nothing.
        return entry.etag, self.read and (yield from self._has_same_content(candidate, entry.etag))

    def _has_same_content(self, candidate: Candidate, etag: str | None) -> Operation[bool]:
        with open(candidate.local, "rb") as file:

            def compare(piece: Piece) -> None:
                if file.read(len(piece)) != piece:
                    raise _Different

            try:
                yield from receive(self.session, RangeDownload(candidate.path, compare, etag=etag))
            except _Different:
                return False
            return not file.read(1)


class _Different(Exception): ...


def _md5(local: str) -> str:
    with open(local, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
