"""Listings as lines of JSON: a whole folder or tree in one response."""

import asyncio
import json
from typing import Any

import pytest

from portico.api.requests import FILESYSTEM
from portico.model.errors import ProviderUnavailable
from portico.providers.local.listing import FolderListing

from .gateways import Gateway

ACCEPT = {"Accept": "application/x-ndjson"}
TREE = ["a/1.txt", "a/deep/er/x", "a/deep/er/y", "a-b", "a.txt", "b/2.txt", "z"]
FOLDERS = ["a", "a/deep", "a/deep/er", "b"]


@pytest.fixture
async def tree(gateway: Gateway) -> Gateway:
    for path in TREE:
        gateway.put(f"f/{path}", path.encode())
    return gateway


async def lines(gateway: Gateway, path: str = "f", **parameters: Any) -> list[dict[str, Any]]:
    response = await gateway.call("GET", path, headers=ACCEPT, params=parameters)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson"), response.text
    return [json.loads(line) for line in response.text.splitlines()]


def paths(found: list[dict[str, Any]]) -> list[str]:
    return [line["absolutePath"].removeprefix("/f/") for line in found if line.get("isCurrentFolder") is False]


async def test_a_folder_is_sent_as_its_pages_would_be(tree: Gateway) -> None:
    page = (await tree.list("f")).json()
    assert await lines(tree) == [*page["content"], {"end": True}]
    sent = await lines(tree, size=2)
    assert [line for line in sent if "name" in line] == page["content"]
    cursors = [(number, line["nextCursor"]) for number, line in enumerate(sent) if "nextCursor" in line]
    assert len(cursors) == 2
    for number, cursor in cursors:
        assert await lines(tree, size=2, cursor=cursor) == sent[number + 1 :]
        rest = (await tree.list("f", cursor=cursor)).json()["content"]  # the cursors of pages and lines are the same
        assert rest == [line for line in sent[number + 1 :] if "name" in line]


async def test_a_tree_is_sent_with_everything_below_it(tree: Gateway) -> None:
    found = await lines(tree, recursive="true")
    assert (found[0]["absolutePath"], found[0]["isCurrentFolder"], found[-1]) == ("/f", True, {"end": True})
    # In a page, folder by folder, and in each of them sorted as in a listing.
    assert paths(found) == [
        *("a", "b", "a-b", "a.txt", "z"),
        *("a/deep", "a/1.txt", "a/deep/er", "a/deep/er/x", "a/deep/er/y", "b/2.txt"),
    ]
    sent = await lines(tree, recursive="true", size=3)
    assert sorted(paths(sent)) == sorted([*TREE, *FOLDERS])
    for number, line in enumerate(sent):
        if "nextCursor" in line:
            rest = await lines(tree, recursive="true", size=3, cursor=line["nextCursor"])
            assert paths(rest) == paths(sent[number:])


async def test_who_does_not_ask_for_lines_gets_none(tree: Gateway) -> None:
    for accept in ("application/json", "*/*", "application/x-ndjson;q=0, application/json"):
        response = await tree.call("GET", "f", headers={"Accept": accept})
        assert response.headers["content-type"] == "application/json"
    response = await tree.list("f", recursive="true")
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    response = await tree.call("GET", "f/a.txt", headers=ACCEPT)
    assert response.content == b"a.txt"


async def test_errors_before_the_first_line_are_responses_like_any_other(tree: Gateway) -> None:
    for parameters, status in (({}, 404), ({"recursive": "true"}, 404), ({"cursor": "forged"}, 400)):
        response = await tree.call("GET", "missing", headers=ACCEPT, params=parameters)
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    response = await tree.call("GET", "f", user="fetcher", headers=ACCEPT)
    assert response.status_code == 403


@pytest.mark.parametrize("error", [ProviderUnavailable("The storage is away."), ZeroDivisionError()])
async def test_a_later_error_is_the_last_line(tree: Gateway, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    page, calls = FolderListing._page, 0

    async def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise error
        return await page(*arguments)

    monkeypatch.setattr(FolderListing, "_page", failing)
    *found, cursor, problem = await lines(tree, size=2)
    assert (problem["code"], problem["status"]) == (
        ("provider-unavailable", 503) if isinstance(error, ProviderUnavailable) else ("internal", 500)
    )
    assert len(paths(found)) == 4
    assert len(paths(await lines(tree, cursor=cursor["nextCursor"]))) == 1


async def test_a_listing_ends_with_its_client(tree: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    page = FolderListing._page
    waits, called_off = asyncio.Event(), asyncio.Event()

    async def second_page() -> None:
        await waits.wait()

    async def hanging(self: Any, *arguments: Any) -> Any:
        if arguments[2] is None:
            return await page(self, *arguments)
        waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()

    monkeypatch.setattr(FolderListing, "_page", hanging)
    headers = [*(await tree.sign_in()).items(), *ACCEPT.items()]
    async with asyncio.timeout(30):
        answer = await tree.raw(
            "GET", f"{FILESYSTEM}/f?size=2".encode(), headers, (b"", second_page, ConnectionError())
        )
    assert called_off.is_set()
    assert answer.body.count(b"\n") == 4  # the folder itself, two entries and a cursor
