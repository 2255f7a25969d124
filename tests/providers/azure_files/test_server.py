"""Our server as the official client sees it, and that it refuses what the service refuses."""

import base64
import os
from collections.abc import AsyncIterator

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.fileshare import ContentSettings
from azure.storage.fileshare.aio import ShareClient, ShareServiceClient

from portico.model.paths import Path
from portico.providers.azure_common.errors import ServiceError
from portico.providers.azure_files.provider import AzureFilesProvider

from ...servers.azure_files import AzureFilesServer, Share
from ...servers.azure_files.listing import make_marker, read_marker
from ...servers.azure_files.shares import folded

MIB = 2**20

# The official client hands its bodies over in one piece, which its own transport frowns upon.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@pytest.fixture
async def client(server: AzureFilesServer, share_name: str) -> AsyncIterator[ShareClient]:
    async with ShareServiceClient.from_connection_string(server.connection_string, retry_total=0) as account:
        yield account.get_share_client(share_name)


async def code_of(work: object) -> str:
    with pytest.raises(HttpResponseError) as caught:
        await work  # type: ignore[misc]
    return str(getattr(caught.value.response, "headers", {}).get("x-ms-error-code"))


async def test_files_and_folders(client: ShareClient) -> None:
    content = os.urandom(9 * MIB)
    folder = await client.create_directory("a")
    file = client.get_file_client("a/f")
    kept = ContentSettings(content_type="text/x-own")
    await file.upload_file(content, content_settings=kept, max_concurrency=3)
    assert await (await file.download_file()).readall() == content
    assert await (await file.download_file(offset=5, length=10)).readall() == content[5:15]
    known = await file.get_file_properties()
    assert (known.size, known.content_settings.content_type) == (len(content), "text/x-own")
    moved = await file.rename_file("a/moved it's")
    assert (await moved.get_file_properties()).file_id == known.file_id
    copy = client.get_file_client("copy")
    await copy.start_copy_from_url(moved.url)
    assert (await copy.get_file_properties()).copy.status == "success"
    await copy.resize_file(3)
    assert await (await copy.download_file()).readall() == content[:3]
    await folder.rename_directory("b")
    assert [item["name"] async for item in client.list_directories_and_files()] == ["b", "copy"]
    await copy.delete_file()
    with pytest.raises(ResourceNotFoundError):
        await copy.get_file_properties()


async def test_pages(client: ShareClient, share: Share) -> None:
    for number in range(7):
        share.make_file((f"{number}",), number)
    share.make_folder(("5a",))
    pages = client.list_directories_and_files(results_per_page=3, include=["timestamps", "Etag"]).by_page()
    found = [[item["name"] async for item in page] async for page in pages]
    assert found == [["0", "1", "2"], ["3", "4", "5"], ["5a", "6"]]
    assert read_marker(make_marker(folded("é 😀"))) == "É 😀"


@pytest.mark.parametrize("size", [0, -1])
async def test_page_sizes_that_are_refused(provider: AzureFilesProvider, size: int) -> None:
    with pytest.raises(ServiceError) as caught:
        await provider._share.list(Path(), size, None)
    assert caught.value.code == "OutOfRangeQueryParameterValue"


async def test_a_huge_page_size_is_clamped(client: ShareClient, share: Share) -> None:
    for number in range(5001):
        share.make_file((f"{number}",), 0)
    pages = client.list_directories_and_files(results_per_page=100_000).by_page()
    assert [len([item async for item in page]) async for page in pages] == [5000, 1]


async def test_a_marker_that_is_none_of_its_own(client: ShareClient) -> None:
    async def listed() -> None:
        async for page in client.list_directories_and_files().by_page("1!3!YWJj"):
            async for _ in page:
                pass

    assert await code_of(listed()) == "InvalidQueryParameterValue"


async def test_ranges_that_are_refused(client: ShareClient) -> None:
    file = client.get_file_client("f")
    await file.create_file(5 * MIB)
    assert await code_of(file.upload_range(bytes(4 * MIB + 1), 0, 4 * MIB + 1)) == "RequestBodyTooLarge"
    assert await code_of(file.upload_range(b"123", 5 * MIB - 2, 3)) == "InvalidRange"
    await file.upload_range(bytes(4 * MIB), MIB, 4 * MIB)
    await file.upload_range(b"123", 5 * MIB - 3, 3)
    await file.clear_range(0, 5 * MIB)
    wrong = {"Content-MD5": base64.b64encode(bytes(16)).decode()}
    assert await code_of(file.upload_range(b"123", 0, 3, headers=wrong)) == "Md5Mismatch"


async def test_names_that_are_refused(client: ShareClient) -> None:
    for name in ('a"', "a:", "a|", "a<", "a>", "a*", "a?", "\ue000", "CON", "x" * 256, "😀" * 128):
        code = await code_of(client.get_directory_client(name).create_directory())
        assert code in ("InvalidResourceName", "InvalidFileOrDirectoryPathName")
    await client.get_directory_client("x" * 255).create_directory()


async def test_names_are_compared_without_case(client: ShareClient) -> None:
    await client.create_directory("Folder")
    with pytest.raises(ResourceExistsError):
        await client.create_directory("fOLDER")
    await client.get_directory_client("FOLDER").upload_file("file", b"1")
    assert [item["name"] async for item in client.list_directories_and_files("folder")] == ["file"]


async def test_conflicts_and_what_is_missing(client: ShareClient) -> None:
    folder = await client.create_directory("a")
    file = await folder.upload_file("f", b"1")
    other = await client.get_directory_client("").upload_file("g", b"2")
    assert await code_of(client.get_directory_client("x/y").create_directory()) == "ParentNotFound"
    assert await code_of(client.get_file_client("x/y").create_file(1)) == "ParentNotFound"
    assert await code_of(client.get_file_client("g/y").create_file(1)) == "ParentNotFound"
    assert await code_of(client.get_file_client("a").create_file(1)) == "ResourceTypeMismatch"
    assert await code_of(folder.delete_directory()) == "DirectoryNotEmpty"
    assert await code_of(other.rename_file("a/f")) == "ResourceAlreadyExists"
    assert await code_of(other.rename_file("a", overwrite=True)) == "ResourceAlreadyExists"
    assert await code_of(other.rename_file("x/f")) == "ParentNotFound"
    assert await code_of(client.get_file_client("x").rename_file("y")) == "ResourceNotFound"
    assert await code_of(folder.rename_directory("a/b")) == "InvalidInput"
    await other.rename_file("a/f", overwrite=True)
    assert await (await file.download_file()).readall() == b"2"
    assert await code_of(client.get_file_client("a/f").download_file(offset=1, length=5)) == "InvalidRange"


async def test_dots_at_the_end_are_cut_off_unless_they_are_asked_for(
    client: ShareClient, share: Share, server: AzureFilesServer, share_name: str
) -> None:
    await client.create_directory("a...")
    assert list(share.everything()) == ["/a"]
    async with ShareServiceClient.from_connection_string(server.connection_string, allow_trailing_dot=True) as account:
        await account.get_share_client(share_name).create_directory("b...")
    assert list(share.everything()) == ["/a", "/b..."]


async def test_who_may_not_ask(server: AzureFilesServer, share_name: str) -> None:
    wrong = server.connection_string.replace(server.key, base64.b64encode(b"wrong").decode())
    async with ShareServiceClient.from_connection_string(wrong, retry_total=0) as account:
        assert await code_of(account.get_share_client(share_name).create_directory("a")) == "AuthenticationFailed"
    async with ShareServiceClient.from_connection_string(server.connection_string, retry_total=0) as account:
        missing = account.get_share_client("missing")
        assert await code_of(missing.create_directory("a")) == "ShareNotFound"
        late = {"x-ms-date": "Mon, 01 Jan 2024 00:00:00 GMT"}
        hook = lambda request: request.http_request.headers.update(late)  # noqa: E731
        work = account.get_share_client(share_name).create_directory("a", raw_request_hook=hook)
        assert await code_of(work) == "AuthenticationFailed"
