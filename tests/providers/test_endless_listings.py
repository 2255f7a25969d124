"""A service with endless listings: every operation that reads them ends nevertheless."""

from collections.abc import Awaitable, Callable

import pytest

from portico.model.errors import PorticoError, ProviderFailed
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.registry import open_provider

from ..servers.endless import SHAPES, endless_service

KINDS = ["s3", "gcs", "azure-blob", "azure-files"]
MAX_CALLS = 1000


async def walk_all(provider: Provider) -> None:
    walk = provider.walk(Path(("folder",)))
    while walk.token is not None:
        await walk.page(100)


WALKS: dict[str, Callable[[Provider], Awaitable[object]]] = {
    "delete": lambda provider: provider.delete(Path(("folder",)), recursive=True),
    "copy": lambda provider: provider.copy(Path(("folder",)), Path(("target",))),
    "move": lambda provider: provider.move(Path(("folder",)), Path(("target",))),
    "walk": walk_all,
    "sweep": lambda provider: provider.sweep(),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
async def test_every_traversal_ends(kind: str, shape: str) -> None:
    async with endless_service(SHAPES[shape]) as service:
        provider = open_provider(kind, service.options[kind])
        try:
            for walk in WALKS.values():
                service.calls = 0
                with pytest.raises(PorticoError) as failure:
                    await walk(provider)
                assert isinstance(failure.value, ProviderFailed), failure.value
                assert service.calls < MAX_CALLS
        finally:
            await provider.close()
