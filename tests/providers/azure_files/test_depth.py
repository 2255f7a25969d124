"""How many calls a deep path costs."""

from collections.abc import AsyncIterator

from portico.providers.azure_files.provider import AzureFilesProvider
from portico.providers.contract.uploads import WriteOptions

from ...servers.azure_files import AzureFilesServer
from .actions import at, put

DEEP = "/".join("d" * 60)


async def test_a_deep_folder_costs_a_call_for_each_level_and_few_more(
    provider: AzureFilesProvider, server: AzureFilesServer
) -> None:
    await provider.make_folder(at(DEEP))
    assert len(server.calls) <= 60 + 8
    server.calls.clear()
    await provider.check_ancestors(at(f"{DEEP}/{DEEP}"))
    assert len(server.calls) <= 10


async def test_a_file_whose_folder_was_checked_costs_no_look_at_it(
    provider: AzureFilesProvider, server: AzureFilesServer
) -> None:
    await put(provider, "folder/first", b"x")
    server.calls.clear()
    await provider.write(at("folder/second"), _one(), "text/plain", WriteOptions(ancestors_checked_at=0.0))
    assert not [call for call in server.calls if call.path == ("folder",)]


async def _one() -> AsyncIterator[bytes]:
    yield b"x"
