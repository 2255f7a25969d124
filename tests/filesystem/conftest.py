"""A gateway over a local folder, and the filesystem that reads it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from portico.filesystem import PorticoFileSystem

from ..gateways import Gateway

fsspec.register_implementation("portico", PorticoFileSystem, clobber=True)  # this checkout's, whatever is installed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of fsspec's many cases of patterns, an ordinary run tries those that look at everything below: fsspec itself takes
    away what is too deep."""
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname.endswith("_glob_edge_cases"):
            case = item.callspec.params
            if not case["recursive"] or case["maxdepth"] is not None:
                item.add_marker(pytest.mark.thorough)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of profiles, isolated from the environment of the test run."""
    for name in ("URL", "KEY", "TOKEN", "USERNAME", "PASSWORD", "PROFILE"):
        monkeypatch.delenv(f"PORTICO_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    PorticoFileSystem.clear_instance_cache()  # of an earlier gateway, if only the environment has its address
    return tmp_path / "config" / "portico" / "profiles"


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("gateway") / "home", "--workers", "1")
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture(scope="package")
def options(gateway: Gateway) -> dict[str, Any]:
    """What `storage_options` takes."""
    password = gateway.password
    return {"gateway": gateway.url, "username": "web", "password": password}


@pytest.fixture
def fs(options: dict[str, Any]) -> PorticoFileSystem:
    """One instance for all tests, as fsspec caches it, with its cache cleared."""
    fs: PorticoFileSystem = fsspec.filesystem("portico", **options)
    fs.invalidate_cache()
    return fs


@pytest.fixture
def root(gateway: Gateway) -> Path:
    """The user's root as the gateway has it on its disk, empty."""
    return gateway.empty_root()
