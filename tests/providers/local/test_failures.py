"""Errors of the operating system become errors of Portico, without its words."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.entries import Entry
from portico.model.errors import (
    InvalidPath,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderUnavailable,
    StorageFull,
    Unavailable,
)
from portico.providers.local.provider import LocalProvider
from portico.providers.local.uploads import StagedFile

from .actions import at, content, names, put

FAILURES: dict[int, type[PorticoError]] = {
    errno.EACCES: ProviderRefused,
    errno.EPERM: ProviderRefused,
    errno.EROFS: ProviderRefused,
    errno.EMFILE: Unavailable,
    errno.ENFILE: Unavailable,
    errno.ENOMEM: Unavailable,
    errno.ESTALE: ProviderUnavailable,
    errno.EIO: ProviderFailed,
    errno.EUCLEAN: ProviderFailed,
}
FULL = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]


def failing(number: int) -> Callable[..., Any]:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number), "/private/place")

    return fail


@pytest.mark.parametrize("number", FAILURES, ids=errno.errorcode.get)
async def test_a_failing_open(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    await put(provider, "folder/file", b"kept")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing(number))
        for action in (
            lambda: names(provider),
            lambda: provider.stat(at("folder/file")),
            lambda: content(provider, "folder/file"),
            lambda: put(provider, "folder/file", b"new"),
            lambda: provider.make_folder(at("new")),
            lambda: provider.delete(at("folder"), recursive=True),
            lambda: provider.copy(at("folder"), at("new")),
            lambda: provider.move(at("folder"), at("new")),
            lambda: provider.sweep(),
        ):
            with pytest.raises(FAILURES[number]) as caught:
                await action()
            assert caught.value.cause
            assert os.strerror(number) in caught.value.cause
            assert os.strerror(number) not in caught.value.detail
            assert "/private" not in caught.value.detail
            assert (caught.value.retry_after is not None) == isinstance(caught.value, Unavailable | ProviderUnavailable)
    assert await names(provider) == ["folder"]
    assert await content(provider, "folder/file") == b"kept"


@pytest.mark.parametrize("number", FULL, ids=errno.errorcode.get)
async def test_a_full_disk(provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    await put(provider, "file", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", failing(number))
        for size in (1, 3 * 2**20):
            for path in ("file", "new", "made/new"):
                with pytest.raises(StorageFull):
                    await put(provider, path, b"x" * size)
    assert await names(provider) == ["file"]
    assert await content(provider, "file") == b"old"
    assert list(top.glob(".portico~staging/*")) == []


async def test_a_disk_that_is_full_only_later(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(provider, "file", b"old")
    genuine = os.writev
    room = [3 * 2**20]

    def filling(file: int, buffers: Sequence[bytes]) -> int:
        room[0] -= sum(map(len, buffers))
        return genuine(file, buffers) if room[0] >= 0 else failing(errno.ENOSPC)()

    monkeypatch.setattr(os, "writev", filling)
    with pytest.raises(StorageFull):
        await put(provider, "file", *[b"x" * 2**19] * 20)
    assert await content(provider, "file") == b"old"


@pytest.mark.parametrize("most", [1, 7, 1000, 2**16 + 1])
async def test_a_kernel_that_takes_a_part_only(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    write, writev = os.write, os.writev
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data[:most])))
    monkeypatch.setattr(os, "writev", lambda file, buffers: writev(file, [b"".join(buffers)[:most]]))
    pieces = [os.urandom(size) for size in (0, 1, 5, 1000, 0, 999, 3)]
    if most > 1000:
        pieces += [os.urandom(2**20), b"", os.urandom(2**16)]
    await put(provider, "file", *pieces)
    monkeypatch.undo()
    assert await content(provider, "file") == b"".join(pieces)


@pytest.mark.parametrize("most", [1000, 2**20])
async def test_a_copy_without_the_help_of_the_kernel(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    data = os.urandom(2**20 + 5)
    await put(provider, "file", data)
    write, writev = os.write, os.writev
    monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV))
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data[:most])))
    monkeypatch.setattr(os, "writev", lambda file, buffers: writev(file, [b"".join(buffers)[:most]]))
    await provider.copy(at("file"), at("copy"))
    monkeypatch.undo()
    assert await content(provider, "copy") == data


async def test_a_disk_that_hangs_holds_up_no_listing_and_no_download(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "file").write_bytes(b"content")
    hanging = threading.Event()
    commit = StagedFile.commit

    def stuck(staged: StagedFile) -> Entry:
        assert hanging.wait(20)
        return commit(staged)

    monkeypatch.setattr(StagedFile, "commit", stuck)
    uploads = [asyncio.create_task(put(provider, f"new/{number}", b"x")) for number in range(100)]
    try:
        async with asyncio.timeout(10):
            assert "file" in await names(provider)
            assert (await provider.stat(at("file"))).size == 7
            assert await content(provider, "file") == b"content"
        assert not any(upload.done() for upload in uploads)
    finally:
        hanging.set()
        await asyncio.gather(*uploads)
    assert len(await names(provider, "new")) == 100


async def test_many_small_pieces(provider: LocalProvider) -> None:
    pieces = [b"%d," % number for number in range(5000)]
    await put(provider, "file", *pieces)
    assert await content(provider, "file") == b"".join(pieces)


@pytest.mark.parametrize("there", ["nothing", "a file"])
async def test_a_missing_connection_folder(tmp_path: Folder, there: str) -> None:
    if there == "a file":
        (tmp_path / "storage").write_bytes(b"kept")
    provider = LocalProvider(str(tmp_path / "storage"))
    for action in (
        lambda: names(provider),
        lambda: names(provider, "folder"),
        lambda: provider.stat(at("file")),
        lambda: content(provider, "file"),
        lambda: put(provider, "file", b"new"),
        lambda: provider.make_folder(at("new")),
        lambda: provider.delete(at("file")),
        lambda: provider.copy(at("file"), at("new")),
        lambda: provider.sweep(),
    ):
        with pytest.raises(ProviderUnavailable) as caught:
            await action()
        assert str(tmp_path) not in caught.value.detail
        assert caught.value.retry_after
    assert (tmp_path / "storage").exists() == (there == "a file")
    await provider.close()


async def test_a_file_that_shrinks_while_it_is_read(provider: LocalProvider, top: Folder) -> None:
    await put(provider, "file", b"x" * 3 * 2**20)
    download = await provider.read(at("file"))
    assert await anext(download.chunks)
    os.truncate(top / "file", 2**20)
    with pytest.raises(ProviderFailed):
        await anext(download.chunks)


async def test_a_replaced_or_removed_file_is_read_to_its_end(provider: LocalProvider) -> None:
    data = os.urandom(3 * 2**20)
    await put(provider, "file", data)
    first, second = await provider.read(at("file")), await provider.read(at("file"))
    await put(provider, "file", b"new")
    assert b"".join([chunk async for chunk in first.chunks]) == data
    await provider.delete(at("file"))
    assert b"".join([chunk async for chunk in second.chunks]) == data


@pytest.mark.parametrize("seconds", [-(2**31), -1, 2**33, 2**34])
async def test_times_that_no_calendar_holds(provider: LocalProvider, top: Folder, seconds: int) -> None:
    await put(provider, "file", b"x")
    os.utime(top / "file", (seconds, seconds))
    entry = (await provider.list_page(at("/"), 10, None)).entries[0]
    assert entry.modified is not None
    assert 1970 <= entry.modified.year <= 9999


@pytest.mark.parametrize("size", [1, 2 * 2**20])
async def test_a_name_that_the_disk_cannot_hold_leaves_no_folders(
    provider: LocalProvider, top: Folder, size: int
) -> None:
    with pytest.raises(InvalidPath):
        await put(provider, f"a/b/{'x' * 300}", b"x" * size)
    assert not (top / "a").exists()


async def test_a_small_file_for_another_disk_is_refused_as_a_large_one_is(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "folder/first", b"x")

    def other_disk(*_: object) -> None:
        raise ProviderRefused("another disk")

    monkeypatch.setattr("portico.providers.local.uploads.check_same_disk", other_disk)
    await put(provider, "folder/file", b"x")  # it is not looked at
    monkeypatch.setattr(os, "rename", failing(errno.EXDEV))
    for size in (1, 2 * 2**20):
        with pytest.raises(ProviderRefused):
            await put(provider, "folder/file", b"x" * size)
