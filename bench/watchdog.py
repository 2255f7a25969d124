"""A watchdog on the event loop, from outside: it asks for `/healthz` all the time and notes the longest answer."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from bench.load import Target, request
from portico.model.paths import Path
from portico.providers.local.provider import LocalProvider

_PAUSE = 0.005


class Heart:
    longest = 0.0
    """Seconds; known once the watch is over."""


@contextmanager
def pulses(target: Target) -> Iterator[Heart]:
    """Watch, in a process of its own, for as long as the block runs."""
    context = get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_watch, args=(target, theirs))
    process.start()
    ours.recv()  # it has had its first answer
    heart = Heart()
    try:
        yield heart
    finally:
        ours.send("enough")
        heart.longest = ours.recv()
        process.join()


def _watch(target: Target, pipe: Any) -> None:
    content = request("GET", "/healthz")
    longest = 0.0
    with target.connect() as connection:
        connection.sendall(content)
        connection.recv(2**16)
        pipe.send("ready")
        while not pipe.poll(_PAUSE):
            began = time.perf_counter()
            connection.sendall(content)
            if not connection.recv(2**16):
                break
            longest = max(longest, time.perf_counter() - began)
    pipe.send(longest)


def longest_gap(folder: str) -> float:
    """The same from inside: seconds by which a tick of 5 ms came late while a folder was first listed."""
    return asyncio.run(_longest_gap(folder))


async def _longest_gap(folder: str) -> float:
    provider = LocalProvider(folder)
    listing = asyncio.ensure_future(provider.list_page(Path(), 250, None))
    longest = 0.0
    while not listing.done():
        began = time.perf_counter()
        await asyncio.sleep(_PAUSE)
        longest = max(longest, time.perf_counter() - began - _PAUSE)
    await listing
    await provider.close()
    return longest
