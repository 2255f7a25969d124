"""A watchdog on the event loop, from outside: it asks for `/healthz` all the time and notes the longest answer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from bench.load import Target, request

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
