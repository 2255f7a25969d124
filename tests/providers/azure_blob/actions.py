"""What the tests do with a provider and its service, in few words."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from portico.model.entries import Entry
from portico.model.paths import Path
from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.azure_common.errors import ServiceError
from portico.providers.azure_common.service import Body
from portico.providers.contract.uploads import WriteOptions
from portico.providers.multipart.parts import MIN_PART_BYTES

from ...servers.proxy import Call

PART = MIN_PART_BYTES
SECRETS = ("Eby8vdM02x", "sig=", "SharedKey")


def at(text: str) -> Path:
    return Path.parse(text)


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 2**20):
        yield content[start : start + 2**20]


async def put(provider: AzureBlobProvider, path: str, content: bytes = b"", *, replace: bool = True) -> Entry:
    return await provider.write(at(path), pieces(content), "text/plain", WriteOptions(replace=replace))


async def content(provider: AzureBlobProvider, path: str) -> bytes:
    download = await provider.read(at(path))
    async with aclosing(download.chunks) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def walk(provider: AzureBlobProvider, folder: str = "", size: int = 100) -> list[tuple[str, bool]]:
    """All entries of a folder by their names, and whether they are folders."""
    found = []
    token = None
    while True:
        page = await provider.list_page(at(folder), size, token)
        found += [(entry.name, entry.is_folder) for entry in page.entries]
        token = page.token
        if token is None:
            return sorted(found)


async def make_blob(provider: AzureBlobProvider, key: str, data: bytes = b"", **metadata: str) -> None:
    """A blob as another program makes it."""
    headers = {"x-ms-blob-type": "BlockBlob"} | {f"x-ms-meta-{name}": text for name, text in metadata.items()}
    await provider._service.send("PUT", provider._service.blob_url(key), None, headers, Body([data], len(data)))


async def uncommitted(provider: AzureBlobProvider, key: str) -> bytes:
    query = {"comp": "blocklist", "blocklisttype": "uncommitted"}
    try:
        return (await provider._service.send("GET", provider._service.blob_url(key), query)).body
    except ServiceError:
        return b""


def listing(call: Call) -> bool:
    return call.method == "GET" and call.query.get("comp") == "list"


def block(call: Call) -> bool:
    return call.query.get("comp") == "block"


def commit(call: Call) -> bool:
    return call.query.get("comp") == "blocklist" and call.method == "PUT"


def whole_put(call: Call) -> bool:
    return call.method == "PUT" and "x-ms-blob-type" in call.headers
