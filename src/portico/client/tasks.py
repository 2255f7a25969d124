"""Performs steps with asyncio, in the caller's task and in some of its own."""

import asyncio
from typing import Any

from portico.client.steps import Alone, Ask, Need, Pause, Steps, T, Together, Work
from portico.client.streams import Streams


class Tasks:
    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._lock = asyncio.Lock()

    async def run(self, steps: Steps[T]) -> T:
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                need = steps.throw(error) if error else steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = error = None
            try:
                result = await self._perform(need)
            except BaseException as raised:
                error = raised

    async def _perform(self, need: Need) -> Any:
        match need:
            case Ask():
                return await self._streams.exchange(need)
            case Work(call):
                return await asyncio.to_thread(call)
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Alone(steps):
                async with self._lock:
                    return await self.run(steps)
            case Together():
                return await self._together(need)

    async def _together(self, need: Together) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(need.limit):
                    group.create_task(self._labour(need))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _labour(self, need: Together) -> None:
        while (steps := next(need.steps, None)) is not None:
            await self.run(steps)

    async def close(self) -> None:
        await self._streams.close()
