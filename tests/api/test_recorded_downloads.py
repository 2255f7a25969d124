import asyncio
import itertools
import time
from io import BytesIO

import pytest
from PIL import Image
from sqlalchemy import select

from portico.api.account import KEYS
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import Right
from portico.operations.files import downloads
from portico.store.database import Database
from portico.store.tables import journal

from .conftest import Clock, OpenGateway
from .gateways import Gateway, address
from .shares import SHARER, share
from .test_audit import break_log, in_database, lines
from .test_download import ticket_for

Found = list[tuple[str, str | None]]
MARKS = itertools.count()


@pytest.fixture(autouse=True)
def full_hour(clock: Clock) -> None:
    """No hour ends during a test unless it says so."""
    clock.advance(3600 - time.time() % 3600)


async def recorded(gateway: Gateway) -> Found:
    """What was downloaded until now: rows are written in their order, so those before a change are there with its own."""
    mark = f"/mark-{next(MARKS)}"
    assert (await gateway.call("POST", mark[1:], params={"action": "MKDIR"})).status_code == 201
    async with asyncio.timeout(60):
        while ("mkdir", mark, "done") not in (found := await in_database(gateway)):
            await asyncio.sleep(0.01)
    return [(action, path) for action, path, _ in found if action.startswith("download")]


async def places(gateway: Gateway) -> list[tuple[str | None, str | None]]:
    database = Database(gateway.settings.database_url)
    query = select(journal.c.connection, journal.c.place).where(journal.c.action.startswith("download"))
    found = [(row.connection, row.place) for row in await database.fetch(query)]
    await database.close()
    return found


async def test_a_file_has_one_line_for_each_hour_however_it_is_read(gateway: Gateway, clock: Clock) -> None:
    gateway.put("in/a.txt", b"0123456789")
    for span in ("bytes=0-1", "bytes=2-3", "bytes=4-"):
        assert (await gateway.call("GET", "in/a.txt", headers={"Range": span})).status_code == 206
    assert (await gateway.call("GET", "in/a.txt")).status_code == 200
    ticket = await ticket_for(gateway, "in/a.txt")
    assert (await gateway.client.get(address("in/a.txt"), params={"ticket": ticket})).status_code == 200
    assert await recorded(gateway) == [("download", "/in/a.txt")]
    assert await places(gateway) == [("local", "/web/in/a.txt")]
    clock.advance(3600)
    assert (await gateway.call("GET", "in/a.txt")).status_code == 200
    assert await recorded(gateway) == [("download", "/in/a.txt")] * 2
    first = next(line for line in lines(gateway) if line["action"] == "download")
    assert (first["user"], first["client"], first["outcome"]) == ("web", "127.0.0.1", "done")
    assert [line["action"] for line in lines(gateway)].count("download") == 2, "the file has the same lines"


async def test_users_keys_and_guests_have_lines_of_their_own(gateway: Gateway) -> None:
    gateway.put("box/a.txt")
    for user in ("web", "reader", "web"):
        assert (await gateway.call("GET", "box/a.txt", user=user)).status_code == 200
    made = await gateway.client.post(KEYS, headers=await gateway.sign_in(), json={"name": "ci", "folder": "/box"})
    header = {"Authorization": f"Bearer {made.json()['key']}"}
    assert (await gateway.client.get(address("a.txt"), headers=header)).status_code == 200
    shared = await share(gateway)
    for guest in (await shared.guest(), await shared.guest()):
        for _ in range(2):
            assert (await guest.call("GET", "a.txt")).status_code == 200
    await recorded(gateway)
    found = [line for line in lines(gateway) if line["action"] == "download"]
    assert [(line["user"], line["path"], line.get("key_name"), line.get("link")) for line in found] == [
        ("web", "/box/a.txt", None, None),
        ("reader", "/box/a.txt", None, None),
        ("web", "/a.txt", "ci", None),
        *[(SHARER, "/a.txt", None, shared.body["id"])] * 2,
    ]
    assert {*await places(gateway)} == {("local", "/web/box/a.txt")}


async def test_a_zip_has_one_line_for_its_folder(gateway: Gateway) -> None:
    gateway.put("in/a.txt")
    gateway.put("in/b.txt")
    assert (await gateway.call("HEAD", "in", params={"action": "ZIP"})).status_code == 200
    for _ in range(2):
        assert (await gateway.call("GET", "in", params={"action": "ZIP"})).status_code == 200
    assert await recorded(gateway) == [("download.zip", "/in")]
    assert await places(gateway) == [("local", "/web/in")]


async def test_a_folder_of_mounts_has_a_line_without_a_place(gateway: Gateway) -> None:
    (gateway.files / "in").mkdir()
    rule = MountRule(Path.parse("/folders/in"), "local", "/web/in", frozenset({Right.LIST, Right.DOWNLOAD}))
    await gateway.users.add("ann", None, mounts=[rule])
    assert (await gateway.call("GET", "folders", params={"action": "ZIP"}, user="ann")).status_code == 200
    assert await recorded(gateway) == [("download.zip", "/folders")]
    assert await places(gateway) == [(None, None)]


async def test_what_is_only_looked_at_is_not_recorded(gateway: Gateway) -> None:
    picture = BytesIO()
    Image.new("RGB", (640, 480), "red").save(picture, "JPEG")
    gateway.put("a.jpg", picture.getvalue())
    etag = (await gateway.call("HEAD", "a.jpg")).headers["ETag"]
    assert (await gateway.call("GET", "a.jpg", headers={"If-None-Match": etag})).status_code == 304
    assert (await gateway.call("GET", "a.jpg", params={"action": "THUMBNAIL"})).status_code == 200
    assert (await gateway.call("GET", "none")).status_code == 404
    assert (await gateway.call("GET", "a.jpg", user="dropper")).status_code == 403
    assert await recorded(gateway) == []
    large = {"action": "THUMBNAIL", "size": "1600"}
    assert (await gateway.call("HEAD", "a.jpg", params=large)).status_code == 200
    assert await recorded(gateway) == []
    assert (await gateway.call("GET", "a.jpg", params=large)).status_code == 200
    assert await recorded(gateway) == [("download", "/a.jpg")]


async def test_what_a_process_forgets_the_journal_knows(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_REMEMBERED", 1)
    for name in ("a", "b"):
        gateway.put(name)
    for name in ("a", "b", "a"):
        assert (await gateway.call("GET", name)).status_code == 200
    assert await recorded(gateway) == [("download", "/a"), ("download", "/b")]
    assert (await gateway.call("GET", "b")).status_code == 200
    assert await recorded(gateway) == [("download", "/a"), ("download", "/b")]
    assert [line["action"] for line in lines(gateway)].count("download") == 2


async def test_downloads_need_no_line(open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await open_gateway(**{"audit.required": "true"})
    gateway.put("a.txt")
    break_log(gateway)
    monkeypatch.setattr("portico.store.journal.MAX_QUEUED", 0)
    assert (await gateway.call("GET", "a.txt")).content == b"content"
    assert gateway.metrics.lost_audit_lines[()] == [1]


async def test_they_can_be_left_out(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"journal.downloads": "false"})
    gateway.put("a.txt")
    assert (await gateway.call("GET", "a.txt")).status_code == 200
    assert await recorded(gateway) == []
