"""Jobs and the processes that do them: replaced, killed and stopped."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from portico.api.jobs import JOBS

from ..gateways import FILES, Gateway, wait_until

NUMBER = 50_000
"""Files that take much longer to copy than what is done meanwhile."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "home", "--workers", "2")
    gateway.start()
    yield gateway
    gateway.kill()


def begin(client: httpx2.Client) -> str:
    query = {"action": "COPY", "target": "/copy", "onConflict": "rename"}
    answer = client.post(f"{FILES}/tree", params=query, headers={"Prefer": "respond-async, wait=0"})
    assert answer.status_code == 202, answer.text
    return str(answer.headers["Location"])


def state_of(client: httpx2.Client, place: str) -> Any:
    answer = client.get(place)
    assert answer.status_code == 200, answer.text
    return answer.json()


def wait_for_progress(client: httpx2.Client, place: str) -> None:
    """More is done than at first."""
    before = state_of(client, place)["entriesDone"]

    def is_further() -> bool:
        job = state_of(client, place)
        assert job["state"] == "running", job
        return bool(job["entriesDone"] > before)

    wait_until(is_further, "more is done")


def wait_for_end(client: httpx2.Client, place: str) -> Any:
    wait_until(lambda: state_of(client, place)["state"] != "running", "the job has ended")
    return state_of(client, place)


def assert_interrupted(job: Any) -> None:
    assert (job["state"], job["problem"]["code"]) == ("failed", "unavailable")
    assert "Check it and try again" in job["problem"]["detail"]
    assert job["endedAt"]


def test_jobs_and_their_processes(gateway: Gateway) -> None:
    tree = gateway.files / "web" / "tree"
    tree.mkdir(parents=True)
    (tree / "0").write_bytes(b"x")
    for number in range(1, NUMBER):
        os.link(tree / "0", tree / str(number))
    assert gateway.process is not None
    with gateway.signed_in() as client:
        place = begin(client)
        wait_for_progress(client, place)
        replaced = gateway.workers()
        os.kill(gateway.process.pid, signal.SIGHUP)
        wait_until(lambda: len(set(gateway.workers()) - set(replaced)) == 2, "the workers are replaced")
    # Connections to the former workers are closed by now: a request from here on goes to another process.
    with gateway.signed_in() as client:
        wait_for_progress(client, place)
        assert client.delete(place).status_code == 202
        assert wait_for_end(client, place)["state"] == "cancelled"
        wait_until(lambda: not set(gateway.workers()) & set(replaced), "the former workers have ended")

        place = begin(client)
        wait_for_progress(client, place)
        killed = gateway.workers()
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: len(set(gateway.workers()) - set(killed)) == 2, "they are replaced")
    wait_until(gateway.answers, "the gateway answers again")
    with gateway.signed_in() as client:
        assert_interrupted(state_of(client, place))

        place = begin(client)
        wait_for_progress(client, place)
    gateway.stop()
    gateway.start()
    with gateway.signed_in() as client:
        assert_interrupted(state_of(client, place))
        assert [job["state"] for job in client.get(JOBS).json()["content"]] == ["failed", "failed", "cancelled"]
