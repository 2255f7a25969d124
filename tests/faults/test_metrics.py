import os
import re
import signal
import socket

import httpx2

from ..gateways import FILES, WAIT, free_port, wait_until
from .conftest import Start

LISTED = r'portico_request_seconds_count\{action="list",status="200"\}'


def scrape(port: int) -> str:
    answer = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=WAIT)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return answer.text


def value(text: str, name: str) -> float:
    found = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


def now(port: int, name: str) -> float:
    """The value, or less than any while nobody answers."""
    try:
        return value(scrape(port), name)
    except httpx2.TransportError:
        return -1.0


def test_one_address_tells_of_all_workers_and_of_those_that_died(start: Start) -> None:
    port = free_port()
    gateway = start("--workers", "2", settings={"PORTICO_METRICS_ADDRESS": f"127.0.0.1:{port}"})
    wait_until(lambda: now(port, "portico_workers") == 2, "both workers are seen")
    with gateway.signed_in(headers={"Connection": "close"}) as client:  # so that both get some
        for _ in range(10):
            assert client.get(f"{FILES}/").status_code == 200
    wait_until(lambda: now(port, LISTED) == 10, "each listing is counted once")
    text = scrape(port)
    assert value(text, r'portico_sign_ins_total\{outcome="done"\}') == 1
    place = 'connection="local",kind="local"'
    # The sweep of the trash lists, too.
    assert value(text, rf'portico_provider_seconds_count\{{{place},call="list_page"\}}') >= 10
    assert value(text, r'portico_sent_bytes_total\{action="list"\}') > 1000
    assert value(text, "portico_event_loop_lag_seconds_count") > 0

    for worker in gateway.workers():
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: now(port, LISTED) == 10, "nothing is forgotten")
    wait_until(lambda: now(port, "portico_workers") == 2, "others took their places")
    assert now(port, LISTED) == 10
    assert gateway.stop() == 0
    assert now(port, LISTED) == -1


def test_there_is_nothing_of_it_at_the_public_address(start: Start) -> None:
    port = free_port()
    gateway = start(settings={"PORTICO_METRICS_ADDRESS": f"127.0.0.1:{port}"})
    with gateway.client() as client:
        assert client.get("/metrics").status_code == 404
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT) as client:
        assert client.get("/").status_code == 404
        assert client.get("/backend/session").status_code == 404
        assert client.post("/metrics").status_code == 405
        assert client.head("/metrics").status_code == 200
    for garbage in (b"\r\n\r\n", b"GET /metrics\r\n\r\n", b"x" * 100_000):
        with socket.create_connection(("127.0.0.1", port), WAIT) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            try:
                connection.recv(100)
            except ConnectionResetError:
                pass
    assert "portico_workers 1\n" in scrape(port)
    assert "bug" not in gateway.output
