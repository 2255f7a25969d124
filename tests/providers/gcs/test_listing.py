import json
from datetime import UTC

import pytest

from portico.model.errors import InvalidCursor, NotFound, ProviderFailed
from portico.providers.gcs.provider import GcsProvider

from ...servers.gcs import Answer, Fault, GcsServer, Status
from ...servers.gcs.buckets import Bucket, Content, StoredObject
from .actions import at, walk

LIST = r"/o\?.*maxResults"


def fill(bucket: Bucket, *names: str) -> None:
    for name in names:
        bucket.put(StoredObject(bucket.name, name, Content(b"1"), "text/plain", {}))


async def test_a_page_is_one_call(server: GcsServer, bucket: Bucket, provider: GcsProvider) -> None:
    fill(bucket, *(f"f/{number:04}" for number in range(2500)), *(f"f/d{number}/x" for number in range(5)))
    await provider.stat(at("f/0000"))  # the token is there from now on
    server.calls.clear()
    sizes = [len(page) async for page in walk(provider, "f", 1000)]
    assert sizes == [1000, 1000, 505]
    assert len(server.calls) == 3
    assert {call.query["maxResults"] for call in server.calls} == {"1000"}
    assert {call.query["prefix"] for call in server.calls} == {"f/"}
    assert all("items(" in call.query["fields"] for call in server.calls)


async def test_a_missing_folder_is_one_call_more(server: GcsServer, provider: GcsProvider) -> None:
    await provider.list_page(at("/"), 1, None)
    server.calls.clear()
    with pytest.raises(NotFound):
        await provider.list_page(at("missing"), 10, None)
    assert len(server.calls) == 2


async def test_times_are_utc(bucket: Bucket, provider: GcsProvider) -> None:
    fill(bucket, "a")
    (entry,) = (await provider.list_page(at("/"), 10, None)).entries
    assert entry.modified == (await provider.stat(at("a"))).modified
    assert entry.modified is not None
    assert entry.modified.tzinfo is UTC


@pytest.mark.parametrize("token", ["nonsense", "AAAA", "", "CgFh" * 5000, "é"])
async def test_a_token_that_the_service_rejects(bucket: Bucket, provider: GcsProvider, token: str) -> None:
    fill(bucket, "f/a", "f/b")
    with pytest.raises(InvalidCursor):
        await provider.list_page(at("f"), 1, token)


async def test_another_refusal_is_no_bad_token(server: GcsServer, bucket: Bucket, provider: GcsProvider) -> None:
    fill(bucket, "f/a", "f/b")
    page = await provider.list_page(at("f"), 1, None)
    body = json.dumps({"error": {"code": 400, "message": "pay", "errors": [{"reason": "required"}]}}).encode()
    server.faults.append(Fault(Status(400, body), times=2))
    with pytest.raises(ProviderFailed):
        await provider.list_page(at("f"), 1, page.token)
    with pytest.raises(ProviderFailed):
        await provider.list_page(at("f"), 1, None)


async def test_an_empty_page_with_a_token(server: GcsServer, provider: GcsProvider) -> None:
    body = b'{"kind": "storage#objects", "nextPageToken": "CgFh"}'
    server.faults.append(Fault(Answer(body), "GET", LIST))
    page = await provider.list_page(at("f"), 10, None)
    assert (page.entries, page.token) == ([], "CgFh")


async def test_a_token_that_repeats(server: GcsServer, provider: GcsProvider) -> None:
    body = b'{"kind": "storage#objects", "nextPageToken": "CgFh"}'
    server.faults.append(Fault(Answer(body), "GET", LIST))
    with pytest.raises(ProviderFailed):
        await provider.list_page(at("f"), 10, "CgFh")


async def test_a_repeated_prefix_and_a_stray_key(server: GcsServer, provider: GcsProvider) -> None:
    item = {"name": "elsewhere", "size": "1", "updated": "2024-01-01T00:00:00Z"}
    body = {"kind": "storage#objects", "prefixes": ["f/a/", "f/a/", "g/"], "items": [item]}
    server.faults.append(Fault(Answer(json.dumps(body).encode()), "GET", LIST))
    page = await provider.list_page(at("f"), 10, None)
    assert [(entry.name, entry.is_folder) for entry in page.entries] == [("a", True)]


async def test_503_twice_then_fine(server: GcsServer, bucket: Bucket, provider: GcsProvider) -> None:
    fill(bucket, "f/a")
    server.faults.append(Fault(Status(503), "GET", LIST, times=2))
    assert len((await provider.list_page(at("f"), 10, None)).entries) == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"code": 500, "message": "inside a 200"}}',
        *(b"", b"{}", b"[]", b"<html>captive portal</html>", b"\xff\xfe", b'{"kind": "storage#objects"'),
        b'{"kind": "storage#objects", "items": [{"name": 1}]}',
        b'{"kind": "storage#objects", "items": [{"name": "a", "size": "x", "updated": "2024-01-01T00:00:00Z"}]}',
    ],
)
async def test_an_answer_that_makes_no_sense(server: GcsServer, provider: GcsProvider, body: bytes) -> None:
    server.faults.append(Fault(Answer(body), "GET", LIST))
    with pytest.raises(ProviderFailed) as caught:
        await provider.list_page(at("/"), 10, None)
    assert "captive" not in caught.value.detail


async def test_a_folder_that_is_deleted_or_copied_goes_page_by_page(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GcsProvider, "max_page_size", 3)
    fill(bucket, *(f"f/{number}" for number in range(8)))
    await provider.copy(at("f"), at("g"))
    await provider.delete(at("f"), recursive=True)
    assert sorted(bucket.objects) == [f"g/{number}" for number in range(8)]
