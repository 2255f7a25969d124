"""Jobs and the processes that do them: replaced, killed and stopped."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import ClientSession, TCPConnector, web
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from portico.api.jobs import JOBS

from ..gateways import FILES, Gateway, wait_until
from ..servers.moto_s3 import KEYS, moto_buckets, moto_s3
from ..servers.threaded_server import ThreadedServer

NUMBER = 200
BUCKET = "jobs"


class Gate(ThreadedServer):
    """An S3 service that copies an object only when the test says so: a job never ends before its time."""

    def __init__(self) -> None:
        super().__init__("gate")
        self._permits = asyncio.Semaphore(0)

    def let(self, copies: int) -> None:
        loop, _ = self._started.result()
        for _ in range(copies):
            loop.call_soon_threadsafe(self._permits.release)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if "x-amz-copy-source" in request.headers:
            await self._permits.acquire()
            if request.transport is None or request.transport.is_closing():  # of a process that is gone
                self._permits.release()
                return web.Response(status=503)
        async with (
            ClientSession(connector=TCPConnector(force_close=True), auto_decompress=False) as session,
            session.request(
                request.method,
                moto_s3() + request.raw_path,
                headers=request.headers,
                data=await request.read(),
                skip_auto_headers=("Content-Type", "User-Agent", "Accept-Encoding"),
            ) as answer,
        ):
            dropped = {"transfer-encoding", "connection", "content-length"}
            headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in dropped]
            return web.Response(status=answer.status, headers=dict(headers), body=await answer.read())


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate().start()
    with moto_buckets(BUCKET):
        backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        for number in range(NUMBER):
            backend.put_object(BUCKET, f"tree/{number}", b"x")
        yield gate
        gate.stop()


@pytest.fixture
def gateway(tmp_path: Path, gate: Gate) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "home", "--workers", "2", settings={"PORTICO_PROVIDER_TIMEOUT": "10m"})
    gateway.start()
    options = ("bucket=" + BUCKET, "endpoint-url=" + gate.url, "access-key-id=" + KEYS["access-key-id"])
    gateway.command(
        *("connection", "add", "gated", "--kind", "s3", "--secret-stdin"),
        *(word for option in options for word in ("--option", option)),
        stdin=f"secret-access-key={KEYS['secret-access-key']}\n",
    )
    gateway.command("user", "set", "web", "--connection", "gated", "--root", "/")
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


def wait_for_progress(client: httpx2.Client, gate: Gate, place: str) -> None:
    """More is done than at first."""
    before = state_of(client, place)["entriesDone"]
    gate.let(10)

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


def test_jobs_and_their_processes(gateway: Gateway, gate: Gate) -> None:
    assert gateway.process is not None
    with gateway.signed_in() as client:
        place = begin(client)
        wait_for_progress(client, gate, place)
        replaced = gateway.workers()
        os.kill(gateway.process.pid, signal.SIGHUP)
        wait_until(lambda: len(set(gateway.workers()) - set(replaced)) == 2, "the workers are replaced")
    # Connections to the former workers are closed by now: a request from here on goes to another process.
    with gateway.signed_in() as client:
        wait_for_progress(client, gate, place)
        assert client.delete(place).status_code == 202
        assert wait_for_end(client, place)["state"] == "cancelled"
        wait_until(lambda: not set(gateway.workers()) & set(replaced), "the former workers have ended")

        place = begin(client)
        wait_for_progress(client, gate, place)
        killed = gateway.workers()
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: len(set(gateway.workers()) - set(killed)) == 2, "they are replaced")
    wait_until(gateway.answers, "the gateway answers again")
    with gateway.signed_in() as client:
        assert_interrupted(state_of(client, place))

        place = begin(client)
        wait_for_progress(client, gate, place)
    gateway.stop()
    gateway.start()
    with gateway.signed_in() as client:
        assert_interrupted(state_of(client, place))
        assert [job["state"] for job in client.get(JOBS).json()["content"]] == ["failed", "failed", "cancelled"]
