"""The memory budget that all uploads of a process share.

A part can be sent, and its memory released, only when it is full. If memory were spread over too many parts, none of
them could be filled. So an upload reserves a whole part before it fills it; if nothing is left, it waits in line, and
so does its client. While others wait, a silent or slow client loses the part of its reservation that it has not
filled. It keeps what it has filled, and continues when the rest of its part fits into the free memory. Reservations
always leave enough for one such part, so there is no deadlock.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

_GRACE_SECONDS = 1.0
"""How long a client that sends nothing keeps its reservation while others wait, in seconds."""
_MIN_RATE = 256 * 1024
"""Average bytes a second at which a client keeps its reservation."""
UPLOAD_MEMORY = 512 * 2**20
"""The default budget for uploads to services. Uploads to local folders hold little and are not counted."""


class MemoryShare:
    """The memory that one upload holds."""

    def __init__(self, budget: "MemoryBudget") -> None:
        self._budget = budget
        self.held = 0
        """Bytes of parts that are filled or being sent."""
        self.reserved = 0
        """Bytes reserved for the part that is being filled."""
        self.lacking = 0
        """Bytes that this part still needs, reserved or not."""
        self.due = 0.0
        """When the reservation may be revoked."""

    async def take(self, size: int, lacking: int | None = None) -> None:
        """Take `size` bytes for a part that needs `lacking` more to be full, including these."""
        lacking = size if lacking is None else max(size, lacking)
        if size > self.reserved:
            await self._budget.allocate(self, size, lacking)
            return
        self.reserved -= size
        self.held += size
        self.lacking = lacking - size
        latest = asyncio.get_running_loop().time() + _GRACE_SECONDS
        self.due = min(self.due + size / _MIN_RATE, latest)

    def settle(self) -> None:
        """Release the reservation: the part is complete."""
        self._budget.release_reservation(self)
        self.lacking = 0

    def give(self, size: int) -> None:
        self.held -= size
        self._budget.release(size)


class _Claim(msgspec.Struct, eq=False):
    share: MemoryShare
    size: int
    lacking: int
    granted: asyncio.Future[None]


class MemoryBudget:
    """Limits the bytes that all uploads together hold. A single upload may exceed it if its part is larger."""

    def __init__(self, total: int = UPLOAD_MEMORY) -> None:
        self._total = total
        self._free = total
        self._shares: set[MemoryShare] = set()
        self._beginning: deque[_Claim] = deque()
        """Uploads that wait to begin a part, first come first served."""
        self._resuming: list[_Claim] = []
        """Uploads that wait in the middle of a part, after their reservation was revoked."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held(self) -> int:
        return self._total - self._free

    @property
    def waiting(self) -> int:
        return len(self._beginning) + len(self._resuming)

    @asynccontextmanager
    async def share(self) -> AsyncIterator[MemoryShare]:
        share = MemoryShare(self)
        self._shares.add(share)
        try:
            yield share
        finally:
            self._shares.remove(share)
            self.release(share.held + share.reserved)

    async def allocate(self, share: MemoryShare, size: int, lacking: int) -> None:
        """Give memory to a share, as soon as there is enough. Arguments as of `MemoryShare.take`."""
        self.release_reservation(share)
        if not self.waiting and self._grant(share, size, lacking):
            return
        claim = _Claim(share, size, lacking, asyncio.get_running_loop().create_future())
        queue = self._resuming if share.lacking else self._beginning
        queue.append(claim)
        self._wake()
        try:
            await claim.granted
        except asyncio.CancelledError:
            if claim in queue:
                queue.remove(claim)
                self._wake()
            else:
                share.give(size)
                share.settle()
            raise

    def release(self, size: int) -> None:
        self._free += size
        self._wake()

    def release_reservation(self, share: MemoryShare) -> None:
        size, share.reserved = share.reserved, 0
        if size:
            self.release(size)

    def _grant(self, share: MemoryShare, size: int, lacking: int) -> bool:
        if share.lacking:  # in the middle of a part, which must be able to fill up
            cost, fits = size, self._free >= lacking
        else:
            # What is left is enough for one of the parts without a reservation to fill up.
            unreserved = (share.lacking for share in self._shares if share.lacking and not share.reserved)
            cost, fits = lacking, self._free - lacking >= min(unreserved, default=0)
        if not fits and self._free + share.held < self._total:
            return False
        self._free -= cost
        share.held += size
        share.reserved = cost - size
        share.lacking = lacking - size
        share.due = asyncio.get_running_loop().time() + _GRACE_SECONDS
        return True

    def _wake(self) -> None:
        """Grant what fits; while uploads wait, revoke reservations that have run out."""
        while self.waiting:
            self._resuming[:] = [claim for claim in self._resuming if not self._granted(claim)]
            while self._beginning and self._granted(self._beginning[0]):
                self._beginning.popleft()
            if not self.waiting or not self._revoke_due():
                break
        self._set_timer()

    def _granted(self, claim: _Claim) -> bool:
        if claim.granted.done() or not self._grant(claim.share, claim.size, claim.lacking):
            return False  # a cancelled claim is removed by its own task
        claim.granted.set_result(None)
        return True

    def _revoke_due(self) -> bool:
        """Revoke the reservations that are due; whether there were any."""
        now = asyncio.get_running_loop().time()
        due = [share for share in self._shares if share.reserved and share.due <= now]
        for share in due:
            self._free += share.reserved
            share.reserved = 0
        return bool(due)

    def _set_timer(self) -> None:
        """Set a timer for the next reservation that is due, if an upload waits."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self.waiting and (dues := [share.due for share in self._shares if share.reserved]):
            self._timer = asyncio.get_running_loop().call_at(min(dues), self._wake)
