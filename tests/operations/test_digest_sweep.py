"""Recorded digests of files that are gone are removed; others stay."""

from pathlib import Path as Folder
from typing import cast

import pytest

from portico.accounts.connections import Connections
from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.drive.drive import Drive
from portico.model.entries import Entry
from portico.model.errors import PorticoError, ProviderUnavailable
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.operations.files.digests import sweep_digests
from portico.providers.local.provider import LocalProvider
from portico.store.database import Database
from portico.store.digests import FileDigests

DIGEST = b"d" * 32


class Pool:
    """Of one connection, whose files are below a folder of its storage."""

    def __init__(self, folder: Folder) -> None:
        (folder / "files").mkdir()
        self.provider = LocalProvider(str(folder))
        self.drive = Drive(self.provider, Path(("files",)), DEFAULT_RIGHTS, CursorSeal(b"k" * 32), connection="local")
        self.failures: list[str] = []

    async def of_connection(self, _: str) -> Drive:
        return self.drive

    def not_swept(self, _: str, event: str, __: PorticoError) -> None:
        self.failures.append(event)

    def swept(self, _: str, __: str) -> None:
        self.failures.clear()


@pytest.mark.usefixtures("connections")
async def test_digests_of_files_that_are_gone_are_removed(
    tmp_path: Folder, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests, pool = FileDigests(database), Pool(tmp_path)
    paths = [Path((name,)) for name in "abcdef"]
    locations = {pool.drive.location(path): Entry(path.name, False, 1, etag="1") for path in paths}
    await digests.record("local", [(location, entry, DIGEST) for location, entry in locations.items()])
    for kept in "ab":
        (tmp_path / "files" / kept).write_text("x")

    async def sweep(sample: int) -> int:
        return await sweep_digests(digests, cast("ConnectionPool", pool), sample=sample)

    with monkeypatch.context() as failing:

        async def fails(_: Path) -> None:
            raise ProviderUnavailable("down")

        failing.setattr(pool.provider, "stat", fails)
        assert await sweep(10) == 0
        assert pool.failures == ["digests-not-swept"]
    assert await sweep(10) == 4
    assert not pool.failures
    left = await digests.find("local", locations)
    assert sorted(left) == sorted(pool.drive.location(path) for path in paths[:2])
    await pool.provider.close()


async def test_a_digest_that_was_recorded_again_stays(database: Database, connections: Connections) -> None:
    digests = FileDigests(database)
    await digests.record("local", [("a", Entry("a", False, 1, etag="1"), DIGEST)])
    [former] = await digests.sample(10)
    newer = Entry("a", False, 1, etag="2")
    await digests.record("local", [("a", newer, DIGEST)])
    await digests.remove([former])
    assert await digests.find("local", {"a": newer})
