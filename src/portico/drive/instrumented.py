"""`InstrumentedProvider`: a provider whose calls are timed and whose failures are counted."""

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from portico.model.entries import Entry
from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.observability.metrics import Metrics
from portico.observability.tracing import Tracing
from portico.providers.contract.provider import Found, Provider, TreeWalk
from portico.providers.contract.uploads import Ends, ResumableUpload

T = TypeVar("T")

UNUSABLE = frozenset({"provider-refused", "provider-unavailable", "provider-timeout", "provider-error"})
"""Codes of errors that are the storage's fault, whatever was asked for."""


def _timed(name: str, *, label: str = "") -> Any:
    """The method of `inner` with this name, timed."""

    async def method(self: "InstrumentedProvider", *args: Any, **options: Any) -> Any:
        return await self.timed(label or name, getattr(self._inner, name)(*args, **options))

    return method


class InstrumentedProvider(Provider):
    """Delegates every call to `inner`. Reading a download's chunks is not timed."""

    def __init__(self, inner: Provider, connection: str, metrics: Metrics, tracing: Tracing | None = None) -> None:
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
        self.has_folders = inner.has_folders  # type: ignore[misc]
        self.reports_arrival = inner.reports_arrival  # type: ignore[misc]
        self.small_file = inner.small_file  # type: ignore[misc]
        self.keeps_at_commit = inner.keeps_at_commit  # type: ignore[misc]
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

    list_page = _timed("list_page")
    stat = _timed("stat")
    find_file = _timed("find_file", label="stat")
    read = _timed("read")
    read_small = _timed("read_small")
    read_or_list = _timed("read_or_list")
    write = _timed("write")
    has_mark = _timed("has_mark", label="stat")
    check_ancestors = _timed("check_ancestors")
    make_folder = _timed("make_folder")
    delete = _timed("delete")
    copy = _timed("copy")
    move = _timed("move")
    move_to_trash = _timed("move_to_trash")
    copy_to_trash = _timed("copy_to_trash")
    note_version = _timed("note_version", label="copy_to_trash")
    restore = _timed("restore")
    purge = _timed("purge")
    sweep = _timed("sweep")
    _begin_upload = _timed("begin_upload")
    _resume_upload = _timed("resume_upload")
    _check = _timed("check")

    @asynccontextmanager
    async def transferring(self, *args: Any, **options: Any) -> AsyncIterator[Ends | None]:
        async with AsyncExitStack() as stack:
            entering = stack.enter_async_context(self._inner.transferring(*args, **options))
            yield await self.timed("stat", entering)

    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        return _InstrumentedWalk(self, self._inner.walk(folder, token))

    async def begin_upload(self, *args: Any, **options: Any) -> ResumableUpload:
        return _InstrumentedUpload(self, await self._begin_upload(*args, **options))

    async def resume_upload(self, *args: Any, **options: Any) -> ResumableUpload:
        return _InstrumentedUpload(self, await self._resume_upload(*args, **options))

    async def files_in_trash(self, place: Path) -> AsyncIterator[list[Path]]:
        batches = self._inner.files_in_trash(place)
        while (files := await self.timed("files_in_trash", anext(batches, None))) is not None:
            yield files

    async def check(self, *, writable: bool) -> None:
        if type(self._inner).check is not Provider.check:  # otherwise it asks nothing, and says nothing
            await self._check(writable=writable)

    async def can_note(self, version: str, place: Path) -> bool:
        return await self._inner.can_note(version, place)

    async def ignores_case(self) -> bool:
        return await self._inner.ignores_case()

    def key(self, path: Path) -> tuple[str, ...]:
        return self._inner.key(path)

    async def space(self) -> tuple[int, int] | None:
        return await self._inner.space()

    async def volume_id(self) -> str | None:
        return await self._inner.volume_id()

    def expect_volume(self, expected_id: str | None) -> None:
        self._inner.expect_volume(expected_id)

    async def close(self) -> None:
        await self._inner.close()


class _InstrumentedWalk(TreeWalk):
    def __init__(self, provider: InstrumentedProvider, inner: TreeWalk) -> None:
        self._provider = provider
        self._inner = inner

    async def page(self, size: int) -> list[Found]:
        self._inner.reads_ahead = self.reads_ahead
        return await self._provider.timed("walk", self._inner.page(size))

    async def close(self) -> None:
        await self._inner.close()

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
    def mark(self) -> str:
        return self._inner.mark

    @property
    def state(self) -> bytes:
        return self._inner.state

    async def append(self, *args: Any, **options: Any) -> None:
        await self._provider.timed("append", self._inner.append(*args, **options))

    async def finish(self, *args: Any, **options: Any) -> Entry:
        return await self._provider.timed("finish", self._inner.finish(*args, **options))

    async def abandon(self) -> None:
        await self._provider.timed("abandon", self._inner.abandon())
