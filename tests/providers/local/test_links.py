"""Links, pipes, sockets and devices do not exist for users, and lead nowhere."""

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path as Folder

import pytest

from portico.model.errors import AlreadyExists, NotAFolder, NotFound, PorticoError
from portico.providers.local.provider import LocalProvider

from .actions import SECRET, at, content, names, pieces, put

_ROUNDS = 300
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE: there is never a moment without a folder or link

pytestmark = pytest.mark.usefixtures("stat_names")


def make_socket(place: Folder) -> None:
    with contextlib.chdir(place.parent), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.name)  # a socket's address is short, so it is bound by its bare name


MAKERS: dict[str, Callable[[Folder, Folder], None]] = {
    "link-to-file": lambda place, outside: place.symlink_to(outside / "file"),
    "relative-link": lambda place, outside: place.symlink_to("../outside/file"),
    "link-to-folder": lambda place, outside: place.symlink_to(outside),
    "link-inside": lambda place, outside: place.symlink_to("real"),
    "dangling-link": lambda place, outside: place.symlink_to(outside / "missing"),
    "link-to-itself": lambda place, outside: place.symlink_to(place.name),
    "pipe": lambda place, outside: os.mkfifo(place),
    "socket": lambda place, outside: make_socket(place),
}


@pytest.fixture(params=MAKERS)
def thing(request: pytest.FixtureRequest, top: Folder, outside: Folder) -> Folder:
    (top / "real").write_bytes(b"real")
    MAKERS[request.param](top / "thing", outside)
    return top / "thing"


@pytest.mark.usefixtures("thing")
async def test_it_is_not_there_to_look_at(provider: LocalProvider) -> None:
    assert await names(provider) == ["real"]
    for path in ("thing", "thing/file"):
        with pytest.raises(NotFound):
            await provider.stat(at(path))
        with pytest.raises(NotFound):
            await provider.read(at(path))
        with pytest.raises(NotFound):
            await provider.list_page(at(path), 10, None)


async def test_it_is_not_there_to_change(provider: LocalProvider, thing: Folder, outside: Folder) -> None:
    state = os.lstat(thing)
    for path in ("thing", "thing/file"):
        with pytest.raises(NotFound):
            await provider.delete(at(path), recursive=True)
        with pytest.raises(NotFound):
            await provider.copy(at(path), at("copy"))
        with pytest.raises(NotFound):
            await provider.move(at(path), at("moved"))
    assert os.lstat(thing) == state
    assert sorted(path.name for path in thing.parent.iterdir()) == ["real", "thing"]
    assert [path.name for path in outside.iterdir()] == ["file"]


@pytest.mark.parametrize("replace", [True, False])
async def test_its_name_is_taken(provider: LocalProvider, thing: Folder, outside: Folder, replace: bool) -> None:
    state = os.lstat(thing)
    with pytest.raises(AlreadyExists):
        await put(provider, "thing", b"new", replace=replace)
    for transfer in (provider.copy, provider.move):
        with pytest.raises(AlreadyExists):
            await transfer(at("real"), at("thing"), replace=replace)
    with pytest.raises(NotAFolder):
        await provider.make_folder(at("thing"))
    for path in ("thing/file", "thing/new", "thing/new/deeper"):
        with pytest.raises(NotAFolder):
            await put(provider, path, b"new", replace=replace)
    assert os.lstat(thing) == state
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == SECRET
    assert await content(provider, "real") == b"real"


async def test_it_is_left_out_of_a_copy_and_goes_with_its_folder(
    provider: LocalProvider, top: Folder, thing: Folder, outside: Folder
) -> None:
    await provider.make_folder(at("folder/deeper"))
    os.rename(thing, top / "folder/deeper/thing")
    await provider.copy(at("folder"), at("copy"))
    assert list((top / "copy/deeper").iterdir()) == []
    await provider.delete(at("folder"), recursive=True)
    assert await names(provider) == ["copy", "real"]
    assert (outside / "file").read_bytes() == SECRET


async def test_devices_are_not_there() -> None:
    provider = LocalProvider("/dev")
    assert not {"null", "zero", "tty"} & set(await names(provider))
    for name in ("null", "zero"):
        with pytest.raises(NotFound):
            await provider.stat(at(name))
        with pytest.raises(NotFound):
            await provider.read(at(name))
    await provider.close()


async def test_a_folder_swapped_for_a_link_in_the_middle_of_a_step(
    provider: LocalProvider, top: Folder, outside: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = os.open

    def swapping(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "swapped" and not (top / "swapped").is_symlink():
            os.rename(top / "swapped", top / f"aside-{len(list(top.iterdir()))}")
            (top / "swapped").symlink_to(outside)
        return genuine(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    for action in (
        lambda: content(provider, "swapped/file"),
        lambda: provider.stat(at("swapped/file")),
        lambda: provider.list_page(at("swapped"), 10, None),
        lambda: put(provider, "swapped/file", b"overwritten"),
        lambda: provider.make_folder(at("swapped/new")),
        lambda: provider.delete(at("swapped/file")),
        lambda: provider.copy(at("swapped/file"), at("copy")),
        lambda: provider.move(at("swapped/file"), at("moved")),
    ):
        (top / "swapped").unlink(missing_ok=True)
        (top / "swapped").mkdir()
        (top / "swapped/file").write_bytes(b"inside")
        with pytest.raises((NotFound, NotAFolder)):
            await action()
        assert (top / "swapped").is_symlink()
        assert [path.name for path in outside.iterdir()] == ["file"]
        assert (outside / "file").read_bytes() == SECRET


async def test_a_folder_swapped_for_a_link_again_and_again(
    provider: LocalProvider, top: Folder, outside: Folder
) -> None:
    (top / "swapped").mkdir()
    (top / "swapped/file").write_bytes(b"inside")
    (top / "link").symlink_to(outside)
    stop = threading.Event()
    exchange = ctypes.CDLL(None, use_errno=True).renameat2

    def swap() -> None:
        places = [os.fsencode(top / name) for name in ("swapped", "link")]
        while not stop.is_set():
            assert exchange(_HERE, places[0], _HERE, places[1], _EXCHANGE) == 0, ctypes.get_errno()

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for number in range(_ROUNDS):
            with contextlib.suppress(PorticoError):
                seen.add(await content(provider, "swapped/file"))
            with contextlib.suppress(PorticoError):
                await put(provider, f"swapped/new-{number}", b"inside")
    finally:
        stop.set()
        swapper.join()
    assert seen <= {b"inside"}
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == SECRET


async def test_a_file_swapped_for_a_link_is_not_followed(provider: LocalProvider, top: Folder, outside: Folder) -> None:
    (top / "file").write_bytes(b"inside")

    async def chunks() -> AsyncIterator[bytes]:
        async for piece in pieces(b"x" * 2**20, b"new"):
            yield piece
        (top / "file").unlink()
        (top / "file").symlink_to(outside / "file")

    with pytest.raises(AlreadyExists):
        await provider.write(at("file"), chunks(), "text/plain")
    assert (top / "file").is_symlink()
    assert (outside / "file").read_bytes() == SECRET


async def test_the_connection_folder_itself_may_be_a_link(top: Folder, tmp_path: Folder) -> None:
    (tmp_path / "mount").symlink_to(top)
    provider = LocalProvider(str(tmp_path / "mount"))
    await put(provider, "a/file", b"x")
    assert (top / "a/file").read_bytes() == b"x"
    await provider.close()
