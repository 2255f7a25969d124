"""`HiddenObjects`: what a resumable upload keeps in a store of keys beside its parts, below a prefix of its own."""

from contextlib import aclosing

from portico.errors import NotFound
from portico.providers.keys import KeyStore
from portico.providers.object_trees import remove_empty_folders
from portico.providers.part_store import PartStore
from portico.providers.parts import UploadPart
from portico.providers.resumable import upload_gone
from portico.providers.tasks import for_each


class HiddenObjects:
    def __init__(self, store: KeyStore, service: PartStore, prefix: str) -> None:
        self._store = store
        self._service = service
        self._prefix = prefix

    async def put(self, name: str, part: UploadPart) -> None:
        """The name is new: a writer that was taken over may still store its own."""
        await self._service.put_hidden(self._prefix + name, part)

    async def read(self, names: list[str]) -> dict[str, list[bytes]]:
        """The chunks of each. `NotFound`: the upload is gone."""
        found: dict[str, list[bytes]] = {}

        async def read(name: str) -> None:
            download = await self._store.open(self._prefix + name, 0, None, None)
            async with aclosing(download.chunks) as chunks:
                found[name] = [bytes(chunk) async for chunk in chunks]

        try:
            await for_each(read, names)
        except NotFound as error:
            raise upload_gone() from error
        return found

    async def remove(self, names: list[str]) -> None:
        size = self._store.max_page_size
        for start in range(0, len(names), size):
            await self._store.remove([self._prefix + name for name in names[start : start + size]])

    async def clear(self) -> None:
        """Remove all. By a listing: a process may have died after it stored one and before it saved its name."""
        removed = False
        async for listing in self._store.pages(self._prefix, flat=True):
            if keys := [entry.name for entry in listing.objects]:
                await self._store.remove(keys)
                removed = True
        if removed:
            await remove_empty_folders(self._store, self._prefix)
