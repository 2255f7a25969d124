"""What the HTTP server does with clients who are slow, many or old. Its times are shortened here, never its rules."""

import asyncio
import os
import ssl
import warnings
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from ..gateways import FILES, WAIT, wait_until
from .checks.floods import credentials
from .processes import TunedGateway
from .raw_http import MULTIPART, Broken, Wire, ask, form, get, head, post

SHORT = {
    "portico.server.processes.HEADER_TIMEOUT_MS": 1000,
    "portico.server.worker.UNREAD_TIMEOUT_MS": 1000,
    "portico.api.request_body.IDLE_SECONDS": 1.0,
    "portico.api.request_body.SMALL_SECONDS": 1.0,
    "portico.api.download.IDLE_SECONDS": 0.5,
    "portico.api.download.MIN_RATE": 2**20,
}

FILE_BEGUN = b'--b\r\nContent-Disposition: form-data; name="data"; filename="x"\r\n\r\nx'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TunedGateway]:
    gateway = TunedGateway(tmp_path_factory.mktemp("edge") / "home", constants=SHORT)
    gateway.begin()
    yield gateway
    gateway.kill()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TunedGateway]:
    gateway = TunedGateway(tmp_path_factory.mktemp("secure") / "home", tls=True)
    gateway.start()
    yield gateway
    gateway.kill()


async def trickle(wire: Wire, pieces: bytes, seconds: float) -> bool:
    """Send byte by byte; whether the other side ends it before it is all sent."""
    try:
        for piece in pieces:
            await wire.send(bytes([piece]))
            if await wire.ends(seconds):
                return True
    except ConnectionError:
        return True
    return False


async def test_a_silent_connection_is_ended(gateway: TunedGateway) -> None:
    wire = await gateway.wire()
    assert await wire.ends(WAIT)
    await wire.close()


async def test_half_a_header_is_ended(gateway: TunedGateway) -> None:
    wire = await gateway.wire()
    await wire.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
    assert await wire.ends(WAIT)
    await wire.close()


async def test_a_trickled_header_is_ended(gateway: TunedGateway) -> None:
    """The time counts for the whole of the header, not from byte to byte."""
    wire = await gateway.wire()
    assert await trickle(wire, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 500, 0.1)
    await wire.close()


async def test_an_idle_connection_is_ended_after_an_answer(gateway: TunedGateway) -> None:
    wire = await gateway.wire()
    await wire.send(get("/healthz"))
    assert (await wire.answer()).status == 200
    assert await wire.ends(WAIT)
    await wire.close()


async def test_a_body_that_stalls_is_reported(gateway: TunedGateway) -> None:
    wire = await gateway.wire()
    announced = "Content-Length: 1000"
    await wire.send(head("POST", f"{FILES}/", gateway.token, MULTIPART.strip(), announced) + FILE_BEGUN)
    answer = await wire.answer(WAIT)
    assert (answer.status, answer.code) == (408, "timeout")
    await wire.close()
    assert gateway.staged == []


async def test_a_sign_in_that_stalls_gets_an_oauth_error(gateway: TunedGateway) -> None:
    lines = (
        f"Authorization: Basic {credentials(gateway)[0]}",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 100",
    )
    wire = await gateway.wire()
    await wire.send(head("POST", "/backend/login", "", *lines) + b"grant")
    answer = await wire.answer(WAIT)
    await wire.close()
    assert (answer.status, answer.code) == (408, "invalid_request")
    assert answer.header("cache-control") == "no-store"


async def test_trickled_sign_ins_are_ended(gateway: TunedGateway) -> None:
    """Many, with other rhythms: what refers to a request must not keep its connection until the next garbage collection."""
    lines = (
        f"Authorization: Basic {credentials(gateway)[0]}",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 1000",
    )

    async def ended(seconds: float) -> bool:
        wire = await gateway.wire()
        await wire.send(head("POST", "/backend/login", "", *lines))
        found = await trickle(wire, b"x" * round(60 / seconds), seconds)
        await wire.close()
        return found

    assert all(await asyncio.gather(*(ended(seconds) for seconds in (0.1, 0.2, 0.25, 0.4) * 10)))


async def test_a_reader_who_stops_is_ended(gateway: TunedGateway) -> None:
    assert await gateway.put("large", bytes(16 * 2**20)) == 204
    wire = await Wire.to(gateway.port, receive_buffer=4096)
    await wire.send(get(f"{FILES}/large", gateway.token))
    await asyncio.to_thread(wait_until, lambda: _is_open(gateway, "large"), "the download is under way")
    await asyncio.to_thread(wait_until, lambda: not _is_open(gateway, "large"), "the download has ended")
    wire.reset()


def _is_open(gateway: TunedGateway, name: str) -> bool:
    folder = Path(f"/proc/{gateway.workers()[0]}/fd")
    for link in folder.iterdir():
        try:
            if os.readlink(link).endswith(f"/{name}"):
                return True
        except FileNotFoundError:  # closed meanwhile
            pass
    return False


@pytest.mark.xfail(
    strict=True,
    reason="hyper takes the end of what a client sends for the end of the client; Granian has no option for it",
)
async def test_a_client_that_closes_its_side_behind_the_request_gets_an_answer(gateway: TunedGateway) -> None:
    wire = await gateway.wire()
    await wire.send(post(gateway.token, form("half-closed", bytes(2**20))))
    wire.half_close()
    try:
        assert (await wire.answer()).status == 204
    finally:
        await wire.close()


async def test_a_client_that_closes_its_side_in_the_middle_of_a_body_gets_an_answer(gateway: TunedGateway) -> None:
    wire = await gateway.wire()
    await wire.send(post(gateway.token, form("cut", bytes(2**20)))[:-100])
    wire.half_close()
    answer = await wire.answer()
    await wire.close()
    assert (answer.status, answer.code, answer.json()["failed"]) == (400, "invalid-request", ["cut"])


async def all_answers(wire: Wire) -> None:
    while True:
        await wire.answer()


async def test_a_client_that_reads_no_response_loses_its_connection(gateway: TunedGateway) -> None:
    wire = await Wire.to(gateway.port, receive_buffer=4096)
    await wire.send(get("/backend/openapi.json") * 60)
    await asyncio.to_thread(wait_until, lambda: not _is_connected(gateway, wire), "the connection is ended")
    with pytest.raises(Broken):
        await all_answers(wire)
    await wire.close()


def _is_connected(gateway: TunedGateway, wire: Wire) -> bool:
    """Whether the gateway's end of the connection is still there."""
    ends = f":{gateway.port:04X}", f":{wire.port:04X}"
    lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(local.endswith(ends[0]) and remote.endswith(ends[1]) for _, local, remote, *_ in lines)


async def test_many_idle_connections_keep_nobody_out(gateway: TunedGateway) -> None:
    wires = [await gateway.wire() for _ in range(400)]
    assert (await ask(gateway.port, get("/healthz"))).status == 200
    ended = await asyncio.gather(*(wire.ends(WAIT) for wire in wires))
    assert all(ended)
    for wire in wires:
        await wire.close()


async def test_usual_headers_fit(gateway: TunedGateway) -> None:
    """An address of 8 KiB, and 100 KiB of others: what is refused begins at 128 KiB."""
    address = f"{FILES}/?cursor=".ljust(8 * 1024, "x")
    lines = [f"X-{number}: ".ljust(2 * 1024, "x") for number in range(50)]
    assert (await ask(gateway.port, get(address, gateway.token, *lines))).code == "invalid-cursor"
    for size in (3, 6, 12):
        lines = [f"X-{number}: ".ljust(size * 1024, "x") for number in range(50)]
        assert (await ask(gateway.port, get(address, gateway.token, *lines))).status == 431


UNFINISHED = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
MOST = 20


def crowded(folder: Path, **settings: str) -> TunedGateway:
    """A gateway that is patient with unfinished requests, but takes few of them from one address."""
    limit = {"PORTICO_SERVER_MAX_CONNECTIONS_PER_ADDRESS": str(MOST)}
    gateway = TunedGateway(
        folder / "home", environment=limit | settings, constants={"portico.server.processes.HEADER_TIMEOUT_MS": 600_000}
    )
    gateway.begin()
    return gateway


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[TunedGateway]:
    gateway = crowded(tmp_path)
    yield gateway
    gateway.kill()


async def unfinished(gateway: TunedGateway, number: int, source: str = "127.0.0.1") -> list[Wire]:
    wires = [await Wire.to(gateway.port, source=source) for _ in range(number)]
    for wire in wires:
        await wire.send(UNFINISHED)
    return wires


async def left_of(wires: list[Wire], number: int) -> list[Wire]:
    """Those that are left when only this number is."""
    endings = {asyncio.ensure_future(wire.ends(WAIT)): wire for wire in wires}
    while len(endings) > number:
        ended, _ = await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        for ending in ended:
            assert ending.result()
            del endings[ending]
    for ending in endings:
        ending.cancel()
    await asyncio.gather(*endings, return_exceptions=True)
    return list(endings.values())


async def test_an_address_cannot_hold_many_unfinished_requests(crowd: TunedGateway) -> None:
    """Those beyond its share end; requests that are being served go on, and so do those of another address."""
    uploads = []
    for number in range(MOST):
        body = form(f"{number}", b"x" * 1000)
        lines = (MULTIPART.strip(), f"Content-Length: {len(body)}", "Expect: 100-continue")
        wire = await crowd.wire()
        await wire.send(head("POST", f"{FILES}/", crowd.token, *lines))
        assert b"100 Continue" in await wire.read(1000)
        uploads.append((wire, body))
    elsewhere = await unfinished(crowd, MOST, "127.0.0.2")
    wires = await unfinished(crowd, 3 * MOST)
    left = await left_of(wires, MOST)
    for wire in (*left, *elsewhere):
        await wire.send(b"\r\n")
        assert (await wire.answer()).status == 200
    for wire, body in uploads:
        await wire.send(body)
        assert (await wire.answer()).status == 204
    assert '"event":"waiting-connections-ended"' in crowd.output
    for wire in (*(wire for wire, _ in uploads), *wires, *elsewhere):
        await wire.close()


async def test_a_connection_that_was_used_outlives_those_that_never_were(crowd: TunedGateway) -> None:
    used = [await crowd.wire() for _ in range(MOST)]
    for wire in used:
        await wire.send(get("/healthz"))
        assert (await wire.answer()).status == 200
    waiting = await unfinished(crowd, MOST)
    await left_of(waiting, 0)
    for wire in used:
        await wire.send(get("/healthz"))
        assert (await wire.answer()).status == 200
    for wire in (*used, *waiting):
        await wire.close()


async def test_a_declared_proxy_may_hold_as_many_as_it_likes(tmp_path: Path) -> None:
    gateway = crowded(tmp_path, PORTICO_SERVER_BEHIND_PROXY="127.0.0.0/31")
    try:
        stranger = await unfinished(gateway, 2 * MOST, "127.0.0.2")
        proxy = await unfinished(gateway, 2 * MOST)
        await left_of(stranger, MOST)
        for wire in proxy:
            await wire.send(b"\r\n")
            assert (await wire.answer()).status == 200
        for wire in (*stranger, *proxy):
            await wire.close()
    finally:
        gateway.kill()


async def test_a_worker_holds_no_more_connections_than_it_may(tmp_path: Path) -> None:
    """Others wait, and are served when one has gone."""
    limits = {"PORTICO_SERVER_MAX_CONNECTIONS": str(MOST), "PORTICO_SERVER_MAX_CONNECTIONS_PER_ADDRESS": "0"}
    gateway = crowded(tmp_path, **limits)
    try:
        alone = gateway.descriptors()
        wires = await unfinished(gateway, MOST)
        late = [await gateway.wire() for _ in range(MOST)]
        for wire in late:
            await wire.send(get("/healthz"))
        await asyncio.to_thread(
            wait_until, lambda: gateway.descriptors() >= alone + MOST - 2, "the connections are taken"
        )
        assert gateway.descriptors() < alone + 2 * MOST - 2
        for wire in wires:
            wire.reset()
        assert [(await wire.answer()).status for wire in late] == [200] * MOST
        for wire in late:
            await wire.close()
    finally:
        gateway.kill()


def _context(gateway: TunedGateway, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=gateway.certificate)
    context.set_ciphers("ALL:@SECLEVEL=0")  # the client must not be the one who refuses
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_modern_tls_is_spoken(secure: TunedGateway, version: ssl.TLSVersion) -> None:
    wire = await Wire.to(secure.port, tls=_context(secure, version))
    await wire.send(get("/healthz"))
    assert (await wire.answer()).status == 200
    await wire.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_tls_is_not_spoken(secure: TunedGateway, version: ssl.TLSVersion) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await Wire.to(secure.port, tls=_context(secure, version))


async def test_plain_words_on_a_tls_port_get_no_answer(secure: TunedGateway) -> None:
    with pytest.raises(Broken):
        await ask(secure.port, get("/healthz"))


@pytest.mark.parametrize(
    "lines", list(permutations(("Content-Length: 5", "Transfer-Encoding: chunked"))), ids=["first", "last"]
)
async def test_length_and_transfer_coding_end_the_connection(gateway: TunedGateway, lines: tuple[str, str]) -> None:
    """The server goes by the chunks; what follows them is never read as another request."""
    wire = await gateway.wire()
    hidden = get("/healthz")
    await wire.send(head("POST", "/backend/logout", "", *lines) + b"0\r\n\r\n" + hidden)
    assert (await wire.answer()).status == 401
    with pytest.raises(Broken):
        await wire.answer()
    await wire.close()
