"""Resumable uploads to an object store: any cut, any death, and what it costs."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.model.errors import AlreadyExists, NotFound, ProviderUnavailable, TooLarge
from portico.model.paths import Path
from portico.providers.multipart import parts
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import MIB, MIN_PART_BYTES, UploadPart, max_file_bytes
from portico.providers.objects import part_store, resumable
from portico.providers.objects.part_store import PartLimits, UploadState
from portico.providers.objects.resumable import ResumableObjectUpload

from .key_store_fakes import KIB, LIMITS, PART, Bucket, FakeParts, FakeStore, Killed

CONTENT = random.Random(0).randbytes(5 * PART + 123)
KEY = "folder/file"
SERVICES = sorted(LIMITS)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 8 KiB and not MiB; all else in proportion."""
    for module in (parts, part_store):
        monkeypatch.setattr(module, "MIB", KIB)
        monkeypatch.setattr(module, "MIN_PART_BYTES", PART)
        monkeypatch.setattr(module, "MAX_PART_BYTES", 64 * KIB)
    monkeypatch.setattr(parts, "MAX_UPLOAD_MEMORY", 32 * KIB)
    monkeypatch.setattr(part_store, "_EQUAL_BYTES", 16 * KIB)


class Row:
    """The last saved state, by which any process goes on."""

    def __init__(self, upload: ResumableObjectUpload) -> None:
        self.upload = upload
        self.state, self.offset, self.saves = upload.state, upload.offset, 0
        self.dies_at = -1

    async def save(self, *, last: bool = False) -> None:
        self.saves += 1
        if self.saves == self.dies_at:
            raise Killed
        self.state, self.offset = self.upload.state, self.upload.offset

    async def send(self, content: bytes) -> None:
        await self.upload.append(stream(content), self.save)

    async def finish(self, alternatives: Iterator[Path] | None = None) -> str:
        return (await self.upload.finish(self.save, alternatives=alternatives)).name


async def stream(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        await asyncio.sleep(0)
        yield content[start : start + 1000]


async def begun(bucket: Bucket, **options: object) -> Row:
    return Row(await FakeStore(bucket).begin(KEY, **options))


def left_over(bucket: Bucket) -> list[str]:
    return [key for key in bucket.objects if key.startswith(".portico~")] + list(bucket.sessions)


@given(
    service=st.sampled_from(SERVICES),
    cuts=st.lists(st.integers(1, 3 * PART), max_size=12),
    known=st.booleans(),
    renamed=st.booleans(),
    listed=st.booleans(),
)
async def test_any_cut_gives_the_same_file(
    service: str, cuts: list[int], known: bool, renamed: bool, listed: bool
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        if listed:
            monkeypatch.setattr(resumable, "_MAX_PARTS", 2)
        await _send_in(cuts, service, known, renamed, listed)


async def _send_in(cuts: list[int], service: str, known: bool, renamed: bool, listed: bool) -> None:
    bucket = Bucket(LIMITS[service])
    row = await begun(bucket, size=len(CONTENT) if known else None, renamed=renamed)
    for size in cuts:
        row.upload = FakeStore(bucket).resumed(row.state)
        assert row.upload.offset == row.offset
        piece = CONTENT[row.offset : row.offset + size]
        await row.send(piece)
        assert row.offset == row.upload.offset
    row.upload = FakeStore(bucket).resumed(row.state)
    await row.send(CONTENT[row.offset :])
    assert KEY not in bucket.objects
    if not listed:
        assert bucket.written <= 2 * len(CONTENT)
    assert await row.finish() == "file"
    if not listed:
        assert bucket.read <= len(CONTENT)
    assert bucket.objects[KEY].content == CONTENT
    assert left_over(bucket) == []


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("size", [100, PART, 3 * PART + 100])
@pytest.mark.parametrize("renamed", [False, True], ids=["named", "renamed"])
@pytest.mark.parametrize("known", [False, True], ids=["size-unknown", "size-known"])
@pytest.mark.parametrize("listed", [False, True], ids=["in-state", "listed"])
async def test_a_death_at_any_request_or_save(
    service: str, size: int, renamed: bool, known: bool, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = CONTENT[:size]
    if listed:
        monkeypatch.setattr(resumable, "_MAX_PARTS", 2)

    async def attempt(bucket: Bucket, row: Row) -> None:
        while row.offset < size:
            await row.send(content[row.offset : row.offset + size // 2 + 50])
        await row.finish(others())

    for place in count(1):
        for offset in (0.0, 0.5, None):
            bucket = Bucket(LIMITS[service], dies_at=-1 if offset is None else place + offset)
            row = await begun(bucket, renamed=renamed, size=size if known else None)
            row.dies_at = place if offset is None else -1
            died = await _dies(attempt(bucket, row))
            row.dies_at = bucket.dies_at = -1
            row.upload = FakeStore(bucket).resumed(row.state)
            assert row.upload.offset == row.offset
            await attempt(bucket, row)
            assert [found.content for key, found in bucket.objects.items()] == [content]
            assert KEY in bucket.objects
            assert left_over(bucket) == []
            if not died and offset is None:
                return


async def _dies(work: Awaitable[None]) -> bool:
    try:
        await work
    except Killed:
        return True
    return False


def others() -> Iterator[Path]:
    return (Path.parse(f"folder/file ({number})") for number in count(1))


async def test_clean_requests_use_one_number_after_the_other() -> None:
    bucket = Bucket(LIMITS["s3"])
    row = await begun(bucket)
    for number in range(1, 21):
        row.upload = FakeStore(bucket).resumed(row.state)
        await row.send(bytes(PART))
        assert [part.number for part in UploadState.decode(row.state).parts] == list(range(1, number + 1))
    await row.finish()


async def test_a_number_that_a_former_writer_may_use_is_not_used_again() -> None:
    """A former writer is still sending its part when the next one begins."""
    bucket = Bucket(LIMITS["s3"])
    row = await begun(bucket)
    await row.send(CONTENT[:PART])
    sending, go = asyncio.Event(), asyncio.Event()

    class Slow(FakeParts):
        async def send(self, part: UploadPart) -> str:
            sending.set()
            await go.wait()
            return await super().send(part)

    former = FakeStore(bucket)
    former.part_store = lambda state: Slow(bucket, state)  # type: ignore[method-assign]
    slow = Row(former.resumed(row.state))

    async def save(*, last: bool = False) -> None:
        row.state = slow.upload.state

    late = asyncio.ensure_future(slow.upload.append(stream(bytes(3 * PART)), save))
    await sending.wait()
    row.upload = FakeStore(bucket).resumed(row.state)
    await row.send(CONTENT[row.offset :])
    go.set()
    await late
    await row.finish()
    assert bucket.objects[KEY].content == CONTENT


@pytest.mark.parametrize("service", ["s3", "azure", "gcs"])
async def test_the_cost_grows_with_the_request(service: str) -> None:
    bucket = Bucket(LIMITS[service])
    row = await begun(bucket, size=len(CONTENT))
    for start in range(0, len(CONTENT), 512):
        row.upload = FakeStore(bucket).resumed(row.state)
        before = len(bucket.requests)
        await row.send(CONTENT[start : start + 512])
        assert len(bucket.requests) - before <= 3 + PART // 512
    await row.finish()
    assert bucket.written <= 2 * len(CONTENT)
    assert bucket.objects[KEY].content == CONTENT


async def test_very_small_requests_keep_the_state_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "_MAX_TAILS", 10)
    bucket = Bucket(LIMITS["s3"])
    row = await begun(bucket)
    for byte in range(100):
        await row.send(CONTENT[byte : byte + 1])
        assert len(UploadState.decode(row.state).tails) <= 10
    await row.finish()
    assert bucket.objects[KEY].content == CONTENT[:100]
    assert left_over(bucket) == []


async def test_many_parts_keep_the_state_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "_MAX_PARTS", 10)
    bucket = Bucket(LIMITS["azure"])
    content = bytes(range(256)) * (PART // 256) * 100
    row = await begun(bucket, size=len(content))
    while row.offset < len(content):
        row.upload = FakeStore(bucket).resumed(row.state)
        assert row.upload.offset == row.offset
        await row.send(content[row.offset : row.offset + 3 * PART])
        state = UploadState.decode(row.state)
        assert len(state.parts) < 10
        assert len(state.lists) <= 10
    await row.finish()
    assert bucket.objects[KEY].content == content
    assert left_over(bucket) == []


async def test_parts_that_cannot_be_listed_stay_in_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "_MAX_PARTS", 2)
    bucket = Bucket(LIMITS["s3"])
    row = await begun(bucket, size=len(CONTENT))

    async def refuse(*_: object) -> None:
        raise ProviderUnavailable("Not now.", retry_after=1)

    with monkeypatch.context() as refused:
        refused.setattr(FakeStore, "put", refuse)
        await row.send(CONTENT[: 4 * PART])
    state = UploadState.decode(row.state)
    assert (len(state.parts), state.lists) == (4, [])
    row.upload = FakeStore(bucket).resumed(row.state)
    await row.send(CONTENT[row.offset :])
    await row.finish()
    assert bucket.objects[KEY].content == CONTENT


@pytest.mark.parametrize("service", SERVICES)
async def test_an_abandoned_upload_leaves_nothing(service: str) -> None:
    bucket = Bucket(LIMITS[service])
    row = await begun(bucket)
    await row.send(CONTENT[: PART + 100])
    await row.send(CONTENT[PART + 100 : PART + 200])
    assert left_over(bucket)
    await row.upload.abandon()
    await row.upload.abandon()
    assert left_over(bucket) == []
    row.upload = FakeStore(bucket).resumed(row.state)
    with pytest.raises(NotFound):
        await row.finish()
    row.upload = FakeStore(bucket).resumed(row.state)
    with pytest.raises(NotFound):
        await row.send(CONTENT[row.offset :])


async def test_a_taken_name_can_be_tried_again() -> None:
    bucket = Bucket(LIMITS["s3"])
    row = await begun(bucket, replace=False)
    await row.send(CONTENT)
    other = await begun(bucket)
    await other.finish()
    for _ in range(3):
        with pytest.raises(AlreadyExists):
            await row.finish()
    del bucket.objects[KEY]
    await row.finish()
    assert bucket.objects[KEY].content == CONTENT


async def test_numbers_that_run_out() -> None:
    bucket = Bucket(PartLimits(2, smallest=5 * KIB, equal=True))
    row = await begun(bucket)
    with pytest.raises(TooLarge):
        await row.send(bytes(60 * KIB))


async def test_memory_is_given_back() -> None:
    store = FakeStore(Bucket(LIMITS["s3"]))
    row = Row(await store.begin(KEY))
    await row.send(CONTENT[:100])
    await row.send(CONTENT[100:])
    assert store.memory.held == 0
    await row.finish()
    assert store.memory.held == 0


@pytest.mark.parametrize("service", SERVICES)
async def test_many_uploads_share_little_memory(service: str) -> None:
    """Parts with tails wait for memory while others do, and none waits forever."""
    bucket = Bucket(LIMITS[service])
    store = FakeStore(bucket)
    store.memory = MemoryBudget(40 * KIB)

    async def upload(number: int) -> None:
        row = Row(await store.begin(f"file-{number}"))
        chosen = random.Random(number)
        while row.offset < len(CONTENT):
            await row.send(CONTENT[row.offset : row.offset + chosen.choice((300, 3000, 2 * PART))])
        await row.finish()

    async with asyncio.timeout(60):
        await asyncio.gather(*(upload(number) for number in range(40)))
    assert {found.content for found in bucket.objects.values()} == {CONTENT}
    assert store.memory.held == 0


# The plan, with the real sizes


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("size", [None, 1, 2**30, 100 * 2**30, 500 * 2**30])
@pytest.mark.parametrize("request_bytes", [6 * MIB, 60 * MIB])
def test_the_numbers_suffice(
    equal: bool, size: int | None, request_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the requests are, and even if a process dies a hundred times."""
    monkeypatch.undo()
    limits = PartLimits(10_000, smallest=5 * MIB, equal=equal)
    state = UploadState("id", KEY, "text/plain", True, False, size, None)
    most = 140 * 2**30 if equal else max_file_bytes(10_000)
    total = most - 2**30 if size is None else size
    number, offset, tail, arrived = 1, 0, 0, 0
    while arrived < total:
        rest = min(request_bytes, total - arrived)
        arrived += rest
        tail += rest
        while tail >= (planned := limits.part_size(state, number, offset)):
            assert planned <= 96 * MIB
            number, offset, tail = number + 1, offset + planned, tail - planned
        if sendable := limits.sendable(state, number, offset, tail):
            number, offset, tail = number + 1, offset + sendable, tail - sendable
        if arrived % (total // 100 + 1) < request_bytes:
            number += 8
    assert number + (tail > 0) <= 10_001
    assert limits.part_size(state, 1, 0) >= MIN_PART_BYTES
