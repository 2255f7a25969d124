"""Threads for slow work, with a short line in front of them that is fair between those who wait in it."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")

Keys = tuple[bytes, ...]
"""Whose work it is. Turns go round by the first; under all of them it is counted what somebody takes."""


class LaneFull(Exception):
    """There is no room, or somebody who had taken less was given the place."""


@dataclass(eq=False, slots=True)
class _Work:
    keys: Keys
    call: Callable[[], Any]
    outcome: asyncio.Future[Any]


class Lane:
    """`places` work at once and `room` wait, round robin by user.

    With `shares`, nobody has more than so many inside under the key at the same position. In a full lane, the
    one with the most inside makes way for one with less.
    """

    def __init__(
        self,
        name: str,
        places: int,
        room: int,
        *,
        shares: tuple[int, ...] = (),
        prepare: Callable[[], object] | None = None,
    ) -> None:
        self._threads = ThreadPoolExecutor(places, thread_name_prefix=name, initializer=prepare)
        self._places = places
        self._room = room
        self._shares = shares
        self._running: set[_Work] = set()
        self._lines: dict[bytes, deque[_Work]] = {}
        """What waits, by user, in the order of their turns."""

    @property
    def inside(self) -> int:
        return len(self._running) + sum(map(len, self._lines.values()))

    async def run(self, keys: Keys, call: Callable[[], Result]) -> Result:
        taken = Counter(key for work in (*self._running, *self._waiting()) for key in {*work.keys})
        if any(taken[key] >= share for key, share in zip(keys, self._shares, strict=False)):
            raise LaneFull
        if self.inside >= self._places + self._room:
            self._make_room(taken, keys)
        work = _Work(keys, call, asyncio.get_running_loop().create_future())
        self._lines.setdefault(keys[0], deque()).append(work)
        self._start()
        try:
            result: Result = await work.outcome
            return result
        finally:
            self._remove(work)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _waiting(self) -> Iterator[_Work]:
        for line in self._lines.values():
            yield from line

    def _make_room(self, taken: Counter[bytes], keys: Keys) -> None:
        def load(work: _Work) -> int:
            return max(taken[key] for key in work.keys)

        # Of those who take as much, the last in the line has waited the least.
        heaviest = max(reversed([*self._waiting()]), key=load, default=None)
        if heaviest is None or load(heaviest) <= 1 + max(taken[key] for key in keys):
            raise LaneFull
        self._remove(heaviest)
        if not heaviest.outcome.done():
            heaviest.outcome.set_exception(LaneFull())

    def _remove(self, work: _Work) -> None:
        line = self._lines.get(work.keys[0])
        if line is not None and work in line:
            line.remove(work)
            if not line:
                del self._lines[work.keys[0]]

    def _start(self) -> None:
        while self._lines and len(self._running) < self._places:
            user, line = next(iter(self._lines.items()))
            work = line.popleft()
            del self._lines[user]
            if line:
                self._lines[user] = line  # behind all others
            if work.outcome.done():
                continue
            self._running.add(work)
            loop = work.outcome.get_loop()

            def ended(done: Future[Any], work: _Work = work, loop: asyncio.AbstractEventLoop = loop) -> None:
                with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                    loop.call_soon_threadsafe(self._end, work, done)

            self._threads.submit(work.call).add_done_callback(ended)

    def _end(self, work: _Work, done: Future[Any]) -> None:
        """The thread is free again, whether or not somebody still waits for what it found."""
        self._running.discard(work)
        if not work.outcome.done():
            if done.cancelled():
                work.outcome.cancel()
            elif error := done.exception():
                work.outcome.set_exception(error)
            else:
                work.outcome.set_result(done.result())
        self._start()
