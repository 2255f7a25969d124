"""Testing a connection: list, write, read and delete."""

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from secrets import token_hex

from portico.errors import NotFound, PorticoError, ProviderFailed
from portico.paths import RESERVED_PREFIX, Path
from portico.providers.base import Provider
from portico.providers.write_options import WriteOptions

_CONTENT = b"Portico was here to see whether it can write.\n"


@dataclass(frozen=True, slots=True)
class ProbeStep:
    name: str
    error: PorticoError | None = None


async def probe(provider: Provider, folder: Path) -> AsyncIterator[ProbeStep]:
    """List `folder`, then write, read and delete a file in it. Ends with the first step that fails."""
    file = Path((*folder.segments, f"{RESERVED_PREFIX}probe-{token_hex(8)}"))
    for name, step in (("list", _list), ("write", _write), ("read", _read), ("delete", _delete)):
        try:
            await step(provider, file)
        except PorticoError as error:
            yield ProbeStep(name, error)
            if step is _read:
                with suppress(PorticoError):
                    await _delete(provider, file)
            return
        yield ProbeStep(name)


async def _list(provider: Provider, file: Path) -> None:
    with suppress(NotFound):  # the folder may not exist yet: writing makes it
        await provider.list_page(file.parent, 1, None)


async def _write(provider: Provider, file: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield _CONTENT

    await provider.write(file, chunks(), "text/plain", WriteOptions(replace=False))


async def _read(provider: Provider, file: Path) -> None:
    download = await provider.read(file)
    async with aclosing(download.chunks) as chunks:
        content = b"".join([chunk async for chunk in chunks])
    if content != _CONTENT:
        raise ProviderFailed("The probe file was read with other content than was written.")


async def _delete(provider: Provider, file: Path) -> None:
    await provider.delete(file)
