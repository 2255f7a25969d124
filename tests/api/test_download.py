import asyncio
import os
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any
from urllib.parse import unquote

import pytest

from portico.api.download import content_disposition
from portico.model.rights import Right
from portico.runtime.threads import ThreadPool
from portico.store.tickets import LIFETIME

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, Clock
from .gateways import Gateway, address

pytestmark = SHARES_GATEWAY

CONTENT = bytes(range(256)) * 4
LONG_AGO, LATER = "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"


@pytest.fixture
def file(gateway: Gateway) -> str:
    file = gateway.put("reports/file.bin", CONTENT)
    moment = datetime(2026, 11, 14, 9, 30, tzinfo=UTC).timestamp()
    os.utime(file, (moment, moment + 0.25))
    return "reports/file.bin"


async def test_a_file_is_sent_with_all_its_headers(gateway: Gateway, file: str) -> None:
    response = await gateway.call("GET", file)
    assert response.status_code == 200
    assert response.content == CONTENT
    assert response.headers["Content-Length"] == "1024"
    assert response.headers["Content-Type"] == "application/octet-stream"
    assert response.headers["Accept-Ranges"] == "bytes"
    assert response.headers["Last-Modified"] == "Sat, 14 Nov 2026 09:30:00 GMT"
    assert response.headers["ETag"].startswith('"')
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="file.bin"')
    assert "Content-Range" not in response.headers


RUNNING = (
    *("script", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet", "style", "xslt", "json"),
    *("frame", "iframe", "fencedframe", "object", "embed", "manifest", "font", "report", "webidentity", "new-one"),
)
LOADING = ("empty", "document", "image", "audio", "video", "track")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_file_is_not_sent_to_be_run(gateway: Gateway, file: str, method: str) -> None:
    """A ticket's address is of the page's own origin: as a script, a user's file would have all that the page has."""
    for query in ({"ticket": await ticket_for(gateway, file)}, {}, {"action": "DOWNLOAD"}):
        for destination in RUNNING:
            response = await gateway.call(method, file, params=query, headers={"Sec-Fetch-Dest": destination})
            assert response.status_code == 403, destination
        worker = {"Sec-Fetch-Dest": "empty", "Service-Worker": "script"}
        assert (await gateway.call(method, file, params=query, headers=worker)).status_code == 403
        for destination in LOADING:
            response = await gateway.call(method, file, params=query, headers={"Sec-Fetch-Dest": destination})
            assert response.status_code == 200, destination
            assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
async def test_a_list_of_versions_may_be_spread_over_lines(gateway: Gateway, file: str, name: str) -> None:
    etag = (await gateway.call("HEAD", file)).headers["ETag"]
    credentials = (await gateway.sign_in()).items()
    for lines in (['"x"', etag], [etag, '"x"']):
        answer = await gateway.raw("GET", address(file).encode(), [*credentials, *((name, line) for line in lines)])
        assert answer.status == (200 if name == "If-Match" else 304)


@pytest.mark.parametrize("name", ["page.html", "image.svg", "script.js"])
async def test_active_content_is_an_attachment(gateway: Gateway, name: str) -> None:
    gateway.put(name, b"<script>alert(1)</script>")
    response = await gateway.call("GET", name)
    assert response.headers["Content-Disposition"].startswith("attachment;")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_an_empty_file_is_sent(gateway: Gateway) -> None:
    gateway.put("empty", b"")
    response = await gateway.call("GET", "empty")
    assert (response.status_code, response.content, response.headers["Content-Length"]) == (200, b"", "0")


async def test_a_large_file_is_sent_in_pieces(gateway: Gateway) -> None:
    content = os.urandom(3 * 2**20 + 1)
    gateway.put("large", content)
    assert (await gateway.call("GET", "large")).content == content


async def test_head_answers_the_same_headers(gateway: Gateway, file: str) -> None:
    get, head = await gateway.call("GET", file), await gateway.call("HEAD", file)
    assert (head.status_code, head.content) == (200, b"")
    ignored = {"x-request-id"}
    assert {k: v for k, v in head.headers.items() if k not in ignored} == {
        k: v for k, v in get.headers.items() if k not in ignored
    }


# Ranges


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-1023", 0, 1024),
        ("bytes=0-99999", 0, 1024),
        ("bytes=100-199", 100, 200),
        ("bytes=1023-", 1023, 1024),
        ("bytes=0-", 0, 1024),
        ("bytes=-1", 1023, 1024),
        ("bytes=-99999", 0, 1024),
        ("bytes= 5-6", 5, 7),
    ],
)
async def test_one_range_is_sent(gateway: Gateway, file: str, asked: str, start: int, stop: int) -> None:
    response = await gateway.call("GET", file, headers={"Range": asked})
    assert response.status_code == 206
    assert response.content == CONTENT[start:stop]
    assert response.headers["Content-Range"] == f"bytes {start}-{stop - 1}/1024"
    assert response.headers["Content-Length"] == str(stop - start)


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "bytes=",
        "bytes=-",
        "bytes=5-4",
        "bytes=a-b",
        "bytes=0-1,3-4",
        "bytes=" + ",".join("0-0" for _ in range(1000)),
        "bytes=1-" + "9" * 41,
        "lines=1-2",
        "bytes 0-1",
        "bytes=-1-2",
        "bytes=٣-٤",
    ],
)
async def test_another_range_means_the_whole_file(gateway: Gateway, file: str, asked: str) -> None:
    credentials = (await gateway.sign_in()).items()
    headers = [*credentials, ("Range", asked.encode().decode("latin-1"))]
    answer = await gateway.raw("GET", address(file).encode(), headers)
    assert (answer.status, answer.body) == (200, CONTENT)


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=1024-2000", "bytes=-0", "bytes=999999999999999999-"])
async def test_a_range_outside_the_file_is_refused(gateway: Gateway, file: str, asked: str) -> None:
    response = await gateway.call("GET", file, headers={"Range": asked})
    assert (response.status_code, response.json()["code"]) == (416, "range-not-satisfiable")
    assert response.headers["Content-Range"] == "bytes */1024"


async def test_no_range_is_in_an_empty_file(gateway: Gateway) -> None:
    gateway.put("empty.txt", b"")
    for asked in ("bytes=0-", "bytes=0-0", "bytes=-1"):
        response = await gateway.call("GET", "empty.txt", headers={"Range": asked})
        assert (response.status_code, response.headers["Content-Range"]) == (416, "bytes */0"), asked


async def test_if_range_holds_the_range_to_one_version(gateway: Gateway, file: str) -> None:
    whole = await gateway.call("GET", file)
    for condition, status in (
        (whole.headers["ETag"], 206),
        (whole.headers["Last-Modified"], 206),
        ('"other"', 200),
        ("W/" + whole.headers["ETag"], 200),
        (LONG_AGO, 200),
        ("nonsense", 200),
    ):
        response = await gateway.call("GET", file, headers={"Range": "bytes=0-1", "If-Range": condition})
        assert response.status_code == status, condition


async def test_a_file_that_changed_between_two_ranges_is_refused(gateway: Gateway, file: str) -> None:
    etag = (await gateway.call("GET", file, headers={"Range": "bytes=0-1"})).headers["ETag"]
    gateway.put(file, b"another content")
    response = await gateway.call("GET", file, headers={"Range": "bytes=2-3", "If-Match": etag})
    assert (response.status_code, response.json()["code"]) == (412, "changed")


# Conditions


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("If-None-Match", "ETAG", 304),
        ("If-None-Match", "W/ETAG", 304),
        ("If-None-Match", '"x", ETAG', 304),
        ("If-None-Match", "*", 304),
        ("If-None-Match", '"x"', 200),
        ("If-Match", "ETAG", 200),
        ("If-Match", "*", 200),
        ("If-Match", '"x",ETAG', 200),
        ("If-Match", '"x"', 412),
        ("If-Match", "W/ETAG", 412),
        ("If-Modified-Since", "Sat, 14 Nov 2026 09:30:00 GMT", 304),
        ("If-Modified-Since", LATER, 304),
        ("If-Modified-Since", LONG_AGO, 200),
        ("If-Modified-Since", "nonsense", 200),
        ("If-Unmodified-Since", "Sat, 14 Nov 2026 09:30:00 GMT", 200),
        ("If-Unmodified-Since", LATER, 200),
        ("If-Unmodified-Since", LONG_AGO, 412),
        ("If-Unmodified-Since", "nonsense", 200),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_conditional_request(
    gateway: Gateway, file: str, method: str, name: str, value: str, status: int
) -> None:
    etag = (await gateway.call("HEAD", file)).headers["ETag"]
    response = await gateway.call(method, file, headers={name: value.replace("ETAG", etag)})
    assert response.status_code == status
    if status == 304:
        assert response.content == b""
        assert response.headers["ETag"] == etag
        assert response.headers["Cache-Control"] == "private, no-cache"


async def test_an_etag_counts_more_than_a_date(gateway: Gateway, file: str) -> None:
    etag = (await gateway.call("HEAD", file)).headers["ETag"]
    for headers, status in (
        ({"If-None-Match": '"x"', "If-Modified-Since": LATER}, 200),
        ({"If-None-Match": etag, "If-Modified-Since": LONG_AGO}, 304),
        ({"If-Match": etag, "If-Unmodified-Since": LONG_AGO}, 200),
        ({"If-Match": etag, "If-None-Match": etag}, 304),
    ):
        assert (await gateway.call("GET", file, headers=headers)).status_code == status, headers


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2001 00:00:00 +9999999999999999999999",
        "Mon, 99 Jan 2001 99:99:99 GMT",
        "Mon, 01 Jan 0001 00:00:00 +2300",
        "Fri, 31 Dec 9999 23:59:59 -2300",
        ", , ,",
        "1 2 3 4 5 6 7",
        "9" * 1000,
    ],
)
@pytest.mark.parametrize("name", ["If-Modified-Since", "If-Unmodified-Since", "If-Range"])
async def test_a_date_that_is_none_breaks_nothing(gateway: Gateway, file: str, name: str, date: str) -> None:
    response = await gateway.call("GET", file, headers={name: date, "Range": "bytes=0-1"})
    assert response.status_code in (200, 206, 304, 412)


async def test_the_etag_changes_with_the_content(gateway: Gateway, file: str) -> None:
    before = (await gateway.call("HEAD", file)).headers
    gateway.put(file, CONTENT[::-1])
    after = (await gateway.call("HEAD", file)).headers
    assert before["ETag"] != after["ETag"]
    assert parsedate_to_datetime(after["Last-Modified"]) != parsedate_to_datetime(before["Last-Modified"])


# The name


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a.txt", "a.txt"),
        ('say "hi".txt', "say _hi_.txt"),
        ("50%.txt", "50_.txt"),
        ("Grüße.txt", "Gr__e.txt"),
        ("报告.pdf", "__.pdf"),
        ("a;b=c.txt", "a;b=c.txt"),
        ("<img onerror=alert(1)>", "<img onerror=alert(1)>"),
        ("it's.txt", "it's.txt"),
    ],
)
async def test_the_name_is_sent_to_old_and_new_clients(gateway: Gateway, name: str, plain: str) -> None:
    gateway.put(name)
    header = (await gateway.call("GET", name)).headers["Content-Disposition"]
    assert header.startswith(f"attachment; filename=\"{plain}\"; filename*=UTF-8''")
    encoded = header.partition("UTF-8''")[2]
    assert unquote(encoded, errors="strict") == name
    assert not set(encoded) & set("\"'();,/ ")


async def test_no_name_can_break_the_header() -> None:
    for code in range(0x250):
        header = content_disposition(f"a{chr(code)}b")
        assert header.isascii()
        assert header.isprintable()
        assert header.count('"') == 2
        assert "\\" not in header


# What cannot be downloaded


@pytest.mark.parametrize("path", ["", "reports"])
async def test_a_folder_is_not_downloaded(gateway: Gateway, file: str, path: str) -> None:
    response = await gateway.call("GET", path, params={"action": "DOWNLOAD"})
    assert (response.status_code, response.json()["code"]) == (409, "is-a-folder")


async def test_what_resembles_a_file_may_be_a_folder(gateway: Gateway) -> None:
    gateway.put("v1.2/a")
    for user in ("web", "watcher"):
        listed = (await gateway.list("v1.2", user)).json()["content"]
        assert [entry["name"] for entry in listed] == ["v1.2", "a"], user
    missing = await gateway.call("GET", "v1.3")
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    refused = await gateway.call("GET", "v1.2", user="fetcher")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_a_small_file_is_looked_for_and_read_at_once(
    gateway: Gateway, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = ThreadPool.start

    def counted(pool: ThreadPool, work: Any, *args: Any) -> Any:
        if work.__module__.startswith("portico.providers"):
            started.append(work.__name__)
        return start(pool, work, *args)

    monkeypatch.setattr(ThreadPool, "start", counted)
    assert (await gateway.call("GET", file)).content == CONTENT
    assert started[-1:] == ["_open"]
    assert set(started) <= {"_open", "_volume_id"}


async def test_downloading_needs_its_right_and_no_other(gateway: Gateway, file: str) -> None:
    for user in ("watcher", "dropper"):
        for parameters in ({}, {"action": "DOWNLOAD"}):
            response = await gateway.call("GET", file, user=user, params=parameters)
            assert (response.status_code, response.json()["code"]) == (403, "forbidden"), user
    assert (await gateway.call("GET", file, user="fetcher")).content == CONTENT


async def test_a_file_that_shrinks_on_the_way_is_broken_off(gateway: Gateway) -> None:
    """Only a broken connection tells the client that what it has is not the file."""
    file = gateway.put("shrinking", os.urandom(3 * 2**20))
    credentials = (await gateway.sign_in()).items()
    began: list[int] = []

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            began.append(int(str(message["status"])))
            os.truncate(file, 2**20)

    scope = {
        "type": "http",
        "http_version": "1.0",
        "method": "GET",
        "path": address("shrinking"),
        "raw_path": address("shrinking").encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in credentials],
        "client": ("127.0.0.1", 50000),
    }
    with pytest.raises(Exception, match="shortened"):
        await gateway.app(scope, receive, send)  # type: ignore[arg-type]
    assert began == [200]


# Tickets


async def ticket_for(gateway: Gateway, path: str, user: str = "web") -> str:
    response = await gateway.call("POST", path, user=user, params={"action": "TICKET"})
    assert response.status_code == 200, response.text
    assert response.headers["Cache-Control"] == "no-store"
    body = response.json()
    assert body.keys() == {"ticket", "expiresIn"}
    assert body["expiresIn"] == 60
    return str(body["ticket"])


async def test_a_ticket_downloads_its_file_without_a_header(gateway: Gateway, file: str) -> None:
    ticket = await ticket_for(gateway, file)
    for parameters in ({"ticket": ticket}, {"ticket": ticket, "action": "DOWNLOAD"}):
        response = await gateway.client.get(address(file), params=parameters)
        assert (response.status_code, response.content) == (200, CONTENT)
        assert response.headers["Content-Disposition"].startswith("attachment;")
    ranged = await gateway.client.get(address(file), params={"ticket": ticket}, headers={"Range": "bytes=0-1"})
    assert (ranged.status_code, ranged.content) == (206, CONTENT[:2])


async def test_a_ticket_is_for_one_path(gateway: Gateway, file: str) -> None:
    gateway.put("other")
    ticket = await ticket_for(gateway, file)
    for path in ("other", "reports", ""):
        response = await gateway.client.get(address(path), params={"ticket": ticket})
        assert (response.status_code, response.json()["code"]) == (401, "not-signed-in")


@OWN_GATEWAY
async def test_a_ticket_starts_no_download_after_a_minute(gateway: Gateway, file: str, clock: Clock) -> None:
    ticket = await ticket_for(gateway, file)
    clock.advance(LIFETIME - 1)
    assert (await gateway.client.get(address(file), params={"ticket": ticket})).status_code == 200
    clock.advance(1)
    assert (await gateway.client.get(address(file), params={"ticket": ticket})).status_code == 401


@OWN_GATEWAY
async def test_a_player_renews_its_ticket(gateway: Gateway, file: str, clock: Clock) -> None:
    credentials = await gateway.sign_in()

    async def issued(ticket: str | None = None) -> str:
        query = {"action": "TICKET"} | ({"ticket": ticket} if ticket else {})
        response = await gateway.client.post(address(file), params=query, headers=credentials)
        assert response.json()["expiresIn"] == LIFETIME
        return str(response.json()["ticket"])

    ticket = await issued()
    for _ in range(3):
        clock.advance(LIFETIME - 1)
        assert await issued(ticket) == ticket
    clock.advance(LIFETIME)
    assert await issued(ticket) != ticket, "another one, as that has expired"
    assert (await gateway.client.get(address(file), params={"ticket": ticket})).status_code == 401


async def test_a_ticket_ends_with_its_token(gateway: Gateway, file: str) -> None:
    credentials = await gateway.sign_in()
    response = await gateway.client.post(address(file), params={"action": "TICKET"}, headers=credentials)
    await gateway.client.post("/backend/logout", headers=credentials)
    ended = await gateway.client.get(address(file), params={"ticket": response.json()["ticket"]})
    assert (ended.status_code, ended.json()["code"]) == (401, "not-signed-in")


async def test_a_ticket_ends_with_its_user_and_with_the_right(gateway: Gateway, file: str) -> None:
    ticket = await ticket_for(gateway, file)
    await gateway.users.change("web", rights={Right.LIST})
    assert (await gateway.client.get(address(file), params={"ticket": ticket})).status_code == 403
    await gateway.users.change("web", disabled=True)
    assert (await gateway.client.get(address(file), params={"ticket": ticket})).status_code == 401


@pytest.mark.parametrize("ticket", ["", "nonsense", "x" * 300, "ü", "\0"])
async def test_an_unknown_ticket_is_refused(gateway: Gateway, file: str, ticket: str) -> None:
    response = await gateway.client.get(address(file), params={"ticket": ticket})
    assert (response.status_code, response.json()["code"]) == (401, "not-signed-in")
    assert not ticket or ticket not in response.text


async def test_a_ticket_is_good_for_a_download_only(gateway: Gateway, file: str) -> None:
    ticket = await ticket_for(gateway, file)
    for action in ("LIST", "STAT"):
        response = await gateway.client.get(address(file), params={"ticket": ticket, "action": action})
        assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    for method in ("POST", "DELETE"):
        response = await gateway.client.request(method, address(file), params={"ticket": ticket})
        assert response.status_code == 401


async def test_a_ticket_needs_the_right_to_download(gateway: Gateway, file: str) -> None:
    response = await gateway.call("POST", file, user="watcher", params={"action": "TICKET"})
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("path", "status", "code"), [("reports", 409, "is-a-folder"), ("", 409, "is-a-folder"), ("gone", 404, "not-found")]
)
async def test_a_ticket_is_for_a_file(gateway: Gateway, file: str, path: str, status: int, code: str) -> None:
    response = await gateway.call("POST", path, params={"action": "TICKET"})
    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_the_dates_of_these_tests_are_what_they_say() -> None:
    assert parsedate_to_datetime(LONG_AGO) < datetime.now(UTC) < parsedate_to_datetime(LATER)
    assert format_datetime(parsedate_to_datetime(LATER), usegmt=True) == LATER
