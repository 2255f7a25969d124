"""The end of resumable uploads that nobody finishes."""

import structlog

from portico.drive import Drive
from portico.drives import Drives
from portico.errors import NotFound, PorticoError
from portico.operations.upload_status import details_of
from portico.store.sealed import Unsealable
from portico.store.uploads import Claim, Uploads

log = structlog.get_logger()


async def abandon(claim: Claim, drive: Drive) -> None:
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


async def sweep_uploads(uploads: Uploads, drives: Drives) -> None:
    """Remove uploads that have expired, and everything that they left in the storage."""
    unusable: set[str] = set()
    for connection, upload_id in await uploads.expired():
        if connection in unusable:
            continue
        try:
            drive = await drives.of_connection(connection)
        except PorticoError as error:
            unusable.add(connection)
            log.warning("uploads-not-swept", connection=connection, code=error.code, cause=error.cause)
            continue
        try:
            async with uploads.claimed(upload_id) as claim:
                if claim:
                    await abandon(claim, drive)
        except Unsealable as error:  # nobody can ever go on with it
            log.warning("upload-dropped", connection=connection, upload=upload_id, cause=error.cause)
            await uploads.drop(upload_id)
        except PorticoError as error:
            log.warning("upload-not-swept", connection=connection, code=error.code, cause=error.cause)
