"""A file that is replaced is kept in the place that the commit is given."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.errors import ProviderUnavailable
from portico.model.paths import Path
from portico.providers.contract.uploads import KeptFile, Look, WriteOptions
from portico.providers.local import staging, uploads
from portico.providers.local.provider import LocalProvider

from .actions import at, pieces, put

PLACE = at("kept/old")
Leftovers = Callable[[], list[str]]


async def replace(provider: LocalProvider, kept: KeptFile) -> None:
    await provider.write(at("file"), pieces(b"new"), "text/plain", WriteOptions(kept=kept))


def kept_file(place: Path = PLACE, *, may_copy: bool = False) -> KeptFile:
    async def prepare(look: Look | None = None) -> None:
        raise AssertionError("this provider keeps the file itself")

    return KeptFile(prepare, place, may_copy=may_copy)


async def test_a_file_that_is_replaced(provider: LocalProvider, top: Folder) -> None:
    await put(provider, "file", b"old")
    kept = kept_file()
    await replace(provider, kept)
    assert kept.entry
    assert (kept.is_kept, kept.entry.size) == (True, 3)
    assert ((top / "file").read_bytes(), (top / "kept/old").read_bytes()) == (b"new", b"old")


async def test_a_new_file_keeps_nothing(provider: LocalProvider, top: Folder) -> None:
    kept = kept_file()
    await replace(provider, kept)
    assert (kept.is_kept, kept.entry) == (False, None)
    assert not (top / "kept").exists()


async def test_of_two_that_make_one_file_the_second_keeps_that_of_the_first(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that there is none."""
    commit = staging.commit_staged
    second = LocalProvider(str(top))
    loop = asyncio.get_running_loop()

    def interrupted(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(uploads, "commit_staged", commit)
        asyncio.run_coroutine_threadsafe(put(second, "file", b"second"), loop).result()
        commit(*arguments, **options)

    monkeypatch.setattr(uploads, "commit_staged", interrupted)
    kept = kept_file()
    await replace(provider, kept)
    assert kept.is_kept
    assert ((top / "file").read_bytes(), (top / "kept/old").read_bytes()) == (b"new", b"second")
    await second.close()


async def test_uploads_that_replace_one_file_at_once_keep_each_version_once(
    provider: LocalProvider, top: Folder
) -> None:
    await put(provider, "file", b"0")
    places = [at(f"kept/{number}") for number in range(1, 21)]
    kept = [kept_file(place) for place in places]
    await asyncio.gather(
        *(
            provider.write(at("file"), pieces(b"%d" % number), "text/plain", WriteOptions(kept=each))
            for number, each in enumerate(kept, 1)
        )
    )
    assert all(each.is_kept for each in kept)
    versions = [(top / str(place)[1:]).read_bytes() for place in places] + [(top / "file").read_bytes()]
    assert sorted(versions, key=int) == [b"%d" % number for number in range(21)]


async def test_a_file_that_vanishes_before_it_is_kept_again(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "file", b"old")
    link, commit = staging.link_replaced, staging.commit_staged
    links = commits = 0

    def vanish(*arguments: Any) -> bool:
        nonlocal links
        links += 1
        if links == 2:
            os.unlink(top / "file")
        return link(*arguments)

    def fail_once(*arguments: Any, **options: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            raise FileNotFoundError  # as if the folder was removed
        commit(*arguments, **options)

    monkeypatch.setattr(uploads, "link_replaced", vanish)
    monkeypatch.setattr(uploads, "commit_staged", fail_once)
    kept = kept_file()
    await replace(provider, kept)
    assert links == 2
    assert not kept.is_kept
    assert not (top / "kept/old").exists()
    assert (top / "file").read_bytes() == b"new"


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without them."""

    def link(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("how", ["copy", "move"])
@pytest.mark.parametrize("uploaded_meanwhile", [False, True])
async def test_transfer_keeps_the_replaced_file_where_links_are_refused(
    provider: LocalProvider,
    top: Folder,
    leftovers: Leftovers,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    uploaded_meanwhile: bool,
) -> None:
    await put(provider, "file", b"old")
    await put(provider, "source", b"new")
    refuse_links(monkeypatch)
    copy = provider.copy
    copies = 0

    async def and_upload(source: Path, target: Path, **options: Any) -> None:
        nonlocal copies
        await copy(source, target, **options)
        if target == PLACE:
            copies += 1
            if uploaded_meanwhile and copies == 1:
                await put(provider, "file", b"newer")

    kept = kept_file(may_copy=True)
    transfer = getattr(provider, how)
    monkeypatch.setattr(provider, "copy", and_upload)
    await transfer(at("source"), at("file"), kept=kept)
    assert kept.is_kept
    assert (top / "file").read_bytes() == b"new"
    assert (top / "kept/old").read_bytes() == (b"newer" if uploaded_meanwhile else b"old")
    assert copies == 1 + uploaded_meanwhile
    assert leftovers() == []


async def test_transfer_is_refused_if_its_target_is_replaced_again_and_again(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "file", b"0")
    await put(provider, "source", b"new")
    refuse_links(monkeypatch)
    copy = provider.copy
    copies = 0

    async def and_upload(source: Path, target: Path, **options: Any) -> None:
        nonlocal copies
        await copy(source, target, **options)
        copies += 1
        await put(provider, "file", b"%d" % copies)

    kept = kept_file(may_copy=True)
    monkeypatch.setattr(provider, "copy", and_upload)
    with pytest.raises(ProviderUnavailable):
        await provider.move(at("source"), at("file"), kept=kept)
    assert (top / "file").read_bytes() == b"%d" % copies
    assert (top / "source").read_bytes() == b"new"


@pytest.mark.parametrize("how", ["write", "move"])
@pytest.mark.parametrize("always", [False, True])
async def test_trash_folder_that_vanishes_is_made_again(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch, how: str, always: bool
) -> None:
    """Or nothing is replaced."""
    await put(provider, "file", b"old")
    await put(provider, "source", b"new")
    link, links = staging.link_replaced, 0

    def vanish(*arguments: Any) -> bool:
        nonlocal links
        links += 1
        if always or links == 1:
            (top / "kept").rmdir()
        return link(*arguments)

    monkeypatch.setattr(uploads, "link_replaced", vanish)
    kept = kept_file()

    async def change() -> None:
        if how == "write":
            await replace(provider, kept)
        else:
            await provider.move(at("source"), at("file"), kept=kept)

    if always:
        with pytest.raises(ProviderUnavailable):
            await change()
        assert (top / "file").read_bytes() == b"old"
        return
    await change()
    assert kept.is_kept
    assert (top / "file").read_bytes() == b"new"
    assert (top / "kept/old").read_bytes() == b"old"
