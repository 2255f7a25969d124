"""`World`: a storage with a journal, in which several actors act, and which can be rewound."""

import pathlib
import random
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from secrets import token_hex
from typing import Any, cast

import msgspec
from sqlalchemy import insert

from portico.accounts.share_links import ShareLinks, SharePolicy
from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.drive.drive import Drive, OnConflict
from portico.drive.trash import DriveTrash
from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.observability.audit import AuditLine
from portico.operations.files.transfer import Transfer
from portico.operations.rewind.locations import Location
from portico.operations.rewind.rewinds import Rewind, RewindRequest, Rewinds
from portico.providers.contract.provider import Provider
from portico.store.database import Database
from portico.store.history import ActorFilter
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.recordings import Recording
from portico.store.tables import connections
from portico.store.trash import Trashed, TrashRecords

from ...recorded_drive import journal_of
from ..harness import Harness

KEEP = timedelta(days=30)
HOLD = timedelta(days=7)


class Act(msgspec.Struct, frozen=True):
    actor: str
    action: str
    path: str
    target: str = ""
    content: bytes = b""
    flag: bool = False
    """Of a delete: whether it is for good. Of others: whether they replace."""
    at: str = "c"
    to: str = "c"
    """The connections of the path and of the target."""

    @property
    def places(self) -> set[Location]:
        return {location(self.path, self.at), *([location(self.target, self.to)] if self.target else [])}


@asynccontextmanager
async def opened_world(
    provider: Provider, migrated: pathlib.Path, folder: pathlib.Path, other: Provider | None = None
) -> AsyncIterator["World"]:
    """`migrated`: a database to copy. `other`: of a second connection, "k"."""
    file = folder / f"{token_hex(8)}.db"
    shutil.copy(migrated, file)
    database = Database(f"sqlite:///{file}")
    for name in ("c", "k"):
        await database.execute(insert(connections), {"name": name, "kind": "local", "options": "{}", "revision": 1})
    world = World(provider, database, other)
    try:
        yield world
    finally:
        await world.journal.close()
        for each in (provider, *([other] if other else [])):
            await each.close()
        await database.close()
        file.unlink()


async def flaw_of(harness: Harness, migrated: pathlib.Path, folder: pathlib.Path, seed: int, *, apart: bool) -> str:
    """Of a generated case: what is not as if one of two actors had never acted; empty if there is nothing."""
    async with AsyncExitStack() as stack:
        both, alone = [
            await stack.enter_async_context(opened_world(await harness.open_other(), migrated, folder))
            for _ in range(2)
        ]
        differing = []
        for act in acts(seed, 30, ("mallory", "bob"), apart=apart):
            outcome = await both.act(act)
            if act.actor != "bob":
                continue
            if outcome != await alone.act(act):
                differing.append(act.places)
            elif act.action == "copy" and outcome == "done" and await both.below(act) != await alone.below(act):
                differing.append({location(act.target)})  # a copy of what mallory had left there is bob's
        rewind = await both.rewind(user="mallory")
        found, expected = await both.tree(), await alone.tree()
        may_differ = excused(both, rewind, differing)
        wrong = {
            path
            for path in found.keys() | expected.keys()
            if found.get(path, b"none") != expected.get(path, b"none") and not may_differ(path)
        }
        if apart:
            wrong |= {str(each.location) for each in rewind.left_alone if each.location[1] != "mallory"}
        return f"seed {seed}: {sorted(wrong)}, {rewind.left_alone}" if wrong else ""


class World:
    def __init__(self, provider: Provider, database: Database, other: Provider | None) -> None:
        self.provider = provider
        self.prefix = Path()
        """Of both connections."""
        self._providers = {"c": provider} | ({"k": other} if other else {})
        self.database = database
        self.records = TrashRecords(database)
        self._leases = Leases(database, "node")
        self._open()
        self.touched: list[tuple[str, set[Location]]] = []
        """By each act that had an effect: its actor, and the places."""
        self.credentials: dict[str, dict[str, Any]] = {}
        """What the audit lines of an actor have, if it is not just a user."""

    def _open(self) -> None:
        self.journal: Journal = journal_of(self.database)
        links = ShareLinks(self.database, SharePolicy(True, None, False, ()))
        pool = cast("ConnectionPool", self)
        self.rewinds = Rewinds(self.database, self.journal, pool, self.records, links, self._leases)

    async def settled(self) -> None:
        """Rows that no change waits for are written."""
        await self.journal.close()
        self._open()

    async def of_connection(self, name: str) -> Drive:
        return self.drive("", name)

    async def names(self) -> Collection[str]:
        return [*self._providers]

    def swept(self, *_: str) -> None:
        """Nothing has failed."""

    def drive(self, user: str, connection: str = "c") -> Drive:
        provider = self._providers[connection]
        trash = partial(
            DriveTrash, provider, self.records, self._leases, connection,
            prefix=self.prefix, root=self.prefix, user=user, keep=KEEP, hold=HOLD,
        )  # fmt: skip
        seal = CursorSeal(b"k" * 32)
        return Drive(provider, self.prefix, DEFAULT_RIGHTS, seal, connection=connection, trash=trash)

    async def act(self, act: Act) -> str:
        """The outcome."""
        recording = self.journal.recording(AuditLine(action=act.action, path=act.path, **self._who(act.actor)))
        outcome = "done"
        try:
            await self._act(act, recording)
        except PorticoError as error:
            outcome = error.code
        await recording.settle(outcome)
        if outcome == "done" or recording.kept:
            self.touched.append((act.actor, act.places))
        return outcome

    def _who(self, actor: str) -> dict[str, Any]:
        return self.credentials.get(actor, {"user": actor})

    async def note(self, actor: str, action: str, **given: Any) -> None:
        """A line about something else than files."""
        await self.journal.note(AuditLine(action=action, **self._who(actor) | given))

    async def _act(self, act: Act, change: Recording) -> None:
        drive, path = self.drive(act.actor, act.at), Path.parse(act.path)
        on_conflict = OnConflict.REPLACE if act.flag else OnConflict.FAIL
        match act.action:
            case "upload" if act.target:
                await self._upload_in_parts(drive, path, act, change)
            case "upload":
                await drive.write(path, chunks(act.content, change), "text/plain", OnConflict.REPLACE, change=change)
            case "mkdir":
                await drive.make_folder(path, change=change)
            case "move" | "copy":
                to, target = drive if act.to == act.at else self.drive(act.actor, act.to), Path.parse(act.target)
                await Transfer(drive, path, to, target, on_conflict, removes=act.action == "move").run(None, change)
            case "delete":
                await drive.delete(path, change=change, recursive=True, permanent=act.flag)
            case "restore":
                if record := await self._trashed(act):
                    name = Path.parse(act.target) if act.target else None
                    await drive.restore(record, on_conflict, change=change, target=name)
            case "trash.remove":
                if record := await self._trashed(act):
                    await self._remove(record, change)

    async def _upload_in_parts(self, drive: Drive, path: Path, act: Act, change: Recording) -> None:
        async def save(*, last: bool = False) -> None:
            return

        upload = await drive.begin_upload(path, "text/plain", OnConflict.REPLACE, size=len(act.content))
        await upload.append(pieces(act.content), save)
        await drive.finish_upload(upload, path, OnConflict.REPLACE, save, change=change)

    async def empty_trash(self, actor: str) -> None:
        trash = self.drive(actor).trash
        while items := (await trash.page(1000))[0]:
            for item in items:
                recording = self.journal.recording(AuditLine(action="trash.remove", user=actor, path=item.path))
                await self._remove(item, recording)
                await recording.settle("done")

    async def _remove(self, record: Trashed, change: Recording) -> None:
        drive = self.drive("")
        change.concern(drive.place(Path.parse(record.path)), drive.place(drive.trash.place_of(record.id)))
        await change.begin()
        if await drive.trash.remove(record):
            change.kept.append(record)

    async def _trashed(self, act: Act) -> Trashed | None:
        """The newest that the actor has put there from this path."""
        trash = self.drive(act.actor, act.at).trash
        items, _ = await trash.page(1000)
        mine = [item for item in items if item.user == act.actor and trash.path_of(item) == Path.parse(act.path)]
        return max(mine, key=lambda item: item.id, default=None)

    async def tree(self, connection: str = "c") -> dict[str, bytes | None]:
        """The content of each file; None for a folder, if the storage has any that exist by themselves."""
        found: dict[str, bytes | None] = {}
        drive = self.drive("", connection)
        walk = drive.walk(Path())
        while not walk.ended:
            for path, entry in await walk.page(1000):
                if not entry.is_folder:
                    download = await drive.read(path)
                    found[str(path)] = b"".join([chunk async for chunk in download.chunks])
                elif self.provider.has_folders:
                    found[str(path)] = None
        return found

    async def below(self, act: Act) -> dict[str, bytes | None]:
        """What is at the target of a copy."""
        at = location(act.target, act.to)
        return {
            path: each for path, each in (await self.tree(act.to)).items() if location(path, act.to)[: len(at)] == at
        }

    async def rewind(self, since: int = 0, **actor: Any) -> Rewind:
        """`actor`: as of `ActorFilter`."""
        await self.settled()
        request = RewindRequest(ActorFilter(**actor), since, by="admin")
        rewind_id = await self.rewinds.begin(request, await self.rewinds.plan(request))
        assert await self.rewinds.run(rewind_id)
        return await self.rewinds.get(rewind_id)


def location(path: str, connection: str = "c") -> Location:
    return (connection, *path.strip("/").split("/"))


async def chunks(content: bytes, change: Recording) -> AsyncIterator[bytes]:
    yield content
    await change.begin()


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def overlap(one: Location, other: Location) -> bool:
    return one[: len(other)] == other or other[: len(one)] == one


def excused(world: World, rewind: Rewind, others: Iterable[set[Location]]) -> Callable[[str], bool]:
    """Whether a path may differ: it is in the report, or changes lead from there to the path. `others`: places where the other
    actor had another outcome."""
    allowed = {each.location for each in rewind.left_alone}.union(*others)
    waiting = [places for _, places in world.touched]
    grown = True
    while grown:
        grown = False
        for places in waiting:
            if not places <= allowed and any(overlap(one, two) for one in places for two in allowed):
                allowed |= places
                grown = True
    return lambda path: any(overlap(location(path.replace(" (merged)", "")), each) for each in allowed)


_NAMES = ("a", "b", "c", "d/a", "d/b", "d/e/a", "f/a", "f/b")
_FOLDERS = ("d", "d/e", "f", "g")
_TWINS = ("a", "A", "\u00e9", "e\u0301", "d/a", "D/a", "d/A", "d/\u00e9/x", "d/e\u0301/x")
_TWIN_FOLDERS = ("d", "D", "d/\u00e9", "d/e\u0301")
"""Names that some storage takes for one."""


def acts(
    seed: int,
    number: int,
    actors: tuple[str, ...],
    *,
    apart: bool,
    connections: tuple[str, ...] = ("c",),
    twins: bool = False,
) -> list[Act]:
    """`apart`: each actor has a folder. `twins`: names differ in case or normalisation only, and
    files are restored under other names."""
    dice = random.Random(seed)
    names, folders = (_TWINS, _TWIN_FOLDERS) if twins else (_NAMES, _FOLDERS)
    found = []
    for index in range(number):
        actor = dice.choice(actors)
        top = f"/{actor}/" if apart else "/"
        file, other = (top + dice.choice(names) for _ in range(2))
        folder, second = (top + dice.choice(folders) for _ in range(2))
        anything, anywhere = dice.choice((file, folder)), dice.choice((other, second))
        content, flag = f"{actor} {index}".encode(), dice.random() < 0.6
        at, to = (connections[0] if len(connections) == 1 else dice.choice(connections) for _ in range(2))
        action = dice.choice(("upload", "upload", "upload", "mkdir", "move", "move", "copy", "delete", "delete"))
        if dice.random() < 0.25:
            rare = ("restore", "trash.remove", "upload in parts", "delete for good")
            action = dice.choice((*rare, "restore as") if twins else rare)
        match action:
            case "upload" | "upload in parts":
                found.append(Act(actor, "upload", file, "" if action == "upload" else file, content, at=at))
            case "mkdir":
                found.append(Act(actor, action, folder, at=at))
            case "move" | "copy":
                found.append(Act(actor, action, anything, anywhere, flag=flag, at=at, to=to))
            case "restore as":
                found.append(Act(actor, "restore", anything, anywhere, flag=flag, at=at, to=at))
            case "delete" | "delete for good":
                found.append(Act(actor, "delete", anything, flag=action != "delete", at=at))
            case _:
                found.append(Act(actor, action, anything, flag=flag, at=at))
    return found
