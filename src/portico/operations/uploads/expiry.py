"""The end of uploads that are given up, or that nobody finishes."""

import asyncio

import structlog

from portico.drive.connection_pool import ConnectionPool
from portico.drive.drive import Drive
from portico.model.errors import NotFound, PorticoError
from portico.operations.uploads.access import details_of
from portico.store.encrypted_columns import Unsealable
from portico.store.uploads import UploadClaim, Uploads

log = structlog.get_logger()


async def abandon(claim: UploadClaim, drive: Drive) -> None:
    """Remove an upload and all that is left of it."""
    details = details_of(claim.record)
    try:
        if state := claim.record.state:
            await (await drive.resume_upload(state)).abandon()
    except NotFound:
        pass
    if details.partial:
        await drive.remove_partial_upload(claim.record.id)
    await claim.remove()


async def sweep_uploads(uploads: Uploads, pool: ConnectionPool) -> None:
    """Remove uploads that have expired, or whose process died, and everything that they left in the storage.

    A slow connection does not delay the others.
    """
    await uploads.end_with_links()
    found: dict[str, list[str]] = {}
    for connection, upload_id in await uploads.expired():
        found.setdefault(connection, []).append(upload_id)
    await asyncio.gather(*(_sweep(uploads, pool, connection, ids) for connection, ids in found.items()))


async def _sweep(uploads: Uploads, pool: ConnectionPool, connection: str, upload_ids: list[str]) -> None:
    try:
        drive = await pool.of_connection(connection)
    except PorticoError as error:
        pool.not_swept(connection, "uploads-not-swept", error)
        return
    pool.swept(connection, "uploads-not-swept")
    failed = False
    for upload_id in upload_ids:
        try:
            async with uploads.claimed(upload_id) as claim:
                if claim and claim.has_expired:  # otherwise it was renewed meanwhile
                    await abandon(claim, drive)
        except Unsealable as error:  # nobody can ever go on with it
            log.warning("upload-dropped", connection=connection, upload=upload_id, cause=error.cause)
            await uploads.drop(upload_id)
        except PorticoError as error:  # the others can be removed; this one is tried again
            pool.not_swept(connection, "upload-not-swept", error)
            failed = True
    if not failed:
        pool.swept(connection, "upload-not-swept")
