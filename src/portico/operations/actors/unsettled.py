"""`settle_changes`: what became of changes whose processes have vanished, as far as the storage tells."""

from collections import defaultdict

from portico.drive.connection_pool import ConnectionPool
from portico.model.errors import PorticoError
from portico.model.paths import Path, Place
from portico.model.versions import Version, version_of
from portico.observability.audit import DONE, INTERRUPTED, UNKNOWN
from portico.store.journal import Journal
from portico.store.recordings import BegunChange
from portico.store.trash import DELETED, HELD, REPLACED, Trashed

_EVENT = "changes-not-settled"


async def settle_changes(journal: Journal, pool: ConnectionPool) -> None:
    """What cannot be looked at now is left for the next time."""
    found: defaultdict[str, list[BegunChange]] = defaultdict(list)
    for change in await journal.left_open():
        found[change.place.connection].append(change)
    names = await pool.names()
    for connection, changes in found.items():
        try:
            for change in changes:
                if {place.connection for place in (change.place, change.target) if place} <= {*names}:
                    outcome, kept, after = await _result(pool, change)
                    await journal.settle(change, outcome, kept=kept, after=after)
                else:
                    await journal.settle(change, UNKNOWN)
        except PorticoError as error:
            pool.not_swept(connection, _EVENT, error)
        else:
            pool.swept(connection, _EVENT)


async def _result(pool: ConnectionPool, change: BegunChange) -> tuple[str, list[Trashed], Version | None]:
    if change.line.action == "trash.remove" and change.target:
        record = await (await pool.of_connection(change.place.connection)).trash.kept(change.target.path.name)
        return (INTERRUPTED if record and record.status != HELD else DONE), [record] if record else [], None
    source = await _look(pool, change.place)
    if change.line.action == "delete":
        kept = await _left(pool, change, change.place, DELETED)
        if source is None:
            return DONE, kept, None
        return (INTERRUPTED if source == change.before and not kept else UNKNOWN), kept, source
    at = change.target or change.place
    now = await _look(pool, at) if change.target else source
    kept = await _left(pool, change, at, REPLACED)
    if change.target and change.place.connection != change.target.connection:
        kept += await _left(pool, change, change.place, DELETED)
    if now is not None and now.is_folder and change.line.action == "mkdir":
        return DONE, kept, now
    if now == change.before and not kept:
        return INTERRUPTED, kept, now
    if change.line.action in ("move", "restore") and now is not None and source is None:
        return DONE, kept, now
    return UNKNOWN, kept, now


async def _look(pool: ConnectionPool, place: Place) -> Version | None:
    drive = await pool.of_connection(place.connection)
    entry = await drive.find(Path(place.path.segments[len(drive.root.segments) :], place.path.as_folder))
    return version_of(entry) if entry else None


async def _left(pool: ConnectionPool, change: BegunChange, place: Place, reason: str) -> list[Trashed]:
    trash = (await pool.of_connection(place.connection)).trash
    return await trash.left_by(change, Path(place.path.segments), reason)
