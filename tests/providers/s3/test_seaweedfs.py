"""SeaweedFS, which keeps folders like a file system: they stay when their last file goes, and can be removed."""

from collections.abc import AsyncIterator, Iterator

import pytest
from bench.buckets import BUCKET, Weed
from bench.servers import S3_KEY, S3_SECRET
from bench.workspace import Workspace

from portico.errors import FolderNotEmpty, NotFound
from portico.providers.s3 import S3Provider

from .actions import at, content, put


@pytest.fixture(scope="module")
def weed() -> Iterator[Weed]:
    work = Workspace()
    weed = Weed(work)
    yield weed
    weed.stop()
    work.close()


@pytest.fixture
async def provider(weed: Weed) -> AsyncIterator[S3Provider]:
    provider = S3Provider(
        BUCKET, endpoint_url=weed.url, access_key_id=S3_KEY, secret_access_key=S3_SECRET, region="us-east-1"
    )
    yield provider
    for entry in (await provider.list_page(at(""), 1000, None)).entries:
        await provider.delete(at(entry.name), recursive=True)
    assert not (await provider.list_page(at(""), 1000, None)).entries
    await provider.close()


async def names(provider: S3Provider, folder: str = "") -> list[str]:
    return sorted(entry.name for entry in (await provider.list_page(at(folder), 1000, None)).entries)


async def test_a_folder_whose_last_file_went_is_there_for_everybody(provider: S3Provider) -> None:
    await put(provider, "walk/sub/one")
    await provider.delete(at("walk/sub/one"))
    assert await names(provider) == ["walk"]
    assert (await provider.stat(at("walk"))).is_folder
    assert await names(provider, "walk") == ["sub"]
    assert await names(provider, "walk/sub") == []
    with pytest.raises(FolderNotEmpty):
        await provider.delete(at("walk"))
    await provider.delete(at("walk/sub"))
    await provider.delete(at("walk"))
    assert await names(provider) == []
    with pytest.raises(NotFound):
        await provider.stat(at("walk"))


@pytest.mark.parametrize("emptied", [False, True])
async def test_a_tree_goes_with_its_folders(provider: S3Provider, emptied: bool) -> None:
    await put(provider, "walk/a/b/c/one")
    await put(provider, "walk-on/two")
    if emptied:
        await provider.delete(at("walk/a/b/c/one"))
    await provider.delete(at("walk"), recursive=True)
    assert await names(provider) == ["walk-on"]
    with pytest.raises(NotFound):
        await provider.stat(at("walk"))


async def test_a_moved_tree_leaves_no_folder_behind(provider: S3Provider) -> None:
    await put(provider, "walk/a/one", b"1")
    await provider.move(at("walk"), at("there"))
    assert await names(provider) == ["there"]
    assert await content(provider, "there/a/one") == b"1"


async def test_an_emptied_folder_can_be_moved(provider: S3Provider) -> None:
    await put(provider, "walk/one")
    await provider.move(at("walk/one"), at("one"))
    assert await names(provider) == ["one", "walk"]
    await provider.move(at("walk"), at("there"))
    assert await names(provider) == ["one", "there"]
    assert await names(provider, "there") == []
