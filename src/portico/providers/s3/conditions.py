"""Which conditions a service honors. Amazon's own honors what it documents; any other is tried before it is relied upon.

Many services that speak S3 ignore a condition silently, and would replace or remove what has changed since it was looked at.
So the first change through a connection has the gateway try the conditions on hidden objects of its own, and again every
hour: a service may be replaced by another one. Until a service has refused, and for kinds of requests that it has not
refused, the gateway looks right before each change instead.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final, NamedTuple

import structlog

from portico.model.errors import AlreadyExists, Changed, PorticoError
from portico.providers.objects.part_store import TRIALS_PREFIX

LOOK_SECONDS: Final = 2.0
"""How old a look may be where a condition was tried: nothing shows that a service has stopped honoring it."""
_TRUSTED_SECONDS: Final = 3600.0
_AGAIN_SECONDS: Final = 300.0
"""After the service could not be asked."""
_END_SECONDS: Final = 5.0
"""The gateway may be stopping."""
_NO_ETAG: Final = '"0123456789abcdef0123456789abcdef"'

log = structlog.get_logger()


class Honored(NamedTuple):
    put: bool
    """`If-Match` and `If-None-Match` of a file that is stored by one request."""
    delete: bool
    """`If-Match`."""
    copy_from: bool
    """`CopySourceIfMatch`."""
    copy_over: bool
    """As `put`, of a copy."""


ALL: Final = Honored(put=True, delete=True, copy_from=True, copy_over=True)
NONE: Final = Honored(put=False, delete=False, copy_from=False, copy_over=False)


class Conditions:
    def __init__(self, bucket: str, call: Callable[..., Awaitable[Any]]) -> None:
        """`call`: as `Service.call`."""
        self._bucket = bucket
        self._call = call
        self._known = NONE
        self._until = 0.0
        self._trying: asyncio.Task[None] | None = None

    def honored(self) -> Honored:
        """What was seen; if that is too long ago, they are tried while the caller goes on."""
        if time.monotonic() >= self._until and self._trying is None:
            self._trying = asyncio.create_task(self.run())
        return self._known

    async def run(self) -> None:
        try:
            self._known = await self._try()
            self._until = time.monotonic() + _TRUSTED_SECONDS
        except PorticoError as error:
            log.info("conditions-not-tried", code=error.code, cause=error.cause)
            self._until = time.monotonic() + _AGAIN_SECONDS
        finally:
            self._trying = None

    async def _try(self) -> Honored:
        one, other = (f"{TRIALS_PREFIX}{token_hex(16)}" for _ in range(2))
        source = {"Bucket": self._bucket, "Key": one}
        try:
            await asyncio.gather(*(self._call("put_object", Key=key, Body=b"") for key in (one, other)))
            new, same, copied_new, copied_same, copied_source = await asyncio.gather(
                self._refuses("put_object", Key=one, Body=b"", IfNoneMatch="*"),
                self._refuses("put_object", Key=one, Body=b"", IfMatch=_NO_ETAG),
                self._refuses("copy_object", Key=other, CopySource=source, IfNoneMatch="*"),
                self._refuses("copy_object", Key=other, CopySource=source, IfMatch=_NO_ETAG),
                self._refuses("copy_object", Key=other, CopySource=source, CopySourceIfMatch=_NO_ETAG),
            )
            removed = await self._refuses("delete_object", Key=one, IfMatch=_NO_ETAG)
            return Honored(new and same, removed, copied_source, copied_new and copied_same)
        finally:
            with suppress(PorticoError):  # the sweep removes what is left
                await asyncio.gather(
                    *(self._call("delete_object", Key=key, within=_END_SECONDS) for key in (one, other))
                )

    async def _refuses(self, operation: str, **parameters: Any) -> bool:
        try:
            await self._call(operation, **parameters)
        except (AlreadyExists, Changed):
            return True
        except PorticoError:  # it does not know the condition, or fails
            return False
        return False

    async def close(self) -> None:
        if trying := self._trying:
            trying.cancel()
            await asyncio.wait([trying])
