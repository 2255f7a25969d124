import re
from collections.abc import Callable
from xml.sax.saxutils import escape

import pytest

from portico.model.errors import InvalidCursor, NotFound, ProviderFailed, ProviderUnavailable
from portico.providers.azure_blob.listing import read_page
from portico.providers.azure_blob.provider import AzureBlobProvider

from ...servers.proxy import Altered, FaultProxy, Reply
from .actions import at, listing, make_blob, put, walk

BAD_MARKER = Reply(
    400,
    {"x-ms-error-code": "InvalidQueryParameterValue"},
    b"<Error><Code>InvalidQueryParameterValue</Code><QueryParameterName>marker</QueryParameterName></Error>",
)
BUSY = Reply(503, {"x-ms-error-code": "ServerBusy"}, b"<Error><Code>ServerBusy</Code></Error>")


def page(*entries: str, marker: str = "") -> bytes:
    """A page as the service writes it: prefixes end in a slash."""
    items = "".join(
        f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>"
        if name.endswith("/")
        else f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>Sun, 15 Nov 2026 03:20:09 GMT</Last-Modified>"
        "<Etag>0x8D1</Etag><Content-Length>3</Content-Length><Content-Type>text/plain</Content-Type>"
        "<Content-Encoding /></Properties><Metadata /></Blob>"
        for name in entries
    )
    end = f"<NextMarker>{marker}</NextMarker>" if marker else "<NextMarker />"
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="https://x/" ContainerName="c">'
        f"<Delimiter>/</Delimiter><Blobs>{items}</Blobs>{end}</EnumerationResults>"
    ).encode("utf-8-sig")


def pages(proxy: FaultProxy, *bodies: bytes) -> None:
    proxy.on(listing, *(Reply(200, {"Content-Type": "application/xml"}, body) for body in bodies))


async def test_a_page_is_one_call(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    for name in "abcdef":
        await put(provider, f"f/{name}")
    proxy.calls.clear()
    assert len(await walk(provider, "f", 2)) == 6
    assert [call.query["maxresults"] for call in proxy.calls] == ["2", "2", "2"]
    proxy.calls.clear()
    await provider.list_page(at("f"), 5000, None)
    assert [call.query["maxresults"] for call in proxy.calls] == ["5000"]
    proxy.calls.clear()
    with pytest.raises(NotFound):
        await provider.list_page(at("missing"), 10, None)
    assert [call.method for call in proxy.calls] == ["GET", "HEAD"]


async def test_a_marker_that_the_service_rejects(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(listing, BAD_MARKER)
    with pytest.raises(InvalidCursor) as caught:
        await provider.list_page(at("f"), 10, "2!8!bm9uZQ--")
    assert "marker" not in caught.value.detail
    assert len(proxy.calls) == 1


async def test_not_every_400_is_a_bad_cursor(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    other = Reply(400, BAD_MARKER.headers, BAD_MARKER.body.replace(b">marker<", b">maxresults<"))
    proxy.on(listing, BAD_MARKER, other)
    with pytest.raises(ProviderFailed):
        await provider.list_page(at("f"), 10, None)
    with pytest.raises(ProviderFailed):
        await provider.list_page(at("f"), 10, "2!8!bm9uZQ--")


async def test_an_empty_page_with_a_marker_is_handed_on(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    pages(proxy, page("f/a", marker="m1"), page(marker="m2"), page(marker="m3"), page("f/b"))
    assert await walk(provider, "f") == [("a", False), ("b", False)]
    assert [call.query.get("marker") for call in proxy.calls] == [None, "m1", "m2", "m3"]


async def test_a_folder_whose_only_page_is_empty_but_goes_on(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    pages(proxy, page(marker="m1"), page("f/a"))
    assert await walk(provider, "f") == [("a", False)]


async def test_a_repeated_prefix_is_shown_once(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    pages(
        proxy,
        page("f/a", "f/b/", "f/b/", marker="m1"),
        page("f/b/", marker="m2"),
        page("f/b/", "f/c/", marker="m3"),
        page("f/c/", "f/d"),
    )
    assert await walk(provider, "f") == [("a", False), ("b", True), ("c", True), ("d", False)]


@pytest.mark.parametrize("marker", ["m1", "2!92!MDAwMDIxIWYvYiE-", "f/~b~", "m~AAAAAAAAAAA"])
async def test_another_worker_shows_a_repeated_prefix_once(
    provider: AzureBlobProvider, open_provider: Callable[[], AzureBlobProvider], proxy: FaultProxy, marker: str
) -> None:
    """As two workers do it who take turns: neither sees two pages of a walk."""
    pages(
        proxy,
        page("f/a", "f/b/", marker=marker),
        page("f/b/", marker=f"{marker}2"),
        page(marker=f"{marker}3"),
        page("f/b/", "f/c/", marker=f"{marker}4"),
        page("f/c/", "f/d"),
    )
    workers = [provider, open_provider()]
    found: list[str] = []
    token = None
    for turn in range(5):
        answer = await workers[turn % 2].list_page(at("f"), 10, token)
        found += [entry.name for entry in answer.entries]
        token = answer.token
        assert token is None or token.startswith(marker)
    assert token is None
    assert sorted(found) == ["a", "b", "c", "d"]
    markers = [None, *(f"{marker}{number}" for number in ("", 2, 3, 4))]
    assert [call.query.get("marker") for call in proxy.calls] == markers


async def test_a_token_of_a_former_version_goes_on(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    """It is the service's marker and nothing else."""
    pages(proxy, page("f/b/", "f/c"))
    found = await provider.list_page(at("f"), 10, "2!92!MDAwMDIxIWYvYiE-")
    assert [call.query.get("marker") for call in proxy.calls] == ["2!92!MDAwMDIxIWYvYiE-"]
    assert {entry.name for entry in found.entries} == {"b", "c"}


async def test_a_token_stays_short_whatever_the_folder_is_called(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    pages(proxy, page("f/" + 300 * "𝄞" + "/", marker="m1"))
    token = (await provider.list_page(at("f"), 10, None)).token
    assert token is not None
    assert len(token) < 20


async def test_a_marker_that_repeats_for_ever(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    pages(proxy, page("f/a", marker="m1"), page("f/a", marker="m1"))
    await provider.list_page(at("f"), 10, None)
    with pytest.raises(ProviderFailed):
        await provider.list_page(at("f"), 10, "m1")


async def test_keys_outside_of_the_prefix_are_dropped(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    pages(proxy, page("f/a", "ff/b", "secret", "f/c/", "g/"))
    assert await walk(provider, "f") == [("a", False), ("c", True)]


async def test_busy_twice_and_then_fine(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "f/a")
    proxy.calls.clear()
    proxy.on(listing, BUSY, turns=2)
    assert await walk(provider, "f") == [("a", False)]
    assert len(proxy.calls) == 3


async def test_busy_for_good(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(listing, BUSY, turns=100)
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.list_page(at("f"), 10, None)
    assert caught.value.retry_after
    assert caught.value.cause is not None
    assert "ServerBusy" in caught.value.cause
    assert len(proxy.calls) == 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Sign in to this network</body></html>",
        b"<Error><Code>InternalError</Code></Error>",
        b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'aaaa'>]><EnumerationResults>&a;</EnumerationResults>",
        page("f/a")[:-30],
        page("f/a").replace(b"<Content-Length>3<", b"<Content-Length>three<"),
        page("f/a").replace(b"Nov 2026", b"Non 2026"),
        page("f/a").replace(b"Name>", b"Nome>"),
        b"\xff\xfe\x00",
    ],
    ids=["nothing", "html", "error", "dtd", "half", "size", "date", "no-name", "no-text"],
)
async def test_a_listing_that_makes_no_sense(provider: AzureBlobProvider, proxy: FaultProxy, body: bytes) -> None:
    pages(proxy, body)
    with pytest.raises(ProviderFailed):
        await provider.list_page(at("f"), 10, None)


async def test_names_that_xml_cannot_hold(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    body = page("f/plain%41", "f/%EF%BF%BE%20x", "f/d%EF%BF%BF/", "f/%01")
    body = re.sub(rb"<Name>(f/d?%)", rb'<Name Encoded="true">\1', body)
    pages(proxy, body)
    found = await provider.list_page(at("f"), 10, None)
    assert {entry.name for entry in found.entries} == {"plain%41", "\ufffe x", "d\uffff"}


async def test_a_listing_goes_the_lean_way(provider: AzureBlobProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(provider, "f/a&b <c>")
    await put(provider, "f/folder/x")
    await make_blob(provider, "f/with-metadata", b"x", Name="y", Etag="z", hdi_isfolder="no")

    def parse(*_: object) -> None:
        raise AssertionError("the real parser was asked")

    monkeypatch.setattr("portico.providers.wire.xml_listing.parse", parse)
    with pytest.raises(AssertionError):  # two elements called Name in one blob
        await walk(provider, "f")
    await provider.delete(at("f/with-metadata"))
    assert await walk(provider, "f") == [("a&b <c>", False), ("folder", True)]


async def test_metadata_does_not_pass_for_properties(provider: AzureBlobProvider) -> None:
    await make_blob(provider, "f/a", b"1234", Name="other", Etag="z", Blob="b", BlobPrefix="p", NextMarker="m")
    found = await provider.list_page(at("f"), 10, None)
    assert [(entry.name, entry.size, entry.is_folder) for entry in found.entries] == [("a", 4, False)]
    assert found.token is None


def test_the_answer_of_the_service_itself() -> None:
    """As documented for List Blobs, version 2021-12-02, of an account with a hierarchical namespace."""
    body = page("a/b").replace(
        b"<Blobs>",
        b"<Blobs><BlobPrefix><Name>dir/</Name><Properties><Creation-Time>Sun, 15 Nov 2026 03:20:09 GMT</Creation-Time>"
        b"<Etag>0x8D2</Etag><ResourceType>directory</ResourceType><Content-Length>0</Content-Length></Properties>"
        b"</BlobPrefix>",
    )
    found, marked = read_page(body, 10, flat=False)
    assert ([entry.name for entry in found.objects], found.prefixes, found.token, marked) == (
        ["a/b"],
        ["dir/"],
        None,
        [],
    )


async def test_an_altered_answer_is_read_as_it_is(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "f/a")
    pretty = Altered.body(lambda body: body.replace(b"><", b">\n  <"))
    proxy.on(listing, pretty)
    assert await walk(provider, "f") == [("a", False)]
