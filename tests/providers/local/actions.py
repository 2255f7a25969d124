from collections.abc import AsyncIterator
from contextlib import aclosing

from portico.model.entries import Entry
from portico.model.paths import Path
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions

SECRET = b"secret of another folder"
_MOST_PAGES = 10_000


def at(text: str) -> Path:
    return Path.parse(text)


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


async def put(provider: Provider, path: str, *contents: bytes, replace: bool = True) -> Entry:
    return await provider.write(at(path), pieces(*contents), "text/plain", WriteOptions(replace=replace))


async def content(provider: Provider, path: str) -> bytes:
    download = await provider.read(at(path))
    async with aclosing(download.chunks) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def names(provider: Provider, folder: str = "", size: int = 1000) -> list[str]:
    found: list[str] = []
    token = None
    for _ in range(_MOST_PAGES):
        page = await provider.list_page(at(folder), size, token)
        found += [entry.name for entry in page.entries]
        token = page.token
        if token is None:
            return found
    raise AssertionError(f"no end after {_MOST_PAGES} pages")
