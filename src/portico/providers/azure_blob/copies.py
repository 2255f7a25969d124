"""Copying a blob within the account. The service copies at once or, if it chooses, in the background."""

import asyncio
from collections.abc import Mapping

import structlog
from azure.core.exceptions import AzureError

from portico.model.errors import already_exists
from portico.providers.azure_blob.errors import is_taken
from portico.providers.azure_blob.service import Container
from portico.providers.azure_common.errors import ServiceError, may_have_succeeded, translated
from portico.providers.azure_common.service import Response, copied, copy_failed
from portico.providers.objects.service import Version, name_of

log = structlog.get_logger()

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
    """As `ObjectService.duplicate`. With a version id, that version is copied, even if it is not the current one."""
    with translated(name_of(version.key)):
        source, target = service.blob_url(version.key), service.blob_url(key)
        condition = {"x-ms-copy-source": service.access.signed(source, version_id)}
        if version.etag is not None:
            condition["x-ms-source-if-match"] = f'"{version.etag}"'
        if if_match is not None:
            condition["If-Match"] = f'"{if_match}"'
        if not replace:
            condition["If-None-Match"] = "*"
        former = (await service.head(key) or {}).get("x-ms-copy-id") if replace else None
        try:
            response = await service.send("PUT", target, None, condition)
        except (ServiceError, AzureError) as error:
            made = await _copied_despite_error(service, source, target, former, error)
            if made is None:
                if (if_match or not replace) and is_taken(error):
                    raise already_exists(name_of(key)) from error
                raise
            response = made
        copy_id = response.headers.get("x-ms-copy-id", "")

        async def look() -> Mapping[str, str]:
            return (await service.send("HEAD", target)).headers

        try:
            headers = await copied(response.headers, look)
        except BaseException:
            await asyncio.shield(_abort(service, target, copy_id))
            raise
        status = headers.get("x-ms-copy-status")
        if status not in ("success", None):
            # A failed copy leaves an empty blob.
            await service.send("DELETE", target, None, {"If-Match": headers.get("ETag", "")})
            raise copy_failed(status)


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
    if not may_have_succeeded(error):
        return None
    try:
        found = await service.send("HEAD", target)
    except (ServiceError, AzureError):
        return None
    made_of = found.headers.get("x-ms-copy-source", "").partition("?")[0]
    return found if made_of == source and found.headers.get("x-ms-copy-id") != former else None
