import pytest

from portico.model.errors import InvalidCursor, NotAFolder, NotFound, ProviderFailed, ProviderUnavailable
from portico.providers.azure_files.provider import AzureFilesProvider

from ...servers.azure_files import Answer, AzureFilesServer, Refusal, Share, refused
from .actions import at, busy, failing, put, refusing

LIST = "GET directory list"
HEAD = '\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="x" ShareName="s">'
TIMES = "<LastWriteTime>2024-02-29T12:00:00.1234567Z</LastWriteTime>"


def page(entries: str, marker: str = "") -> Answer:
    end = f"<NextMarker>{marker}</NextMarker>" if marker else "<NextMarker />"
    return Answer(200, {}, f"{HEAD}<Entries>{entries}</Entries>{end}</EnumerationResults>".encode())


def file(name: str) -> str:
    return f"<File>{name}<Properties><Content-Length>5</Content-Length>{TIMES}</Properties></File>"


@pytest.fixture
def many(share: Share) -> None:
    for name in ("B", "a"):
        share.make_folder((name,))
    for number in range(7):
        share.make_file((f"{number}",), 1)


@pytest.mark.usefixtures("many")
async def test_a_page_is_one_call(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    seen: list[str] = []
    token = None
    for calls in range(1, 100):
        listing = await provider.list_page(at(""), 2, token)
        assert len(server.calls) == calls
        seen += [entry.name for entry in listing.entries]
        token = listing.token
        if token is None:
            break
        assert token.startswith("1!")
    assert sorted(seen) == sorted(["B", "a", *"0123456"])
    assert {call.query["maxresults"] for call in server.calls} == {"2"}


async def test_a_missing_folder_costs_one_call_more(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    share.make_file(("file",), 1)
    for path, error in (("missing", NotFound), ("file", NotAFolder)):
        server.calls.clear()
        with pytest.raises(error):
            await provider.list_page(at(path), 10, None)
        assert len(server.calls) == 2


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("token", ["garbage", "2!4!YWJj", "1!5!YWJj", "1!4!****", "1!0!", "-1"])
async def test_a_marker_that_the_service_rejects(provider: AzureFilesProvider, token: str) -> None:
    with pytest.raises(InvalidCursor):
        await provider.list_page(at(""), 2, token)


async def test_another_bad_request_is_no_bad_cursor(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    server.fault = failing(LIST, refusing(400, "InvalidHeaderValue"))
    with pytest.raises(ProviderFailed):
        await provider.list_page(at(""), 2, "1!4!YWJj")
    server.fault = failing(LIST, refusing(400, "InvalidQueryParameterValue"))
    with pytest.raises(ProviderFailed):
        await provider.list_page(at(""), 2, None)


async def test_an_empty_page_with_a_token_is_handed_on(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    server.fault = failing(LIST, lambda: page("", "1!4!YWJj"))
    listing = await provider.list_page(at(""), 2, None)
    assert (listing.entries, listing.token) == ([], "1!4!YWJj")


async def test_a_token_that_repeats_for_ever(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    server.fault = failing(LIST, lambda: page(file("<Name>a</Name>"), "1!4!YWJj"))
    with pytest.raises(ProviderFailed, match="invalid response"):
        await provider.list_page(at(""), 2, "1!4!YWJj")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>captive portal</html>",
        b"\xff\xfe",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><EnumerationResults/>",
        page("<File><Name>a</Name></File>").body,
        page("<File><Properties><Content-Length>5</Content-Length></Properties></File>").body,
    ],
)
async def test_an_answer_that_is_no_listing(
    provider: AzureFilesProvider, server: AzureFilesServer, body: bytes
) -> None:
    server.fault = failing(LIST, lambda: Answer(200, {}, body))
    with pytest.raises(ProviderFailed):
        await provider.list_page(at(""), 2, None)


async def test_names_that_xml_cannot_hold_come_encoded(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    names = ("a%EF%BF%BE%26b", "c%01d", "100%25")
    entries = "".join(file(f'<Name Encoded="true">{name}</Name>') for name in names)
    server.fault = failing(LIST, lambda: page(entries + file("<Name>50%25 &amp; more</Name>")))
    listing = await provider.list_page(at(""), 10, None)
    assert [entry.name for entry in listing.entries] == ["a\ufffe&b", "100%", "50%25 & more"]


async def test_our_own_names_are_hidden_whatever_their_case(provider: AzureFilesProvider, share: Share) -> None:
    await put(provider, "file", b"1")
    share.make_file((".PORTICO~Probe",), 1)
    assert any("staging" in path for path in share.everything())
    assert [entry.name for entry in (await provider.list_page(at(""), 10, None)).entries] == ["file"]


async def test_busy_twice_then_fine(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    server.fault = failing(LIST, busy, times=2)
    assert (await provider.list_page(at(""), 10, None)).entries == []
    assert len(server.calls) == 3


async def test_busy_for_good(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    busy_for = refused(Refusal(503, "ServerBusy", Retry_After="7"))
    server.fault = failing(LIST, lambda: busy_for)
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.list_page(at(""), 10, None)
    assert len(server.calls) == 4
    assert caught.value.retry_after == 7
