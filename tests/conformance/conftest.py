from collections.abc import AsyncIterator

import pytest

from portico.cursors import CursorSeal
from portico.drive import Drive
from portico.paths import Path
from portico.providers.base import Provider
from portico.rights import ALL_RIGHTS

from .harness import PROVIDERS, ROOTS, SECOND_LAYER, Harness, known_gap


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed_over = [item for item in items if _is_passed_over(item)]
    if passed_over:
        config.hook.pytest_deselected(items=passed_over)
        items[:] = [item for item in items if item not in set(passed_over)]
    for item in items:
        call = getattr(item, "callspec", None)
        if isinstance(item, pytest.Function) and call and call.params.get("harness") in PROVIDERS:
            provider, root = call.params["harness"], call.params.get("root", "")
            case = call.id.removeprefix(provider).removeprefix(f"-{root}").removeprefix("-")
            if mark := known_gap(provider, f"{item.originalname}[{case}]" if case else item.originalname):
                item.add_marker(mark)


def _is_passed_over(item: pytest.Item) -> bool:
    """Whether the test is one of the first layer only."""
    call = getattr(item, "callspec", None)
    if call is None or call.params.get("harness") not in SECOND_LAYER:
        return False
    modules = SECOND_LAYER[call.params["harness"]]
    return item.path.stem not in modules or call.params.get("root", "top") != "top"


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
