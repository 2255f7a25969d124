"""The end of what is in the trash: after its time, or after its row was lost."""

import asyncio
from datetime import timedelta

import structlog

from portico.drives import Drives
from portico.errors import NotPossible, PorticoError
from portico.store.trash import Trashed, TrashRecords

_AT_ONCE = 1000
"""Rows in one sweep. The next one goes on."""
_GRACE = timedelta(days=30)
"""How much longer content without a row is kept than other content: an administrator may still look for it."""

log = structlog.get_logger()


async def sweep_trash(records: TrashRecords, drives: Drives, keep: timedelta) -> None:
    """Remove what has expired, and note what processes that died have put into the trash.

    A slow connection does not delay the others.
    """
    due: dict[str, list[Trashed]] = {name: [] for name in await drives.names()}
    for record in await records.due(_AT_ONCE):
        due.setdefault(record.connection, []).append(record)
    interrupted: dict[str, list[Trashed]] = {}
    for record in await records.interrupted(_AT_ONCE):
        interrupted.setdefault(record.connection, []).append(record)
    await asyncio.gather(
        *(_sweep(drives, name, found, interrupted.get(name, []), keep) for name, found in due.items())
    )


async def _sweep(
    drives: Drives, connection: str, due: list[Trashed], interrupted: list[Trashed], keep: timedelta
) -> None:
    try:
        trash = (await drives.of_connection(connection)).trash
    except PorticoError as error:
        drives.not_swept(connection, "trash-not-swept", error)
        return
    failed = False
    for works, records in ((trash.purge, due), (trash.settle_interrupted, interrupted)):
        for record in records:
            try:
                await works(record)
            except NotPossible:
                pass  # a request is at it
            except PorticoError as error:  # the others can be removed; this one is tried again
                drives.not_swept(connection, "trash-not-swept", error)
                failed = True
    try:
        if unknown := await trash.purge_unknown(keep + _GRACE):
            log.warning("trash-without-rows-removed", connection=connection, removed=unknown)
    except PorticoError as error:
        drives.not_swept(connection, "trash-not-swept", error)
        failed = True
    if not failed:
        drives.swept(connection, "trash-not-swept")
