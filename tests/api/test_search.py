import os
from datetime import UTC, datetime
from typing import Any

import pytest

from portico.operations.files import search

from .conftest import SHARES_GATEWAY
from .gateways import Gateway

pytestmark = SHARES_GATEWAY

OLD, NEW = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 6, 1, 12, tzinfo=UTC)
FILES = {
    "reports/2026/Summary.PDF": (5000, NEW),
    "reports/2026/summary-old.pdf": (100, OLD),
    "reports/2026/data.csv": (20, NEW),
    "reports/picture.png": (300, NEW),
    "reports/[draft] a*b?.txt": (1, NEW),
    "reports/u\N{COMBINING DIAERESIS}ber.txt": (1, NEW),
    "other/summary.pdf": (1, NEW),
}


@pytest.fixture
def tree(gateway: Gateway) -> None:
    for path, (size, moment) in FILES.items():
        os.utime(gateway.put(path, b"x" * size), (moment.timestamp(), moment.timestamp()))
    (gateway.files / "reports" / "summary folder").mkdir()


async def found(gateway: Gateway, path: str = "reports", **parameters: Any) -> set[str]:
    """The results of all requests of a search."""
    paths: list[str] = []
    cursor = searched = None
    while True:
        more: dict[str, str] = {"cursor": cursor} if cursor else {}
        response = await gateway.call("GET", path, params={"action": "SEARCH", **parameters, **more})
        assert response.status_code == 200, response.text
        body = response.json()
        assert searched is None or body["searched"] >= searched
        paths += [entry["absolutePath"] for entry in body["content"]]
        cursor, searched = body["nextCursor"], body["searched"]
        if cursor is None:
            assert len(paths) == len(set(paths))
            return {each.removeprefix(f"/{path}/") for each in paths}


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ({"name": "summary"}, {"2026/Summary.PDF", "2026/summary-old.pdf", "summary folder"}),
        ({"name": "summary", "case": "match"}, {"2026/summary-old.pdf", "summary folder"}),
        ({"name": "*.pdf"}, {"2026/Summary.PDF", "2026/summary-old.pdf"}),
        ({"name": "*.pdf", "case": "match"}, {"2026/summary-old.pdf"}),
        ({"name": "[ds]*"}, {"2026/Summary.PDF", "2026/summary-old.pdf", "2026/data.csv", "summary folder"}),
        ({"name": "?ata.csv"}, {"2026/data.csv"}),
        ({"name": "draft] a"}, {"[draft] a*b?.txt"}),
        ({"name": "ÜBER"}, {"u\N{COMBINING DIAERESIS}ber.txt"}),
        ({"type": "folder"}, {"2026", "summary folder"}),
        ({"type": "image/"}, {"picture.png"}),
        ({"type": "text/csv"}, {"2026/data.csv"}),
        ({"type": "file", "minSize": "100"}, {"2026/Summary.PDF", "2026/summary-old.pdf", "picture.png"}),
        ({"minSize": "20", "maxSize": "300"}, {"2026/data.csv", "2026/summary-old.pdf", "picture.png"}),
        ({"type": "file", "modifiedBefore": "2021-01-01"}, {"2026/summary-old.pdf"}),
        ({"name": "*.pdf", "modifiedAfter": "2026-06-01T12:00:00Z"}, {"2026/Summary.PDF"}),
        ({"name": "nothing like this"}, set()),
    ],
)
async def test_criteria(gateway: Gateway, criteria: dict[str, str], expected: set[str], size: int) -> None:
    assert await found(gateway, size=size, **criteria) == expected


@pytest.mark.usefixtures("tree")
async def test_each_request_looks_at_a_part_only(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_LOOKED", 3)
    monkeypatch.setattr(search, "_MIN_PAGE", 1)
    response = await gateway.call("GET", "", params={"action": "SEARCH", "name": "nowhere", "size": 3})
    assert response.json()["searched"] == 3
    assert response.json()["content"] == []
    assert response.json()["nextCursor"]
    assert await found(gateway, "reports", name="*.pdf", size=3) == {"2026/Summary.PDF", "2026/summary-old.pdf"}


async def test_a_search_does_not_end_in_folders_too_deep_for_a_cursor(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MIN_PAGE", 1)
    folder = gateway.files
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(30):  # the whole path is longer than the kernel takes at once
        os.mkdir("d" * 240, dir_fd=descriptor)
        below = os.open("d" * 240, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    gateway.put("e/wanted", b"1")
    assert await found(gateway, "", name="wanted", size=1) == {"/e/wanted"}


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "criteria",
    [
        {"type": "pictures"},
        {"case": "maybe"},
        {"minSize": "-1"},
        {"maxSize": "1k"},
        {"modifiedAfter": "yesterday"},
        {"name": "x" * 256},
        {"size": "0"},
        {"names": "x"},
        {"cursor": "forged"},
    ],
)
async def test_bad_criteria(gateway: Gateway, criteria: dict[str, str]) -> None:
    response = await gateway.call("GET", "reports", params={"action": "SEARCH", **criteria})
    assert response.status_code == 400


@pytest.mark.usefixtures("tree")
async def test_rights_and_what_is_not_there(gateway: Gateway) -> None:
    for user, path, status in (
        ("watcher", "reports", 200),
        ("fetcher", "reports", 403),
        ("web", "missing", 404),
        ("web", "reports/picture.png", 409),
    ):
        response = await gateway.call("GET", path, user=user, params={"action": "SEARCH"})
        assert response.status_code == status
