"""`InstrumentedProvider`: a provider whose calls are timed and whose failures are counted."""

import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TypeVar

from portico.model.entries import Download, Entry, Page
from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.observability.metrics import Metrics
from portico.observability.tracing import Tracing
from portico.providers.contract.provider import Found, Provider, TreeWalk
from portico.providers.contract.uploads import KeptFile, ResumableUpload, Save, WriteOptions

T = TypeVar("T")

UNUSABLE = frozenset({"provider-refused", "provider-unavailable", "provider-timeout", "provider-error"})
"""Codes of errors that are the storage's fault, whatever was asked for."""


class InstrumentedProvider(Provider):
    """Delegates every call to `inner`. Reading a download's chunks is not timed."""

    def __init__(
        self, inner: Provider, connection: str, metrics: Metrics, tracing: Tracing | None = None
    ) -> None:
        self._inner = inner
        self._labels = (connection, inner.kind)
        self._metrics = metrics
        self._tracing = tracing
        self.usable: bool | None = None
        """By the outcome of the last call; None before the first."""
        self.failure: str | None = None
        """Why it is not usable, for the administrator."""
        # Copied to avoid a property call.
        self.kind = inner.kind  # type: ignore[misc]
        self.max_page_size = inner.max_page_size  # type: ignore[misc]
        self.renames_at_commit = inner.renames_at_commit  # type: ignore[misc]
        self.keeps_at_commit = inner.keeps_at_commit  # type: ignore[misc]
        self.says_replaced = inner.says_replaced  # type: ignore[misc]
        self.max_file_size = inner.max_file_size  # type: ignore[misc]
        self.identity = inner.identity

    async def timed(self, call: str, work: Awaitable[T]) -> T:
        if self._tracing is None:
            return await self._counted(call, work)
        with self._tracing.call(*self._labels, call):
            return await self._counted(call, work)

    async def _counted(self, call: str, work: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            result = await work
            self.usable = True
            return result
        except Exception as error:
            code = error.code if isinstance(error, PorticoError) else "internal"
            self.usable = code not in UNUSABLE
            self.failure = getattr(error, "cause", None) or code
            self._metrics.provider_errors.add((*self._labels, call, code))
            raise
        finally:
            self._metrics.provider_calls.observe((*self._labels, call), time.perf_counter() - began)

    async def list_page(
        self, folder: Path, size: int, token: str | None, *, file_first: bool = False
    ) -> Page:
        return await self.timed(
            "list_page", self._inner.list_page(folder, size, token, file_first=file_first)
        )

    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        return _InstrumentedWalk(self, self._inner.walk(folder, token))

    async def stat(self, path: Path) -> Entry:
        return await self.timed("stat", self._inner.stat(path))

    async def find_file(self, path: Path) -> Entry | None:
        return await self.timed("stat", self._inner.find_file(path))

    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        return await self.timed("read", self._inner.read(path, start, stop, etag=etag))

    async def write(
        self,
        path: Path,
        chunks: AsyncIterator[bytes],
        content_type: str,
        options: WriteOptions = WriteOptions(),
    ) -> Entry:
        return await self.timed("write", self._inner.write(path, chunks, content_type, options))

    async def begin_upload(
        self,
        path: Path,
        content_type: str,
        options: WriteOptions = WriteOptions(),
        *,
        renamed: bool = False,
    ) -> ResumableUpload:
        work = self._inner.begin_upload(path, content_type, options, renamed=renamed)
        return _InstrumentedUpload(self, await self.timed("begin_upload", work))

    async def resume_upload(
        self, state: bytes, *, known_offset: int | None = None, trusted: bool = True
    ) -> ResumableUpload:
        work = self._inner.resume_upload(state, known_offset=known_offset, trusted=trusted)
        upload = await self.timed("resume_upload", work)
        return _InstrumentedUpload(self, upload)

    async def check_ancestors(self, folder: Path) -> None:
        await self.timed("check_way", self._inner.check_ancestors(folder))  # the label of a published metric

    async def make_folder(self, path: Path) -> None:
        await self.timed("make_folder", self._inner.make_folder(path))

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        await self.timed("delete", self._inner.delete(path, recursive=recursive))

    async def copy(
        self, source: Path, target: Path, *, replace: bool = True, kept: KeptFile | None = None
    ) -> None:
        await self.timed("copy", self._inner.copy(source, target, replace=replace, kept=kept))

    async def move(
        self, source: Path, target: Path, *, replace: bool = True, kept: KeptFile | None = None
    ) -> None:
        await self.timed("move", self._inner.move(source, target, replace=replace, kept=kept))

    async def move_to_trash(self, path: Path, place: Path) -> None:
        await self.timed("move_to_trash", self._inner.move_to_trash(path, place))

    async def keep(self, path: Path, place: Path) -> None:
        await self.timed("keep", self._inner.keep(path, place))

    async def restore(self, place: Path, target: Path, *, replace: bool = False) -> None:
        await self.timed("restore", self._inner.restore(place, target, replace=replace))

    async def files_in_trash(self, place: Path) -> AsyncIterator[list[Path]]:
        batches = self._inner.files_in_trash(place)
        while (files := await self.timed("files_in_trash", anext(batches, None))) is not None:
            yield files

    async def purge(self, place: Path) -> None:
        await self.timed("purge", self._inner.purge(place))

    async def check(self, *, writable: bool) -> None:
        if type(self._inner).check is not Provider.check:  # otherwise it asks nothing, and says nothing
            await self.timed("check", self._inner.check(writable=writable))

    async def space(self) -> tuple[int, int] | None:
        return await self._inner.space()

    async def volume_id(self) -> str | None:
        return await self._inner.volume_id()

    def expect_volume(self, expected_id: str | None) -> None:
        self._inner.expect_volume(expected_id)

    async def sweep(self) -> int:
        return await self.timed("sweep", self._inner.sweep())

    async def close(self) -> None:
        await self._inner.close()


class _InstrumentedWalk(TreeWalk):
    def __init__(self, provider: InstrumentedProvider, inner: TreeWalk) -> None:
        self._provider = provider
        self._inner = inner

    async def page(self, size: int) -> list[Found]:
        return await self._provider.timed("walk", self._inner.page(size))

    @property
    def token(self) -> str | None:
        return self._inner.token


class _InstrumentedUpload(ResumableUpload):
    def __init__(self, provider: InstrumentedProvider, inner: ResumableUpload) -> None:
        self._provider = provider
        self._inner = inner

    @property
    def offset(self) -> int:  # type: ignore[override]
        return self._inner.offset

    @property
    def state(self) -> bytes:
        return self._inner.state

    async def append(self, chunks: AsyncIterator[bytes], save: Save, *, at_most: int | None = None) -> None:
        await self._provider.timed("append", self._inner.append(chunks, save, at_most=at_most))

    async def finish(
        self, save: Save, *, alternatives: Iterator[Path] | None = None, kept: KeptFile | None = None
    ) -> Entry:
        work = self._inner.finish(save, alternatives=alternatives, kept=kept)
        return await self._provider.timed("finish", work)

    async def abandon(self) -> None:
        await self._provider.timed("abandon", self._inner.abandon())
