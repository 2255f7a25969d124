"""A process that is killed at any step of a change that replaces a file, seen by the next one."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.model.errors import NotFound
from portico.model.paths import Path
from portico.observability.audit import UNKNOWN
from portico.providers.contract.provider import Provider
from portico.store import begun_rows
from portico.store.trash import REPLACED

from ...recorded_drive import RecordedDrive
from ..actions import at, content, put
from ..harness import Harness
from .actions import JournaledRecords, trashed, with_trash

_STEPS = ("duplicate", "remove_versions", "remove", "mark")
_STEPS_OF_SHARES = ("create", "put_range", "start_copy", "rename", "delete_file")
_MOST = 12


class Killed(BaseException):
    """Nothing handles it."""


class _Killer:
    def __init__(self, number: int) -> None:
        self._left = number

    def at(self, owner: Any, *names: str) -> None:
        """Before each call of these, so after the one before it."""
        for name in names:
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left <= 0:  # the dead do nothing more
                raise Killed
            return await step(*arguments, **options)

        return call

    @property
    def has_come(self) -> bool:
        return self._left <= 0


def _killed_at(provider: Any, number: int) -> _Killer:
    killer = _Killer(number)
    if hasattr(provider, "_share"):
        killer.at(provider._share, *_STEPS_OF_SHARES)
        return killer
    killer.at(provider, *_STEPS)
    part_store = provider.part_store

    def upload(state: Any) -> Any:
        made = part_store(state)
        killer.at(made, "put")
        return made

    provider.part_store = upload
    return killer


async def _found(drive: RecordedDrive, path: str) -> bytes | None:
    try:
        return await content(drive, path)
    except NotFound:
        return None


@pytest.mark.parametrize("change", ["write", "move", "copy"])
async def test_no_file_is_lost_wherever_a_change_is_killed(
    harness: Harness,
    provider: Provider,
    root: Path,
    seal: CursorSeal,
    records: JournaledRecords,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    if provider.kind == "local":
        return  # a change is one call of a thread
    monkeypatch.setattr(begun_rows, "has_ended", lambda _: True)
    for number in range(1, _MOST):
        drive = with_trash(provider, root, seal, records)
        await put(drive, "target", b"old")
        await put(drive, "source", b"new")
        dying = harness.open()
        killer = _killed_at(dying, number)
        doomed = with_trash(dying, root, seal, records)
        with suppress(Killed):
            if change == "write":
                await put(doomed, "target", b"new")
            else:
                await getattr(doomed, change)(at("source"), at("target"))
        await dying.close()
        for left in await records.journal.left_open():
            place = (left.target or left.place).path
            kept = [record for record, _ in await drive.trash.left_by(left, place, REPLACED)]
            await records.journal.settle(left, UNKNOWN, kept=kept)
        target, source = await _found(drive, "target"), await _found(drive, "source")
        restored = [await drive.restore(item, OnConflict.RENAME) for item in await trashed(drive)]
        kept_content = [await content(drive, path) for path in restored]
        assert target in (b"old", b"new"), f"killed before step {number}"
        assert b"old" in (target, *kept_content), f"killed before step {number}"
        assert b"new" in (target, source), f"killed before step {number}"
        for path in restored:
            await drive.delete(path, permanent=True)
        if not killer.has_come:
            return
    pytest.fail("it never came to its end")
