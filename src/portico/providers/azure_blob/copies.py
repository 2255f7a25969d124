"""Copying a blob inside the account: the service does it, at once or, if it chooses, in its own time."""

import asyncio

import structlog
from azure.core.exceptions import AzureError

from portico.errors import ProviderFailed, ProviderTimeout
from portico.providers.azure_common import Answer, Fault, Service

log = structlog.get_logger()

_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
STALLED_SECONDS = 300.0
"""After which a copy that comes no further is given up."""
_ABORT_SECONDS = 10.0
"""For each call that ends a copy: somebody may be waiting for the gateway to stop."""


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
    copy_id = answer.headers.get("x-ms-copy-id", "")
    try:
        answer = await _ended(service, target, answer)
    except BaseException:
        await asyncio.shield(_abandon(service, target, copy_id))
        raise
    status = answer.headers.get("x-ms-copy-status")
    if status not in ("success", None):
        # What a failed copy leaves is an empty blob.
        await service.send("DELETE", target, None, {"If-Match": answer.headers.get("ETag", "")})
        raise ProviderFailed(
            "The storage service could not copy a file; try again.",
            cause=f"the copy ended as {status!r}"[:200],
        )


async def _ended(service: Service, target: str, answer: Answer) -> Answer:
    """Wait until the copy that `answer` tells of has ended; what the service says of the target then."""
    wait, waited, seen = _FIRST_WAIT, 0.0, ""
    while answer.headers.get("x-ms-copy-status") == "pending":
        progress = answer.headers.get("x-ms-copy-progress", "")
        waited, seen = (waited + wait, seen) if progress == seen else (0.0, progress)
        if waited > STALLED_SECONDS:
            raise ProviderTimeout("The storage service did not finish a copy; try again.")
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
        answer = await service.send("HEAD", target)
    return answer


async def _abandon(service: Service, target: str, copy_id: str) -> None:
    """End a copy that nobody waits for any more: until it is whole, its target must not be there."""
    within = min(service.timeout, _ABORT_SECONDS)
    try:
        try:
            await service.send(
                "PUT",
                target,
                {"comp": "copy", "copyid": copy_id},
                {"x-ms-copy-action": "abort"},
                within=within,
            )
        except Fault as fault:
            if fault.status != 409:  # it has ended by itself
                raise
        found = await service.send("HEAD", target, within=within)
        if (
            found.headers.get("x-ms-copy-id") == copy_id
            and found.headers.get("x-ms-copy-status") != "success"
        ):
            await service.send(
                "DELETE", target, None, {"If-Match": found.headers.get("ETag", "")}, within=within
            )
    except (Fault, AzureError) as error:  # what is being handled says more
        log.warning("copy-not-aborted", cause=type(error).__name__)


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
