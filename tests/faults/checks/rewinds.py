"""Rewinds on each kind of storage: generated work of two actors, and a simulated encryption by one who empties the trash."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path as File
from typing import Any

from bench.buckets import BUCKET, Weed
from bench.workspace import Workspace

from portico.providers.contract.provider import Provider
from portico.providers.s3.provider import S3Provider
from portico.runtime.tasks import for_each
from portico.store.schema import migrate

from ...conformance.harness import PROVIDERS
from ...conformance.rewind.worlds import Act, World, flaw_of, opened_world
from ..figures import Effort, Figure, Lines, none_of
from .trash_services import Calls, Request

_KINDS = ("local", "s3", "azure-blob", "azure-files", "gcs")
_ENCRYPTED = ("local", "s3", "s3-versions", "seaweedfs", "seaweedfs-versions")
"""The test server of `s3` takes too long for thousands of files; SeaweedFS is a real store."""
_FEW = ("s3", "s3-versions")
_AT_ONCE = 8


def _migrated(folder: File) -> File:
    file = folder / "migrated.db"
    migrate(f"sqlite:///{file}")
    return file


async def generated(effort: Effort, kind: str) -> list[Figure]:
    """In every other case, the two have folders of their own."""
    cases, folder = effort.cases or effort.of(2, 5000), effort.new_folder()
    migrated = _migrated(folder)
    wrong: list[str] = []
    async with PROVIDERS[kind](Request(folder)) as harness:  # type: ignore[arg-type]
        for seed in range(cases):
            if flaw := await flaw_of(harness, migrated, folder, seed, apart=seed % 2 == 0):
                wrong.append(flaw)
                effort.say(f"{kind}: {flaw}")
            if seed % 100 == 99:
                effort.say(f"{kind}: {seed + 1:,} cases")
    return [none_of(f"{kind}: generated cases that were not rewound", cases, wrong)]


@asynccontextmanager
async def _storage(kind: str, folder: File) -> AsyncIterator[Provider]:
    if not kind.startswith("seaweedfs"):
        async with PROVIDERS[kind](Request(folder)) as harness:  # type: ignore[arg-type]
            yield harness.open()
        return
    with closing(Workspace()) as work:
        weed = Weed(work)
        try:
            if kind.endswith("-versions"):
                weed.client().put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
            options: dict[str, Any] = weed.s3
            yield S3Provider(**options)
        finally:
            weed.stop()


async def encrypted(effort: Effort, kind: str) -> list[Figure]:
    """Half of the files are written over; the others are deleted, each after a new one was stored beside it."""
    number = effort.cases or effort.of(20, 20 if kind in _FEW else 10_000)
    files, folder, calls = range(number), effort.new_folder(), Calls()
    async with (
        _storage(kind, folder) as provider,
        opened_world(provider, _migrated(folder), folder) as world,
        calls.counted(),
    ):
        await _all(world, [Act("owner", "upload", _name(number), content=_content(number)) for number in files])
        before = await world.tree()
        await _encrypt(world, files)
        began, counted = time.monotonic(), calls.number
        rewind = await world.rewind(user="thief")
        each, spent = (calls.number - counted) / len(files), time.monotonic() - began
        effort.say(f"{kind}: rewound {len(files):,} files in {spent:.0f} s, {each:.1f} requests a file")
        after = await world.tree()
    wrong = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    return [
        none_of(f"{kind}: encrypted files that are not as before", len(files), wrong),
        none_of(f"{kind}: places left alone", len(files), [str(left) for left in rewind.left_alone]),
    ]


async def _encrypt(world: World, files: range) -> None:
    half = len(files) // 2
    await _all(world, [Act("thief", "upload", _name(number), content=b"evil") for number in files[:half]])
    await _all(world, [Act("thief", "upload", f"{_name(number)}.enc", content=b"evil") for number in files[half:]])
    await _all(world, [Act("thief", "delete", _name(number)) for number in files[half:]])
    await world.empty_trash("thief")


async def _all(world: World, acts: list[Act]) -> None:
    async def act(each: Act) -> None:
        outcome = await world.act(each)
        assert outcome == "done", (each, outcome)

    await for_each(act, acts, _AT_ONCE)


def _name(number: int) -> str:
    return f"/{number % 50}/{number}.txt"


def _content(number: int) -> bytes:
    return f"content {number} ".encode() * (1 + number % 97)


LINES: Lines = {
    **{f"rewind-{kind}": partial(generated, kind=kind) for kind in _KINDS},
    **{f"rewind-encryption-{kind}": partial(encrypted, kind=kind) for kind in _ENCRYPTED},
}
