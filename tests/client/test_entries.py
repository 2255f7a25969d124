"""Responses of servers that are not gateways are rejected."""

from typing import Any

import pytest

from portico.client.entries import entry_of, page_of
from portico.client.errors import NotAGateway

ITEM = {
    "name": "a",
    "absolutePath": "/a",
    "type": "REGULAR",
    "contentType": "text/plain",
    "size": 1,
    "lastModified": "2026-11-14T09:30:00.000Z",
}


def test_an_entry() -> None:
    entry = entry_of(ITEM)
    assert (entry.name, entry.path, entry.is_folder, entry.size) == ("a", "/a", False, 1)
    assert entry.modified is not None
    assert entry_of({key: value for key, value in ITEM.items() if key != "lastModified"}).modified is None


@pytest.mark.parametrize(
    "item",
    [
        5,
        "a",
        None,
        {},
        ITEM | {"name": 5},
        ITEM | {"size": "1"},
        ITEM | {"lastModified": "garbage"},
        ITEM | {"lastModified": 5},
    ],
)
def test_no_entry(item: Any) -> None:
    with pytest.raises(NotAGateway):
        entry_of(item)
    with pytest.raises(NotAGateway):
        page_of({"content": [item], "nextCursor": None})


@pytest.mark.parametrize("body", [5, [], {}, {"content": 5, "nextCursor": None}, {"content": [], "nextCursor": 5}])
def test_no_page(body: Any) -> None:
    with pytest.raises(NotAGateway):
        page_of(body)


def test_a_listing_that_does_not_move_on_is_ended() -> None:
    assert page_of({"content": [], "nextCursor": "b"}, "a").cursor == "b"
    with pytest.raises(NotAGateway):
        page_of({"content": [], "nextCursor": "a"}, "a")
