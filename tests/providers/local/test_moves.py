"""Moving on a file system: what arrives while a tree is merged, and files with two names."""

import os
from pathlib import Path as Folder
from typing import Any

import pytest

from portico.model.errors import AlreadyExists
from portico.providers.local import staging, trees
from portico.providers.local.provider import LocalProvider

from .actions import at, content, names, put


async def test_what_comes_while_a_tree_is_merged_is_not_lost(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("from/a/one", "from/two", "to/a/other"):
        await put(provider, path, b"old")
    move_into = staging.move_into

    def add_and_move(folder: int, name: str, *arguments: Any, **options: Any) -> None:
        if name == "one":
            (top / "from" / "a" / "late").write_bytes(b"new")
        if name == "two":
            (top / "changed").write_bytes(b"changed")
            (top / "changed").replace(top / "from" / "two")
        move_into(folder, name, *arguments, **options)

    monkeypatch.setattr(trees, "move_into", add_and_move)
    await provider.move(at("from"), at("to"))
    assert await names(provider, "to") == ["a", "two"]
    assert await content(provider, "to/two") == b"changed"
    assert await names(provider, "to/a") == ["one", "other"]
    assert await names(provider, "from/a") == ["late"]


async def test_a_move_that_must_not_replace_keeps_what_is_uploaded_to_its_target_meanwhile(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "from/file", b"moved")
    rename = os.rename

    def outrun(source: Any, target: Any, **options: Any) -> None:
        if target == "to":
            (top / "to" / "file").write_bytes(b"uploaded")
        rename(source, target, **options)

    monkeypatch.setattr(os, "rename", outrun)
    with pytest.raises(AlreadyExists):
        await provider.move(at("from"), at("to"), replace=False)
    assert await content(provider, "to/file") == b"uploaded"
    assert await content(provider, "from/file") == b"moved"


async def test_a_merge_copies_nothing(provider: LocalProvider, top: Folder) -> None:
    for path in ("from/a/b/one", "from/a/b/c/two", "to/a/b/three"):
        await put(provider, path, b"old")
    before = (top / "from/a/b/one").stat().st_ino
    await provider.move(at("from"), at("to"))
    assert await names(provider, "to/a/b") == ["c", "one", "three"]
    assert (top / "to/a/b/one").stat().st_ino == before
    assert not (top / "from").exists()


async def test_moving_one_name_of_a_file_onto_another_leaves_one(provider: LocalProvider, top: Folder) -> None:
    await put(provider, "a", b"content")
    os.link(top / "a", top / "b")
    await provider.move(at("a"), at("b"))
    assert await names(provider) == ["b"]
    assert await content(provider, "b") == b"content"
