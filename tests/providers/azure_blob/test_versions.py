"""The trash of an account that keeps versions, or has begun or ceased to keep them."""

import asyncio
from collections.abc import AsyncIterator
from secrets import token_hex

import pytest

from portico.model.errors import AlreadyExists, IsAFolder, ProviderUnavailable
from portico.model.paths import Path
from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.azure_blob.versions import BlobVersions
from portico.providers.azure_common.credentials import credential_and_url

from ...servers.azure_blob import Container, azure_blob_server

FILES = ("a", "b/c", "b/d & ö")


@pytest.fixture
async def container() -> AsyncIterator[tuple[AzureBlobProvider, Container]]:
    server = azure_blob_server()
    name = f"container-{token_hex(8)}"
    container = server.containers[name] = Container(versioning=False)
    provider = AzureBlobProvider(name, connection_string=server.connection_string)
    yield provider, container
    await provider.close()
    del server.containers[name]


def at(text: str) -> Path:
    return Path.parse(text)


async def put(provider: AzureBlobProvider, path: str, content: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield content.encode()

    await provider.write(at(path), chunks(), "text/plain")


def contents(container: Container, prefix: str) -> dict[str, bytes]:
    found = container.blobs.items()
    return {name.removeprefix(prefix): blob.content for name, blob in found if name.startswith(prefix)}


async def test_what_is_older_than_the_versions_is_copied(container: tuple[AzureBlobProvider, Container]) -> None:
    provider, stored = container
    for name in FILES:
        await put(provider, f"w/{name}", name)
    stored.versioning = True
    await put(provider, "w/b/new", "new")
    await put(provider, "w/a", "a with a version")
    before = contents(stored, "w/")
    await provider.move_to_trash(at("w"), at("t/1"))
    assert contents(stored, "w/") == {}
    assert set(contents(stored, "t/1/")) - {"b/c", "b/d & ö"} == {".portico~versions-00000001"}
    await provider.restore(at("t/1"), at("w"))
    assert contents(stored, "w/") == before
    await provider.move_to_trash(at("w/b/c"), at("t/2"))
    await provider.restore(at("t/2"), at("w/b/c"))
    assert contents(stored, "w/") == before


async def test_a_page_of_older_versions_is_no_end(
    container: tuple[AzureBlobProvider, Container], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.providers.azure_blob.versions._PAGE", 2)
    provider, stored = container
    stored.versioning = True
    for number in range(7):
        await put(provider, "w/a", str(number))
    await put(provider, "w/b", "b")
    await provider.delete(at("w/b"))
    await put(provider, "w/c", "c")
    await provider.move_to_trash(at("w"), at("t/1"))
    assert contents(stored, "w/") == {}
    await provider.restore(at("t/1"), at("w"))
    assert contents(stored, "w/") == {"a": b"6", "c": b"c"}


async def test_nothing_is_deleted_if_versions_are_no_longer_kept(
    container: tuple[AzureBlobProvider, Container],
) -> None:
    provider, stored = container
    stored.versioning = True
    await put(provider, "w/a", "a")
    assert await provider.versions.are_kept("t/")
    stored.versioning = False
    with pytest.raises(ProviderUnavailable):
        await provider.move_to_trash(at("w"), at("t/1"))
    assert contents(stored, "w/") == {"a": b"a"}
    await provider.purge(at("t/1"))
    await provider.move_to_trash(at("w"), at("t/2"))  # by a copy
    assert contents(stored, "t/") == {"2/a": b"a"}


@pytest.mark.parametrize("sas", [None, "sv=2021&sig=a%2Bb"])
def test_the_address_of_a_version(sas: str | None) -> None:
    account = {"account_url": "https://a.blob.core.windows.net"}
    key = {"sas_token": sas} if sas else {"account_key": "a2V5"}
    access = credential_and_url("blob", **account, **key)
    address = access.signed("https://a.blob.core.windows.net/c/k", "2026-11-18T02:00:00.0000001Z")
    query = "versionid=2026-11-18T02%3A00%3A00.0000001Z" + (f"&{sas}" if sas else "")
    assert address == f"https://a.blob.core.windows.net/c/k?{query}"


async def test_what_a_merge_replaced_may_be_older_than_the_versions(
    container: tuple[AzureBlobProvider, Container],
) -> None:
    provider, stored = container
    await put(provider, "w/b/old", "old")
    stored.versioning = True
    await put(provider, "w/b/new", "new")
    before = contents(stored, "w/")
    for name in ("b/old", "b/new"):
        await provider.copy_to_trash(at(f"w/{name}"), at(f"t/1/{name}"))
        await put(provider, f"w/{name}", "replaced")
    await provider.delete(at("w/b/new"))
    with pytest.raises(AlreadyExists):
        await provider.restore(at("t/1"), at("w"))
    assert contents(stored, "w/") == {"b/old": b"replaced"}
    await provider.restore(at("t/1"), at("w"), replace=True)
    assert contents(stored, "w/") == before


async def test_a_folder_may_have_only_a_marker(container: tuple[AzureBlobProvider, Container]) -> None:
    provider, stored = container
    stored.versioning = True
    await put(provider, "w/a", "a")
    await provider.move_to_trash(at("w"), at("t/1"))
    await put(provider, "f", "f")
    await provider.move_to_trash(at("f"), at("t/2"))
    for name in ("w", "f"):
        stored.put(name, b"", {"x-ms-meta-hdi_isfolder": "true"})
    with pytest.raises(AlreadyExists):
        await provider.restore(at("t/1"), at("w"))
    await provider.restore(at("t/1"), at("w"), replace=True)
    assert contents(stored, "w/") == {"a": b"a"}
    for replace in (False, True):
        with pytest.raises(IsAFolder):
            await provider.restore(at("t/2"), at("f"), replace=replace)


async def test_one_probe_at_the_top_of_the_trash(
    container: tuple[AzureBlobProvider, Container], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, stored = container
    stored.versioning = True
    for name in FILES:
        await put(provider, f"w/{name}", name)
    written = []
    write = BlobVersions._put

    async def spy(versions: BlobVersions, key: str, content: bytes) -> bool:
        written.append(key)
        return await write(versions, key, content)

    monkeypatch.setattr(BlobVersions, "_put", spy)
    item = Path(("top", ".portico~trash", "1"))
    await asyncio.gather(*(provider.copy_to_trash(at(f"w/{name}"), at(name).under(item)) for name in FILES))
    probes = [key for key in written if key.endswith("versions")]
    assert probes == ["top/.portico~trash/.portico~versions"]
