"""Resumable uploads to an object store.

Bytes become parts of the service's own upload as soon as there are enough of them. The rest at the end of a request,
if it is too small to be a part, is stored as a hidden object, a tail. When tails and new bytes fill a part, the tails are
read back, sent with it and removed. So a byte is written at most twice and read at most once, whatever the requests are.
The state, which is saved after each part, names the last parts only; the others are listed in hidden objects.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from itertools import chain
from secrets import token_hex

import structlog

from portico.model.entries import Entry
from portico.model.errors import NotFound, PorticoError, TooLarge
from portico.model.paths import Path
from portico.providers.contract.uploads import KeptFile, ResumableUpload, Save, UntilCut, committed, upload_gone
from portico.providers.multipart.memory import MemoryShare
from portico.providers.multipart.parts import UploadPart, cut, send_all
from portico.providers.objects.part_store import PartList, SentPart, Tail, UploadState
from portico.providers.objects.service import ObjectService, Version, key_of, name_of, path_of
from portico.providers.objects.trees import remove_empty_folders
from portico.runtime.tasks import for_each


class HiddenObjects:
    """Their names are new: a writer that was taken over may still store its own."""

    def __init__(self, store: ObjectService, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

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


_CLAIM = 8
"""How many part numbers a writer claims beyond those that are saved. After it has died, they are not used again."""
_MAX_PARTS = 100
"""How many parts the state lists before they go to an object of their own."""
_MAX_TAILS = 1000
"""More are merged, so that the state stays small even if each request brings a few bytes."""

log = structlog.get_logger()


class ResumableObjectUpload(ResumableUpload):
    def __init__(
        self, store: ObjectService, state: UploadState, target: Callable[[Path], AbstractAsyncContextManager[None]]
    ) -> None:
        """`target`: around what makes a file visible at a path; raises if there can be none."""
        self._store = store
        self._state = state
        self._target = target
        self._service = store.part_store(state)
        self._hidden = HiddenObjects(store, state.folder)
        self._sent = sum(part.size for part in state.parts) + sum(each.size for each in state.lists)
        self.offset = self._sent + self._tail_bytes
        self._next = state.next_number
        self._claimed = state.next_number
        """The first part number that is not claimed."""
        self._saving = asyncio.Lock()
        """Held while the state is changed and saved."""
        self._all_cut = False
        self._rest: UploadPart | None = None

    @property
    def mark(self) -> str:
        return self._state.id

    @property
    def state(self) -> bytes:
        return self._state.encode()

    @property
    def _tail_bytes(self) -> int:
        return sum(tail.size for tail in self._state.tails)

    # Adding

    async def append(self, chunks: AsyncIterator[bytes], save: Save, *, at_most: int | None = None) -> None:
        arrived = UntilCut(chunks)
        self._all_cut = False
        self._rest = None
        if len(self._state.tails) >= _MAX_TAILS:
            await self._merge_tails(save)
        async with self._store.memory.share() as share:
            sizes = self._part_sizes()
            pieces = cut(arrived, sizes, share, at_most=at_most, ahead=self._tail_bytes)
            async with aclosing(pieces), aclosing(self._to_send(pieces, share)) as parts:
                before = self._next
                await self._send_all(parts, share, save)
                if self._rest:
                    await self._add_tail(self._rest)
            if self._rest or self._next != before:
                await self._save(save, 0, last=True)
        arrived.check()

    def _part_sizes(self) -> Callable[[int], int]:
        """The sizes of the next parts, asked for in order."""
        first, offset = self._next, self._sent

        def size(number: int) -> int:
            nonlocal offset
            planned = self._service.limits.part_size(self._state, first + number - 1, offset)
            offset += planned
            return planned

        return size

    async def _to_send(self, pieces: AsyncIterator[UploadPart], share: MemoryShare) -> AsyncGenerator[UploadPart]:
        """Parts as the service takes them; what it does not take is left in `_rest`."""
        offset, tails = self._sent, self._tail_bytes
        async for part in pieces:
            if part.last:
                count = self._service.limits.sendable(self._state, self._next, offset, tails + part.size)
                if part.size == 0 or count < tails:
                    count = 0
                part, self._rest = _divided(part, count - tails if count else 0)
                if not part.size:
                    share.settle()
                    break
            if tails:
                await self._prepend_tails(part, share)
                tails = 0
            if part.last:
                share.settle()
            part.number, part.offset = self._take_number(), offset
            offset += part.size
            yield part
        self._all_cut = True

    def _take_number(self) -> int:
        limit = self._service.limits.max_number
        if limit is not None and self._next > limit:
            raise TooLarge("The file is too large for this storage. Upload a smaller file.")
        self._next += 1
        return self._next - 1

    async def _send_all(self, parts: AsyncGenerator[UploadPart], share: MemoryShare, save: Save) -> None:
        first = await anext(parts, None)
        if first:
            await self._begin(save)
            send, report = partial(self._send, save), partial(self._acknowledge, save)
            await send_all(first, parts, send, share, report, in_order=self._service.limits.in_order)

    async def _begin(self, save: Save) -> None:
        state = self._state
        if state.session or not self._service.begins:
            return
        async with self._saving:
            if moment := await self._service.now():
                state.intents = [*state.intents, moment]
            await self._save(save, _CLAIM)
            state.session = await self._service.begin()
            state.intents = state.intents[:-1] if moment else state.intents
            await self._save(save, _CLAIM)

    async def _send(self, save: Save, part: UploadPart) -> str:
        if part.number >= self._claimed:
            async with self._saving:
                if part.number >= self._claimed:
                    await self._save(save, _CLAIM)
        try:
            return await self._service.send(part)
        except NotFound as error:
            raise upload_gone() from error

    async def _acknowledge(self, save: Save, parts: list[tuple[UploadPart, str]]) -> None:
        async with self._saving:
            used, self._state.tails = self._state.tails, []
            self._sent += sum(part.size for part, _ in parts)
            self.offset = self._sent
            self._record([SentPart(part.number, part.size, result) for part, result in parts])
            if len(self._state.parts) >= _MAX_PARTS:
                await self._list_parts()
            last = self._all_cut and parts[-1][0].number + 1 == self._next
            if not last or used:  # otherwise it is saved with the end of the request
                await self._save(save, _CLAIM)
        await self._remove_tails(used)

    def _record(self, parts: list[SentPart]) -> None:
        state = self._state
        if self._service.limits.in_order:
            state.parts = [SentPart(parts[-1].number, self._sent, parts[-1].result)]
        else:
            state.parts = [*state.parts, *parts]

    async def _list_parts(self) -> None:
        """Move the list of parts out of the state. If that fails, it is tried again with the next part."""
        state = self._state
        text = PartList.encode(state.parts)
        name = f"parts-{state.parts[0].number}-{token_hex(8)}"
        try:
            await self._store.put(self._state.folder + name, [text])
        except PorticoError as error:
            log.warning("upload-parts-not-listed", code=error.code, cause=error.cause)
            return
        state.lists = [*state.lists, PartList(name, sum(part.size for part in state.parts))]
        state.parts = []

    async def _save(self, save: Save, claim: int, *, last: bool = False) -> None:
        self._state.next_number = self._next + claim
        await save(last=last)
        self._claimed = self._state.next_number

    # Tails

    async def _add_tail(self, part: UploadPart) -> None:
        name = f"{self.offset}-{token_hex(8)}"
        await self._store.put(self._state.folder + name, part.chunks)
        self._state.tails = [*self._state.tails, Tail(name, part.size)]
        self.offset += part.size

    async def _merge_tails(self, save: Save) -> None:
        used = self._state.tails
        part = UploadPart(1, [], 0, last=True)
        async with self._store.memory.share() as share:
            await self._prepend_tails(part, share)
            name = f"{self._sent}-{token_hex(8)}"
            await self._store.put(self._state.folder + name, part.chunks)
        self._state.tails = [Tail(name, part.size)]
        await self._save(save, 0)
        await self._remove_tails(used)

    async def _prepend_tails(self, part: UploadPart, share: MemoryShare) -> None:
        size, tails = self._tail_bytes, self._state.tails
        await share.take(size)
        found = await self._hidden.read([tail.name for tail in tails])
        if any(sum(map(len, found[tail.name])) != tail.size for tail in tails):
            raise upload_gone()
        part.chunks[:0] = [chunk for tail in tails for chunk in found[tail.name]]
        part.size += size

    async def _remove_tails(self, tails: list[Tail]) -> None:
        try:
            await self._hidden.remove([tail.name for tail in tails])
        except PorticoError as error:
            log.warning("upload-tails-not-removed", code=error.code, cause=error.cause, left_to="finish")

    # Ending

    async def finish(
        self, save: Save, *, alternatives: Iterator[Path] | None = None, kept: KeptFile | None = None
    ) -> Entry:
        state = self._state
        stored = await self._stored()
        if not stored and state.renamed:
            if state.committed is None:
                hidden = await self._service.own(state.goal, self.offset) if state.committing else None
                state.committed = (hidden or await self._commit(save)).etag
            state.copying = True
            await self._save(save, 0)  # before it is tried, so that a repetition looks there first
            stored = await committed(self._copy, self._retarget, partial(self._save, save, 0), alternatives)
        elif not stored:
            self._service.kept = kept
            async with self._target(path_of(state.key)):
                stored = await self._commit(save)
        stored.name = name_of(state.key)
        try:
            await self._clear(abort=not self._sent)
        except PorticoError as error:
            log.warning("upload-not-cleared", code=error.code, cause=error.cause, left_to="abandon")
        return stored

    async def _stored(self) -> Entry | None:
        """The file, if a former call has stored it, and its result was lost."""
        state = self._state
        if state.copying or (state.committing and not state.renamed):
            return await self._service.own(state.key, self.offset)
        return None

    async def _commit(self, save: Save) -> Entry:
        """Make the object at the goal of all that was sent."""
        state = self._state
        state.committing = True
        await self._save(save, 0)
        try:
            async with self._store.memory.share() as share:
                last = UploadPart(self._next, [], 0, last=True, offset=self._sent)
                if state.tails:
                    await self._prepend_tails(last, share)
                if not self._sent:
                    return await self._service.put(last)
                if last.size and self._service.limits.takes_last:
                    self._all_cut = False
                    await self._send_all(_only(last, self._take_number()), share, save)
                    last = UploadPart(self._next, [], 0, last=True, offset=self._sent)
                lists = await self._hidden.read([each.name for each in state.lists])
                listed = [PartList.decode(b"".join(lists[each.name])) for each in state.lists]
                return await self._service.commit([*chain.from_iterable(listed), *state.parts], last, self.offset)
        except NotFound as error:
            if stored := await self._service.own(state.goal, self.offset):
                return stored
            raise upload_gone() from error

    async def _copy(self) -> Entry:
        """Copy the object at the hidden key to the key."""
        state = self._state
        try:
            async with self._target(path_of(state.key)):
                await self._store.duplicate(Version(state.goal, state.committed), state.key, replace=state.replace)
        except NotFound as error:
            raise upload_gone() from error
        stored = await self._service.own(state.key, self.offset)
        if stored is None:
            raise upload_gone()
        return stored

    def _retarget(self, target: Path) -> None:
        self._state.key = key_of(target)

    async def abandon(self) -> None:
        await self._clear(abort=True)

    async def _clear(self, *, abort: bool) -> None:
        if abort and (self._state.session or not self._service.begins):
            await self._service.abort()
        if self._state.intents:
            await self._service.abort_lost()
        await self._hidden.clear()


def _divided(part: UploadPart, count: int) -> tuple[UploadPart, UploadPart | None]:
    """The first `count` bytes of a part, and the rest if there is any."""
    if count == part.size:
        return part, None
    one, other = UploadPart(1, [], 0, last=True), UploadPart(1, [], 0, last=True)
    for chunk in part.chunks:
        here = chunk[: count - one.size]
        there = chunk[len(here) :]
        for half, piece in ((one, here), (other, there)):
            if piece:
                half.chunks.append(piece)
                half.size += len(piece)
    return one, other


async def _only(part: UploadPart, number: int) -> AsyncGenerator[UploadPart]:
    part.number = number
    yield part
