"""Whether a file at the gateway has the content of a local one."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from portico.client import files
from portico.client.downloads import Incoming, receive
from portico.client.errors import Changed, Forbidden, IsAFolder, NotAFolder, NotFound
from portico.client.session import Session
from portico.client.steps import Piece, Steps, Together, work

_MD5 = re.compile(r'"([0-9a-f]{32})"')
"""An etag that may be the MD5 of the content, as S3 gives it to what was stored in one piece."""
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two files of the same size."""

    path: str
    local: str
    etag: str | None = None
    """Of the version that is known to have the content of the local file; None if none is known."""


class Comparer:
    def __init__(self, session: Session, limit: int, *, read: bool) -> None:
        """`read`: where no digest tells, whether the files at the gateway are to be read."""
        self._session = session
        self._limit = limit
        self._read = read
        self.digests: bool | None = None
        """Whether the gateway has any; None if that is not known yet."""

    def equal(self, candidates: Iterable[Candidate]) -> Steps[dict[str, str | None]]:
        """The paths of those that are equal, each with the etag that it has now."""
        found: dict[str, str | None] = {}

        def job(candidate: Candidate) -> Steps[None]:
            try:
                etag, equal = yield from self._compared(candidate)
            except (NotFound, NotAFolder, IsAFolder, Forbidden, Changed, OSError):
                return  # the transfer will tell what is wrong, if anything is
            if equal:
                found[candidate.path] = etag

        yield Together(map(job, candidates), self._limit)
        return found

    def _compared(self, candidate: Candidate) -> Steps[tuple[str | None, bool]]:
        entry = yield from files.head(self._session, candidate.path)
        if candidate.etag:
            return entry.etag, entry.etag == candidate.etag
        digest = _MD5.fullmatch(entry.etag or "")
        self.digests = bool(digest) or self.digests or False
        if digest and digest[1] == (yield from work(lambda: _md5(candidate.local))):
            return entry.etag, True
        # It may be that of an encrypted object, which is no MD5: only the content says that it is another.
        return entry.etag, self._read and (yield from self._is_read_alike(candidate, entry.etag))

    def _is_read_alike(self, candidate: Candidate, etag: str | None) -> Steps[bool]:
        with open(candidate.local, "rb") as file:

            def compare(piece: Piece) -> None:
                if file.read(len(piece)) != piece:
                    raise _Different

            try:
                yield from receive(self._session, Incoming(candidate.path, compare, etag=etag))
            except _Different:
                return False
            return not file.read(1)


class _Different(Exception):
    pass


def _md5(local: str) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with open(local, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
