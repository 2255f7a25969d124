"""`RequestContext`: which request this is. `Admission`: how many of them wait for a storage service at a time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from portico.audit import DONE, AuditLine
from portico.errors import Unavailable
from portico.operations.idempotency import Attempt

MAX_WAITING = 1000
"""Requests per worker and connection that may wait for their answer to begin. Uploads do not count: they wait for their
own clients."""


class Admission:
    """Counted per connection, so that a storage service that hangs does not hold up users of another one."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()

    def enter(self, connection: str) -> "Slot":
        if self._waiting[connection] >= MAX_WAITING:
            raise Unavailable("The gateway is overloaded at the moment; try again soon.", retry_after=1)
        self._waiting[connection] += 1
        return Slot(self._waiting, connection)


class Slot:
    """One request's place among those that wait."""

    __slots__ = ("_connection", "_waiting")

    def __init__(self, waiting: Counter[str], connection: str) -> None:
        self._waiting = waiting
        self._connection = connection

    def release(self) -> None:
        """To be called once."""
        self._waiting[self._connection] -= 1
        if not self._waiting[self._connection]:
            del self._waiting[self._connection]


async def _never() -> None:
    await asyncio.Event().wait()


class KeyInUse(msgspec.Struct, frozen=True):
    """The API key by which a request is made, for logs and audit lines."""

    id: str
    name: str
    folder: str
    """Of the user's tree: the root of all paths."""


class RequestContext(msgspec.Struct):
    """One request, whatever the protocol. A front end makes it and leaves its `with` when the request has ended."""

    request_id: str
    address: str
    """The client's address."""
    client_gone: Callable[[], Awaitable[object]] = _never
    """Returns when the client has hung up. It is called only while long work is under way."""
    action: str = "other"
    """What the request turned out to ask for; the front end counts it by this name."""
    agent: str = ""
    """What the client calls itself: users are shown it with their sessions."""
    user: str | None = None
    """The user's name, as soon as it is known: for the front end's log."""
    key: KeyInUse | None = None
    """If the user acts by an API key."""
    link: str | None = None
    """The id of the share link by which a guest came: `user` is its owner."""
    guest: str | None = None
    """The name that the guest has given."""
    ticket: bool = False
    """Whether the request has a download ticket instead of the user's or guest's own credential."""
    connection: str | None = None
    """The name of the connection that the actor's files are in, if the request is about files."""
    code: str | None = None
    """The code of the error that was answered."""
    slot: Slot | None = None
    attempt: Attempt | None = None
    """If the request has an idempotency key."""

    trashed: Sequence[str] = ()
    """The ids of what the request has put into the trash."""

    def audit_line(self, action: str, *, outcome: str = DONE) -> AuditLine:
        line = AuditLine(
            request_id=self.request_id,
            user=self.user or msgspec.UNSET,
            link=self.link or msgspec.UNSET,
            guest=self.guest or msgspec.UNSET,
            client=self.address,
            action=action,
            outcome=outcome,
        )
        if self.key is not None:
            line.key, line.key_name = self.key.id, self.key.name
            line.folder = msgspec.UNSET if self.key.folder == "/" else self.key.folder
        return line

    def release(self) -> None:
        """Give the admission slot back: the answer begins, or never will."""
        if self.slot is not None:
            self.slot.release()
            self.slot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.release()
