"""The page is made once, off the event loop, for the first browser that asks."""

import asyncio
import threading

import pytest

from portico.api.assets import LazyPage, WebPage


class Maker:
    def __init__(self) -> None:
        self.threads: list[int] = []
        self.failures = 0

    def __call__(self) -> WebPage:
        self.threads.append(threading.get_ident())
        if self.failures:
            self.failures -= 1
            raise OSError("no descriptor left")
        return WebPage("client", "")


async def test_many_at_once_share_one_page_that_a_thread_makes() -> None:
    maker = Maker()
    page = LazyPage(maker)
    first, *others = await asyncio.gather(*[page.get() for _ in range(5)])
    assert all(other is first for other in others)
    assert await page.get() is first
    assert len(maker.threads) == 1
    assert threading.get_ident() not in maker.threads


async def test_a_failure_is_not_kept() -> None:
    maker = Maker()
    maker.failures = 1
    page = LazyPage(maker)
    with pytest.raises(OSError, match="descriptor"):
        await page.get()
    assert (await page.get()).index.content
