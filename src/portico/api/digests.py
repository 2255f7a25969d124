"""Digests that come with a body: checked as its bytes arrive, and before anything of it is stored.

`Content-Digest` and `Repr-Digest` are those of RFC 9530, `Digest` is their predecessor (RFC 3230) and `Content-MD5` that
of RFC 1864. They come with a request, for its whole body, or in the headers of a part, for the content of that part.
Content is never coded here, so that what is sent and what it represents have the same digest.
"""

import asyncio
import hashlib
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from portico.errors import InvalidRequest

_ALGORITHMS = {"sha-512": "sha512", "sha-256": "sha256", "sha": "sha1", "md5": "md5"}
"""Those of the IANA registry that the standard library computes, by its names for them."""
_FIELDS = {
    "content-md5": "Content-MD5",
    "content-digest": "Content-Digest",
    "repr-digest": "Repr-Digest",
    "digest": "Digest",
}
_MEMBER = re.compile(r"\s*([A-Za-z*][\w.*-]*)=(:?)([A-Za-z0-9+/]*={0,2})(:?)(?:\s*;.*)?\s*", re.ASCII)
_HASHED_HERE = 64 * 1024
_BATCH = 256 * 1024
"""Bytes for which a thread is worth its price. They are held a little longer than they would be without a digest."""


@dataclass(frozen=True, slots=True)
class _Expected:
    field: str
    algorithm: str
    value: bytes


class Digests:
    """What the bytes of one body must come to."""

    def __init__(self, expected: list[_Expected]) -> None:
        self._expected = expected
        self._hashes = {
            each.algorithm: hashlib.new(_ALGORITHMS[each.algorithm], usedforsecurity=False)
            for each in expected
        }
        self._batch: list[bytes] = []
        self._size = 0

    async def watch(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in body:
            await self.update(chunk)
            yield chunk

    async def update(self, chunk: bytes) -> None:
        self._batch.append(chunk)
        self._size += len(chunk)
        if self._size >= _BATCH:
            await self._hash()

    async def check(self) -> None:
        """`InvalidRequest` unless all bytes together are what was announced."""
        await self._hash()
        for expected in self._expected:
            if self._hashes[expected.algorithm].digest() != expected.value:
                raise InvalidRequest(
                    f"What arrived does not match its {expected.field} ({expected.algorithm}); nothing of it was "
                    "stored, send it again."
                )

    async def _hash(self) -> None:
        batch, size = self._batch, self._size
        self._batch, self._size = [], 0
        if size <= _HASHED_HERE:
            self._add(batch)
        else:
            await asyncio.to_thread(self._add, batch)

    def _add(self, batch: list[bytes]) -> None:
        for digest in self._hashes.values():
            for chunk in batch:
                digest.update(chunk)


def has_digest(headers: Iterable[str]) -> bool:
    """Whether one of these headers may announce a digest."""
    return any(name.lower() in _FIELDS or name.lower() == "trailer" for name in headers)


def digests_of(headers: Iterable[tuple[str, str]]) -> Digests | None:
    """What these headers say about the body behind them; `InvalidRequest` if that cannot be verified."""
    expected: list[_Expected] = []
    seen: set[str] = set()
    for name, value in headers:
        name = name.lower()
        if name in _FIELDS:
            if name == "content-md5" and name in seen:
                raise InvalidRequest("The header Content-MD5 is given twice; send it once.")
            seen.add(name)
            expected += _md5(value) if name == "content-md5" else _members(_FIELDS[name], value)
        elif name == "trailer" and not _FIELDS.keys().isdisjoint(map(str.strip, value.lower().split(","))):
            raise InvalidRequest("A digest in a trailer cannot be verified; send it as a header.")
    return Digests(expected) if expected else None


def _md5(value: str) -> list[_Expected]:
    return [_Expected("Content-MD5", "md5", _decoded("Content-MD5", "md5", value.strip()))]


def _members(field: str, text: str) -> list[_Expected]:
    """The digests of one field. Several say the same; one that is not known here is passed over beside one that is."""
    found: list[_Expected] = []
    for member in text.split(","):
        match = _MEMBER.fullmatch(member)
        # RFC 9530 puts the value between colons, RFC 3230 does not.
        if match is None or {match[2], match[4]} != ({""} if field == "Digest" else {":"}):
            raise InvalidRequest(f"The {field} is malformed; write it like {_example(field)}.")
        algorithm = match[1].lower()
        if algorithm in _ALGORITHMS:
            found.append(_Expected(field, algorithm, _decoded(field, algorithm, match[3])))
    if not found:
        raise InvalidRequest(
            f"The {field} cannot be verified; use one of {', '.join(_ALGORITHMS)}, or leave it out."
        )
    return found


def _example(field: str) -> str:
    return "sha-256=Base64" if field == "Digest" else "sha-256=:Base64:"


def _decoded(field: str, algorithm: str, text: str) -> bytes:
    try:
        value = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        value = b""
    size = hashlib.new(_ALGORITHMS[algorithm], usedforsecurity=False).digest_size
    if len(value) != size:
        raise InvalidRequest(f"The {field} holds no {algorithm} digest; write its {size} bytes in Base64.")
    return value
