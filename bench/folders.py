"""Listing a local folder, against the bare reading of its names."""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable

from portico.paths import Path
from portico.providers.local import LocalProvider

FILES = 100_000
ROUNDS = 5


async def median(work: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def measure() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(FILES):
            os.close(os.open(os.path.join(folder, f"file-{number:07d}.txt"), os.O_CREAT | os.O_WRONLY))
        await asyncio.sleep(2.1)  # until the folder's mtime is old enough to be trusted

        async def scan() -> None:
            with os.scandir(folder) as entries:
                sum(1 for _ in entries)

        async def cold() -> None:
            provider = LocalProvider(folder)
            await provider.list_page(Path(), 250, None)
            await provider.close()

        provider = LocalProvider(folder)

        async def warm() -> None:
            await provider.list_page(Path(), 250, None)

        await warm()
        baseline = await median(scan)
        print(f"local folder of {FILES:,} entries, page of 250 (medians of {ROUNDS})")
        print(f"  bare os.scandir      {baseline * 1000:8.1f} ms")
        for name, work in (("first page, cold", cold), ("a page, warm", warm)):
            taken = await median(work)
            print(f"  {name:20} {taken * 1000:8.1f} ms   {taken / baseline:6.2f} × os.scandir")
        await provider.close()


if __name__ == "__main__":
    asyncio.run(measure())
