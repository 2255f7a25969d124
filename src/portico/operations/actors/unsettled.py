"""`settle_changes`: what became of changes whose processes have vanished, as far as the storage tells."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from portico.drive.connection_pool import ConnectionPool
from portico.model import timestamps
from portico.model.entries import Entry
from portico.model.errors import PorticoError, ProviderTimeout, ProviderUnavailable, Unavailable
from portico.model.paths import Path, Place
from portico.model.versions import Version, version_of
from portico.observability.audit import DONE, INTERRUPTED, UNKNOWN
from portico.runtime import clock
from portico.store.journal import Journal
from portico.store.recordings import BegunChange
from portico.store.trash import DELETED, HELD, REPLACED, Trashed

_EVENT = "changes-not-settled"
_CLOCKS_DIFFER_BY: Final = timedelta(minutes=5)
"""At most, those of a storage and of the database."""
_TRIED_FOR: Final = timedelta(days=1)
"""How long a change is looked at again if the storage answers, but not about that."""
_ABOUT_ALL: Final = (ProviderUnavailable, ProviderTimeout, Unavailable)
"""Errors that other changes of the connection would meet, too."""


class _Result(msgspec.Struct):
    outcome: str
    kept: list[tuple[Trashed, Version]] = []
    after: Version | None = None


async def settle_changes(journal: Journal, pool: ConnectionPool) -> None:
    """What cannot be looked at now is left for the next time. A slow connection does not delay the others."""
    found: defaultdict[str, list[BegunChange]] = defaultdict(list)
    for change in await journal.left_open():
        found[change.place.connection].append(change)
    names = await pool.names()
    await asyncio.gather(*(_settle(journal, pool, name, changes, names) for name, changes in found.items()))


async def _settle(
    journal: Journal, pool: ConnectionPool, connection: str, changes: Sequence[BegunChange], names: Collection[str]
) -> None:
    failure: PorticoError | None = None
    for change in changes:
        try:
            await _settle_one(journal, pool, change, names)
        except PorticoError as error:
            failure = error
            if isinstance(error, _ABOUT_ALL):
                break
    if failure:
        pool.not_swept(connection, _EVENT, failure)
    else:
        pool.swept(connection, _EVENT)


async def _settle_one(journal: Journal, pool: ConnectionPool, change: BegunChange, names: Collection[str]) -> None:
    result = _Result(UNKNOWN)
    if {place.connection for place in (change.place, change.target) if place} <= {*names}:
        for name in {place.connection for place in (change.place, change.target) if place}:
            await pool.of_connection(name)
        try:
            result = await _result(pool, change)
        except _ABOUT_ALL:
            raise
        except PorticoError:  # such as a place that the storage refuses
            if journal.now() - change.at < clock.milliseconds(_TRIED_FOR):
                raise
    records = [record for record, _ in result.kept]
    replaced = [version for record, version in result.kept if record.reason == REPLACED]
    before = change.before or (replaced[-1] if replaced else None)
    await journal.settle(change, result.outcome, kept=records, before=before, after=result.after)


async def _result(pool: ConnectionPool, change: BegunChange) -> _Result:
    action = change.line.action
    if action == "trash.remove" and change.target:
        record = await (await pool.of_connection(change.place.connection)).trash.kept(change.target.path.name)
        if record is None:
            return _Result(DONE)
        return _Result(DONE if record.status == HELD else INTERRUPTED, [(record, Version())])
    there = await _look(pool, change.place)
    source = version_of(there) if there else None
    if action == "delete":
        kept = await _left(pool, change, change.place, DELETED)
        if source is None:
            kept = kept or await _note_left(pool, change, change.place, DELETED)
            return _Result(DONE, kept)
        return _Result(INTERRUPTED if source == change.before and not kept else UNKNOWN, kept, source)
    at = change.target or change.place
    entry = await _look(pool, at) if change.target else there
    now = version_of(entry) if entry else None
    kept = await _left(pool, change, at, REPLACED)
    if change.mark is not None:
        outcome = await _upload_outcome(pool, change, entry, kept)
        if not kept and outcome != INTERRUPTED:
            kept = await _note_left(pool, change, at, REPLACED)
        return _Result(outcome, kept, now)
    if change.target and change.place.connection != change.target.connection:
        kept += await _left(pool, change, change.place, DELETED)
    if now is not None and now.is_folder and action == "mkdir":
        return _Result(DONE, kept, now)
    if now == change.before and not kept:
        return _Result(INTERRUPTED, kept, now)
    if action in ("move", "restore") and now is not None and source is None:
        return _Result(DONE, kept, now)
    return _Result(UNKNOWN, kept, now)


async def _upload_outcome(
    pool: ConnectionPool, change: BegunChange, entry: Entry | None, kept: list[tuple[Trashed, Version]]
) -> str:
    """Of an upload whose file has a mark: it is there, or what was there before still is."""
    drive, size = await pool.of_connection(change.place.connection), change.line.bytes
    if entry is None:
        return INTERRUPTED if change.before is None and not kept else UNKNOWN
    if (
        change.mark
        and isinstance(size, int)
        and await drive.has_mark(drive.path_of(change.place.path), change.mark, size)
    ):
        return DONE
    now = version_of(entry)
    is_former = any(now.is_same(version) for version in (change.before, *(version for _, version in kept)) if version)
    return INTERRUPTED if is_former or _is_older(entry, change) else UNKNOWN


def _is_older(entry: Entry, change: BegunChange) -> bool:
    """Whether nothing has been written since the change began."""
    written = timestamps.to_datetime(entry.written) if entry.written else None
    margin = _CLOCKS_DIFFER_BY.total_seconds()
    return written is not None and written.timestamp() + margin < change.at / 1000


async def _look(pool: ConnectionPool, place: Place) -> Entry | None:
    drive = await pool.of_connection(place.connection)
    return await drive.find(drive.path_of(place.path))


async def _note_left(
    pool: ConnectionPool, change: BegunChange, place: Place, reason: str
) -> list[tuple[Trashed, Version]]:
    trash = (await pool.of_connection(place.connection)).trash
    return await trash.note_left(change, Path(place.path.segments), reason)


async def _left(pool: ConnectionPool, change: BegunChange, place: Place, reason: str) -> list[tuple[Trashed, Version]]:
    trash = (await pool.of_connection(place.connection)).trash
    return await trash.left_by(change, Path(place.path.segments), reason)
