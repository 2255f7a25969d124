"""Other names for a file whose own is taken when it is committed."""

from pathlib import Path as Folder

import pytest

from portico.model.errors import AlreadyExists
from portico.providers.contract.uploads import WriteOptions
from portico.providers.local.provider import LocalProvider

from .actions import at, names, pieces, put


async def test_the_next_free_name_is_taken(provider: LocalProvider, top: Folder) -> None:
    await put(provider, "a", b"old")
    (top / "a (1)").symlink_to("/etc")
    (top / "a (2)").mkdir()
    others = iter([at("a (1)"), at("a (2)"), at("a (3)"), at("a (4)")])
    entry = await provider.write(at("a"), pieces(b"new"), "", WriteOptions(replace=False, alternatives=others))
    assert entry.name == "a (3)"
    assert await names(provider) == ["a (2)", "a", "a (3)"]


async def test_without_a_free_name_it_is_refused(provider: LocalProvider) -> None:
    await put(provider, "a", b"old")
    with pytest.raises(AlreadyExists):
        await provider.write(at("a"), pieces(b"new"), "", WriteOptions(replace=False, alternatives=iter([at("a")])))
    assert await names(provider) == ["a"]
