"""Uploads that several requests send, one after the other, and that another process may continue."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Self

from portico.entries import Entry
from portico.errors import AlreadyExists, IsAFolder, NotFound
from portico.paths import Path
from portico.providers.write_options import KeptFile

SAVED_BYTES = 8 * 2**20
"""How many bytes are written to a staged file before the progress is saved, and with it whether the upload was taken
over."""

Save = Callable[[], Awaitable[None]]
"""Records the `offset` and the `state` of an upload; raises if another request has taken the upload over."""


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
    return NotFound("The upload is gone; send the file again.")


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
