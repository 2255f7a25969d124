"""What the tests do with a provider, in few words. Paths are text here."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from portico.model.entries import Entry
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions

from ...conformance.actions import noise, pieces

__all__ = ["at", "content", "noise", "pieces", "put", "walk"]


def at(text: str) -> Path:
    return Path.parse(text)


async def put(provider: Provider, path: str, data: bytes = b"", *, replace: bool = True) -> Entry:
    return await provider.write(at(path), pieces(data), "text/plain", WriteOptions(replace=replace))


async def content(provider: Provider, path: str) -> bytes:
    download = await provider.read(at(path))
    async with aclosing(download.chunks) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def walk(provider: Provider, folder: str, size: int) -> AsyncIterator[list[Entry]]:
    token = None
    while True:
        page = await provider.list_page(at(folder), size, token)
        yield page.entries
        token = page.token
        if token is None:
            return
