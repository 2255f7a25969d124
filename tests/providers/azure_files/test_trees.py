import asyncio
import os
from collections.abc import Callable

import pytest

from portico.model.errors import InvalidPath, NotFound, NotPossible, ProviderFailed, ProviderUnavailable
from portico.providers.azure_files.provider import AzureFilesProvider

from ...servers.azure_files import Answer, AzureFilesServer, Call, Share
from ...servers.azure_files.listing import make_marker
from .actions import at, busy, failing, get, lost, put, refusing

STAGING = "/.portico~staging"


def left(share: Share) -> list[str]:
    return sorted(path for path in share.everything() if path != STAGING)


@pytest.fixture
async def before(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    await put(provider, "a/1", b"1")
    await put(provider, "a/b/2", b"2")
    await put(provider, "other/3", b"3")
    server.calls.clear()


# Copies


async def test_a_copy_is_made_by_the_service(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    content = os.urandom(5_000_000)
    await put(provider, "file", content)
    server.calls.clear()
    server.copy_looks = 3
    await provider.copy(at("file"), at("new/copy"))
    assert await get(provider, "new/copy") == content
    assert (await provider.stat(at("new/copy"))).content_type == "text/x-own"
    assert not any(call.verb == "PUT range" for call in server.calls)


async def test_nobody_sees_half_a_copy(provider: AzureFilesProvider, server: AzureFilesServer, share: Share) -> None:
    await put(provider, "file", b"123")
    server.copy_looks = 10**9
    task = asyncio.ensure_future(provider.copy(at("file"), at("copy")))
    while not any(call.verb == "HEAD" and len(call.path) == 2 for call in server.calls):
        await asyncio.sleep(0.01)
    assert [entry.name for entry in (await provider.list_page(at(""), 10, None)).entries] == ["file"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(share) == ["/file"]


async def test_a_copy_that_fails_at_the_service(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    await put(provider, "file", b"123")
    await put(provider, "copy", b"old")

    async def failed(call: Call, work: Callable[[], Answer]) -> Answer | None:
        if call.verb == "HEAD" and call.path[0] == STAGING[1:]:
            answer = work()
            return Answer(200, answer.headers | {"x-ms-copy-status": "failed"})
        return None

    server.fault = failed
    with pytest.raises(ProviderFailed):
        await provider.copy(at("file"), at("copy"))
    assert await get(provider, "copy") == b"old"
    assert left(share) == ["/copy", "/file"]


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("verb", ["PUT", "PUT rename"])
async def test_a_copy_over_a_connection_that_breaks(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, verb: str, done: bool
) -> None:
    await put(provider, "file", b"123")
    server.fault = lost(verb, done=done)
    await provider.copy(at("file"), at("copy"), replace=False)
    assert await get(provider, "copy") == b"123"
    assert left(share) == ["/copy", "/file"]


@pytest.mark.usefixtures("before")
async def test_a_tree_that_was_copied_in_part_carries_on(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    async def one_only(call: Call, _: Callable[[], Answer]) -> Answer | None:
        return busy() if call.verb == "PUT rename" and call.path[-1] == "2" else None

    server.fault = one_only
    with pytest.raises(ProviderUnavailable, match=r"1 files were copied before that\."):
        await provider.copy(at("a"), at("new"))
    server.fault = None
    await provider.copy(at("a"), at("new"))
    assert [path for path in left(share) if path.startswith("/new")] == ["/new", "/new/1", "/new/b", "/new/b/2"]


# Moves


@pytest.mark.usefixtures("before")
async def test_a_folder_moves_by_one_rename(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    await provider.move(at("a"), at("moved"))
    assert [call.verb for call in server.calls if call.method != "GET" and call.method != "HEAD"] == [
        "PUT directory rename"
    ]
    assert await get(provider, "moved/b/2") == b"2"


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("verb", ["PUT directory rename", "PUT rename"])
async def test_a_move_over_a_connection_that_breaks(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, verb: str, done: bool
) -> None:
    source = "a/1" if verb == "PUT rename" else "a/b"
    server.fault = lost(verb, done=done)
    await provider.move(at(source), at("other/moved"), replace=False)
    assert "/other/moved" in left(share)
    assert f"/{source}" not in left(share)


@pytest.mark.usefixtures("before")
async def test_a_merge_moves_whole_folders_where_it_can(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    await put(provider, "other/B/4", b"4")
    await put(provider, "a/whole/x/y", b"5")
    await provider.move(at("a"), at("other"))
    assert left(share) == [
        *("/other", "/other/1", "/other/3", "/other/B", "/other/B/2", "/other/B/4"),
        *("/other/whole", "/other/whole/x", "/other/whole/x/y"),
    ]
    renamed = [call.path for call in server.calls if call.verb == "PUT directory rename"]
    assert ("other", "whole", "x") not in renamed


async def test_files_that_differ_only_in_case_are_not_merged(provider: AzureFilesProvider, share: Share) -> None:
    await put(provider, "a/readme", b"1")
    await put(provider, "b/README", b"2")
    before = left(share)
    for transfer in (provider.copy, provider.move):
        with pytest.raises(InvalidPath, match="case"):
            await transfer(at("a"), at("b"))
    assert left(share) == before


async def test_only_the_case_of_a_name_may_change(provider: AzureFilesProvider, share: Share) -> None:
    await put(provider, "folder/file", b"kept")
    await provider.move(at("folder/file"), at("folder/FILE"))
    await provider.move(at("folder"), at("Folder"))
    assert left(share) == ["/Folder", "/Folder/FILE"]
    assert await get(provider, "folder/file") == b"kept"


@pytest.mark.parametrize("path", ["folder", "folder/file"])
async def test_where_the_service_does_not_change_case_nothing_is_lost(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, path: str
) -> None:
    await put(provider, "folder/file", b"kept")
    verb = "PUT directory rename" if path == "folder" else "PUT rename"
    server.fault = failing(verb, refusing(409, "ResourceAlreadyExists"))
    with pytest.raises(NotPossible, match="case"):
        await provider.move(at(path), at(path.upper()))
    assert left(share) == ["/folder", "/folder/file"]


async def test_nothing_goes_into_itself_by_another_spelling(provider: AzureFilesProvider, share: Share) -> None:
    await put(provider, "a/file", b"kept")
    for source, target in (("a", "A/b"), ("a/file", "A"), ("a", "A/FILE")):
        for transfer in (provider.copy, provider.move):
            with pytest.raises(NotPossible):
                await transfer(at(source), at(target))
    with pytest.raises(NotPossible):
        await provider.copy(at("a"), at("A"))
    assert left(share) == ["/a", "/a/file"]


# Removal


@pytest.mark.usefixtures("before")
async def test_a_folder_is_out_of_sight_at_once(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    async def first_deletion_fails(call: Call, _: Callable[[], Answer]) -> Answer | None:
        return busy() if call.verb == "DELETE" and call.path[0] == STAGING[1:] else None

    server.fault = first_deletion_fails
    with pytest.raises(ProviderUnavailable):
        await provider.delete(at("a"), recursive=True)
    with pytest.raises(NotFound):
        await provider.stat(at("a"))
    server.fault = None
    assert await provider.sweep() == 1
    assert left(share) == ["/other", "/other/3"]


@pytest.mark.usefixtures("before")
async def test_a_folder_in_use_is_emptied_where_it_is(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    server.fault = failing("PUT directory rename", refusing(409, "SharingViolation"))
    await provider.delete(at("a"), recursive=True)
    assert left(share) == ["/other", "/other/3"]


@pytest.mark.usefixtures("before")
async def test_a_deletion_that_is_busy_twice(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    for path, verb in (("a/1", "DELETE"), ("a/b", "DELETE directory"), ("other", "PUT directory rename")):
        server.fault = failing(verb, busy, times=2)
        await provider.delete(at(path), recursive=True)
        with pytest.raises(NotFound):
            await provider.stat(at(path))


@pytest.mark.usefixtures("before")
async def test_what_a_busy_service_deleted_nevertheless(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    async def done_but_busy(call: Call, work: Callable[[], Answer]) -> Answer | None:
        server.fault = None
        work()
        return busy()

    server.fault = done_but_busy
    await provider.delete(at("a/1"))
    with pytest.raises(NotFound):
        await provider.stat(at("a/1"))


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize(("path", "verb"), [("a/1", "DELETE"), ("a/b", "DELETE directory")])
async def test_a_deletion_over_a_connection_that_breaks(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, path: str, verb: str, done: bool
) -> None:
    if path == "a/b":
        share.delete_file(("a", "b", "2"))
    server.fault = lost(verb, done=done)
    await provider.delete(at(path))
    assert f"/{path}" not in left(share)


@pytest.mark.usefixtures("before")
async def test_a_deletion_goes_on_behind_an_empty_page(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    async def empty_first(call: Call, work: Callable[[], Answer]) -> Answer | None:
        if call.verb != "GET directory list" or "marker" in call.query:
            return None
        end = f"<NextMarker>{make_marker(' ')}</NextMarker>"
        return Answer(200, {}, f"<EnumerationResults><Entries />{end}</EnumerationResults>".encode())

    server.fault = empty_first
    await provider.copy(at("a"), at("copy"))
    await provider.move(at("a"), at("other"))
    await provider.delete(at("other"), recursive=True)
    assert left(share) == ["/copy", "/copy/1", "/copy/b", "/copy/b/2"]
