"""Copying a blob within the account. The service copies at once or, if it chooses, in the background."""

import asyncio

import structlog
from azure.core.exceptions import AzureError

from portico.model.errors import ProviderFailed, ProviderTimeout
from portico.providers.azure_blob.service import Container
from portico.providers.azure_common.errors import ServiceError
from portico.providers.azure_common.service import Response
from portico.providers.objects.service import Version

log = structlog.get_logger()

_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
STALLED_SECONDS = 300.0
"""A copy without progress for this long is given up."""
_ABORT_SECONDS = 10.0
"""Timeout of each call that ends a copy: the gateway may be stopping."""


async def copy_blob(
    service: Container,
    version: Version,
    key: str,
    *,
    replace: bool,
    version_id: str | None = None,
    if_match: str | None = None,
) -> None:
    """Copy a version of a blob. `ServiceError` if it is refused or the blob has another version by now.

    With a version id, that version is copied, even if it is not the current one.

    Call it inside `translated`.
    """
    source, target = service.blob_url(version.key), service.blob_url(key)
    headers = {"x-ms-copy-source": service.access.signed(source, version_id)}
    if version.etag is not None:
        headers["x-ms-source-if-match"] = f'"{version.etag}"'
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    if not replace:
        headers["If-None-Match"] = "*"
    former = await _copy_id(service, target) if replace else None
    try:
        response = await service.send("PUT", target, None, headers)
    except (ServiceError, AzureError) as error:
        copied = await _copied_despite_error(service, source, target, former, error)
        if copied is None:
            raise
        response = copied
    copy_id = response.headers.get("x-ms-copy-id", "")
    try:
        response = await _ended(service, target, response)
    except BaseException:
        await asyncio.shield(_abort(service, target, copy_id))
        raise
    status = response.headers.get("x-ms-copy-status")
    if status not in ("success", None):
        # A failed copy leaves an empty blob.
        await service.send("DELETE", target, None, {"If-Match": response.headers.get("ETag", "")})
        raise ProviderFailed(
            "The storage couldn't copy a file. Try again.", cause=f"the copy ended as {status!r}"[:200]
        )


async def _ended(service: Container, target: str, response: Response) -> Response:
    """Wait until the copy has ended. Returns the target's last response."""
    wait, waited, seen = _FIRST_WAIT, 0.0, ""
    while response.headers.get("x-ms-copy-status") == "pending":
        progress = response.headers.get("x-ms-copy-progress", "")
        waited, seen = (waited + wait, seen) if progress == seen else (0.0, progress)
        if waited > STALLED_SECONDS:
            raise ProviderTimeout("The storage didn't finish a copy in time. Try again.")
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
        response = await service.send("HEAD", target)
    return response


async def _abort(service: Container, target: str, copy_id: str) -> None:
    """End a cancelled copy, and remove its target, which must not exist until it is complete."""
    within = min(service.timeout, _ABORT_SECONDS)
    try:
        try:
            await service.send(
                "PUT", target, {"comp": "copy", "copyid": copy_id}, {"x-ms-copy-action": "abort"}, within=within
            )
        except ServiceError as error:
            if error.status != 409:  # it has ended already
                raise
        found = await service.send("HEAD", target, within=within)
        if found.headers.get("x-ms-copy-id") == copy_id and found.headers.get("x-ms-copy-status") != "success":
            await service.send("DELETE", target, None, {"If-Match": found.headers.get("ETag", "")}, within=within)
    except (ServiceError, AzureError) as error:  # the error that is being handled says more
        log.warning("copy-not-aborted", cause=type(error).__name__)


async def _copied_despite_error(
    service: Container, source: str, target: str, former: str | None, error: Exception
) -> Response | None:
    """The target, if the response was lost and it is the copy that this request made, not a `former` one."""
    if isinstance(error, ServiceError) and not error.repeated and error.status < 500:
        return None
    try:
        found = await service.send("HEAD", target)
    except (ServiceError, AzureError):
        return None
    made_of = found.headers.get("x-ms-copy-source", "").partition("?")[0]
    return found if made_of == source and found.headers.get("x-ms-copy-id") != former else None


async def _copy_id(service: Container, target: str) -> str | None:
    """The id of the copy that made the target, if there was one."""
    try:
        found = await service.send("HEAD", target)
    except ServiceError as error:
        if error.status == 404:
            return None
        raise
    return found.headers.get("x-ms-copy-id")
