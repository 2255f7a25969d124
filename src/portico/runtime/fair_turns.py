"""`FairTurns`: work that is limited, and divided between those who want it, round robin."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager

import msgspec

Keys = tuple[Hashable, ...]
"""Whose work it is. Round robin goes by the first key; the cost of the work is counted under all of them."""


class NoRoom(Exception):
    """The queue is full, or the work was displaced by somebody's who has less of it."""


class Turn(msgspec.Struct, eq=False):
    """The permission to work, until it is released."""

    turns: "FairTurns"
    keys: Keys
    cost: int
    granted: asyncio.Future[None]
    is_running: bool = False

    def release(self) -> None:
        """To be called once."""
        self.turns._release(self)


class FairTurns:
    """Work of which `at_once` may run and `max_queued` may wait, both measured by its cost.

    `shares`: how much of a key may run at once, by its position in `Keys`; more of it waits.
    `limits`: how much of a key may run and wait; more of it is refused.
    When the queue is full, the last work of the key with the most is displaced by that of a key with less.
    """

    def __init__(
        self, at_once: int, max_queued: int | None = None, *, shares: tuple[int, ...] = (), limits: tuple[int, ...] = ()
    ) -> None:
        self._at_once = at_once
        self._max_queued = max_queued
        self._shares = shares
        self._limits = limits
        self._running: Counter[Hashable] = Counter()
        """Cost by key."""
        self._load: Counter[Hashable] = Counter()
        """As `_running`, with what waits."""
        self.running = self.load = 0
        """The cost of what runs, and of that and what waits."""
        self._queues: dict[Hashable, deque[Turn]] = {}
        """What waits, by first key, in round-robin order."""

    async def take(self, keys: Keys, cost: int = 1) -> Turn:
        """Wait for a turn; `NoRoom` if there is none to wait for. Whoever gets it has to release it."""
        if any(self._load[key] >= limit for key, limit in zip(keys, self._limits, strict=False)):
            raise NoRoom
        if self._max_queued is not None and self.load >= self._at_once + self._max_queued:
            self._displace(keys)
        turn = Turn(self, keys, cost, asyncio.get_running_loop().create_future())
        self._queues.setdefault(keys[0], deque()).append(turn)
        self._count(self._load, turn, cost)
        self.load += cost
        self._start()
        if not turn.is_running:
            try:
                await turn.granted
            except BaseException:
                if turn.is_running:
                    turn.release()
                else:
                    self._leave(turn)
                raise
        return turn

    @asynccontextmanager
    async def turn(self, keys: Keys, cost: int = 1, *, full: Exception | None = None) -> AsyncIterator[None]:
        """`full` is raised instead of `NoRoom`."""
        try:
            turn = await self.take(keys, cost)
        except NoRoom as error:
            raise full or error from None
        try:
            yield
        finally:
            turn.release()

    def _displace(self, keys: Keys) -> None:
        """Drop work that waits, to make room; `NoRoom` if nobody has clearly more than these keys."""

        def load(turn: Turn) -> int:
            return max(self._load[key] for key in turn.keys)

        # Among equals, the last in the queue has waited least.
        heaviest = max(reversed([*self._waiting()]), key=load, default=None)
        if heaviest is None or load(heaviest) <= heaviest.cost + max(self._load[key] for key in keys):
            raise NoRoom
        self._leave(heaviest)
        heaviest.granted.set_exception(NoRoom())

    def _waiting(self) -> Iterator[Turn]:
        for queue in self._queues.values():
            yield from (turn for turn in queue if not turn.granted.done())

    def _start(self) -> None:
        while turn := self._next():
            first = turn.keys[0]
            queue = self._queues.pop(first)
            queue.popleft()
            if queue:
                self._queues[first] = queue  # behind all others
            turn.is_running = True
            self._count(self._running, turn, turn.cost)
            self.running += turn.cost
            if not turn.granted.done():  # else it was cancelled, and is about to be released
                turn.granted.set_result(None)

    def _next(self) -> Turn | None:
        """The first in line of those who have less than their share."""
        for queue in self._queues.values():
            turn = queue[0]
            if all(self._fits(key, turn.cost, share) for key, share in zip(turn.keys, self._shares, strict=False)):
                fits = not self.running or self.running + turn.cost <= self._at_once
                return turn if fits else None
        return None

    def _fits(self, key: Hashable, cost: int, share: int) -> bool:
        running = self._running[key]
        return not running or running + cost <= share

    def _release(self, turn: Turn) -> None:
        self._count(self._running, turn, -turn.cost)
        self._count(self._load, turn, -turn.cost)
        self.running -= turn.cost
        self.load -= turn.cost
        self._start()

    def _leave(self, turn: Turn) -> None:
        """The queue. One that was displaced has left before."""
        queue = self._queues.get(turn.keys[0])
        if queue is None or turn not in queue:
            return
        queue.remove(turn)
        if not queue:
            del self._queues[turn.keys[0]]
        self._count(self._load, turn, -turn.cost)
        self.load -= turn.cost
        self._start()  # it may have held up others

    @staticmethod
    def _count(counter: Counter[Hashable], turn: Turn, cost: int) -> None:
        for key in {*turn.keys}:
            counter[key] += cost
            if not counter[key]:
                del counter[key]
