"""Many small pieces of asynchronous work, and work that must not be broken off."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

AT_ONCE = 8
"""Files of a tree that are worked on at the same time."""


async def each(work: Callable[[T], Awaitable[None]], items: Iterable[T], at_once: int = AT_ONCE) -> None:
    """Do the work for all items, a few at a time.

    After a failure nothing more is begun; it is raised when what runs has ended.
    """
    waiting = iter(items)
    failed = False

    async def worker() -> None:
        nonlocal failed
        for item in waiting:
            if failed:
                return
            try:
                await work(item)
            except BaseException:
                failed = True
                raise

    for error in await asyncio.gather(*(worker() for _ in range(at_once)), return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do the work to its end even if it is cancelled meanwhile; the cancellation counts afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen
        raise
