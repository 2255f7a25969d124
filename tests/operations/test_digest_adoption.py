import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path as FilePath
from typing import Any

import pytest

from portico.accounts.connections import Connections
from portico.drive.cursors import CursorSeal
from portico.model.errors import Changed, Unavailable
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.operations.files.digests import Adoption, Hashing, adopt_digests
from portico.providers.contract.registry import open_provider
from portico.store.database import Database
from portico.store.digests import FileDigests

from ..recorded_drive import RecordedDrive

CONTENT = b"content" * 1000


class Place:
    """A folder with files that have digests and were then copied back."""

    def __init__(self, folder: FilePath, drive: RecordedDrive, digests: FileDigests) -> None:
        self.folder = folder
        self.drive = drive
        self.digests = digests

    async def add(self, name: str) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            yield CONTENT

        path = Path.parse(f"/{name}")
        entry = await self.drive.write(path, chunks(), "text/plain")
        hashing = Hashing(sha256=True)
        await hashing.update(CONTENT)
        await hashing.check()
        assert hashing.sha256
        await self.digests.record("local", [(self.drive.location(path), entry, hashing.sha256)])
        self.replace(name, CONTENT)

    def replace(self, name: str, content: bytes) -> None:
        (self.folder / ".new").write_bytes(content)
        os.replace(self.folder / ".new", self.folder / name)

    async def adopted(self) -> dict[str, Adoption]:
        return {str(path): outcome async for path, outcome in adopt_digests(self.drive, self.digests, "local")}


@pytest.fixture
async def place(tmp_path: FilePath, database: Database, connections: Connections) -> AsyncIterator[Place]:
    provider = open_provider("local", {"folder": str(tmp_path)}, 10)
    drive = RecordedDrive(provider, Path(), DEFAULT_RIGHTS, CursorSeal(bytes(32)))
    yield Place(tmp_path, drive, FileDigests(database))
    await provider.close()


async def test_a_file_with_the_recorded_content_is_adopted(place: Place) -> None:
    for name in ("same", "other"):
        await place.add(name)
    place.replace("other", b"other")
    assert await place.adopted() == {"/same": Adoption.ADOPTED, "/other": Adoption.DIFFERENT}
    assert await place.adopted() == {"/other": Adoption.DIFFERENT}


async def test_a_digest_that_is_not_stored_is_not_adopted(
    place: Place, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.add("same")

    async def locked(*_: Any) -> int:
        raise Unavailable("The database is locked.")

    monkeypatch.setattr(database, "execute", locked)
    with pytest.raises(Unavailable):
        await place.adopted()


async def seen(place: Place, act: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """`b` changes at some moment; the others are adopted."""
    read = place.drive.read

    async def read_later(path: Path, **options: Any) -> Any:
        act(path.name)
        return await read(path, **options)

    monkeypatch.setattr(place.drive, "read", read_later)
    outcomes = await place.adopted()
    assert outcomes == {"/a": Adoption.ADOPTED, "/b": Adoption.CHANGED, "/c": Adoption.ADOPTED}


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_changes_before_it_is_read_does_not_differ(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for name in ("a", "b", "c"):
        await place.add(name)

    def act(name: str) -> None:
        if name == "b" and how == "deleted":
            (place.folder / "b").unlink()
        elif name == "b":
            place.replace("b", b"new")

    await seen(place, act, monkeypatch)


async def test_a_file_that_changes_while_it_is_read_does_not_end_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Object stores notice it between two chunks."""
    update, reading = Hashing.update, ""

    def act(name: str) -> None:
        nonlocal reading
        reading = name

    async def update_or_fail(self: Hashing, chunk: bytes) -> None:
        if reading == "b":
            raise Changed("'b' was changed while it was read.")
        await update(self, chunk)

    with monkeypatch.context() as patch:
        for name in ("a", "b", "c"):
            await place.add(name)
        patch.setattr(Hashing, "update", update_or_fail)
        await seen(place, act, patch)
