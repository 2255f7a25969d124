"""The trash on each service: a large folder is deleted, replaced in part, moved, and brought back, with the same bytes.

Without a gateway: what is measured is the work of the provider, and how many requests it makes.
"""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path as File
from typing import Any
from unittest.mock import patch

import aiohttp
from sqlalchemy import insert

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.drive.trash import DriveTrash
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.objects.service import ObjectService, key_of
from portico.runtime.tasks import for_each
from portico.store.database import Database
from portico.store.leases import Leases
from portico.store.schema import migrate
from portico.store.tables import connections
from portico.store.trash import TrashRecords

from ...conformance.harness import PROVIDERS
from ...recorded_drive import RecordedDrive, journal_of, recordings_in
from ..figures import Effort, Figure, Lines, none_of

_READ = 100
"""Files whose content is compared; of all others, the size."""


class Request:
    """What the harness wants of pytest."""

    def __init__(self, folder: File) -> None:
        self._folder = folder

    def getfixturevalue(self, _: str) -> File:
        return self._folder


class Calls:
    """Counts the requests of all providers of this process."""

    def __init__(self) -> None:
        self.number = 0

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        send = aiohttp.ClientSession._request

        async def count(*arguments: Any, **options: Any) -> Any:
            self.number += 1
            return await send(*arguments, **options)

        with patch.object(aiohttp.ClientSession, "_request", count):
            yield


def _content(number: int, kind: str = "content") -> bytes:
    return f"{kind} {number} ".encode() * (1 + number % 97)


def _name(number: int) -> str:
    return f"{number % 10}/{number}.txt"


@asynccontextmanager
async def _drive(folder: File, provider: Provider) -> AsyncIterator[Callable[[], RecordedDrive]]:
    """Makes a drive as a request has it."""
    migrate(f"sqlite:///{folder}/trash.db")
    database = Database(f"sqlite:///{folder}/trash.db")
    await database.execute(insert(connections), {"name": "c", "kind": "local", "options": "{}", "revision": 1})
    records = TrashRecords(database)
    journal = journal_of(database)
    seal = CursorSeal(b"a key that every node has" * 2)

    def trash() -> DriveTrash:
        leases = Leases(database, "node")
        keep = timedelta(days=30)
        return DriveTrash(provider, records, leases, "c", prefix=Path(), root=Path(), keep=keep)

    yield lambda: RecordedDrive(provider, Path(), DEFAULT_RIGHTS, seal, trash=trash, record=recordings_in(journal))
    await journal.close()
    await database.close()


async def _fill(provider: Provider, top: str, numbers: range, kind: str) -> None:
    async def put(number: int) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            yield _content(number, kind)

        path = Path.parse(f"{top}/{_name(number)}")
        if isinstance(provider, ObjectService):  # without a look at the folder first
            await provider.store(key_of(path), chunks(), "text/plain", WriteOptions())
        else:
            await provider.write(path, chunks(), "text/plain")

    await for_each(put, numbers)


async def _flaws(drive: RecordedDrive, top: str, numbers: range) -> list[str]:
    sizes: dict[str, int | None] = {}
    walk = drive.walk(Path.parse(top))
    while not walk.ended:
        sizes |= {str(path): entry.size for path, entry in await walk.page(1000) if not entry.is_folder}
    wanted = {f"/{_name(number)}": len(_content(number)) for number in numbers}
    found = {name.removeprefix(f"/{top}"): size for name, size in sizes.items()}
    wrong = [] if found == wanted else [f"{top} has other files"]
    for number in random.sample(numbers, min(_READ, len(numbers))):
        download = await drive.read(Path.parse(f"{top}/{_name(number)}"))
        if b"".join([chunk async for chunk in download.chunks]) != _content(number):
            wrong.append(_name(number))
    return wrong


async def undone(effort: Effort, service: str) -> list[Figure]:
    files = range(effort.of(30, 10_000))
    replaced = range(effort.of(10, 1000))
    folder = effort.new_folder()
    calls = Calls()
    figures = []
    async with PROVIDERS[service](Request(folder)) as harness:  # type: ignore[arg-type]
        provider = harness.open()
        async with _drive(folder, provider) as drive, calls.counted():

            async def timed(what: str, number: int, work: Awaitable[object]) -> None:
                began, before = time.monotonic(), calls.number
                await work
                each = (calls.number - before) / number
                effort.say(f"{service}: {what}, {time.monotonic() - began:.0f} s, {each:.2f} requests a file")

            async def check(what: str) -> None:
                wrong = await _flaws(drive(), "tree", files)
                figures.append(none_of(f"{what} of {len(files):,} files: other than before", len(files), wrong))

            async def undo(changed: RecordedDrive, on_conflict: OnConflict) -> None:
                for trash_id in changed.trashed:
                    await drive().restore(await drive().trash.get(trash_id), on_conflict)

            tree, other, moved = (Path.parse(name) for name in ("tree", "other", "moved"))
            await timed("stored", len(files), _fill(provider, "tree", files, "content"))
            first = drive()
            await timed("deleted", len(files), first.delete(tree, recursive=True))
            await timed("restored", len(files), undo(first, OnConflict.FAIL))
            await check("delete and undo")
            await _fill(provider, "other", replaced, "other")
            second = drive()
            await timed("replaced", len(replaced), second.copy(other, tree, OnConflict.REPLACE))
            await timed("replacement undone", len(replaced), undo(second, OnConflict.REPLACE))
            await check("replacement and undo")
            await timed("moved", len(files), drive().move(tree, moved))
            await timed("moved back", len(files), drive().move(moved, tree))
            await check("move and undo")
        await provider.close()
    return figures


LINES: Lines = {
    f"trash-{name}": partial(undone, service=name)
    for name in (
        *("local", "s3", "s3-versions", "azure-blob", "azure-blob-versions"),
        *("azure-files", "gcs", "gcs-versions"),
    )
}
