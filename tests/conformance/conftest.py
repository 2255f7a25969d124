from collections.abc import AsyncIterator

import pytest

from portico.cursors import CursorSeal
from portico.drive import Drive
from portico.paths import Path
from portico.providers.base import Provider
from portico.rights import ALL_RIGHTS

from .harness import PROVIDERS, ROOTS, Harness, known_gap


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if isinstance(item, pytest.Function) and call and call.params.get("harness") in PROVIDERS:
            provider, root = call.params["harness"], call.params.get("root", "")
            case = call.id.removeprefix(provider).removeprefix(f"-{root}").removeprefix("-")
            if mark := known_gap(provider, f"{item.originalname}[{case}]" if case else item.originalname):
                item.add_marker(mark)


@pytest.fixture(params=PROVIDERS)
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    async with PROVIDERS[request.param](request) as harness:
        yield harness


@pytest.fixture
async def provider(harness: Harness) -> AsyncIterator[Provider]:
    provider = harness.open()
    yield provider
    await provider.close()


@pytest.fixture(params=ROOTS)
def root(request: pytest.FixtureRequest) -> Path:
    return Path.parse(ROOTS[request.param])


@pytest.fixture
def seal() -> CursorSeal:
    return CursorSeal(b"a key that every node has" * 2)


@pytest.fixture
def drive(provider: Provider, root: Path, seal: CursorSeal) -> Drive:
    return Drive(provider, root, ALL_RIGHTS, seal)
