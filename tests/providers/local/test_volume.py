"""A folder that is not the connection's, such as an empty mount point, is neither read nor written."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.errors import ProviderUnavailable, Unavailable
from portico.providers.folders import volume_id
from portico.providers.local import confined_fs
from portico.providers.local.provider import LocalProvider

from .actions import at, content, names, put

CALLS: dict[str, Callable[[LocalProvider], Awaitable[object]]] = {
    "list_page": lambda provider: provider.list_page(at(""), 10, None),
    "list_page below": lambda provider: provider.list_page(at("folder"), 10, None),
    "stat": lambda provider: provider.stat(at("")),
    "read": lambda provider: provider.read(at("file")),
    "write": lambda provider: put(provider, "new", b"x"),
    "write large": lambda provider: put(provider, "new", *[b"x" * 2**20] * 3),
    "check_ancestors": lambda provider: provider.check_ancestors(at("folder")),
    "make_folder": lambda provider: provider.make_folder(at("new")),
    "delete": lambda provider: provider.delete(at("file")),
    "delete folder": lambda provider: provider.delete(at("folder"), recursive=True),
    "copy": lambda provider: provider.copy(at("file"), at("new")),
    "copy folder": lambda provider: provider.copy(at("folder"), at("new")),
    "move": lambda provider: provider.move(at("file"), at("new")),
    "check": lambda provider: provider.check(writable=False),
    "sweep": lambda provider: provider.sweep(),
}


@pytest.fixture
async def bound(provider: LocalProvider) -> LocalProvider:
    await put(provider, "file", b"content")
    await put(provider, "folder/file", b"content")
    provider.expect_volume(await provider.volume_id())
    await names(provider)
    return provider


@pytest.mark.parametrize("call", CALLS)
async def test_an_empty_mount_point_is_unavailable(
    bound: LocalProvider, top: Folder, tmp_path: Folder, call: str
) -> None:
    top.rename(tmp_path / "away")
    top.mkdir()
    with pytest.raises(ProviderUnavailable) as refusal:
        await CALLS[call](bound)
    assert refusal.value.retry_after
    assert str(top) in (refusal.value.cause or "")
    assert str(top) not in refusal.value.detail
    assert list(top.iterdir()) == []
    top.rmdir()
    (tmp_path / "away").rename(top)
    assert await content(bound, "file") == b"content"


async def test_another_share_in_its_place_is_unavailable(bound: LocalProvider, top: Folder, tmp_path: Folder) -> None:
    top.rename(tmp_path / "away")
    top.mkdir()
    other = volume_id.read_or_make(str(top))
    with pytest.raises(ProviderUnavailable, match="can't be used") as refusal:
        await names(bound)
    assert "a different volume id" in (refusal.value.cause or "")
    assert os.listdir(top) == [".portico~volume"]
    bound.expect_volume(other)
    assert await names(bound) == []


async def test_an_upload_is_not_committed_to_another_folder(
    bound: LocalProvider, top: Folder, tmp_path: Folder
) -> None:
    async def unmounted() -> object:
        yield b"x" * 2**21
        yield b"x" * 2**21
        top.rename(tmp_path / "away")
        top.mkdir()

    with pytest.raises(ProviderUnavailable):
        await bound.write(at("new"), unmounted(), "text/plain")  # type: ignore[arg-type]
    assert list(top.iterdir()) == []
    assert list((tmp_path / "away/.portico~staging").iterdir()) == []


async def test_the_id_is_read_again_after_a_while_only(
    bound: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device number may belong to another mount by then."""
    monkeypatch.setattr(confined_fs, "_TRUSTED_SECONDS", 1e9)
    bound.expect_volume(None)
    bound.expect_volume(await bound.volume_id())
    reads: list[int] = []
    read = volume_id.read

    def counted(folder: int) -> str | None:
        reads.append(folder)
        return read(folder)

    monkeypatch.setattr(volume_id, "read", counted)
    for _ in range(10):
        await names(bound)
    assert len(reads) == 1

    monkeypatch.setattr(confined_fs, "_TRUSTED_SECONDS", -1.0)
    bound.expect_volume(None)
    bound.expect_volume(await bound.volume_id())
    await names(bound)
    (top / ".portico~volume").unlink()
    with pytest.raises(ProviderUnavailable):
        await names(bound)


async def test_the_id_is_out_of_sight(bound: LocalProvider, top: Folder) -> None:
    assert (top / ".portico~volume").is_file()
    assert await names(bound) == ["folder", "file"]


async def test_an_id_stays_what_it_is(bound: LocalProvider, top: Folder) -> None:
    first = await bound.volume_id()
    assert first is not None
    assert (len(first), await bound.volume_id()) == (32, first)
    other = LocalProvider(str(top))
    assert await other.volume_id() == first
    await other.close()


def test_of_many_who_make_an_id_one_succeeds(top: Folder) -> None:
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda _: volume_id.read_or_make(str(top)), range(64)))
    assert len(found) == 1
    assert os.listdir(top) == [".portico~volume"]


def test_a_file_system_without_links(top: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "no links")

    monkeypatch.setattr(os, "link", refuse)
    assert volume_id.read_or_make(str(top)) == (top / ".portico~volume").read_text().strip()
    assert os.listdir(top) == [".portico~volume"]


def test_no_id_where_none_can_be_made(top: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert volume_id.read_or_make(str(top / "missing")) is None
    (top / "file").touch()
    assert volume_id.read_or_make(str(top / "file")) is None
    assert volume_id.damage(str(top / "missing")) is None
    assert volume_id.damage(str(top)) is None


def as_link(file: Folder) -> None:
    file.symlink_to("/etc/hostname")


def as_socket(file: Folder) -> None:
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(file.parent):  # the path may be too long
        server.bind(file.name)


DAMAGES: dict[str, Callable[[Folder], object]] = {
    "link": as_link,
    "socket": as_socket,
    "folder": Folder.mkdir,
    "fifo": os.mkfifo,
    "empty": Folder.touch,
    "nul": lambda file: file.write_bytes(b"a\0b"),
    "not UTF-8": lambda file: file.write_bytes(b"\xff" * 32),
    "too long": lambda file: file.write_text("0" * 33),
    "two lines": lambda file: file.write_text(f"{'0' * 32}\n{'0' * 32}\n"),
    "without end": lambda file: file.write_bytes(b"0" * 2**20),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("known", [True, False])
async def test_a_damaged_id_is_unavailable(bound: LocalProvider, top: Folder, damage: str, known: bool) -> None:
    file = top / ".portico~volume"
    expected = file.read_text().strip()
    file.unlink()
    DAMAGES[damage](file)
    bound.expect_volume(None)  # forget what was verified
    bound.expect_volume(expected if known else None)
    for call in (*CALLS.values(), *([] if known else [LocalProvider.volume_id])):
        with pytest.raises(ProviderUnavailable) as refusal:
            await call(bound)
        assert "volume id" in (refusal.value.cause or "")
        assert str(top) not in refusal.value.detail
    with pytest.raises(volume_id.Damaged):
        volume_id.read_or_make(str(top))
    assert volume_id.damage(str(top))


async def test_an_id_that_may_not_be_read_is_unavailable(
    bound: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await bound.volume_id()
    bound.expect_volume(None)
    bound.expect_volume(expected)
    number, opened = errno.EACCES, os.open

    def refuse(path: str, *args: Any, **options: Any) -> int:
        if path == volume_id.FILE:
            raise OSError(number, os.strerror(number))
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ProviderUnavailable) as refusal:
        await names(bound)
    assert "Permission denied" in (refusal.value.cause or "")
    number = errno.EMFILE  # says nothing about the file
    with pytest.raises(Unavailable):
        await names(bound)


async def test_descriptors_are_given_back(bound: LocalProvider, top: Folder, tmp_path: Folder) -> None:
    top.rename(tmp_path / "away")
    top.mkdir()

    async def all_calls() -> None:
        for call in CALLS.values():
            with pytest.raises(ProviderUnavailable):
                await call(bound)

    await all_calls()
    before = len(os.listdir("/proc/self/fd"))
    await asyncio.gather(*(all_calls() for _ in range(3)))
    assert len(os.listdir("/proc/self/fd")) == before
