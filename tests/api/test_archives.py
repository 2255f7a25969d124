import io
import os
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest

from portico.model.errors import ProviderUnavailable
from portico.operations.files import archives
from portico.providers.local.provider import LocalProvider

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, OpenGateway
from .gateways import Gateway, address

pytestmark = SHARES_GATEWAY

FILES = {
    "reports/2026/january.csv": b"a,b\n" * 100,
    "reports/2026/日本 ünï.txt": b"names",
    "reports/notes.txt": b"",
    "reports/picture.png": bytes(range(256)) * 500,
    "other.txt": b"not in it",
}


@pytest.fixture
def tree(gateway: Gateway) -> None:
    for path, content in FILES.items():
        gateway.put(path, content)
    (gateway.files / "reports" / "empty").mkdir()


def opened(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(names) == len(set(names))
        return {name: archive.read(name) for name in names}


@pytest.mark.usefixtures("tree")
async def test_a_folder(gateway: Gateway) -> None:
    response = await gateway.call("GET", "reports", params={"action": "ZIP"})
    assert response.status_code == 200
    expected = {path: content for path, content in FILES.items() if path.startswith("reports/")}
    folders = dict.fromkeys(("reports/", "reports/2026/", "reports/empty/"), b"")
    assert opened(response.content) == expected | folders
    assert int(response.headers["Content-Length"]) == len(response.content)
    assert response.headers["Content-Type"] == "application/zip"
    assert 'filename="reports.zip"' in response.headers["Content-Disposition"]
    assert response.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"


@pytest.mark.usefixtures("tree")
async def test_the_root_and_a_single_file(gateway: Gateway) -> None:
    response = await gateway.call("GET", params={"action": "ZIP"})
    assert set(FILES) <= set(opened(response.content))
    assert 'filename="files.zip"' in response.headers["Content-Disposition"]
    response = await gateway.call("GET", "reports/notes.txt", params={"action": "ZIP"})
    assert opened(response.content) == {"notes.txt": b""}
    assert 'filename="notes.txt.zip"' in response.headers["Content-Disposition"]


async def test_times_are_kept(gateway: Gateway) -> None:
    file = gateway.put("a.txt")
    moment = datetime(2024, 2, 29, 12, 30, 42, tzinfo=UTC)
    os.utime(file, (moment.timestamp(), moment.timestamp()))
    response = await gateway.call("GET", "a.txt", params={"action": "ZIP"})
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert archive.infolist()[0].date_time == (2024, 2, 29, 12, 30, 42)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("body", ["json", "form"])
async def test_a_selection(gateway: Gateway, body: str) -> None:
    paths = ["2026", "notes.txt", "2026/january.csv", "notes.txt"]
    sent: dict[str, Any] = {"json": {"paths": paths}} if body == "json" else {"data": {"paths": paths}}
    response = await gateway.call("POST", "reports", params={"action": "ZIP"}, **sent)
    assert response.status_code == 200
    assert set(opened(response.content)) == {"2026/", "2026/january.csv", "2026/日本 ünï.txt", "notes.txt"}
    assert 'filename="reports.zip"' in response.headers["Content-Disposition"]
    assert int(response.headers["Content-Length"]) == len(response.content)


@pytest.mark.usefixtures("tree")
async def test_a_ticket_for_a_folder_opens_its_archive_and_nothing_else(gateway: Gateway) -> None:
    answer = await gateway.call("POST", "reports", params={"action": "TICKET", "recursive": "true"})
    ticket = answer.json()["ticket"]
    asked = {"action": "ZIP", "ticket": ticket}
    response = await gateway.client.get(address("reports"), params=asked)
    assert len(opened(response.content)) == 7
    response = await gateway.client.post(address("reports"), params=asked, data={"paths": ["notes.txt"]})
    assert set(opened(response.content)) == {"notes.txt"}
    for path, action in (("", "ZIP"), ("reports/2026", "ZIP"), ("reports", "LIST"), ("reports", "STAT")):
        answer = await gateway.client.get(address(path), params={"action": action, "ticket": ticket})
        assert answer.status_code in (400, 401)
    assert (await gateway.client.get(address("reports"), params={"ticket": ticket})).status_code == 409


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "path", ["../other.txt", "/other.txt", "a/../../other.txt", "", "/", ".", "2026//january.csv", "x\0"]
)
async def test_a_selection_cannot_leave_its_folder(gateway: Gateway, path: str) -> None:
    response = await gateway.call("POST", "reports", params={"action": "ZIP"}, json={"paths": [path]})
    assert response.status_code == 400


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{", 400),
        ("application/json", b'{"paths": "notes.txt"}', 400),
        ("application/json", b'{"paths": [1]}', 400),
        ("application/json", b'{"paths": []}', 400),
        ("application/json", b'{"more": ' + b"[" * 100_000, 400),
        ("application/json", b'{"paths": ["a' + b"a" * 5_000_000 + b'"]}', 400),
        ("application/x-www-form-urlencoded", b"paths=%ff", 400),
        ("application/x-www-form-urlencoded", b"", 400),
        ("application/x-www-form-urlencoded", b"&", 400),
        ("text/plain", b"notes.txt", 415),
    ],
)
async def test_a_malformed_selection(gateway: Gateway, content_type: str, body: bytes, status: int) -> None:
    response = await gateway.call(
        "POST", "reports", params={"action": "ZIP"}, content=body, headers={"Content-Type": content_type}
    )
    assert response.status_code == status


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("body", [b"paths=notes.txt&", b"&&paths=notes.txt"])
async def test_an_empty_pair_of_a_form_is_ignored(gateway: Gateway, body: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    response = await gateway.call("POST", "reports", params={"action": "ZIP"}, content=body, headers=headers)
    assert set(opened(response.content)) == {"notes.txt"}


@pytest.mark.usefixtures("tree")
async def test_rights_and_what_is_not_there(gateway: Gateway) -> None:
    for user, path, status in (
        ("reader", "reports", 200),
        ("watcher", "reports", 403),
        ("fetcher", "reports", 403),
        ("fetcher", "other.txt", 200),
        ("dropper", "other.txt", 403),
        ("web", "missing", 404),
    ):
        answer = await gateway.call("GET", path, user=user, params={"action": "ZIP"})
        assert answer.status_code == status, (user, path)
    answer = await gateway.call("POST", "reports", params={"action": "ZIP"}, json={"paths": ["missing"]})
    assert answer.status_code == 404


@pytest.mark.usefixtures("tree")
async def test_head_announces_and_sends_nothing(gateway: Gateway) -> None:
    sent = await gateway.call("GET", "reports", params={"action": "ZIP"})
    response = await gateway.call("HEAD", "reports", params={"action": "ZIP"})
    assert response.headers["Content-Length"] == sent.headers["Content-Length"]
    assert response.content == b""


@pytest.mark.usefixtures("tree")
async def test_a_tree_too_large_to_plan_is_sent_without_a_size(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (await gateway.call("GET", "reports", params={"action": "ZIP"})).content
    monkeypatch.setattr(archives, "_PLANNED", 2)
    response = await gateway.call("GET", "reports", params={"action": "ZIP"})
    assert "Content-Length" not in response.headers
    assert opened(response.content) == opened(whole)


@pytest.mark.parametrize("limit", [{"zip.max-entries": "2"}, {"zip.max-size": "700"}])
@OWN_GATEWAY
async def test_limits(open_gateway: OpenGateway, limit: dict[str, str]) -> None:
    gateway = await open_gateway(**limit)
    gateway.put("small/a.txt", b"1" * 300)
    gateway.put("large/a.txt", b"1" * 400)
    gateway.put("large/b.txt", b"1" * 400)
    assert (await gateway.call("GET", "small", params={"action": "ZIP"})).status_code == 200
    response = await gateway.call("GET", "large", params={"action": "ZIP"})
    assert response.status_code == 413
    assert response.json()["type"].endswith("too-large")


@pytest.mark.usefixtures("tree")
async def test_a_file_that_fails_breaks_the_archive_off(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    read = LocalProvider.read

    async def failing(self: LocalProvider, path: object, *more: object, **options: object) -> object:
        if str(path).endswith("picture.png"):
            raise ProviderUnavailable("The storage service is not available.")
        return await read(self, path, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalProvider, "read", failing)
    with pytest.raises(ProviderUnavailable):  # from within the application: a server closes the connection
        await gateway.call("GET", "reports", params={"action": "ZIP"})


@pytest.mark.usefixtures("tree")
async def test_no_archive_has_another_size_than_announced(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = archives.Archive.plan

    async def and_grow(self: archives.Archive) -> None:
        await plan(self)
        with (gateway.files / "reports" / "notes.txt").open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(archives.Archive, "plan", and_grow)
    response = await gateway.call("GET", "reports", params={"action": "ZIP"})
    assert response.json()["type"].endswith("changed")
