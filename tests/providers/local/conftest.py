"""A local provider on a fresh folder, with a folder beside it that it must never reach."""

import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path as Folder

import pytest
from hatch_build import compile_stats

from portico.providers.local import stats
from portico.providers.local.provider import LocalProvider
from portico.providers.local.stats import StatNames, compiled, stat_in_python

from ...servers.apt import ensured
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


@pytest.fixture(scope="session")
def stat_in_c(tmp_path_factory: pytest.TempPathFactory) -> StatNames:
    """Compiled here, whatever was installed."""
    ensured("gcc", lambda: shutil.which("cc") is not None)
    ensured("libc6-dev", lambda: Folder("/usr/include/stdint.h").exists())
    library = tmp_path_factory.mktemp("compiled") / "libstats.so"
    compile_stats(Folder(__file__).parents[3], library)
    function = compiled(library)
    assert function
    return function


@pytest.fixture(params=["python", "c"])
def stat_names(request: pytest.FixtureRequest, stat_in_c: StatNames, monkeypatch: pytest.MonkeyPatch) -> StatNames:
    """Each of the two in turn, for listings too."""
    function = stat_in_c if request.param == "c" else stat_in_python
    monkeypatch.setattr(stats, "stat_names", function)
    return function
