"""Running many small tasks, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

CONCURRENCY = 8
"""How many files of a tree are worked on at the same time."""


async def for_each(
    work: Callable[[T], Awaitable[object]], items: Iterable[T], concurrency: int = CONCURRENCY
) -> None:
    """Call `work` for every item, with at most `concurrency` calls at a time.

    After a failure no further call begins. The first failure is raised once the running calls have ended. A
    cancellation cancels them.
    """
    remaining = iter(items)
    failed = False

    async def worker() -> None:
        nonlocal failed
        for item in remaining:
            if failed:
                return
            try:
                await work(item)
            except BaseException:
                failed = True
                raise

    for error in await asyncio.gather(*(worker() for _ in range(concurrency)), return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end, even if the caller is cancelled; the cancellation is raised after that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    task.exception()  # retrieved, so that nothing is logged
    raise cancelled


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, however deeply nested."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
