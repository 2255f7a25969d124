"""Folders as other programs mark them: `name/`, and `name` with the metadata `hdi_isfolder`."""

import pytest

from portico.model.errors import FolderNotEmpty, InvalidPath, IsAFolder, NotAFolder, NotFound
from portico.model.paths import Path
from portico.providers.azure_blob.provider import AzureBlobProvider

from ...servers.proxy import Altered, FaultProxy, Reply
from .actions import at, content, listing, make_blob, pieces, put, walk


@pytest.fixture(params=["empty", "with-content", "with-both-marks"])
async def marked(provider: AzureBlobProvider, request: pytest.FixtureRequest) -> str:
    """A folder `m` with names beside it that come between `m` and `m/`."""
    await make_blob(provider, "f/m", hdi_isfolder="true")
    for name in ("f/m-1", "f/m.txt", "f/n"):
        await put(provider, name)
    if request.param != "empty":
        await put(provider, "f/m/inside", b"kept")
    if request.param == "with-both-marks":
        await make_blob(provider, "f/m/", hdi_isfolder="true")
    return str(request.param)


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_a_marked_folder_is_seen_once(provider: AzureBlobProvider, size: int) -> None:
    expected = [("m", True), ("m-1", False), ("m.txt", False), ("n", False)]
    assert await walk(provider, "f", size) == expected


async def test_a_marked_folder_is_a_folder(provider: AzureBlobProvider, marked: str) -> None:
    assert (await provider.stat(at("f/m"))).is_folder
    assert await walk(provider, "f/m") == ([] if marked == "empty" else [("inside", False)])
    with pytest.raises(IsAFolder):
        await provider.read(at("f/m"))
    with pytest.raises(IsAFolder):
        await put(provider, "f/m", b"new")
    with pytest.raises(IsAFolder):
        await provider.copy(at("f/n"), at("f/m"))
    await provider.make_folder(at("f/m"))
    await put(provider, "f/m/new", b"new")
    assert await content(provider, "f/m/new") == b"new"


async def test_a_marked_folder_is_deleted(provider: AzureBlobProvider, marked: str) -> None:
    if marked != "empty":
        with pytest.raises(FolderNotEmpty):
            await provider.delete(at("f/m"))
    await provider.delete(at("f/m"), recursive=marked != "empty")
    assert await walk(provider, "f") == [("m-1", False), ("m.txt", False), ("n", False)]
    with pytest.raises(NotFound):
        await provider.delete(at("f/m"), recursive=True)


@pytest.mark.usefixtures("marked")
async def test_a_tree_with_marked_folders_is_deleted(provider: AzureBlobProvider) -> None:
    await provider.delete(at("f"), recursive=True)
    assert await walk(provider) == []


@pytest.mark.parametrize("how", ["copy", "move"])
@pytest.mark.parametrize("source", ["f", "f/m"])
async def test_marked_folders_are_copied_and_moved(
    provider: AzureBlobProvider, marked: str, how: str, source: str
) -> None:
    before = {folder: await walk(provider, folder) for folder in ("f", "f/m")}
    await (provider.copy if how == "copy" else provider.move)(at(source), at("new/place"))
    if source == "f":
        assert await walk(provider, "new/place") == before["f"]
        assert await walk(provider, "new/place/m") == before["f/m"]
    else:
        assert await walk(provider, "new/place") == before["f/m"]
    try:
        gone = not (await provider.stat(at(source))).is_folder
    except NotFound:
        gone = True
    assert gone == (how == "move")


async def test_a_mark_on_content_is_no_folder(provider: AzureBlobProvider) -> None:
    await make_blob(provider, "f/a", b"content", hdi_isfolder="true")
    assert await walk(provider, "f") == [("a", False)]


async def test_our_own_folders_are_marked_both_ways(provider: AzureBlobProvider) -> None:
    await provider.make_folder(at("f/own"))
    answer = await provider._service.send("HEAD", provider._service.blob_url("f/own/"))
    assert answer.headers["x-ms-meta-hdi_isfolder"] == "true"
    assert await walk(provider, "f") == [("own", True)]


async def test_an_account_with_a_hierarchical_namespace(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    """It tells a directory by `ResourceType`, in the headers and in listings without a delimiter."""
    await make_blob(provider, "dir", hdi_isfolder="true")
    await put(provider, "dir/file", b"x")
    directory = Altered.body(
        lambda body: body.replace(b"<hdi_isfolder>true</hdi_isfolder>", b"").replace(
            b"<Content-Length>0<", b"<ResourceType>directory</ResourceType><Content-Length>0<"
        )
    )
    proxy.on(listing, directory, turns=100)
    proxy.on(
        lambda call: call.method == "HEAD" and call.path.endswith("/dir"),
        Reply(200, {"x-ms-resource-type": "directory", "Content-Length": "0"}),
        turns=100,
    )
    assert await walk(provider) == [("dir", True)]
    assert (await provider.stat(at("dir"))).is_folder
    with pytest.raises(NotAFolder):
        await put(provider, "dir/file/below")
    with pytest.raises(IsAFolder):
        await put(provider, "dir")


async def test_a_directory_that_is_not_empty_yet_goes_in_the_next_pass(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    await make_blob(provider, "f/dir", hdi_isfolder="true")
    await put(provider, "f/dir/file")
    proxy.on(
        lambda call: call.method == "DELETE" and call.path.endswith("/f/dir"),
        Reply(409, {"x-ms-error-code": "DirectoryIsNotEmpty"}),
    )
    await provider.delete(at("f"), recursive=True)
    assert await walk(provider) == []


async def test_names_may_have_1024_characters_of_any_script(provider: AzureBlobProvider) -> None:
    longest = Path(tuple(["€" * 255] * 3 + ["é" * 256]))
    assert len("/".join(longest.segments)) == 1024
    await provider.write(longest, pieces(b"x"), "text/plain")
    assert (await provider.stat(longest)).size == 1
    for path in (Path((*longest.segments[:3], "é" * 257)), Path(("a",) * 255)):
        with pytest.raises(InvalidPath):
            await provider.write(path, pieces(b"x"), "text/plain")
