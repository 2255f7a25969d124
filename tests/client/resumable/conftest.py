from collections.abc import Callable
from pathlib import Path

import pytest

from portico.client import Client
from portico.client.transfers import resumable_upload, tus, uploads

from ...servers.proxy import FaultProxy
from ..conftest import MakeClient
from .actions import CONTENT, MIB, PART, Resumptions


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable_upload, "THRESHOLD", MIB)
    monkeypatch.setattr(resumable_upload, "PART", PART)
    monkeypatch.setattr(tus, "CHECKED_PART", PART)
    monkeypatch.setattr(tus, "SMALLEST_PART", 64 * 1024)
    monkeypatch.setattr(uploads, "HASHED_BEFORE", MIB - 1)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    file = tmp_path / "large.bin"
    file.write_bytes(CONTENT)
    return file


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Where a client notes its unfinished uploads."""
    return tmp_path / "notes"


@pytest.fixture
def through(make: MakeClient, proxy: FaultProxy, notes: Path) -> Callable[[], Client]:
    """Makes clients behind the proxy that resume what others have begun."""

    def begin() -> Client:
        client = make(f"http://127.0.0.1:{proxy.port}", attempts=3, resume_folder=notes)
        client.login()
        proxy.calls.clear()
        return client

    return begin


@pytest.fixture
def resumed() -> Resumptions:
    return Resumptions()
