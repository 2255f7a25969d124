"""`portico jobs`, and the line that shows a long change."""

import io
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portico.cli.remote.jobs import job_line
from portico.client.jobs import Job

from ...gateways import FILES, Gateway
from ..conftest import Portico
from .conftest import make

JOB = Job("a" * 32, "copy", "running", "/large", "/new", None, 1200, 2_500_000, 4800, "", None, None)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Jobs:
    """In place of a client."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def cancel_job(self, job_id: str) -> None:
        self.cancelled.append(job_id)


def test_list_and_cancel(remote: Portico, gateway: Gateway, there: Path) -> None:
    make(there, tree__a="1")
    with gateway.signed_in() as client:
        query = {"action": "COPY", "target": "/new"}
        answer = client.post(f"{FILES}/tree", params=query, headers={"Prefer": "respond-async, wait=0"})
        job_id = answer.json()["id"]
        while client.get(answer.headers["Location"]).json()["state"] == "running":
            pass
    [job] = remote("jobs", "list", "--json").lines
    assert (job["id"], job["kind"], job["state"], job["target"]) == (job_id, "copy", "done", "/new")
    assert job_id in remote("jobs", "list").out
    assert (
        remote("jobs", "cancel", job_id).out == "Copying /tree had already ended: done. It was removed from the list.\n"
    )
    outcome = remote("jobs", "cancel", job_id)
    assert (outcome.code, "This job doesn't exist" in outcome.err) == (1, True)
    assert remote("jobs", "list").out == "There are no jobs.\n"


def test_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    client: Any = Jobs()
    with job_line(client) as progress:
        assert progress
        progress(JOB)
        assert terminal.getvalue().endswith("Copying /large: 1200 of 4800 files, 2.5 MB")
        progress(replace(JOB, state="done"))
    assert terminal.getvalue().endswith("\r\x1b[K")
    with suppress(KeyboardInterrupt), job_line(client) as progress:
        assert progress
        progress(JOB)
        raise KeyboardInterrupt
    assert client.cancelled == [JOB.id]


def test_without_a_terminal_the_change_is_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    client: Any = Jobs()
    with job_line(client) as progress:
        assert progress is None
