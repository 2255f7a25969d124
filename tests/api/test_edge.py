import asyncio
import io

import pytest

from portico.api import middleware
from portico.api.assets import PAGE_POLICY
from portico.api.requests import FILESYSTEM
from portico.operations.readiness import NotReady
from portico.server.application import create_app

from .conftest import OpenGateway
from .gateways import MULTIPART, Gateway, Step, address, form, lifespan, named

SESSION = b"/backend/session"
UNKNOWN = ("Authorization", "Bearer unknown")


# Who may talk to us


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("10.1.2.3", True),
        ("192.0.2.7", True),
        ("::ffff:10.1.2.3", True),
        ("2001:db8::1", True),
        ("11.0.0.1", False),
        ("192.0.2.8", False),
        ("::ffff:11.0.0.1", False),
        ("2001:db9::1", False),
        ("127.0.0.1", False),
    ],
)
async def test_only_allowed_addresses_are_served(open_gateway: OpenGateway, peer: str, allowed: bool) -> None:
    gateway = await open_gateway(**{"security.allowed-addresses": "10.0.0.0/8, 192.0.2.7, 2001:db8::/32"})
    for target in (b"/healthz", SESSION, b"/nowhere", b"/"):
        answer = await gateway.raw("GET", target, peer=peer)
        assert (answer.status == 403) != allowed, target
        if not allowed:
            assert answer.json()["code"] == "address-not-allowed"


async def test_a_forwarded_address_counts_for_nothing_without_a_proxy(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"security.allowed-addresses": "192.0.2.7"})
    answer = await gateway.raw("GET", b"/healthz", [("X-Forwarded-For", "192.0.2.7")], peer="198.51.100.1")
    assert answer.status == 403


@pytest.mark.parametrize(
    ("forwarded", "status"),
    [
        (["192.0.2.7"], 200),
        (["192.0.2.7, 10.0.0.2"], 200),
        (["192.0.2.7", "10.0.0.2"], 200),
        (["garbage, 192.0.2.7"], 200),
        (["198.51.100.1, 192.0.2.7"], 200),
        (["::ffff:192.0.2.7"], 200),
        (["192.0.2.7:4711"], 200),
        (["[::ffff:192.0.2.7]:4711"], 200),
        (["192.0.2.7, 198.51.100.1"], 403),
        (["192.0.2.7", "198.51.100.1"], 403),
        (["192.0.2.7, 198.51.100.1, 10.0.0.2"], 403),
        ([], 403),
        (["192.0.2.7, garbage"], 400),
        (["192.0.2.7,"], 400),
    ],
)
async def test_behind_a_proxy_the_client_is_read_from_the_right(
    open_gateway: OpenGateway, forwarded: list[str], status: int
) -> None:
    gateway = await open_gateway(**{"server.behind-proxy": "10.0.0.0/24", "security.allowed-addresses": "192.0.2.7"})
    headers = [("X-Forwarded-For", line) for line in forwarded]
    answer = await gateway.raw("GET", b"/healthz", headers, peer="10.0.0.1")
    assert answer.status == status


async def test_behind_a_proxy_nobody_else_may_connect(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"server.behind-proxy": "10.0.0.0/24"})
    headers = [("X-Forwarded-For", "10.0.0.1")]
    assert (await gateway.raw("GET", b"/healthz", headers, peer="10.0.1.1")).status == 403
    assert (await gateway.raw("GET", b"/healthz", headers, peer="10.0.0.1")).status == 200


async def test_the_address_that_counts_is_logged(open_gateway: OpenGateway, log: io.StringIO) -> None:
    gateway = await open_gateway(**{"server.behind-proxy": "10.0.0.0/24"})
    await gateway.raw("GET", SESSION, [("X-Forwarded-For", "6.6.6.6, 192.0.2.7")], peer="10.0.0.1")
    assert '"client":"192.0.2.7"' in log.getvalue()


# What is refused at the door


async def test_two_hosts_are_refused(gateway: Gateway) -> None:
    for hosts in (["a.test", "b.test"], ["a.test", "a.test"]):
        answer = await gateway.raw("GET", b"/healthz", [("Host", host) for host in hosts], host=None)
        assert (answer.status, answer.json()["code"]) == (400, "invalid-request")
    assert (await gateway.raw("GET", b"/healthz", [("Host", "a.test")], host=None)).status == 200


async def test_no_host_is_refused(gateway: Gateway) -> None:
    for host in (None, ""):
        answer = await gateway.raw("GET", b"/healthz", host=host)
        assert (answer.status, answer.json()["code"]) == (400, "invalid-request")


@pytest.mark.parametrize("codings", [["gzip, chunked"], ["x", "chunked"], ["chunked", "chunked"], ["identity"]])
async def test_a_transfer_coding_that_another_server_may_read_differently_is_refused(
    gateway: Gateway, codings: list[str]
) -> None:
    answer = await gateway.raw("GET", b"/healthz", [("Transfer-Encoding", coding) for coding in codings])
    assert (answer.status, answer.json()["code"]) == (400, "invalid-request")
    assert (await gateway.raw("GET", b"/healthz", [("Transfer-Encoding", "Chunked")])).status == 200


async def test_a_length_beside_a_transfer_coding(gateway: Gateway) -> None:
    """Should a server pass both on, neither what follows the one nor the other is read as another request."""
    framing = [("Content-Length", "1"), ("Transfer-Encoding", "chunked")]
    for headers in (framing, framing[::-1]):
        answer = await gateway.raw("POST", b"/backend/logout", headers, [b"x"])
        assert (answer.status, answer.json()["code"]) == (400, "invalid-request")
        assert answer.header("connection") == "close"


@pytest.mark.parametrize(
    "name",
    ["Content-Length", "Expect", "If-Modified-Since", "If-Range", "If-Unmodified-Since", "Range", "Sec-Fetch-Dest"],
)
async def test_a_header_of_one_value_is_refused_twice(gateway: Gateway, name: str) -> None:
    gateway.put("file")
    credentials = (await gateway.sign_in()).items()
    target = address("file").encode()
    answer = await gateway.raw("GET", target, [*credentials, (name, "0"), (name, "0")])
    assert (answer.status, answer.json()["code"]) == (400, "invalid-request")
    assert name in answer.json()["detail"]


@pytest.mark.parametrize("query", [b"access_token=x", b"size=1&access_token=", b"access%5ftoken=x", b"access_token"])
async def test_a_token_is_sent_in_one_way_only(gateway: Gateway, query: bytes) -> None:
    credentials = (await gateway.sign_in()).items()
    for target in (SESSION, address("").encode()):
        answer = await gateway.raw("GET", target + b"?" + query, credentials)
        assert (answer.status, answer.json()["code"]) == (400, "invalid-request")
        answer = await gateway.raw("GET", target + b"?" + query)
        assert (answer.status, answer.json()["code"]) == (401, "not-signed-in")
        assert (await gateway.raw("GET", target + b"?target=access_token", credentials)).status == 200


async def test_an_address_may_have_8_kib(gateway: Gateway) -> None:
    credentials = (await gateway.sign_in()).items()
    longest = FILESYSTEM.encode() + b"?cursor="
    longest += b"x" * (8 * 1024 - len(longest))
    assert (await gateway.raw("GET", longest, credentials)).status == 400
    assert (await gateway.raw("GET", longest + b"x", credentials)).status == 414
    path = FILESYSTEM.encode() + b"/" + b"x" * 9 * 1024
    assert (await gateway.raw("GET", path, credentials)).status == 414


# What every answer carries


@pytest.mark.parametrize("tls", ["off", "auto"])
async def test_every_response_has_the_security_headers(open_gateway: OpenGateway, tls: str) -> None:
    gateway = await open_gateway(**{"server.tls": tls})
    gateway.put("file")
    credentials = (await gateway.sign_in()).items()
    seen = set()
    for method, target in (
        ("GET", b"/"),
        ("GET", b"/healthz"),
        ("GET", b"/nowhere"),
        ("POST", b"/backend/login"),
        ("GET", SESSION),
        ("GET", address("").encode()),
        ("GET", address("file").encode()),
        ("DELETE", address("file").encode()),
        ("PUT", address("file").encode()),
    ):
        answer = await gateway.raw(method, target, credentials)
        assert answer.header("X-Content-Type-Options") == "nosniff"
        assert answer.header("Referrer-Policy") == "no-referrer"
        strict = [value for name, value in answer.headers if name == "strict-transport-security"]
        assert strict == (["max-age=31536000"] if tls == "auto" else [])
        seen.add(answer.header("X-Request-Id"))
    assert len(seen) == 9


async def test_a_request_id_is_ours(gateway: Gateway) -> None:
    answer = await gateway.raw("GET", b"/healthz", [("X-Request-Id", "mine")])
    assert answer.header("X-Request-Id") != "mine"


@pytest.mark.parametrize("path", ["/", "/backend/docs"])
async def test_a_page_may_load_nothing_from_elsewhere(gateway: Gateway, path: str) -> None:
    response = await gateway.client.get(path)
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/html")
    assert response.headers["Content-Security-Policy"] == PAGE_POLICY
    assert "default-src 'none'" in PAGE_POLICY
    assert "frame-ancestors 'none'" in PAGE_POLICY
    assert "unsafe" not in PAGE_POLICY
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("name", ["page.html", "picture.svg", "file"])
async def test_what_a_user_stored_runs_nothing(gateway: Gateway, name: str) -> None:
    gateway.put(name, b"<script>alert(1)</script>")
    ticket = (await gateway.call("POST", name, params={"action": "TICKET"})).json()["ticket"]
    for method in ("GET", "HEAD"):
        response = await gateway.client.request(method, address(name), params={"ticket": ticket})
        assert response.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
        assert response.headers["Content-Disposition"].startswith("attachment;")


# What is counted


async def test_requests_are_counted_by_what_they_ask(gateway: Gateway) -> None:
    gateway.put("a", b"12345")
    await gateway.list()
    await gateway.call("GET", "a")
    await gateway.call("GET", "a", params={"action": "STAT"})
    await gateway.call("GET", "none")
    await gateway.upload("", {"b": b"1" * 1000})
    await gateway.call("POST", "b", params={"action": "MOVE", "target": "/c"})
    await gateway.client.get(address(""))
    await gateway.client.get("/nowhere")
    metrics = gateway.metrics
    assert {labels: sum(numbers[:-1]) for labels, numbers in metrics.requests.items()} == {
        ("list", 200): 1,
        ("download", 200): 1,
        ("stat", 200): 1,
        ("list", 404): 1,
        ("upload", 204): 1,
        ("move", 201): 1,
        ("read", 401): 1,
        ("other", 404): 1,
    }
    assert metrics.sent[("download",)] == [5]
    assert metrics.received[("upload",)][0] > 1000
    assert metrics.in_progress == 0


async def test_the_user_of_a_ticket_is_logged(gateway: Gateway, log: io.StringIO) -> None:
    gateway.put("a")
    ticket = (await gateway.call("POST", "a", params={"action": "TICKET"})).json()["ticket"]
    await gateway.client.get(address("a"), params={"ticket": ticket})
    assert '"user":"web"' in log.getvalue().splitlines()[-1]


async def test_monitors_get_an_answer(gateway: Gateway) -> None:
    for path, word in (("/healthz", "ok"), ("/readyz", "ready")):
        response = await gateway.client.get(path)
        assert (response.status_code, response.json()) == (200, {"status": word})


READY = b"/readyz"
CLIENTS_OF_A_PROXY = [("X-Forwarded-For", "192.0.2.7")]


@pytest.mark.parametrize("guard", ["security.allowed-addresses", "server.behind-proxy"])
async def test_monitors_get_an_answer_where_others_are_refused(open_gateway: OpenGateway, guard: str) -> None:
    gateway = await open_gateway(**{guard: "192.0.2.0/24", "health.allowed-addresses": "10.0.0.0/8"})
    for target in (b"/healthz", READY):
        assert (await gateway.raw("GET", target, peer="10.0.0.7")).status == 200
        assert (await gateway.raw("GET", target, peer="11.0.0.7")).status == 403
        forwarded = await gateway.raw("GET", target, CLIENTS_OF_A_PROXY, peer="10.0.0.7")
        assert forwarded.status == 403
    for target in (b"/", SESSION, b"/healthz/", b"/metrics"):
        assert (await gateway.raw("GET", target, peer="10.0.0.7")).status == 403


async def test_only_monitors_learn_what_is_wrong(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"health.allowed-addresses": "10.0.0.7"})
    gateway.services.gateway.readiness.drain()

    async def faults(peer: str, headers: list[tuple[str, str]]) -> dict[str, str] | None:
        answer = await gateway.raw("GET", READY, headers, peer=peer)
        assert (answer.status, answer.json()["code"]) == (503, "unavailable")
        assert answer.header("Retry-After") == "1"
        found: dict[str, str] | None = answer.json().get("faults")
        return found

    for peer in ("10.0.0.7", "127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert await faults(peer, []) == {"draining": "This node is about to stop."}
        assert await faults(peer, CLIENTS_OF_A_PROXY) is None
    assert await faults("10.0.0.8", []) is None
    assert (await gateway.raw("GET", b"/healthz", peer="10.0.0.8")).status == 200


# A body that is refused


async def refused(gateway: Gateway, steps: list[Step], *headers: tuple[str, str]) -> int:
    """Send a body that nobody wants; how much of it was taken in before the answer came."""
    answer = await gateway.raw("POST", address("").encode(), [UNKNOWN, *headers], steps)
    assert answer.status == 401
    return answer.taken


@pytest.mark.parametrize("framing", [("Content-Length", "5000"), ("Transfer-Encoding", "chunked")])
async def test_a_refused_body_is_taken_in_before_the_answer(gateway: Gateway, framing: tuple[str, str]) -> None:
    assert await refused(gateway, [b"x" * 1000] * 5, framing) == 5000


async def test_a_refused_body_is_taken_in_up_to_a_bound(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "DRAINED_BYTES", 2500)
    assert await refused(gateway, [b"x" * 1000] * 5, ("Content-Length", "5000")) == 3000


async def test_a_refused_body_is_waited_for_up_to_a_bound(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "DRAINED_SECONDS", 0.05)

    async def stall() -> None:
        await asyncio.Event().wait()

    assert await refused(gateway, [b"x" * 1000, stall, b"x"], ("Content-Length", "5000")) == 1000


async def test_a_refused_body_that_was_not_invited_is_not_waited_for(gateway: Gateway) -> None:
    headers = (("Content-Length", "5000"), ("Expect", "100-Continue"))
    assert await refused(gateway, [b"x" * 1000] * 5, *headers) == 0


async def test_a_body_that_failed_after_its_invitation_is_taken_in(gateway: Gateway) -> None:
    gateway.put("a")
    headers = [
        *(await gateway.sign_in("writer")).items(),
        ("Content-Type", MULTIPART),
        ("Transfer-Encoding", "chunked"),
        ("Expect", "100-continue"),
    ]
    body = form(named("a"))
    answer = await gateway.raw("POST", address("").encode(), headers, [body, b"x" * 1000, b"x" * 1000])
    assert answer.status == 409
    assert answer.taken == len(body) + 2000


async def test_a_client_that_goes_while_its_body_is_refused_is_no_bug(gateway: Gateway, log: io.StringIO) -> None:
    steps: list[Step] = [b"x", ConnectionError()]
    headers = [UNKNOWN, ("Content-Length", "5")]
    answer = await gateway.raw("POST", address("").encode(), headers, steps)
    assert answer.status == 401  # it may still be listening
    assert "bug" not in log.getvalue()


async def test_without_a_body_nothing_is_waited_for(gateway: Gateway) -> None:
    async def never() -> None:
        raise AssertionError("there was no body to ask for")

    for headers in ((), (("Content-Length", "0"),)):
        assert await refused(gateway, [never], *headers) == 0


# The log


async def test_a_log_line_says_who_did_what_and_carries_no_secret(gateway: Gateway, log: io.StringIO) -> None:
    gateway.put("a b")
    credentials = await gateway.sign_in()
    secrets = [credentials["Authorization"].removeprefix("Bearer ")]
    response = await gateway.client.post(address("a b"), params={"action": "TICKET"}, headers=credentials)
    secrets.append(response.json()["ticket"])
    await gateway.client.get(address("a b"), params={"ticket": secrets[1]})
    await gateway.client.get(address("a b"), params={"ticket": secrets[1], "cursor": "canary"})
    await gateway.login(password="canary")
    lines = log.getvalue().splitlines()
    assert len(lines) == 4
    assert '"user":"web"' in lines[0]
    assert '"method":"POST"' in lines[0]
    assert f'"path":"{FILESYSTEM}/a%20b"' in lines[0]
    assert response.headers["X-Request-Id"] in lines[0]
    assert not any(secret in log.getvalue() for secret in (*secrets, "canary"))


async def test_healthy_answers_to_monitors_are_not_logged(gateway: Gateway, log: io.StringIO) -> None:
    await gateway.client.get("/healthz")
    await gateway.client.get("/readyz")
    assert log.getvalue() == ""


async def test_a_node_that_is_to_stop_before_it_has_opened_is_not_ready(gateway: Gateway) -> None:
    app = create_app(gateway.settings)
    app.on_drain()
    async with lifespan(app) as state:
        with pytest.raises(NotReady) as refusal:
            await state["services"].get().gateway.readiness.check()
    assert [fault.check for fault in refusal.value.faults] == ["draining"]
