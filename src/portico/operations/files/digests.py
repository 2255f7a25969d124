"""`Hashing`: the digests of one content as its bytes pass by, computed off the event loop."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing
from enum import StrEnum
from importlib.util import find_spec
from typing import NamedTuple

import msgspec

from portico.drive.connection_pool import ConnectionPool
from portico.drive.drive import Drive
from portico.model.entries import Download, Entry
from portico.model.errors import Changed, DigestMismatch, NotFound, PorticoError
from portico.model.paths import Path
from portico.runtime.tasks import for_each
from portico.store.digests import FileDigests, RecordedDigest

_PAGE = 500
_SAMPLE = 200
_SAMPLES = 10
"""In one sweep, at most."""
_RARE = 10
"""A sweep ends when fewer than one digest in so many is of a file that is gone."""
_LOOKS_AT_ONCE = 8
_EVENT = "digests-not-swept"


class Adoption(StrEnum):
    ADOPTED = "adopted"
    DIFFERENT = "not the content that was recorded"
    CHANGED = "changed in the meantime"
    """It was replaced or deleted before it was read to its end."""


async def adopt_digests(drive: Drive, digests: FileDigests, connection: str) -> AsyncIterator[tuple[Path, Adoption]]:
    """Each file of which another version was hashed, and what came of it. With the same content, it has its digest again."""
    walk = drive.walk(Path())
    while not walk.ended:
        found = [path for path, entry in await walk.page(_PAGE) if not entry.is_folder]
        files = {drive.location(path): path for path in found}
        # Nothing is known of most files. Of the others, a listing may lack the etag.
        unknown = {location: Entry(path.name, False) for location, path in files.items()}
        for location in await digests.outdated(connection, unknown):
            path = files[location]
            entry = await drive.find(path)
            if entry is None or entry.is_folder:
                continue
            recorded = (await digests.outdated(connection, {location: entry})).get(location)
            if recorded is None:
                continue
            try:
                same = await sha256_of(await drive.read(path, etag=entry.etag)) == recorded.sha256
            except (Changed, NotFound):
                yield path, Adoption.CHANGED
                continue
            if same:
                await digests.adopt(connection, location, entry, recorded.sha256)
            yield path, Adoption.ADOPTED if same else Adoption.DIFFERENT


async def sweep_digests(digests: FileDigests, pool: ConnectionPool, *, sample: int = _SAMPLE) -> int:
    """Remove digests of files that are gone; returns how many. It looks at some digests by chance, and at more as long as many are."""
    removed = 0
    for _ in range(_SAMPLES):
        found: defaultdict[str, list[RecordedDigest]] = defaultdict(list)
        for each in await digests.sample(sample):
            found[each.connection].append(each)
        gone = [each for name, some in found.items() for each in await _gone(pool, name, some)]
        await digests.remove(gone)
        removed += len(gone)
        if len(gone) * _RARE < sample:
            break
    return removed


async def _gone(pool: ConnectionPool, connection: str, found: list[RecordedDigest]) -> list[RecordedDigest]:
    gone: list[RecordedDigest] = []
    try:
        drive = await pool.of_connection(connection)

        async def look(each: RecordedDigest) -> None:
            segments = Path.parse(each.path).segments[len(drive.root.segments) :]
            if not await drive.find(Path(segments)):
                gone.append(each)

        await for_each(look, found, _LOOKS_AT_ONCE)
    except PorticoError as error:  # it may be the storage that is gone
        pool.not_swept(connection, _EVENT, error)
        return []
    pool.swept(connection, _EVENT)
    return gone


async def sha256_of(download: Download) -> bytes | None:
    hashing = Hashing(sha256=True)
    async with aclosing(download.chunks) as chunks:
        async for chunk in chunks:
            await hashing.update(chunk)
    await hashing.check()
    return hashing.sha256


class _Crc:
    """A CRC in the form of `hashlib`."""

    digest_size = 4

    def __init__(self, extend: Callable[[bytes, int], int]) -> None:
        self._extend = extend
        self._value = 0

    def update(self, chunk: bytes) -> None:
        self._value = self._extend(chunk, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


def _crc32c() -> _Crc:
    from google_crc32c import extend

    return _Crc(lambda chunk, value: extend(value, chunk))


ALGORITHMS: dict[str, Callable[[], "hashlib._Hash | _Crc"]] = {
    "sha-512": hashlib.sha512,
    "sha-256": hashlib.sha256,
    "sha": lambda: hashlib.sha1(usedforsecurity=False),
    "md5": lambda: hashlib.md5(usedforsecurity=False),
    **({"crc32c": _crc32c} if find_spec("google_crc32c") else {}),
}
"""Those of the IANA registry that can be computed here; CRC32C needs a package that not every installation has."""
SHA_256 = "sha-256"

_HASHED_HERE = 64 * 1024
_BATCH = 256 * 1024
"""Bytes for which a thread is worth its price. They are held a little longer than they would be without a digest."""


class WantedDigest(NamedTuple):
    """What is to become of the SHA-256 of a file that is stored."""

    computed: bool = False
    recorded: bool = False
    """For those who ask for it later; then it is also computed."""


class ExpectedDigest(msgspec.Struct, frozen=True):
    field: str
    algorithm: str
    value: bytes
    mismatch: type[PorticoError] = DigestMismatch


class Hashing:
    def __init__(self, expected: Collection[ExpectedDigest] = (), *, sha256: bool = False) -> None:
        """With `sha256`, that digest is computed even if it is not expected."""
        self._expected = expected
        algorithms = {each.algorithm for each in expected} | ({SHA_256} if sha256 else set())
        self._hashes = {name: ALGORITHMS[name]() for name in sorted(algorithms)}
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
        """`DigestMismatch`, or what else was chosen, unless all bytes together are what was announced."""
        await self._hash()
        for expected in self._expected:
            if self._hashes[expected.algorithm].digest() != expected.value:
                raise expected.mismatch(
                    f"The content doesn't match its {expected.field} ({expected.algorithm}), so it "
                    "was not stored. Send it again."
                )

    @property
    def sha256(self) -> bytes | None:
        """After `check`: the SHA-256, if it was computed."""
        return self._hashes[SHA_256].digest() if SHA_256 in self._hashes else None

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
