from datetime import UTC, datetime
from typing import Any

import pytest

from portico.model.errors import InvalidCursor, NotFound, ProviderFailed, ProviderUnavailable
from portico.model.paths import Path
from portico.providers.s3.provider import S3Provider

from ...servers.proxy import FaultProxy, Reply
from .actions import at, error, listing, listings, page, put, said


async def names(provider: S3Provider, folder: str = "", token: str | None = None) -> list[str]:
    return [entry.name for entry in (await provider.list_page(at(folder), 1000, token)).entries]


async def test_a_page_is_one_call_and_size_and_token_are_handed_on(provider: S3Provider, proxy: FaultProxy) -> None:
    for name in ("1", "2", "3", "folder/inside"):
        await put(provider, f"f/{name}")
    proxy.calls.clear()
    token: str | None = None
    seen: list[str] = []
    while True:
        asked: str | None = token
        listed = await provider.list_page(at("f"), 2, token)
        seen += [entry.name for entry in listed.entries]
        (call,) = proxy.calls
        assert (call.query["max-keys"], call.query["prefix"], call.query["delimiter"]) == ("2", "f/", "/")
        assert call.query.get("continuation-token") == asked
        proxy.calls.clear()
        if (token := listed.token) is None:
            break
    assert seen == ["1", "2", "3", "folder"]


async def test_a_missing_folder_costs_one_call_more(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(200, page()))
    proxy.on(lambda call: call.method == "HEAD", Reply(404))
    with pytest.raises(NotFound):
        await provider.list_page(at("missing"), 10, None)
    assert [call.method for call in proxy.calls] == ["GET", "HEAD"]


async def test_a_bad_token_is_an_invalid_cursor(provider: S3Provider, proxy: FaultProxy) -> None:
    body = error("InvalidArgument", ArgumentName="continuation-token", ArgumentValue="x")
    proxy.on(listing, said(400, body))
    with pytest.raises(InvalidCursor):
        await names(provider, token="x")
    assert len(proxy.calls) == 1


async def test_another_bad_argument_is_no_cursor(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(400, error("InvalidArgument", ArgumentName="max-keys")))
    with pytest.raises(ProviderFailed):
        await names(provider, token="x")


async def test_an_empty_page_with_a_token_is_handed_on(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(200, page(token="next")))
    listed = await provider.list_page(at("f"), 10, None)
    assert (listed.entries, listed.token) == ([], "next")
    assert len(proxy.calls) == 1


async def test_a_token_on_the_last_page_is_not_believed(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(200, page(["f/1"], token="next", truncated=False)))
    assert (await provider.list_page(at("f"), 10, None)).token is None


async def test_a_repeated_prefix_is_one_folder(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(200, page(prefixes=["f/a/", "f/b/", "f/a/"])))
    assert await names(provider, "f") == ["a", "b"]


async def test_keys_outside_of_the_prefix_are_dropped(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(200, page(["f/1", "g/2", "f"], ["f/a/", "other/"])))
    assert await names(provider, "f") == ["1", "a"]


@pytest.mark.parametrize(
    "body",
    [
        error("InternalError"),
        page(token="same"),
        page(truncated=True),
        page(["f/1"])[:-30],
        "<!DOCTYPE a><ListBucketResult/>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>f/1</Key></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><CommonPrefixes/></ListBucketResult>",
        "<html>It works!</html>",
        "nothing",
    ],
    ids=["error", "endless", "no-token", "cut", "dtd", "no-size", "no-prefix", "html", "text"],
)
async def test_an_answer_that_makes_no_sense(provider: S3Provider, proxy: FaultProxy, body: str) -> None:
    proxy.on(listing, said(200, body))
    with pytest.raises(ProviderFailed) as caught:
        await names(provider, "f", token="same")
    assert caught.value.cause
    assert "RAW" not in caught.value.detail + caught.value.cause


@pytest.mark.parametrize("status", [500, 503])
async def test_failures_that_pass_are_not_seen(provider: S3Provider, proxy: FaultProxy, status: int) -> None:
    await put(provider, "f/1")
    proxy.calls.clear()
    proxy.on(listing, said(status, error("SlowDown")), turns=2)
    assert await names(provider, "f") == ["1"]
    assert len(proxy.calls) == 3


async def test_failures_that_stay_are_reported_after_four_attempts(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(listing, said(503, error("SlowDown"), {"Retry-After": "7"}), turns=9)
    with pytest.raises(ProviderUnavailable) as caught:
        await names(provider)
    assert caught.value.retry_after == 7
    assert len(listings(proxy)) == 4


async def test_keys_that_xml_cannot_hold(provider: S3Provider, client: Any, bucket: str) -> None:
    odd = ["f/a\x01b", "f/a\rb", "f/a\ufffeb", "f/a%0Ab", "f/a b", "f/a+b", "f/\U0001f600"]
    for key in odd:
        await client.put_object(Bucket=bucket, Key=key, Body=b"x")
    listed = await provider.list_keys("f/", 1000, None)
    assert sorted(entry.name for entry in listed.objects) == sorted(odd)
    assert await names(provider, "f") == ["a b", "a%0Ab", "a+b", "a\ufffeb", "\U0001f600"]
    await provider.delete(at("f"), recursive=True)
    assert (await provider.list_keys("", 1000, None)).objects == []


async def test_times_are_utc(provider: S3Provider, proxy: FaultProxy) -> None:
    body = page(["f/1"])
    for text in ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678", "2026-01-02T04:04:05.678+01:00"):
        proxy.on(listing, said(200, body.replace("2026-01-02T03:04:05.000Z", text)))
        ((entry),) = (await provider.list_page(at("f"), 10, None)).entries
        assert entry.modified == datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
        assert str(entry.modified.tzinfo) == "UTC"


async def test_the_root_of_an_empty_bucket(provider: S3Provider) -> None:
    assert (await provider.list_page(Path(), 10, None)).entries == []
