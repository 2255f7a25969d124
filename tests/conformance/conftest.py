from collections.abc import AsyncIterator

import pytest

from portico.drive.cursors import CursorSeal
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.contract.provider import Provider

from ..recorded_drive import RecordedDrive
from .harness import COSTLY, KEY_STORES, PROVIDERS, ROOTS, SECOND_LAYER, THOROUGH, VERSIONED, Harness, known_gap


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the providers and roots of a test: every provider at one root, unless its marks say otherwise."""
    if "harness" not in metafunc.fixturenames:
        return
    providers = _providers(metafunc)
    if "root" not in metafunc.fixturenames:
        metafunc.parametrize("harness", providers, indirect=True)
        return
    both = metafunc.definition.get_closest_marker("both_roots") is not None
    pairs = [
        (provider, root)
        for provider in providers
        for root in (ROOTS if both and provider not in SECOND_LAYER else ["below"])
    ]
    metafunc.parametrize(("harness", "root"), pairs, indirect=True, ids=map("-".join, pairs))


def _providers(metafunc: pytest.Metafunc) -> list[str]:
    marked = metafunc.definition.get_closest_marker
    if marked("drive_alone"):
        return ["local"]
    if marked("versions"):
        return [*VERSIONED]
    test = metafunc.function.__name__
    return [
        provider
        for provider in PROVIDERS
        if (provider in KEY_STORES or not marked("object_services"))
        and (provider not in SECOND_LAYER or test in SECOND_LAYER[provider])
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if isinstance(item, pytest.Function) and call and call.params.get("harness") in PROVIDERS:
            provider, root = call.params["harness"], call.params.get("root", "")
            case = call.id.removeprefix(provider).removeprefix(f"-{root}").removeprefix("-")
            if mark := known_gap(provider, f"{item.originalname}[{case}]" if case else item.originalname):
                item.add_marker(mark)
            if provider in THOROUGH or (provider in COSTLY and item.get_closest_marker("above_services")):
                item.add_marker(pytest.mark.thorough)


@pytest.fixture
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    async with PROVIDERS[request.param](request) as harness:
        yield harness


@pytest.fixture
async def provider(harness: Harness) -> AsyncIterator[Provider]:
    provider = harness.open()
    yield provider
    await provider.close()


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Path:
    return Path.parse(ROOTS[request.param])


@pytest.fixture
def seal() -> CursorSeal:
    return CursorSeal(b"a key that every node has" * 2)


@pytest.fixture
def drive(provider: Provider, root: Path, seal: CursorSeal) -> RecordedDrive:
    return RecordedDrive(provider, root, DEFAULT_RIGHTS, seal)
