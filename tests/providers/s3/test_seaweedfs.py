"""SeaweedFS, which keeps folders like a file system: they stay when their last file goes, and can be removed."""

from collections.abc import AsyncIterator, Iterator

import pytest
from bench.buckets import BUCKET, Weed
from bench.servers import S3_KEY, S3_SECRET
from bench.workspace import Workspace

from portico.model.errors import FolderNotEmpty, NotFound
from portico.model.paths import TRASH, Path
from portico.providers.s3.provider import S3Provider

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


async def everything(provider: S3Provider, folder: str) -> dict[str, bytes | None]:
    """Everything below a folder, listed with the smallest pages: the content of files, None for folders."""
    found: dict[str, bytes | None] = {}
    token: str | None = None
    while True:
        page = await provider.list_page(at(folder), 1, token)
        assert len(page.entries) <= 1
        for entry in page.entries:
            path = f"{folder}/{entry.name}"
            found[path] = None if entry.is_folder else await content(provider, path)
            if entry.is_folder:
                found |= await everything(provider, path)
        token = page.token
        if token is None:
            return found


@pytest.fixture
async def made(provider: S3Provider) -> dict[str, bytes | None]:
    """Folders that were made, some of them empty."""
    for folder in ("made", "made/empty", "made/full", "made/full/deep"):
        await provider.make_folder(at(folder))
    await put(provider, "made/full/one", b"1")
    await put(provider, "made/two", b"2")
    return {"/empty": None, "/full": None, "/full/deep": None, "/full/one": b"1", "/two": b"2"}


async def test_smallest_pages_show_everything(provider: S3Provider, made: dict[str, bytes | None]) -> None:
    assert await everything(provider, "made") == {f"made{path}": data for path, data in made.items()}


async def test_deleted_folder_comes_back_with_its_empty_folders(
    provider: S3Provider, made: dict[str, bytes | None]
) -> None:
    place = Path((TRASH, "0123"))
    await provider.move_to_trash(at("made"), place)
    assert await names(provider) == []
    await provider.restore(place, at("back"))
    assert await everything(provider, "back") == {f"back{path}": data for path, data in made.items()}
    await provider.purge(place)
    with pytest.raises(NotFound):
        await provider.stat(place)


async def test_deleted_empty_folder_comes_back(provider: S3Provider) -> None:
    await provider.make_folder(at("alone"))
    place = Path((TRASH, "0123"))
    await provider.move_to_trash(at("alone"), place)
    assert await names(provider) == []
    await provider.restore(place, at("alone"))
    assert await names(provider) == ["alone"]


@pytest.mark.parametrize("how", ["copy", "move"])
async def test_copy_has_the_empty_folders(provider: S3Provider, made: dict[str, bytes | None], how: str) -> None:
    await (provider.copy if how == "copy" else provider.move)(at("made"), at("there"))
    assert await everything(provider, "there") == {f"there{path}": data for path, data in made.items()}
    assert await names(provider) == (["made", "there"] if how == "copy" else ["there"])


async def test_walk_in_smallest_pages(provider: S3Provider, made: dict[str, bytes | None]) -> None:
    walk = provider.walk(at("made"))
    found = []
    while walk.token is not None:
        found += [str(path) for path, _ in await walk.page(1)]
    assert sorted(found) == sorted(made)
