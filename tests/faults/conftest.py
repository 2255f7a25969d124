import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..gateways import Gateway

Start = Callable[..., Gateway]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts gateways, and ends what is left of them."""
    gateways: list[Gateway] = []

    def begin(
        *flags: str, tls: bool = False, settings: dict[str, str] | None = None, copy_of: Path | None = None
    ) -> Gateway:
        """With `copy_of`, on a copy of that home."""
        home = tmp_path / f"gateway-{len(gateways)}" / "home"
        gateway = Gateway(home, *flags, tls=tls, settings=settings)
        gateway.home.parent.mkdir()
        if copy_of:
            shutil.copytree(copy_of, home)
        gateways.append(gateway)
        gateway.start()
        return gateway

    yield begin
    for gateway in gateways:
        if gateway.process is not None and gateway.process.poll() is None:
            gateway.kill()


@pytest.fixture
def gateway(start: Start) -> Gateway:
    """A gateway for one test, which may stop or kill it."""
    return start()


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("shared") / "home")
    gateway.start()
    yield gateway
    gateway.kill()


@pytest.fixture
def shared_gateway(_shared: Gateway) -> Gateway:
    """A gateway for all tests of a module that leave it running, with no files."""
    _shared.empty_root()
    return _shared
