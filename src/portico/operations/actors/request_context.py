"""`RequestContext`: which request this is. `Admission`: how many of them wait for, and work with, a storage service."""

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, TypeAlias

import msgspec

from portico.model.errors import TooManyRequests, Unavailable
from portico.observability.audit import DONE, AuditLine
from portico.operations.actors.attempt import Attempt
from portico.runtime.fair_turns import FairTurns, Keys

MAX_WAITING = 1000
"""Requests per worker and connection that may wait for their answer to begin. Uploads do not count: they wait for their
own clients."""


LOOKED_AT = 20_000
"""Entries that all requests to one connection look at in the storage at once: more of them wait."""
LOOKED_AT_BY = (5_000, 10_000)
"""Of those, how many one actor may have, and all guests of one link."""
SEARCHES_OF = (2, 8)
"""As `LOOKED_AT_BY`: searches that run at once."""
MAX_SEARCHES_OF = (16, 64)
"""With those that wait."""
WALKS_OF = (8, 32)
MAX_WALKS_OF = (16, 64)
"""As for searches. A walk runs for as long as its client reads, and holds two pages."""


Looking: TypeAlias = Callable[[int], AbstractAsyncContextManager[None]]
"""Waits for an actor's turn to look at so many entries."""


class Admission:
    """Counted per connection, so that a storage service that hangs does not hold up users of another one."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, Counter[Hashable]] = defaultdict(Counter)
        """By actor."""
        self._looking: defaultdict[str, FairTurns] = defaultdict(lambda: FairTurns(LOOKED_AT, shares=LOOKED_AT_BY))
        self._searches = FairTurns(sys.maxsize, shares=SEARCHES_OF, limits=MAX_SEARCHES_OF)
        self._walks = FairTurns(sys.maxsize, shares=WALKS_OF, limits=MAX_WALKS_OF)

    def enter(self, connection: str, share: Keys) -> "Slot":
        """One of the places. When all are taken, an actor with less than a fair share of them still gets one."""
        waiting = self._waiting[connection]
        if (total := waiting.total()) >= MAX_WAITING:
            actors = len(waiting) + (share[0] not in waiting)
            if waiting[share[0]] >= MAX_WAITING // actors or total >= 2 * MAX_WAITING:
                raise Unavailable("The gateway is overloaded. Try again in a moment.", retry_after=1)
        waiting[share[0]] += 1
        return Slot(waiting, share[0])

    def looking(self, connection: str, share: Keys, entries: int) -> AbstractAsyncContextManager[None]:
        """Wait for the actor's turn to look at so many entries, or at as many as an actor may have at once."""
        return self._looking[connection].turn(share, min(entries, *LOOKED_AT_BY))

    def searching(self, share: Keys) -> AbstractAsyncContextManager[None]:
        """Wait for the actor's turn to search; `TooManyRequests` if many searches of the actor wait already."""
        sentence = "Too many of your searches are running. Wait until one is done."
        return self._searches.turn(share, full=TooManyRequests(sentence, retry_after=1))

    def walking(self, share: Keys) -> AbstractAsyncContextManager[None]:
        """As `searching`, for a listing that is sent as it is made."""
        sentence = "Too many of your listings are running. Wait until one is done."
        return self._walks.turn(share, full=TooManyRequests(sentence, retry_after=1))


class Slot:
    __slots__ = ("_actor", "_waiting")

    def __init__(self, waiting: Counter[Hashable], actor: Hashable) -> None:
        self._waiting = waiting
        self._actor = actor

    def release(self) -> None:
        """To be called once."""
        self._waiting[self._actor] -= 1
        if not self._waiting[self._actor]:
            del self._waiting[self._actor]


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
    """What the front end calls the request in its metrics and logs; operations leave it alone."""
    agent: str = ""
    """What the client calls itself: users are shown it with their sessions."""
    user: str | None = None
    """The user's name, as soon as it is known: for the front end's log."""
    key: KeyInUse | None = None
    """If the user acts by an API key."""
    session: str | None = None
    """The id of the user's session, if the user has signed in."""
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

    def audit_line(self, action: str, *, outcome: str = DONE) -> AuditLine:
        line = AuditLine(
            request_id=self.request_id,
            user=self.user or msgspec.UNSET,
            link=self.link or msgspec.UNSET,
            guest=self.guest or msgspec.UNSET,
            session=self.session or msgspec.UNSET,
            client=self.address or msgspec.UNSET,
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

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.release()
