"""Many small pieces of asynchronous work."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 8
"""Files of a tree that are worked on at the same time."""


async def each(work: Callable[[T], Awaitable[None]], items: Iterable[T], at_once: int = AT_ONCE) -> None:
    """Do the work for all items, a few at a time.

    After a failure nothing more is begun; it is raised when what runs has ended. A cancellation ends what runs.
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
