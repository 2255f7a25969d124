"""A million generated cases: no crash, no hang, no escape, and the same result however the input is cut."""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from ..figures import Effort, Figure, Lines, none_of
from ..fuzzing import multipart, paths

BATCH = 10_000
Fuzz = Callable[[int, int], list[str]]


async def _fuzzed(effort: Effort, what: str, fuzz: Fuzz, short: int) -> list[Figure]:
    if not effort.long:
        return [none_of(what, short, fuzz(0, short))]
    batches = 100
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(2, spawned.cpu_count()), mp_context=spawned) as pool:
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(*(loop.run_in_executor(pool, fuzz, seed, BATCH) for seed in range(batches)))
    return [none_of(what, batches * BATCH, [each for wrong in found for each in wrong])]


async def multipart_reader(effort: Effort) -> list[Figure]:
    return await _fuzzed(effort, "multipart bodies that crash, hang or depend on how they are cut", multipart, 3_000)


async def path(effort: Effort) -> list[Figure]:
    return await _fuzzed(effort, "paths that crash, escape or change when they are written otherwise", paths, 10_000)


LINES: Lines = {"fuzz-multipart": multipart_reader, "fuzz-path": path}
