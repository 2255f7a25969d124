"""Uploads in several requests: however they are cut, and wherever a process dies, the file is whole or invisible."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from portico.model.errors import AlreadyExists, IsAFolder, NotAFolder, NotFound
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import ResumableUpload, WriteOptions
from portico.providers.objects import resumable as resumable

from .actions import at, noise, pieces
from .harness import Harness

TYPE = "application/octet-stream"
TARGET = at("inbox/new/report.bin")


class Killed(Exception):
    """The process dies: nothing after this happens."""


class Row:
    """What a database row is to an upload: the last saved state. A process can be killed at any save."""

    def __init__(self, upload: ResumableUpload) -> None:
        self.upload = upload
        self.state = upload.state
        self.offset = upload.offset
        self.saves = 0
        self.killed_at = -1
        self.let_go = False

    async def save(self, *, last: bool = False) -> None:
        assert not self.let_go, "the row may have another owner"
        self.let_go = last
        self.saves += 1
        if self.saves == self.killed_at:
            raise Killed
        self.state, self.offset = self.upload.state, self.upload.offset

    async def append(self, chunks: AsyncIterator[bytes]) -> None:
        try:
            await self.upload.append(chunks, self.save)
        finally:
            self.let_go = False

    async def resumed(self, provider: Provider) -> ResumableUpload:
        self.upload = await provider.resume_upload(self.state)
        assert self.upload.offset >= self.offset, "what was saved is never lost"
        return self.upload


async def begun(
    provider: Provider, path: Path = TARGET, *, size: int | None = None, renamed: bool = False, **options: Any
) -> Row:
    chosen = WriteOptions(at_most=size, **options)
    return Row(await provider.begin_upload(path, TYPE, chosen, renamed=renamed))


async def sent(row: Row, content: bytes, *sizes: int) -> None:
    """Append what is missing of the content, cut into pieces of these sizes; the last size is repeated."""
    cuts = iter(sizes)
    size = 0
    while (start := row.upload.offset) < len(content):
        size = next(cuts, size)
        await row.append(pieces(content[start : start + size]))
        assert row.upload.offset == row.offset == min(start + size, len(content))


async def stored(provider: Provider, path: Path = TARGET) -> bytes:
    download = await provider.read(path)
    async with aclosing(download.chunks) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def exists(provider: Provider, path: Path = TARGET) -> bool:
    try:
        await provider.stat(path)
    except NotFound:
        return False
    return True


async def cut_off(content: bytes) -> AsyncIterator[bytes]:
    async for piece in pieces(content):
        yield piece
    raise ConnectionResetError


def numbered(path: Path = TARGET) -> Iterator[Path]:
    return (path.parent.child(f"report ({number}).bin") for number in count(1))


@pytest.mark.parametrize(
    ("known", "parts_in_state"), [(True, 100), (False, 1)], ids=["size-known", "size-unknown-parts-listed"]
)
async def test_any_cut_gives_the_same_file(
    provider: Provider, harness: Harness, monkeypatch: pytest.MonkeyPatch, known: bool, parts_in_state: int
) -> None:
    monkeypatch.setattr(resumable, "_MAX_PARTS", parts_in_state)
    content = noise(2 * harness.part + harness.part // 2)
    row = await begun(provider, size=len(content) if known else None)
    await sent(row, content, 1, 65_536, 300_000, harness.part + 1, 2 * harness.part, 99_999)
    assert not await exists(provider)
    entry = await row.upload.finish(row.save)
    assert (entry.name, entry.size, entry.is_folder) == (TARGET.name, len(content), False)
    assert entry.etag == (await provider.stat(TARGET)).etag
    assert await stored(provider) == content
    await row.upload.abandon()
    assert await stored(provider) == content


async def test_one_request_is_enough(provider: Provider, harness: Harness) -> None:
    content = noise(harness.part + 1)
    row = await begun(provider, size=len(content))
    await sent(row, content, len(content))
    await row.upload.finish(row.save)
    assert await stored(provider) == content


async def test_an_empty_file(provider: Provider) -> None:
    row = await begun(provider, size=0)
    assert (await row.upload.finish(row.save)).size == 0
    assert await stored(provider) == b""


async def test_small_requests_get_forward(provider: Provider, harness: Harness) -> None:
    content = noise(30_000)
    row = await begun(provider)
    for _ in range(10):
        other = harness.open()  # each request reaches another node
        try:
            upload = await row.resumed(other)
            await row.append(pieces(content[upload.offset : upload.offset + 3000]))
        finally:
            await other.close()
    assert row.offset == len(content)
    await (await row.resumed(provider)).finish(row.save)
    assert await stored(provider) == content


async def test_a_process_that_is_killed_at_any_save_loses_nothing(provider: Provider, harness: Harness) -> None:
    content = noise(2 * harness.part + 1000)
    for killed_at in range(1, 100):
        path = at(f"kills/{killed_at}")
        row = await begun(provider, path, size=len(content))
        row.killed_at = killed_at
        try:
            await sent(row, content, harness.part // 2, 2 * harness.part)
            await row.upload.finish(row.save)
        except Killed:
            assert not await exists(provider, path)
        other = harness.open()
        try:
            await row.resumed(other)
            await sent(row, content, len(content))
            await row.upload.finish(row.save)
            assert await stored(other, path) == content
        finally:
            await other.close()
        if row.saves < killed_at:
            return
    raise AssertionError("there is no end to the saves")


async def test_what_arrived_before_a_cut_is_kept(provider: Provider, harness: Harness) -> None:
    content = noise(harness.part + 70_000)
    row = await begun(provider, size=len(content))
    with pytest.raises(ConnectionResetError):
        await row.append(cut_off(content[:50_000]))
    assert row.offset == 50_000
    with pytest.raises(ConnectionResetError):
        await row.append(cut_off(content[50_000 : harness.part + 60_000]))
    assert row.offset == harness.part + 60_000
    await row.resumed(provider)
    await sent(row, content, len(content))
    await row.upload.finish(row.save)
    assert await stored(provider) == content


async def test_nothing_is_written_after_the_upload_was_taken_over(provider: Provider, harness: Harness) -> None:
    content = noise(3 * harness.part)
    row = await begun(provider, size=len(content))
    await sent(row, content[:1000], 1000)
    row.killed_at = row.saves + 1
    with pytest.raises(Killed):
        await row.upload.append(pieces(content[1000:]), row.save)
    newer = await row.resumed(provider)
    await sent(row, content, len(content))
    await newer.finish(row.save)
    assert await stored(provider) == content


@pytest.mark.parametrize("first", [0, 1000], ids=["nothing", "something"])
async def test_a_suspended_request_that_wakes_up_after_it_was_taken_over_harms_nothing(
    provider: Provider, harness: Harness, first: int
) -> None:
    """It has looked at the upload, but not yet written, when a newer request goes on."""
    content = noise(3 * harness.part)
    row = await begun(provider, size=len(content))
    if first:
        await sent(row, content[:first], first)
    suspended = await row.resumed(provider)
    await row.resumed(provider)
    await sent(row, content[: harness.part], harness.part)
    with pytest.raises(Killed):
        await suspended.append(pieces(b"other content"), _taken_over)
    newer = await row.resumed(provider)
    assert newer.offset == harness.part
    await sent(row, content, len(content))
    with pytest.raises(Killed):
        await suspended.append(pieces(b"other content"), _taken_over)
    await newer.finish(row.save)
    assert await stored(provider) == content


async def _taken_over(*, last: bool = False) -> None:
    raise Killed


async def test_finishing_may_be_repeated(provider: Provider, harness: Harness) -> None:
    content = noise(harness.part + 5)
    row = await begun(provider, replace=False)
    await sent(row, content, len(content))
    first = await row.upload.finish(row.save)
    other = harness.open()
    try:
        again = await (await row.resumed(other)).finish(row.save)
    finally:
        await other.close()
    assert (again.name, again.size, again.etag) == (first.name, first.size, first.etag)
    assert await stored(provider) == content


@pytest.mark.parametrize("size", [10, None], ids=["small", "parts"])
async def test_a_taken_name(provider: Provider, harness: Harness, size: int | None) -> None:
    content = noise(size or harness.part + 10)
    row = await begun(provider, replace=False)
    await sent(row, content, len(content))
    await provider.write(TARGET, pieces(b"first"), TYPE)
    with pytest.raises(AlreadyExists):
        await row.upload.finish(row.save)
    with pytest.raises(AlreadyExists):
        await row.upload.finish(row.save)
    await row.upload.abandon()
    assert await stored(provider) == b"first"


async def test_a_target_that_can_never_be_written_is_refused_at_once(provider: Provider) -> None:
    await provider.write(TARGET, pieces(b"first"), TYPE)
    with pytest.raises(AlreadyExists):
        await begun(provider, replace=False)
    with pytest.raises(IsAFolder):
        await begun(provider, TARGET.parent)
    with pytest.raises(NotAFolder):
        await begun(provider, TARGET.child("below"))


@pytest.mark.parametrize("size", [10, None], ids=["small", "parts"])
async def test_another_name_is_chosen_at_the_end(provider: Provider, harness: Harness, size: int | None) -> None:
    content = noise(size or harness.part + 10)
    row = await begun(provider, replace=False, renamed=True)
    await sent(row, content, len(content))
    await provider.write(TARGET, pieces(b"first"), TYPE)
    await provider.write(next(numbered()), pieces(b"second"), TYPE)
    entry = await row.upload.finish(row.save, alternatives=numbered())
    assert entry.name == "report (2).bin"
    other = harness.open()
    try:
        again = await (await row.resumed(other)).finish(row.save, alternatives=numbered())
    finally:
        await other.close()
    assert again.name == entry.name
    assert await stored(provider, TARGET.parent.child(entry.name)) == content
    assert await stored(provider) == b"first"
    page = await provider.list_page(TARGET.parent, 100, None)
    assert len(page.entries) == 3


async def test_an_abandoned_upload_is_gone(provider: Provider, harness: Harness) -> None:
    row = await begun(provider)
    await row.upload.abandon()  # nothing was sent yet
    await sent(row, noise(harness.part + 5), harness.part + 1, 4)
    await row.upload.abandon()
    await row.upload.abandon()
    assert not await exists(provider)
    with pytest.raises(NotFound):
        await (await row.resumed(provider)).finish(row.save)


@pytest.mark.parametrize("act", ["write", "upload"])
async def test_a_modification_time_is_kept(provider: Provider, act: str) -> None:
    moment = datetime(2019, 5, 4, 3, 2, 1, 123_000, tzinfo=UTC)
    actions: dict[str, Callable[[], Awaitable[object]]] = {
        "write": lambda: provider.write(TARGET, pieces(b"content"), TYPE, WriteOptions(modified=moment)),
        "upload": lambda: _uploaded(provider, moment),
    }
    await actions[act]()
    assert (await provider.stat(TARGET)).last_modified == "2019-05-04T03:02:01.123Z"


async def _uploaded(provider: Provider, moment: datetime) -> None:
    row = await begun(provider, modified=moment)
    await sent(row, b"content", 3)
    await row.upload.finish(row.save)
