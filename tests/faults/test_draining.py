"""A node that stops: not ready at once, of use for a while, gone in time."""

import signal

import httpx2

from ..gateways import FILES, WAIT, Gateway, names, wait_until
from .conftest import Start

LONG = {"PORTICO_SERVER_DRAIN_DELAY": "10m"}
"""Nobody waits for its end: a second signal skips it."""


def faults(client: httpx2.Client) -> list[str]:
    answer = client.get("/readyz")
    return [] if answer.status_code == 200 else list(answer.json()["faults"])


def ended(gateway: Gateway) -> int:
    assert gateway.process is not None
    return gateway.process.wait(WAIT)


def send(gateway: Gateway, number: int) -> None:
    assert gateway.process is not None
    gateway.process.send_signal(number)


def test_a_node_that_drains_is_not_ready_and_serves(start: Start) -> None:
    gateway = start("--workers", "2", settings=LONG)
    with gateway.signed_in() as client:
        wait_until(lambda: faults(client) == [], "it is ready")
        send(gateway, signal.SIGTERM)
        # New connections, so that both workers are asked.
        for _ in range(8):
            wait_until(lambda: _faults_of_new_connection(gateway) == ["draining"], "it is not ready")
        assert client.get("/healthz").status_code == 200
        assert client.post(f"{FILES}/", files={"data": ("late.txt", b"x")}).status_code == 204
        assert names(client) == ["late.txt"]
        assert gateway.process is not None
        assert gateway.process.poll() is None
    send(gateway, signal.SIGTERM)
    assert ended(gateway) == 0
    assert not gateway.answers()


def _faults_of_new_connection(gateway: Gateway) -> list[str]:
    with gateway.client() as client:
        return faults(client)


def test_the_delay_ends_by_itself(start: Start) -> None:
    gateway = start(settings={"PORTICO_SERVER_DRAIN_DELAY": "1s"})
    assert gateway.stop() == 0


def test_ctrl_c_has_no_delay(start: Start) -> None:
    gateway = start(settings=LONG)
    send(gateway, signal.SIGINT)
    assert ended(gateway) == 0


def test_ctrl_c_skips_the_delay(start: Start) -> None:
    gateway = start(settings=LONG)
    send(gateway, signal.SIGTERM)
    wait_until(lambda: _faults_of_new_connection(gateway) == ["draining"], "it drains")
    send(gateway, signal.SIGINT)
    assert ended(gateway) == 0
