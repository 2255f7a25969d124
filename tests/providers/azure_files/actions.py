"""What the tests do with a provider, in few words, and what goes wrong on its server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from portico.model.entries import Entry
from portico.model.paths import Path
from portico.providers.azure_files.provider import AzureFilesProvider
from portico.providers.contract.uploads import WriteOptions

from ...servers.azure_files import Answer, Call, Fault, Lost, Refusal, refused

RANGE = 4 * 2**20


def at(text: str) -> Path:
    return Path(tuple(text.split("/"))) if text else Path()


async def pieces(content: bytes, step: int = 2**16) -> AsyncIterator[bytes]:
    for start in range(0, len(content), step):
        yield content[start : start + step]


async def put(provider: AzureFilesProvider, path: str, content: bytes = b"", *, replace: bool = True) -> Entry:
    return await provider.write(at(path), pieces(content), "text/x-own", WriteOptions(replace=replace))


async def get(provider: AzureFilesProvider, path: str) -> bytes:
    download = await provider.read(at(path))
    async with aclosing(download.chunks) as chunks:
        return b"".join([chunk async for chunk in chunks])


def failing(verb: str, answer: Callable[[], Answer], times: int = 1_000_000) -> Fault:
    """The first calls of this verb get another answer."""
    left = times

    async def fault(call: Call, _: Callable[[], Answer]) -> Answer | None:
        nonlocal left
        if call.verb == verb and left:
            left -= 1
            return answer()
        return None

    return fault


def lost(verb: str, times: int = 1, *, done: bool) -> Fault:
    """The connection breaks in the first calls of this verb, before or after the work is done."""
    left = times

    async def fault(call: Call, work: Callable[[], Answer]) -> Answer | None:
        nonlocal left
        if call.verb == verb and left:
            left -= 1
            if done:
                work()
            raise Lost
        return None

    return fault


def silent(verb: str) -> Fault:
    async def fault(call: Call, _: Callable[[], Answer]) -> Answer | None:
        if call.verb == verb:
            await asyncio.sleep(1)
            raise Lost
        return None

    return fault


def busy() -> Answer:
    return refused(Refusal(503, "ServerBusy"))


def refusing(status: int, code: str) -> Callable[[], Answer]:
    return lambda: refused(Refusal(status, code))
