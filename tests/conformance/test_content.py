import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from portico.drive.drive import OnConflict
from portico.model.entries import Entry
from portico.model.errors import AlreadyExists, Changed, IsAFolder, NotAFolder, NotFound, RangeNotSatisfiable
from portico.model.paths import Path
from portico.providers.contract.provider import Provider

from ..recorded_drive import RecordedDrive
from .actions import at, content, exists, names, noise, pieces, put, walk
from .harness import Harness

SIZES = {
    "empty": (0, 0),
    "one-byte": (0, 1),
    "part-less-one": (1, -1),
    "part": (1, 0),
    "part-and-one": (1, 1),
    "several-parts": (3, 7),
}
"""Parts and bytes beyond them."""


class Broken(Exception):
    """The client went away."""


async def broken(content: bytes) -> AsyncIterator[bytes]:
    async for piece in pieces(content):
        yield piece
    raise Broken


@pytest.mark.both_roots
async def test_a_file_is_found_and_nothing_else(provider: Provider, drive: RecordedDrive, root: Path) -> None:
    written = await put(drive, "f/file", b"content")
    found = await provider.find_file(at("f/file").under(root))
    assert found
    assert (found.name, found.size, found.etag) == ("file", 7, written.etag)
    for path in ("f", "missing", "missing/file", "f/file/below"):
        assert await provider.find_file(at(path).under(root)) is None


@pytest.mark.both_roots
async def test_a_file_is_written_and_read(drive: RecordedDrive) -> None:
    for name in ("file", "f/file"):
        written = await put(drive, name, b"content")
        assert await content(drive, name) == b"content"
        known = await drive.stat(at(name))
        assert (known.name, known.size, known.etag) == ("file", 7, written.etag)
    assert await names(drive) == ["f", "file"]
    assert await names(drive, "f") == ["file"]


async def test_bytes_in_are_bytes_out(drive: RecordedDrive, harness: Harness) -> None:
    for parts, more in SIZES.values():
        data = noise(parts * harness.part + more)
        written = await put(drive, "f/file", data)
        assert await content(drive, "f/file") == data
        assert (written.name, written.is_folder, written.size) == ("file", False, len(data))
        known = await drive.stat(at("f/file"))
        assert (known.size, known.etag) == (len(data), written.etag)
        assert known.etag


async def test_pieces_of_any_size_make_one_file(drive: RecordedDrive, harness: Harness) -> None:
    async def cut(data: bytes, step: int, between: bytes | None) -> AsyncIterator[bytes]:
        for start in range(0, len(data), step):
            yield data[start : start + step]
            if between is not None:
                yield between

    large, small = noise(harness.part + 5), noise(2000)
    for data, step, between in ((large, len(large), None), (small, 1, None), (small, 1, b"")):
        await drive.write(at("file"), cut(data, step, between), "text/plain")
        assert await content(drive, "file") == data


async def test_ranges(drive: RecordedDrive, harness: Harness) -> None:
    part = harness.part
    data = noise(2 * part + 10)
    size = len(data)
    await put(drive, "file", data)
    for start, stop in (
        *((0, 1), (0, size), (1, 2), (part - 1, part + 1), (part, 2 * part), (size - 1, size)),
        *((0, None), (5, None), (part + 1, None), (size - 1, None), (size - 2, size + 100)),
    ):
        assert await content(drive, "file", start, stop) == data[start:stop]
    download = await drive.read(at("file"), 3, size + 100)
    assert (download.start, download.stop, download.entry.size) == (3, size, size)
    await download.chunks.aclose()


async def test_a_range_behind_the_end(drive: RecordedDrive) -> None:
    await put(drive, "file", b"12345")
    with pytest.raises(RangeNotSatisfiable) as caught:
        await drive.read(at("file"), 6)
    assert caught.value.size == 5


async def test_a_download_may_be_abandoned(drive: RecordedDrive, harness: Harness) -> None:
    await put(drive, "file", noise(2 * harness.part))
    untouched = await drive.read(at("file"))
    await untouched.chunks.aclose()
    begun = await drive.read(at("file"))
    assert await anext(begun.chunks)
    await begun.chunks.aclose()


async def test_another_version_is_recognised_by_its_etag(drive: RecordedDrive) -> None:
    first = await put(drive, "file", b"first")
    download = await drive.read(at("file"), etag=first.etag)
    async with aclosing(download.chunks) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"first"
    assert download.entry.etag == first.etag
    second = await put(drive, "file", b"other")
    assert second.etag != first.etag
    with pytest.raises(Changed):
        await drive.read(at("file"), etag=first.etag)


async def test_reading_what_is_no_file(drive: RecordedDrive) -> None:
    await put(drive, "folder/file")
    for path in ("missing", "folder/missing", "folder/file/below", "missing/below"):
        with pytest.raises(NotFound):
            await drive.read(at(path))
    for path in ("folder", "/"):
        with pytest.raises(IsAFolder):
            await drive.read(at(path))


async def test_the_content_type(drive: RecordedDrive, harness: Harness) -> None:
    written = await drive.write(at("report.pdf"), pieces(b"x"), "text/x-own")
    expected = "text/x-own" if harness.keeps_types else "application/pdf"
    known = await drive.stat(at("report.pdf"))
    download = await drive.read(at("report.pdf"))
    await download.chunks.aclose()
    assert {written.content_type, known.content_type, download.entry.content_type} == {expected}


@pytest.mark.parametrize("size", ["empty", "part", "several-parts"])
async def test_a_body_that_breaks_leaves_nothing(drive: RecordedDrive, harness: Harness, size: str) -> None:
    parts, more = SIZES[size]
    data = noise(parts * harness.part + more)
    await put(drive, "kept/old", b"old")
    for path, choice in (
        ("kept/old", OnConflict.REPLACE),
        ("kept/old", OnConflict.RENAME),
        ("missing/new", OnConflict.FAIL),
    ):
        with pytest.raises(Broken):
            await drive.write(at(path), broken(data), "text/plain", choice)
    assert await names(drive) == ["kept"]
    assert await names(drive, "kept") == ["old"]
    assert await content(drive, "kept/old") == b"old"


async def test_a_cancelled_write_leaves_nothing(drive: RecordedDrive, harness: Harness) -> None:
    await put(drive, "old", b"old")
    halfway = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        async for piece in pieces(noise(harness.part + 1)):
            yield piece
        halfway.set()
        await asyncio.Event().wait()

    for path in ("old", "new/new"):
        halfway.clear()
        task = asyncio.ensure_future(drive.write(at(path), endless(), "text/plain"))
        await halfway.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await names(drive) == ["old"]
    assert await content(drive, "old") == b"old"


async def test_nothing_is_seen_before_the_last_piece(drive: RecordedDrive, harness: Harness) -> None:
    await put(drive, "old", b"old")
    data = noise(harness.part + 1)

    async def watched() -> AsyncIterator[bytes]:
        async for piece in pieces(data):
            yield piece
        assert await names(drive) == ["old"]
        assert await content(drive, "old") == b"old"

    await drive.write(at("old"), watched(), "text/plain")
    assert await content(drive, "old") == data
    await put(drive, "old", b"old")
    await drive.write(at("a/b/new"), watched(), "text/plain")
    assert await content(drive, "a/b/new") == data


async def test_a_file_may_be_kept(drive: RecordedDrive, harness: Harness) -> None:
    await put(drive, "file", b"old")
    for size in (3, harness.part + 1):
        # What happened and not what somebody may do: that would read like a missing right.
        with pytest.raises(AlreadyExists, match=r"^'file' .* or set onConflict to replace or rename\.$"):
            await put(drive, "file", noise(size), OnConflict.FAIL)
    await put(drive, "new", b"new", OnConflict.FAIL)
    assert await content(drive, "file") == b"old"
    assert await content(drive, "new") == b"new"


async def test_a_renamed_file_keeps_both(drive: RecordedDrive) -> None:
    for expected in (
        ["a.b.txt", "a.b (1).txt", "a.b (2).txt"],
        [".dot", ".dot (1)", ".dot (2)"],
        ["plain", "plain (1)", "plain (2)"],
    ):
        for name in expected:
            assert (await put(drive, expected[0], name.encode(), OnConflict.RENAME)).name == name
        assert [await content(drive, name) for name in expected] == [name.encode() for name in expected]


@pytest.mark.drive_alone
async def test_a_free_name_is_found_with_few_questions(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: the 41st asks no 41 times before its body is read."""
    async with asyncio.TaskGroup() as group:
        for number in range(41):
            group.create_task(put(drive, f"f/scan ({number}).pdf" if number else "f/scan.pdf"))
    asked: list[Path] = []
    stat = provider.stat

    async def counted(path: Path) -> Entry:
        asked.append(path)
        return await stat(path)

    monkeypatch.setattr(provider, "stat", counted)
    assert (await put(drive, "f/scan.pdf", b"new", OnConflict.RENAME)).name == "scan (41).pdf"
    assert len(asked) <= 14
    asked.clear()
    await put(drive, "source", b"new")
    copied = await drive.copy(at("source"), at("f/scan.pdf"), OnConflict.RENAME)
    assert copied == at("f/scan (42).pdf")
    assert len(asked) <= 17  # two of them note what the copy has left


async def test_a_write_tells_the_entry_that_is_listed(drive: RecordedDrive, harness: Harness) -> None:
    await put(drive, "f/file.txt", b"old")
    for size in (0, 3, harness.part + 1):
        reported = await put(drive, "f/file.txt", noise(size), OnConflict.RENAME)
        (listed,) = [entry for page in await walk(drive, "f") for entry in page if entry.name == reported.name]
        assert (reported.name, reported.is_folder, reported.size) == (listed.name, False, size)
        assert listed.size == size
        assert reported.modified is not None


async def test_one_of_many_writers_wins_where_nothing_may_be_replaced(drive: RecordedDrive, harness: Harness) -> None:
    bodies = [noise(harness.part // 8 + number, number) for number in range(12)]
    outcomes = await asyncio.gather(
        *(put(drive, "f/file", body, OnConflict.FAIL) for body in bodies), return_exceptions=True
    )
    winners = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
    losers = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [type(loser) for loser in losers] == [AlreadyExists] * 11
    assert await content(drive, "f/file") == bodies[winners[0]]
    assert await names(drive, "f") == ["file"]


async def test_many_writers_who_rename_all_win(drive: RecordedDrive) -> None:
    bodies = [noise(1000, number) for number in range(10)]
    written = await asyncio.gather(*(put(drive, "f/file", body, OnConflict.RENAME) for body in bodies))
    assert sorted(await names(drive, "f")) == sorted(entry.name for entry in written)
    for entry, body in zip(written, bodies, strict=True):
        assert await content(drive, f"f/{entry.name}") == body


async def test_readers_see_whole_versions_while_writers_replace(drive: RecordedDrive, harness: Harness) -> None:
    bodies = [noise(harness.part + number, number) for number in range(4)]
    await put(drive, "file", bodies[0])
    writers = [asyncio.ensure_future(put(drive, "file", body)) for body in bodies]
    while not all(writer.done() for writer in writers):
        assert await content(drive, "file") in bodies
    written = [writer.result() for writer in writers]
    last = await content(drive, "file")
    assert last in bodies
    assert (await drive.stat(at("file"))).etag == written[bodies.index(last)].etag
    assert await names(drive) == ["file"]


async def test_a_file_never_replaces_a_folder(drive: RecordedDrive) -> None:
    await put(drive, "folder/inside", b"kept")
    await drive.make_folder(at("empty"))
    for path in ("folder", "empty"):
        for choice in (None, OnConflict.REPLACE, OnConflict.FAIL):
            with pytest.raises(IsAFolder):
                await put(drive, path, b"new", choice)
        assert (await put(drive, path, b"", OnConflict.RENAME)).name == f"{path} (1)"
    assert await content(drive, "folder/inside") == b"kept"
    assert (await drive.stat(at("empty"))).is_folder


@pytest.mark.drive_alone
@pytest.mark.both_roots
async def test_the_root_is_a_folder_even_before_it_holds_anything(drive: RecordedDrive) -> None:
    for choice in (None, *OnConflict):
        with pytest.raises(IsAFolder):
            await put(drive, "/", b"new", choice)
    assert await names(drive) == []


async def test_a_file_on_the_way_is_not_a_folder(drive: RecordedDrive) -> None:
    await put(drive, "a/file", b"kept")
    for path in ("a/file/new", "a/file/b/c/new"):
        for choice in (None, *OnConflict):
            with pytest.raises(NotAFolder):
                await put(drive, path, b"new", choice)
    assert await content(drive, "a/file") == b"kept"
    assert not await exists(drive, "a/file/new")


async def test_small_files_are_read_together_or_not_at_all(drive: RecordedDrive) -> None:
    files = {"a": b"1", "sub/b": b"", "sub/c": b"333", "large": bytes(drive.small_file + 1)}
    for name, data in files.items():
        await put(drive, f"small/{name}", data)
    paths = [at(f"small/{name}") for name in [*files, "gone", "sub"]]
    expected = [(data, len(data)) if len(data) <= drive.small_file else None for data in files.values()]
    assert await drive.read_small(paths, len) == ([*expected, None, None] if drive.small_file else [None] * len(paths))
