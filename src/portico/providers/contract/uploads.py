"""How a file is written, uploads over several requests, and the record of those under way."""

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol, Self, TypeVar

import msgspec

from portico.model.entries import Entry
from portico.model.errors import AlreadyExists, Changed, IsAFolder, NotFound, changed
from portico.model.paths import Path

T = TypeVar("T")

_ATTEMPTS = 4
"""How often a file is kept that keeps being replaced."""


class Look(msgspec.Struct, frozen=True):
    """What was found where a file is to be stored."""

    entry: Entry | None
    until: float = math.inf
    """Until when the commit may rely on it, by the monotonic clock: the service refuses a commit over anything else."""

    @property
    def holds(self) -> bool:
        return time.monotonic() < self.until


class Ends(msgspec.Struct, frozen=True):
    """What `Provider.transferring` found."""

    source: Entry
    """A file, and then no folder is at the target. If it is a folder, nothing else is known, nor whether it is there."""
    look: Look | None
    """At the target, if that helps."""
    take: Callable[[], None] = lambda: None
    """For the provider: raises if another change has made a folder of the target, or a file of what is above it."""
    source_id: str = ""
    """Of a file, where the service has one."""


class Prepare(Protocol):
    async def __call__(self, look: Look | None = None) -> None:
        """Keep the file that is there; without a look that holds, look first."""


class KeptFile(msgspec.Struct):
    """Where a file that is replaced is kept.

    A provider that keeps it at its commit has a `place`. For any other, `prepare` keeps it, and sets its etag. An upload awaits
    it right before its commit. A change that then finds another version awaits it again, and begins again.
    """

    prepare: Prepare
    place: Path | None = None
    entry: Entry | None = None
    """Set by the provider: the file that its commit has found."""
    etag: str | None = None
    """Of the file that was found; None if there was none."""
    may_copy: bool = False
    """Whether the file is copied to its place if the file system cannot link it there."""
    copied: str | None = None
    """The etag of the version that was copied to the place."""
    is_kept: bool = False
    """Set by the provider: whether the file that was replaced is in its place."""
    saw: Callable[[Look], None] = lambda _: None
    """Called with what will probably be replaced, before the content arrives: so the journal knows it when the change begins."""
    beside: Callable[[], Coroutine[Any, Any, bool]] | None = None
    """Set by `prepare`: writes a note of the version that is replaced, which may be done while it is replaced."""


async def over_kept(
    kept: KeptFile | None,
    name: str,
    replace: bool,
    if_match: str | None,
    commit: Callable[[bool, str | None], Awaitable[T]],
    *,
    prepared: bool = False,
    look: Look | None = None,
) -> T:
    """The result of a commit, which is given whether a file is replaced, and which version alone.

    With `kept`, the file is kept before, unless it is `prepared`. If it is another one by then, that one is kept and the
    commit is tried again, unless the client has chosen the version itself, by `if_match`. `look`: what is there.
    """
    if kept is None:
        return await commit(replace, if_match)
    if if_match is not None:
        if not prepared:
            await kept.prepare(look)
        return await _noted(kept, commit(True, if_match))
    for attempt in range(_ATTEMPTS):
        if attempt or not prepared:
            await kept.prepare(None if attempt else look)
        with suppress(AlreadyExists, Changed):
            return await _noted(kept, commit(kept.etag is not None, kept.etag))
    raise changed(name)


async def _noted(kept: KeptFile, commit: Awaitable[T]) -> T:
    """The result of a commit, and of what may be done beside it."""
    if kept.beside is None:
        return await commit
    noting, kept.beside = asyncio.create_task(kept.beside()), None
    try:
        result = await commit
    except BaseException:
        await asyncio.wait([noting])
        noting.cancelled() or noting.exception()  # whether it is there will be looked at
        raise
    await noting
    return result


async def over_seen(
    kept: KeptFile | None,
    look: Look | None,
    name: str,
    replace: bool,
    if_match: str | None,
    commit: Callable[[bool, str | None], Awaitable[Entry]],
    *,
    prepared: bool = False,
) -> Entry:
    """As `over_kept`. The entry says whether a file was replaced, as far as `kept` or the look tells."""
    if look and not look.entry and look.holds and replace and not (kept or if_match):
        with suppress(AlreadyExists):
            return await commit(False, None)
        entry = await commit(True, None)
        entry.replaced = True
        return entry
    entry = await over_kept(kept, name, replace, if_match, commit, prepared=prepared, look=look)
    entry.replaced = kept.etag is not None if kept else bool(look and look.entry)
    return entry


class WriteOptions(msgspec.Struct, frozen=True):
    """What `Provider.write` is asked for beside the content; it says there what is promised."""

    replace: bool = True
    """Whether a file that exists is replaced."""
    at_most: int | None = None
    """The largest number of bytes that can arrive, if known; it only helps to plan. Of a resumable upload: its size."""
    modified: datetime | None = None
    """Kept as the file's time where the service can; `stat` returns it."""
    if_match: str | None = None
    """Only this version is replaced; the decision is atomic if the service can compare and replace in one step."""
    alternatives: Iterator[Path] | None = None
    """Other names in the same folder, tried in order if the path is taken when the file is committed. A service that
    fixes the name earlier may ignore them."""
    ancestors_checked_at: float | None = None
    """When the caller knew from `check_ancestors`, or from a file that it had written, that the folder could be written to:
    by the monotonic clock."""
    kept: KeptFile | None = None
    """How the file that is replaced is kept."""
    mark: str | None = None
    """Letters and digits that no other upload has. Kept with the file, so that `Provider.has_mark` recognizes it."""


class LoggedUpload(Protocol):
    """A record that is renewed as long as its process lives. One of a process that died is abandoned a day later."""

    def update(self, state: bytes) -> None:
        """Record another state soon; not knowing it only makes the clean-up harder."""

    async def end(self) -> None:
        """Remove the record: nothing is left of the upload but the file."""

    async def leave(self) -> None:
        """Leave what there may be to the sweep."""


class UploadLog(Protocol):
    """The records of one connection."""

    async def begin(self, path: str, state: bytes) -> LoggedUpload:
        """Record an upload before it begins; `state` is for `Provider.resume_upload`, which abandons it."""


class NoUploadLog:
    """For providers that are opened for a moment, as by a test of the connection. It is also the only record in it."""

    async def begin(self, path: str, state: bytes) -> LoggedUpload:
        return self

    def update(self, state: bytes) -> None:
        return

    async def end(self) -> None:
        return

    async def leave(self) -> None:
        return


SAVED_BYTES = 8 * 2**20
"""How many bytes are written to a staged file before the progress is saved, and with it whether the upload was taken
over."""


class Save(Protocol):
    async def __call__(self, *, last: bool = False) -> None:
        """Record the `offset` and the `state` of an upload; raises if another request has taken the upload over.

        `last`: `append` will not call it again, so the upload may be let go of.
        """


class ResumableUpload(ABC):
    """A file that is not visible before `finish`. Made by `Provider.begin_upload` or `Provider.resume_upload`.

    A process may die between any two steps, or within one. What was saved is never lost, and everything that an upload
    leaves in the service can be found by a state that was saved before.
    """

    offset: int
    """How many bytes have arrived and survive this process. A local disk may lose the last of them in a power failure;
    `Provider.resume_upload` then says how many are left. `finish` syncs all of them."""

    @property
    @abstractmethod
    def mark(self) -> str:
        """That of the file, as in `WriteOptions`."""

    @property
    @abstractmethod
    def state(self) -> bytes:
        """All that `Provider.resume_upload` needs. It may hold a secret, such as the address of a session."""

    @abstractmethod
    async def append(self, chunks: AsyncIterator[bytes], save: Save, *, at_most: int | None = None) -> None:
        """Add the chunks behind `offset`; at most `at_most` bytes, if that is known. Any number of bytes will do.

        `save` is awaited when `offset` or `state` has changed, one call at a time. If it raises, nothing more is
        written. If `chunks` raises, what arrived before is kept and saved before the error is raised. When this
        returns, every byte counts in `offset` and is saved. Memory is bounded by a constant.
        """

    @abstractmethod
    async def finish(
        self, save: Save, *, alternatives: Iterator[Path] | None = None, kept: KeptFile | None = None
    ) -> Entry:
        """Make the file visible as it is now, with all the promises of `Provider.write`.

        It may be repeated, also by another process, after it failed or its result was lost: the file is stored once.
        `alternatives` are other names in the same folder, tried in order if the name is taken. Unlike `write`, every
        service honors them: days may have passed since the name was chosen. `kept`: as in `WriteOptions`.
        """

    @abstractmethod
    async def abandon(self) -> None:
        """Remove all that is left of the upload. It may be repeated, also after `finish`, whose file stays."""


class UntilCut:
    """Chunks that end where they raised; the error is kept in `error`. What has arrived until then can be saved."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self.error: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self.error:
            raise StopAsyncIteration
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            raise
        except Exception as error:
            self.error = error
            raise StopAsyncIteration from error

    def check(self) -> None:
        """Raise what ended the chunks early."""
        if self.error:
            raise self.error


def upload_gone() -> NotFound:
    return NotFound("The upload no longer exists. Send the file again.")


async def committed(
    commit: Callable[[], Awaitable[Entry]],
    retarget: Callable[[Path], None],
    save: Save,
    alternatives: Iterator[Path] | None,
) -> Entry:
    """The result of `commit`, which is tried again under the next name as long as the name is taken."""
    while True:
        try:
            return await commit()
        except (AlreadyExists, IsAFolder):
            other = next(alternatives, None) if alternatives else None
            if other is None:
                raise
        # Saved before it is tried, so that a repetition looks there first.
        retarget(other)
        await save()
