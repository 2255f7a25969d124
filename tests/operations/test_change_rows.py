"""Each change has one row of the journal, which says what was there before, what is there now, and what the trash keeps."""

import pathlib
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import msgspec
from sqlalchemy import select

from portico.accounts.mounts import Mounts, owner_of
from portico.drive.cursors import CursorSeal
from portico.drive.drive import Drive, OnConflict
from portico.model.reach import MountRule
from portico.model.rights import DEFAULT_RIGHTS, parse_rights
from portico.model.versions import UNSEEN
from portico.operations.operations import Operations
from portico.operations.uploads.access import NewUpload
from portico.providers.local.provider import LocalProvider
from portico.store.tables import journal

from ..recorded_drive import UnrecordedChange
from .test_scope import signed_in
from .test_second_front_end import Installation, at, chunks, installation

__all__ = ["installation"]

REPLACE = OnConflict.REPLACE


async def _hashed(operations: Operations) -> None:
    async with operations.files.upload(at("/in"), digest=True) as upload:
        await upload.store("hashed", chunks(b"x"))


async def _resumable(operations: Operations) -> None:
    upload = await operations.uploads.create(NewUpload(at("/in/tus"), 5))
    await operations.uploads.append(upload.id, 0, chunks(b"01234"))


async def _trashed(operations: Operations) -> str:
    return (await operations.trash.list(10)).items[0].id


async def _restore(operations: Operations) -> None:
    await operations.trash.restore(await _trashed(operations))


async def _remove(operations: Operations) -> None:
    await operations.trash.remove(await _trashed(operations))


CHANGES: list[tuple[Callable[[Operations], Awaitable[Any]], list[str]]] = [
    (lambda o: o.files.store(at("/in/a"), chunks(b"old")), ["upload: a 3"]),
    (lambda o: o.files.store(at("/in/a"), chunks(b"newer")), ["upload: before 3, a 5, kept"]),
    (_hashed, ["upload: a 1 hashed"]),
    (_resumable, ["upload: a 5"]),
    (lambda o: o.files.make_folder(at("/in/d")), ["mkdir: a folder"]),
    (lambda o: o.files.copy(at("/in/a"), at("/in/d/a")), ["copy: a 5"]),
    (lambda o: o.files.copy(at("/in/hashed"), at("/in/d/a"), REPLACE), ["copy: before 5, a 1, kept"]),
    (lambda o: o.files.move(at("/in/hashed"), at("/in/a"), REPLACE), ["move: before 5, a 1, kept"]),
    (lambda o: o.files.copy(at("/in/d"), at("/in/e")), ["copy: a folder"]),
    (lambda o: o.files.copy(at("/in/d"), at("/in/e"), REPLACE), ["copy: before folder, a folder, kept"]),
    (lambda o: o.files.move(at("/in/d"), at("/in/e"), REPLACE), ["move: before folder, a folder, kept"]),
    (lambda o: o.files.copy(at("/in/e"), at("/else/e")), ["copy: a folder"]),
    (
        lambda o: o.files.copy(at("/in/e"), at("/else/e"), REPLACE),
        ["copy: before 1, a 1, kept", "copy: before folder, a folder"],
    ),
    (lambda o: o.files.move(at("/in/tus"), at("/else/tus")), ["move: a 5, kept"]),
    (lambda o: o.files.delete(at("/in/a")), ["delete: before 1, kept"]),
    (_restore, ["restore: a 1"]),
    (lambda o: o.files.delete(at("/in/e"), recursive=True), ["delete: before folder, kept"]),
    (_remove, ["trash.remove: before folder, kept"]),
    (lambda o: o.files.delete(at("/in/a"), permanent=True), ["delete: before 1, kept"]),
    (lambda o: o.trash.empty(), ["trash.remove"] * 7),
]


async def test_each_change_has_one_row(installation: Installation, tmp_path: pathlib.Path) -> None:
    (tmp_path / "else").mkdir()
    await installation.connections.add("else", "local", {"folder": str(tmp_path / "else")}, {})
    everything = parse_rights("list download upload overwrite")
    rule = MountRule(at("/else"), "else", "/", everything)
    await Mounts(installation.users._database).add(owner_of("web"), rule)
    user = await signed_in(installation)
    rows = await rows_after(installation, 0)
    for change, expected in CHANGES:
        last = rows[-1].number if rows else 0
        async with user.request() as operations:
            await change(operations)
        rows = await rows_after(installation, last)
        assert [row.outcome for row in rows] == ["done"] * len(rows)
        assert [shown(row)[: len(line)] for row, line in zip(rows, expected, strict=True)] == expected
        assert all(msgspec.json.decode(row.line)["request_id"] == "request" for row in rows)


async def test_a_deletion_of_which_nothing_is_kept_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    provider, change = LocalProvider(str(tmp_path)), UnrecordedChange()
    await Drive(provider, at("/"), DEFAULT_RIGHTS, CursorSeal(b"k" * 32)).delete(at("/a"), change=change)
    assert change.before is UNSEEN
    await provider.close()


async def rows_after(installation: Installation, number: int) -> list[Any]:
    query = select(journal).where(journal.c.number > number).order_by(journal.c.number)
    return [*await installation.users._database.fetch(query)]


def shown(row: Any) -> str:
    before, after = (each and msgspec.json.decode(each) for each in (row.before, row.after))
    said = [f"before {_size(before)}"] if before else []
    if after:
        hashed = after.get("sha256") == sha256(b"x").hexdigest()
        said.append(f"a {_size(after)}{' hashed' if hashed else ''}")
    return f"{row.action}: {', '.join([*said, *(['kept'] if row.kept else [])])}"


def _size(version: dict[str, Any]) -> object:
    return "folder" if version.get("is_folder") else version.get("size", 0)
