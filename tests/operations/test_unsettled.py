"""What became of a change whose process vanished, by what the storage has."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path as Folder
from typing import Any, cast

import msgspec
import pytest

from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.drive.drive import Drive
from portico.drive.trash import DriveTrash
from portico.model.entries import Entry
from portico.model.errors import ProviderRefused, ProviderUnavailable
from portico.model.paths import TRASH, Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.model.versions import Version, version_of
from portico.observability.audit import AuditLine, encode
from portico.operations.actors.unsettled import settle_changes
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.local.provider import LocalProvider
from portico.store.begun_changes import Noted
from portico.store.database import Database
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.recordings import BegunChange
from portico.store.trash import Trashed, TrashRecords

from ..conformance.actions import pieces
from ..conformance.trash.actions import KEEP

ID = f"{1:024x}"


class Unsettled:
    """In place of a journal and a pool."""

    def __init__(self, folder: Folder, database: Database) -> None:
        self.folder = folder
        self.left: list[BegunChange] = []
        self.settled: list[tuple[str, list[str]]] = []
        self.before: Version | None = None
        self.failures: list[str] = []
        self.time = 0
        self.provider: Provider = LocalProvider(str(folder))
        self.records = TrashRecords(database)
        self._leases = Leases(database, "node")

    async def left_open(self) -> Sequence[BegunChange]:
        return self.left

    def now(self) -> int:
        return self.time

    async def settle(
        self, _: BegunChange, outcome: str, *, kept: Sequence[Trashed] = (), before: Version | None, after: Any = None
    ) -> None:
        self.settled.append((outcome, [record.id for record in kept]))
        self.before = before

    async def names(self) -> list[str]:
        return ["c"]

    async def of_connection(self, name: str) -> Drive:
        def trash() -> DriveTrash:
            return DriveTrash(self.provider, self.records, self._leases, name, prefix=Path(), root=Path(), keep=KEEP)

        return Drive(self.provider, Path(), DEFAULT_RIGHTS, CursorSeal(b"k" * 32), connection=name, trash=trash)

    def not_swept(self, _: str, __: str, error: Exception) -> None:
        self.failures.append(str(error))

    def swept(self, _: str, __: str) -> None:
        self.failures.clear()

    def write(self, path: str, content: str = "x") -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    async def begun(
        self, action: str, place: str, target: str | None = None, *, connection: str = "c", at: int = 0, **known: Any
    ) -> None:
        """A change that begins now; what is at its last place is what it would replace or remove."""
        path = Path(tuple((target or place).split("/")[1:]))
        entry = await (await self.of_connection("c")).find(path)
        before = msgspec.json.encode(version_of(entry)).decode() if entry else None
        line = encode(AuditLine(action=action, outcome="begun", bytes=3)).decode()
        to = connection if target else None
        noted = Noted(ID, at, connection, place, to, target, before, line)
        self.left.append(BegunChange(msgspec.structs.replace(noted, **known)))

    async def store(self, path: str, mark: str) -> None:
        await self.provider.write(Path.parse(path), pieces(b"new"), "text/plain", WriteOptions(mark=mark))

    async def outcome(self) -> tuple[str, list[str]]:
        await settle_changes(cast("Journal", self), cast("ConnectionPool", self))
        [settled] = self.settled
        return settled


@pytest.fixture
async def unsettled(tmp_path: Folder, database: Database) -> AsyncIterator[Unsettled]:
    (tmp_path / "files").mkdir()
    unsettled = Unsettled(tmp_path / "files", database)
    yield unsettled
    await unsettled.provider.close()


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        ({"f": "x"}, ("interrupted", [])),
        ({f"{TRASH}/{ID}": "x"}, ("done", [ID])),
        ({}, ("done", [])),
        ({"f": "another"}, ("unknown", [])),
        ({"f": "x", f"{TRASH}/{ID}": "x"}, ("unknown", [ID])),
    ],
)
async def test_a_deletion(unsettled: Unsettled, now: dict[str, str], outcome: tuple[str, list[str]]) -> None:
    unsettled.write("f")
    await unsettled.begun("delete", "/f")
    await have(unsettled, now)
    assert await unsettled.outcome() == outcome


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        ({"f": "x"}, ("interrupted", [])),
        ({"f": "new", f"{TRASH}/{ID}": "x"}, ("unknown", [ID])),
        ({"f": "new"}, ("unknown", [])),
    ],
)
async def test_an_upload(unsettled: Unsettled, now: dict[str, str], outcome: tuple[str, list[str]]) -> None:
    unsettled.write("f")
    await unsettled.begun("upload", "/f")
    await have(unsettled, now)
    assert await unsettled.outcome() == outcome


@pytest.mark.parametrize("there", ["", "f"], ids=["new", "replacing"])
async def test_an_upload_is_recognized_by_its_mark(unsettled: Unsettled, there: str) -> None:
    if there:
        unsettled.write(there)
    await unsettled.begun("upload", "/f", mark="mine")
    await unsettled.store("f", "mine")
    assert await unsettled.outcome() == ("done", [])


@pytest.mark.parametrize("there", ["", "f"], ids=["new", "replacing"])
async def test_a_file_with_another_mark_says_nothing(unsettled: Unsettled, there: str) -> None:
    if there:
        unsettled.write(there)
    await unsettled.begun("upload", "/f", mark="mine")
    await unsettled.store("f", "another")
    assert await unsettled.outcome() == ("unknown", [])


async def test_a_file_that_was_linked_into_the_trash_and_is_still_there_was_not_replaced(unsettled: Unsettled) -> None:
    """The file is seen only at the commit, after the change has begun."""
    unsettled.write("f")
    version = version_of(await unsettled.provider.stat(Path.parse("f")))
    await unsettled.begun("upload", "/f", mark="mine", before=None)
    await unsettled.provider.copy_to_trash(Path.parse("f"), Path((TRASH, ID)))
    assert await unsettled.outcome() == ("interrupted", [ID])
    assert unsettled.before == version


async def test_a_file_older_than_the_change_was_not_replaced(unsettled: Unsettled) -> None:
    unsettled.write("f")
    await unsettled.begun("upload", "/f", mark="mine", before=None, at=2**42)
    assert await unsettled.outcome() == ("interrupted", [])


async def test_a_new_file_that_is_not_there_was_not_stored(unsettled: Unsettled) -> None:
    await unsettled.begun("upload", "/f", mark="mine")
    assert await unsettled.outcome() == ("interrupted", [])


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        ({"f": "x"}, ("interrupted", [])),
        ({"g": "x"}, ("done", [])),
        ({"f": "x", "g": "x"}, ("unknown", [])),
        ({"g": "x", f"{TRASH}/{ID}": "old"}, ("done", [ID])),
    ],
)
async def test_a_move(unsettled: Unsettled, now: dict[str, str], outcome: tuple[str, list[str]]) -> None:
    unsettled.write("f")
    await unsettled.begun("move", "/f", "/g")
    await have(unsettled, now)
    assert await unsettled.outcome() == outcome


async def test_a_new_folder(unsettled: Unsettled) -> None:
    await unsettled.begun("mkdir", "/d")
    (unsettled.folder / "d").mkdir()
    assert await unsettled.outcome() == ("done", [])


async def test_a_restored_item(unsettled: Unsettled) -> None:
    await unsettled.begun("restore", f"/{TRASH}/{ID}", "/f")
    unsettled.write("f")
    assert await unsettled.outcome() == ("done", [])


async def test_a_removal_from_the_trash(unsettled: Unsettled) -> None:
    await unsettled.begun("trash.remove", "/f", f"/{TRASH}/{ID}")
    assert await unsettled.outcome() == ("done", [])


async def test_what_was_in_a_connection_that_is_gone(unsettled: Unsettled) -> None:
    await unsettled.begun("delete", "/f", connection="gone")
    assert await unsettled.outcome() == ("unknown", [])


async def test_while_the_storage_does_not_answer_it_waits(
    unsettled: Unsettled, monkeypatch: pytest.MonkeyPatch
) -> None:
    await unsettled.begun("delete", "/f")
    with monkeypatch.context() as failing:

        async def fails(_: Path) -> None:
            raise ProviderUnavailable("down")

        failing.setattr(unsettled.provider, "stat", fails)
        await settle_changes(cast("Journal", unsettled), cast("ConnectionPool", unsettled))
        assert (unsettled.settled, unsettled.failures) == ([], ["down"])
    assert await unsettled.outcome() == ("done", [])


async def test_a_change_that_cannot_be_looked_at_holds_up_no_others(
    unsettled: Unsettled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up after a day."""
    for name in "fg":
        await unsettled.begun("delete", f"/{name}")
    stat = unsettled.provider.stat

    async def refuses(path: Path) -> Entry:
        if path.name == "f":
            raise ProviderRefused("forbidden by a policy")
        return await stat(path)

    monkeypatch.setattr(unsettled.provider, "stat", refuses)
    for settled in (["done"], ["done"], ["unknown", "done"]):
        unsettled.settled.clear()
        await settle_changes(cast("Journal", unsettled), cast("ConnectionPool", unsettled))
        assert [outcome for outcome, _ in unsettled.settled] == settled
        assert bool(unsettled.failures) == (settled == ["done"])
        unsettled.time += 12 * 3600 * 1000


async def have(unsettled: Unsettled, now: dict[str, str]) -> None:
    """What is there keeps its identity."""
    if "f" not in now or now["f"] != "x":
        (unsettled.folder / "f").unlink()
    for path, content in now.items():
        if path != "f" or content != "x":
            unsettled.write(path, content)
