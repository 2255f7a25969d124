"""Resumable uploads: a staged file that outlives its writers.

Ranges are written several at a time, so the file does not show how much of it has arrived: that is part of the state.
Each writer renames the file before it writes. A request of an earlier writer that is still on its way then finds
nothing to change. The file keeps its id, by which it is recognized under any name.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

import msgspec

from portico.model.entries import Entry
from portico.model.errors import AlreadyExists, IsAFolder, service_unavailable
from portico.model.paths import Path
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_files.errors import lacks_parent
from portico.providers.azure_files.service import Found, Share
from portico.providers.azure_files.staging import RANGE_BYTES, STAGING, StagedFile, resumable_path
from portico.providers.azure_files.targets import check_file_target, relocate
from portico.providers.contract.uploads import (
    SAVED_BYTES,
    KeptFile,
    ResumableUpload,
    Save,
    UntilCut,
    committed,
    upload_gone,
)
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import Parts, UploadPart, split
from portico.providers.wire.responses import malformed_response

_TAKEOVERS = 3
"""How often the file is looked for, if earlier writers still rename it."""


class ShareState(msgspec.Struct):
    target: tuple[str, ...]
    content_type: str
    replace: bool
    size: int | None = None
    modified: datetime | None = None
    offset: int = 0
    names: list[str] = []
    """Of the staged file, which may have any of them; the newest is the last."""
    id: str = ""
    """Of the staged file, once it was created."""


class AzureFilesUpload(ResumableUpload):
    def __init__(self, share: Share, memory: MemoryBudget, state: ShareState) -> None:
        self.offset = state.offset
        self._share = share
        self._memory = memory
        self._state = state
        self._file: StagedFile | None = None
        """The staged file, once this object has taken it over."""
        self._seen: tuple[Found, Path] | None = None
        """The staged file and its name, as it was found when the upload was resumed."""

    async def check(self) -> None:
        """`NotFound` if the service has lost it."""
        with translated("upload"):
            if self._state.id:
                self._seen = await self._find()
                if not self._seen and not await self._stored():
                    raise upload_gone()

    @property
    def mark(self) -> str:
        return self._state.id

    @property
    def state(self) -> bytes:
        return msgspec.json.encode(msgspec.structs.replace(self._state, offset=self.offset))

    @property
    def _target(self) -> Path:
        return Path(self._state.target)

    async def append(self, chunks: AsyncIterator[bytes], save: Save, *, at_most: int | None = None) -> None:
        arrived = UntilCut(chunks)
        async with split(self._memory, arrived, lambda _: RANGE_BYTES, at_most) as parts:
            if parts.first.size:
                with translated("upload"):
                    file = self._file or await self._take_over(save)
                await self._send(parts, file, save)
        arrived.check()

    async def _send(self, parts: Parts, file: StagedFile, save: Save) -> None:
        """Send parts in any order, and move the offset over those that are complete from the start on."""
        start = saved = self.offset
        complete: dict[int, int] = {}
        saving = asyncio.Lock()

        async def send(part: UploadPart) -> None:
            nonlocal saved
            place = start + (part.number - 1) * RANGE_BYTES
            await file.write(place, part)
            complete[place] = place + part.size
            while stop := complete.pop(self.offset, 0):
                self.offset = stop
            async with saving:
                if self.offset - saved >= SAVED_BYTES:
                    saved = self.offset
                    await save()

        await parts.send(send)
        await save(last=True)

    async def finish(
        self, save: Save, *, alternatives: Iterator[Path] | None = None, kept: KeptFile | None = None
    ) -> Entry:
        async def commit() -> Entry:
            with translated(self._target.name):
                return await self._commit(save, kept)

        return await committed(commit, self._retarget, save, alternatives)

    def _retarget(self, target: Path) -> None:
        self._state.target = target.segments

    async def abandon(self) -> None:
        self._file = None
        with translated("upload"):
            for name in self._state.names:
                await self._share.delete_file(STAGING.child(name))

    async def _take_over(self, save: Save) -> StagedFile:
        """Create the file, or give it a name that only this object knows."""
        state = self._state
        former = [STAGING.child(name) for name in state.names]
        path = resumable_path()
        state.names = [*state.names, path.name]
        await save()
        file = StagedFile(self._share, state.content_type, state.size, path)
        if state.id:
            file.id, file.room = state.id, await self._rename_to(path)
        else:
            await file.create(state.size or 0)
            if not file.id:
                raise malformed_response("a new file without an id")
            state.id = file.id
            for path in former:  # created by a writer that could not save its id
                await self._share.delete_file(path)
        state.names = state.names[-1:]
        self._file = file
        return file

    async def _rename_to(self, path: Path) -> int:
        """Give the staged file another name; returns its size."""
        for _ in range(_TAKEOVERS):
            found, self._seen = self._seen or await self._find(), None
            if not found:
                break
            there, source = found
            size = there.entry.size or 0
            if size < self.offset:
                raise service_unavailable(f"the staged file {source.name} has become shorter", 1)
            try:
                if source != path:
                    await relocate(self._share, there, source, path, replace=False)
            except ServiceError as error:
                if lacks_parent(error):  # an earlier writer has renamed it in the meantime
                    continue
                raise
            return size
        raise upload_gone()

    async def _find(self) -> tuple[Found, Path] | None:
        for name in reversed(self._state.names):
            path = STAGING.child(name)
            there = await self._share.file(path)
            if there and there.id == self._state.id:
                return there, path
        return None

    async def _stored(self) -> Entry | None:
        """The file at the target, if it is this upload's: a process that committed it may have died right after."""
        there = await self._share.file(self._target)
        return there.entry if there and there.id == self._state.id else None

    async def _commit(self, save: Save, kept: KeptFile | None) -> Entry:
        state = self._state
        if self._file is None:
            self._seen = self._seen or (await self._find() if state.id else None)
            if state.id and not self._seen:
                if entry := await self._stored():
                    return entry
                raise upload_gone()
            self._file = self._complete_file() or await self._take_over(save)
            await save()  # with the id
        if state.replace:  # days may have passed since it was looked at
            await check_file_target(self._share, self._target, replace=True)
        file, self._file, self._seen = self._file, None, None
        try:
            return await file.commit(
                self._target, replace=state.replace, modified=state.modified, size=self.offset, kept=kept
            )
        except (AlreadyExists, IsAFolder):
            self._file = file  # for another name
            raise

    def _complete_file(self) -> StagedFile | None:
        """The staged file, if it needs nothing but its target's name: no earlier writer changes its size."""
        if not self._seen or not self.offset == self._state.size == self._seen[0].entry.size:
            return None
        file = StagedFile(self._share, self._state.content_type, path=self._seen[1])
        file.id, file.room = self._state.id, self.offset
        return file
