"""A real gateway before a service that fails, seen from the client's side."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from ..gateways import WAIT
from ..servers.azurite import KEY as AZURITE_KEY
from ..servers.azurite import Azurite
from ..servers.proxy import Call, Cut, Fault, FaultProxy, Late, Lost, Reply, Reset, Silent, Throttled
from .checks.memory import peak_of
from .figures import Effort
from .processes import S3Storage, SwiftStorage, TunedGateway, accounts, connect
from .raw_http import Broken

MIB = 2**20
SHORT = {"PORTICO_PROVIDER_TIMEOUT": "20s"}


@dataclass(slots=True)
class Site:
    gateway: TunedGateway
    proxy: FaultProxy
    storage: S3Storage | None
    names: Iterator[str]
    """A new one for each file."""


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(params=["s3", "azure-blob"], scope="module", loop_scope="module")
async def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A gateway whose storage is behind a proxy that misbehaves on request."""
    folder = tmp_path_factory.mktemp("site")
    names = (f"file-{number}" for number in count())
    async with Effort(False, folder).gateway(environment=SHORT) as set_:
        if request.param == "s3":
            storage = S3Storage(set_.gateway)
            async with FaultProxy(int(storage.options["endpoint-url"].rpartition(":")[2])) as proxy:
                await storage.prepare({"endpoint-url": f"http://127.0.0.1:{proxy.port}"})
                yield Site(set_.gateway, proxy, storage, names)
            return
        server = Azurite.running()
        async with FaultProxy(server.port) as proxy:
            options = {
                "container": await server.new_container(),
                "account-url": server.url.replace(str(server.port), str(proxy.port)),
                "account-key": AZURITE_KEY,
            }
            await connect(set_.gateway, "azure-blob", options)
            yield Site(set_.gateway, proxy, None, names)


@pytest.fixture
def site(shared: Site) -> Iterator[Site]:
    yield shared
    shared.proxy.forget()


def puts(name: str) -> Callable[[Call], bool]:
    """The calls that carry the content of a file, or a part of it."""
    return lambda call: call.method == "PUT" and call.path.endswith(f"/{name}")


@pytest.mark.parametrize(
    "fault",
    [Reply(503), Reset(100), Lost(), Late(0.5), Throttled(8 * MIB)],
    ids=lambda fault: type(fault).__name__ + str(getattr(fault, "status", "")),
)
async def test_what_goes_wrong_twice_is_not_noticed(site: Site, fault: Fault) -> None:
    name = next(site.names)
    site.proxy.on(puts(name), fault, turns=2)
    assert await site.gateway.put(name, b"x" * MIB) == 204
    assert name in await site.gateway.names()
    assert (await site.gateway.get(f"/{name}")).body == b"x" * MIB


async def test_a_service_that_is_down_for_good(site: Site) -> None:
    old, new = next(site.names), next(site.names)
    assert await site.gateway.put(old, b"old") == 204
    site.proxy.on(lambda _: True, Reply(503), turns=10**6)
    answer = await site.gateway.get(f"/{old}?action=DOWNLOAD")
    assert (answer.status, answer.code) == (503, "provider-unavailable")
    assert answer.header("retry-after")
    assert await site.gateway.put(new, b"x" * 1000) == 503
    site.proxy.forget()
    assert new not in await site.gateway.names()
    assert (await site.gateway.get(f"/{old}")).body == b"old"
    if site.storage:
        assert await site.storage.left_over() == []


async def test_a_service_that_is_silent(site: Site) -> None:
    name = next(site.names)
    site.proxy.on(puts(name), Silent(), turns=10**6)
    assert await site.gateway.put(name, b"x") == 504
    assert name not in await site.gateway.names()


async def test_a_download_that_breaks_is_never_taken_for_whole(site: Site) -> None:
    name = next(site.names)
    assert await site.gateway.put(name, b"x" * MIB) == 204
    reads = lambda call: call.method == "GET" and call.path.endswith(f"/{name}")  # noqa: E731
    site.proxy.on(reads, Cut(1000))
    site.proxy.on(reads, Cut(0), turns=10**6)
    try:
        answer = await site.gateway.get(f"/{name}")
    except Broken:
        return  # half an answer was out, and then the connection ended
    assert answer.status >= 500


async def test_credentials_that_are_rotated(tmp_path: Path) -> None:
    """The old ones are refused by the service; the new ones are taken up without a restart."""
    async with Effort(False, tmp_path).gateway(kind="s3-swift") as set_:
        assert isinstance(set_.storage, SwiftStorage)
        assert await set_.gateway.put("file", b"x") == 204
        right = set_.storage.options["secret-access-key"]
        for secret, status in (("of yesterday", 502), (right, 200)):
            async with accounts(set_.gateway) as (connections, _):
                await connections.change("store", options={}, secrets={"secret-access-key": secret})
            async with asyncio.timeout(WAIT):
                while (await set_.gateway.get("/?size=1")).status != status:
                    await asyncio.sleep(0.1)
        assert await set_.gateway.names() == ["file"]


async def test_a_slow_service_slows_its_clients_and_fills_no_memory(tmp_path: Path) -> None:
    async with Effort(False, tmp_path).gateway() as set_:
        storage = S3Storage(set_.gateway)
        async with FaultProxy(int(storage.options["endpoint-url"].rpartition(":")[2])) as proxy:
            await storage.prepare({"endpoint-url": f"http://127.0.0.1:{proxy.port}"})
            proxy.on(lambda call: "partNumber" in call.query, Throttled(16 * MIB), turns=10**6)
            before = set_.gateway.resident()
            most, statuses = await peak_of(set_.gateway, 4, 40 * MIB)
    assert statuses == [204] * 4
    assert most * MIB - before < 256 * MIB
