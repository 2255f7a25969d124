"""Moving on a file system: what arrives while a tree is merged, and files with two names."""

import os
from pathlib import Path as Folder

import pytest

from portico.providers.local import LocalProvider, trees

from .actions import at, content, names, put


async def test_what_comes_while_a_tree_is_merged_stays_at_the_source(
    provider: LocalProvider, top: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("from/a/one", "from/two", "to/a/other"):
        await put(provider, path, b"old")
    copy_tree = trees._copy_tree

    def slow(*arguments: object) -> object:
        copied = copy_tree(*arguments)  # type: ignore[arg-type]
        (top / "from" / "a" / "late").write_bytes(b"new")
        (top / "from" / "two").write_bytes(b"changed")
        return copied

    monkeypatch.setattr(trees, "_copy_tree", slow)
    await provider.move(at("from"), at("to"))
    assert await names(provider, "to") == ["a", "two"]
    assert await names(provider, "to/a") == ["one", "other"]
    assert await names(provider, "from/a") == ["late"]
    assert await content(provider, "from/two") == b"changed"


async def test_moving_one_name_of_a_file_onto_another_leaves_one(
    provider: LocalProvider, top: Folder
) -> None:
    await put(provider, "a", b"content")
    os.link(top / "a", top / "b")
    await provider.move(at("a"), at("b"))
    assert await names(provider) == ["b"]
    assert await content(provider, "b") == b"content"
