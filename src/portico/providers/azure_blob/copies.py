"""Copying a blob inside the account: the service does it, at once or, if it chooses, in its own time."""

import asyncio

from azure.core.exceptions import AzureError

from portico.errors import ProviderFailed, ProviderTimeout
from portico.providers.azure_common import Answer, Fault, Service

_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
STALLED_SECONDS = 300.0
"""After which a copy that comes no further is given up."""


async def copy_blob(
    service: Service, source: str, target: str, *, etag: str | None = None, replace: bool
) -> None:
    """`Fault` if it is refused, also if the source is another version than `etag`; inside of `translated`."""
    headers = {"x-ms-copy-source": service.access.signed(source)}
    if etag is not None:
        headers["x-ms-source-if-match"] = f'"{etag}"'
    if not replace:
        headers["If-None-Match"] = "*"
    former = await _copy_id(service, target) if replace else None
    try:
        answer = await service.send("PUT", target, None, headers)
    except (Fault, AzureError) as error:
        copied = await _copied_after_all(service, source, target, former, error)
        if copied is None:
            raise
        answer = copied
    wait, waited, seen = _FIRST_WAIT, 0.0, ""
    while (status := answer.headers.get("x-ms-copy-status")) == "pending":
        progress = answer.headers.get("x-ms-copy-progress", "")
        waited, seen = (waited + wait, seen) if progress == seen else (0.0, progress)
        if waited > STALLED_SECONDS:
            raise ProviderTimeout("The storage service did not finish a copy; try again.")
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
        answer = await service.send("HEAD", target)
    if status not in ("success", None):
        # What a failed copy leaves is an empty blob.
        await service.send("DELETE", target, None, {"If-Match": answer.headers.get("ETag", "")})
        raise ProviderFailed(
            "The storage service could not copy a file; try again.",
            cause=f"the copy ended as {status!r}"[:200],
        )


async def _copied_after_all(
    service: Service, source: str, target: str, former: str | None, error: Exception
) -> Answer | None:
    """The target, if an answer was lost and there stands the copy that the request made, not a `former` one."""
    if isinstance(error, Fault) and not error.repeated and error.status < 500:
        return None
    try:
        found = await service.send("HEAD", target)
    except (Fault, AzureError):
        return None
    made_of = found.headers.get("x-ms-copy-source", "").partition("?")[0]
    return found if made_of == source and found.headers.get("x-ms-copy-id") != former else None


async def _copy_id(service: Service, target: str) -> str | None:
    """By which copy the target was made, if it was made by one."""
    try:
        found = await service.send("HEAD", target)
    except Fault as fault:
        if fault.status == 404:
            return None
        raise
    return found.headers.get("x-ms-copy-id")
