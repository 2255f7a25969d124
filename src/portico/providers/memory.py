"""One budget of memory for all uploads of a process, given out by whole parts.

A part can be sent, and its memory given back, only when it is filled. So memory must not be spread over so many parts
that none can be filled: an upload reserves the whole of a part before it fills it, and those for whom nothing is left
wait in turn, and so do their clients. A reservation is a lease that has to be used: while others wait, a client that
is silent or slow loses what it has not filled. It keeps what it has, and goes on as long as the rest of its part fits
into what is free. Reservations always leave enough for one of those parts, so that there is no deadlock.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

_PATIENCE = 1.0
"""Seconds for which a reservation is kept for a client that sends nothing, while others wait."""
_LEAST_RATE = 256 * 1024
"""Bytes a second by which a client keeps its reservation, on average."""


class Lease:
    """What one upload holds."""

    def __init__(self, budget: "MemoryBudget") -> None:
        self._budget = budget
        self.held = 0
        """Bytes of parts that are filled or on their way."""
        self.reserved = 0
        """Bytes that are kept for the part that is being filled."""
        self.lacking = 0
        """Bytes that this part needs before it can be sent, reserved or not."""
        self.due = 0.0
        """When the reservation may be taken back."""

    async def take(self, size: int, lacking: int | None = None) -> None:
        """Take `size` bytes for a part that lacks `lacking` before it is full, these among them."""
        lacking = size if lacking is None else max(size, lacking)
        if size > self.reserved:
            await self._budget._take(self, size, lacking)
            return
        self.reserved -= size
        self.held += size
        self.lacking = lacking - size
        latest = asyncio.get_running_loop().time() + _PATIENCE
        self.due = min(self.due + size / _LEAST_RATE, latest)

    def settle(self) -> None:
        """Nothing more comes for this part."""
        self._budget._give_back_reservation(self)
        self.lacking = 0

    def give(self, size: int) -> None:
        self.held -= size
        self._budget._give(size)


@dataclass(slots=True, eq=False)
class _Claim:
    lease: Lease
    size: int
    lacking: int
    granted: asyncio.Future[None]


class MemoryBudget:
    """Bytes that all uploads together may hold. Only one that is alone may hold more, if its part is larger."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._free = total
        self._leases: set[Lease] = set()
        self._beginning: deque[_Claim] = deque()
        """Who waits to begin a part, in turn."""
        self._resuming: list[_Claim] = []
        """Who waits in the middle of a part, without a reservation any more."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        return self._total - self._free

    @property
    def waiting(self) -> int:
        return len(self._beginning) + len(self._resuming)

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Lease]:
        lease = Lease(self)
        self._leases.add(lease)
        try:
            yield lease
        finally:
            self._leases.remove(lease)
            self._give(lease.held + lease.reserved)

    async def _take(self, lease: Lease, size: int, lacking: int) -> None:
        self._give_back_reservation(lease)
        if not self.waiting and self._grant(lease, size, lacking):
            return
        claim = _Claim(lease, size, lacking, asyncio.get_running_loop().create_future())
        queue = self._resuming if lease.lacking else self._beginning
        queue.append(claim)
        self._wake()
        try:
            await claim.granted
        except asyncio.CancelledError:
            if claim in queue:
                queue.remove(claim)
                self._wake()
            else:
                lease.give(size)
                lease.settle()
            raise

    def _give(self, size: int) -> None:
        self._free += size
        self._wake()

    def _give_back_reservation(self, lease: Lease) -> None:
        size, lease.reserved = lease.reserved, 0
        if size:
            self._give(size)

    def _grant(self, lease: Lease, size: int, lacking: int) -> bool:
        if lease.lacking:  # in the middle of a part: what it takes is safe if it could take all that it lacks
            cost, fits = size, self._free >= lacking
        else:
            cost, fits = lacking, self._free - lacking >= self._least_to_leave()
        if not fits and self._free + lease.held < self._total:
            return False
        self._free -= cost
        lease.held += size
        lease.reserved = cost - size
        lease.lacking = lacking - size
        lease.due = asyncio.get_running_loop().time() + _PATIENCE
        return True

    def _least_to_leave(self) -> int:
        """By which one of the parts that have no reservation can still be filled."""
        return min(
            (lease.lacking for lease in self._leases if lease.lacking and not lease.reserved), default=0
        )

    def _wake(self) -> None:
        """Grant what can be granted; then look whose reservation has run out, as long as somebody waits."""
        while self.waiting:
            self._resuming[:] = [claim for claim in self._resuming if not self._granted(claim)]
            while self._beginning and self._granted(self._beginning[0]):
                self._beginning.popleft()
            if not self.waiting or not self._take_back():
                break
        self._watch()

    def _granted(self, claim: _Claim) -> bool:
        if claim.granted.done() or not self._grant(claim.lease, claim.size, claim.lacking):
            return False  # one that was cancelled leaves by itself when its task runs next
        claim.granted.set_result(None)
        return True

    def _take_back(self) -> bool:
        """Whether anything was left of reservations that are due."""
        now = asyncio.get_running_loop().time()
        due = [lease for lease in self._leases if lease.reserved and lease.due <= now]
        for lease in due:
            self._free += lease.reserved
            lease.reserved = 0
        return bool(due)

    def _watch(self) -> None:
        """Come back when the next reservation is due, if somebody waits for it."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self.waiting and (dues := [lease.due for lease in self._leases if lease.reserved]):
            self._timer = asyncio.get_running_loop().call_at(min(dues), self._wake)
