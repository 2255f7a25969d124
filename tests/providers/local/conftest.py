"""A local provider on a fresh folder, with a folder beside it that it must never reach."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path as Folder

import pytest

from portico.providers.local import LocalProvider

from .actions import SECRET


@pytest.fixture
def top(tmp_path: Folder) -> Folder:
    folder = tmp_path / "storage"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Folder) -> Folder:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_bytes(SECRET)
    return folder


@pytest.fixture
async def provider(top: Folder) -> AsyncIterator[LocalProvider]:
    provider = LocalProvider(str(top))
    yield provider
    await provider.close()


@pytest.fixture
def leftovers(top: Folder) -> Callable[[], list[str]]:
    """What lies in the staging folder."""
    return lambda: sorted(path.name for path in top.glob(".portico~*/*"))


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every reading of a folder so far."""
    genuine = os.scandir
    made: list[int] = []

    def counted(place: int) -> object:
        made.append(place)
        return genuine(place)

    monkeypatch.setattr(os, "scandir", counted)
    return made
