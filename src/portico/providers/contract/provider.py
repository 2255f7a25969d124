"""The storage interface. A provider is one storage service; what all of them share is in `Drive`."""

from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import ClassVar, TypeAlias, TypeVar

import msgspec

from portico.model.entries import Download, Entry, Page
from portico.model.errors import InvalidCursor, NotAFolder, NotFound
from portico.model.paths import Path
from portico.providers.contract.uploads import Ends, KeptFile, ResumableUpload, WriteOptions

Found = tuple[Path, Entry]
"""The path is relative to the folder in which the walk began."""

T = TypeVar("T")

_PAGE = 1000


class TreeWalk(ABC):
    reads_ahead = False
    """Set by a caller that goes on to the end, and calls `close`: folders may be listed before their turn."""

    @abstractmethod
    async def page(self, size: int) -> list[Found]:
        """The next entries, about `size` at most. The page may be empty even though more follow."""

    @property
    @abstractmethod
    def token(self) -> str | None:
        """Where the walk can be continued; None at its end."""

    async def close(self) -> None:  # noqa: B027 - most begin nothing ahead
        """End what was begun ahead."""

    async def files(self) -> AsyncIterator[list[Path]]:
        """All files from here to the end of the walk, page by page."""
        while True:
            found = await self.page(_PAGE)
            yield [path for path, entry in found if not entry.is_folder]
            if self.token is None:
                return


def encode(position: object) -> str:
    return urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def decode(token: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=kind)
    except ValueError:
        raise InvalidCursor("The cursor doesn't belong to this search. Start again without a cursor.") from None


TIMEOUT_SECONDS = 30.0
"""The default timeout of a request with all its attempts, or without progress while content is transferred."""


class DoesNotFitInTrash(Exception):
    """The trash cannot hold this file or folder, so it can only be deleted for good."""


Begin: TypeAlias = Callable[[Entry | None], Awaitable[None]]


class Provider(ABC):
    """A tree of files and folders in one service.

    Paths start at the top of the bucket, container, share or folder; `Drive` confines a user below it. A provider
    raises only errors of `portico.model.errors`; what the administrator must know is in their `cause`. All methods
    may be called concurrently.
    """

    kind: ClassVar[str]
    max_page_size: ClassVar[int]
    max_file_size: ClassVar[int]
    """Bytes. Larger files are refused, before the upload if the size is known."""

    renames_at_commit: ClassVar[bool] = False
    """Whether `write` takes one of its `alternatives` if the name is taken when the file is committed."""

    keeps_at_commit: ClassVar[bool] = False
    """Whether `write` keeps the file that it replaces, as `KeptFile` says. Otherwise, `KeptFile.prepare` calls `copy_to_trash`."""

    reports_arrival: ClassVar[bool] = False
    """Whether `copy` and `move` return what is at the target then, so that nobody has to look."""

    small_file: ClassVar[int] = 0
    """Bytes. `read_small` reads files up to this size; 0: it reads none."""

    has_folders: ClassVar[bool] = False
    """Whether folders exist by themselves. Otherwise, most of them exist only while they hold something."""

    identity: str
    """Identifies the bucket, container, share or folder: equal on two nodes if and only if they see the same tree."""

    async def ignores_case(self) -> bool:
        """Whether names that differ only in case are the same."""
        return False

    def key(self, path: Path) -> tuple[str, ...]:
        """Identifies a place, for all providers that may lead there; what is below it has a longer key."""
        return (self.kind, self.identity.rpartition("://")[2], *path.segments)

    @abstractmethod
    async def list_page(self, folder: Path, size: int, token: str | None, *, file_first: bool = False) -> Page:
        """At most `size` entries of `folder`, from its start or from where the page with `token` ended.

        An object store may have a file and a folder of the same name. With `file_first`, that is `NotAFolder`.

        `size` is between 1 and `max_page_size`. A page may be short, or empty, and still have a token. Every entry
        that does not change during a traversal appears exactly once. Names that `Path` cannot express are left out
        and logged.

        `NotFound`: there is no such folder. `NotAFolder`: it is a file. `InvalidCursor`: the service rejects the
        token.
        """

    @abstractmethod
    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        """A walk through everything below `folder`, from its start or from the `token` of an earlier walk.

        The first page raises `NotFound` or `NotAFolder` as `list_page` does; on an object store it may be empty instead.
        """

    @abstractmethod
    async def stat(self, path: Path) -> Entry:
        """The entry at `path`, with its etag if it is a file. `NotFound` if there is none.

        If a file and a folder have this name, it is the folder if `path.as_folder` is set, otherwise the file.
        The same holds for `delete` and for the source of `copy` and `move`.
        """

    async def find_file(self, path: Path) -> Entry | None:
        """The file at `path`, with its etag; None if there is none, whatever else is there."""
        try:
            entry = await self.stat(path)
        except (NotFound, NotAFolder):
            return None
        return None if entry.is_folder else entry

    @abstractmethod
    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        """The file's bytes from `start` up to `stop`, or to its end; `stop` beyond the end means the end.

        Errors that can be known in advance are raised here, before the download is returned. Chunks are fetched as they
        are pulled, and all belong to one version of the file. The caller closes a download that it does not read to its
        end.

        `NotFound`, `IsAFolder`. `Changed`: the file's etag is not `etag`. `RangeNotSatisfiable`: `start` is
        beyond the end.
        """

    async def read_small(
        self, paths: Sequence[Path], checksum: Callable[[bytes], int]
    ) -> list[tuple[bytes, int] | None]:
        """Small files, read together: the content of each and its `checksum`, which may be computed in a thread.

        None for a file that cannot be read in this way: it is gone, or larger than `small_file`, or they are a MiB in all.
        `read` says why.
        """
        return [None] * len(paths)

    async def read_or_list(self, path: Path, size: int) -> Download | Page:
        """The file at `path`, as `read`; if there is none, the first page of the folder, as `list_page`."""
        try:
            return await self.list_page(path, size, None, file_first=not path.as_folder)
        except NotAFolder:
            return await self.read(path)

    @abstractmethod
    async def write(
        self, path: Path, chunks: AsyncIterator[bytes], content_type: str, options: WriteOptions = WriteOptions()
    ) -> Entry:
        """Make the file at `path` hold `chunks`, all or nothing, and return its entry.

        The file is not visible before its last chunk is safe. When this returns, the file is durable and listed. If
        `chunks` raises, the task is cancelled or the process dies, the old file stays, and `sweep` removes whatever
        is left behind. Memory is bounded by a constant. Missing folders are made when the file is committed.

        `AlreadyExists`: there is such a file and `replace` is false, decided atomically. `Changed`: there is no file
        with the etag `if_match`. `IsAFolder`: there is a folder of that name. `NotAFolder`: an ancestor is a file.
        `InvalidPath`: the service cannot hold the name.
        """

    @abstractmethod
    async def begin_upload(
        self, path: Path, content_type: str, options: WriteOptions = WriteOptions(), *, renamed: bool = False
    ) -> ResumableUpload:
        """An upload in several requests. Save its state before the first `append`: until then, the service has nothing
        of it.

        `renamed`: `finish` will be given `alternatives`. Of the options, only `replace`, `at_most` and `modified` are used.

        Errors as in `write`, if they can be known already.
        """

    @abstractmethod
    async def resume_upload(
        self, state: bytes, *, known_offset: int | None = None, trusted: bool = True
    ) -> ResumableUpload:
        """The upload with this state, and with its actual `offset`.

        `known_offset`: the offset that was saved with the state. Any bytes beyond it in the service are ignored. If it is
        `trusted`, the service need not be asked before `append`, which raises `OffsetMismatch` if less has arrived.

        `NotFound`: the service has lost it.
        """

    async def has_mark(self, path: Path, mark: str, size: int) -> bool:
        """Whether there is a file at `path` that was stored with this mark, as `WriteOptions` says, and has this size."""
        return False

    @abstractmethod
    async def check_ancestors(self, folder: Path) -> None:
        """Raise `NotAFolder` if `folder` or one of its ancestors is a file, so that nothing can be written into it.

        The number of requests grows at most with the logarithm of the depth.
        """

    @abstractmethod
    async def make_folder(self, path: Path, *, begin: Begin | None = None) -> int | None:
        """Make the folder and its ancestors; existing ones are fine. `NotAFolder`: one of them is a file.

        `begin` is called before anything is made, with what is at the path. With `reports_arrival`, it then returns how
        many of the ancestors were missing.
        """

    @abstractmethod
    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        """Remove a file, an empty folder or, if `recursive`, a folder with its content.

        `NotFound`. `FolderNotEmpty`: the folder has content and `recursive` is false.
        """

    def transferring(
        self, source: Path, target: Path, *, replace: bool, keeps: bool
    ) -> AbstractAsyncContextManager[Ends | None]:
        """Around a `copy` or `move` that is given the result, and need not look at a file again. Looks at both ends at once.

        None: `copy` and `move` look themselves. `keeps`: the file that is replaced will be kept. Errors as in `copy`.
        """
        return nullcontext()

    @abstractmethod
    async def copy(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> Entry | None:
        """Copy a file or a whole folder. Each file appears whole or not at all. See `reports_arrival` for the result.

        A folder copied onto a folder is merged into it. If the copy fails midway, the error says how much was done, and
        repeating the call with `replace` continues. If it is cancelled, complete copies stay.

        `kept`: how to keep the file that is replaced when a file is copied, as far as the service can compare and replace
        in one step.

        `NotFound`: no `source`. `AlreadyExists`: `target` exists and `replace` is false, or a folder would
        replace a file. `IsAFolder`: a file would replace a folder.
        """

    @abstractmethod
    async def move(
        self,
        source: Path,
        target: Path,
        *,
        replace: bool = True,
        kept: KeptFile | None = None,
        ends: Ends | None = None,
    ) -> Entry | None:
        """As `copy`, but the source is removed once its copy exists. Files added to the source in the meantime stay.

        A file that is replaced during the move is either moved or stays, in both cases as its newest version. `Changed`:
        it stays, and an earlier version is at the target.
        """

    async def move_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        """Move a file, or a folder with its content, to an unused hidden place, as cheaply as the service can.

        Whenever this ends, each file is in its folder or in the trash. The content of the trash may have any form that
        `restore` and `purge` understand. A file that is replaced during the move is moved in its newest version.
        `Changed`: it keeps being replaced, and stays. `seen`: what `stat` has just found there, and what the journal knows
        to be removed.

        `DoesNotFitInTrash`: the service cannot hold it there, and nothing was moved.
        """
        await self.move(path, place, replace=False)

    async def copy_to_trash(self, path: Path, place: Path, seen: Entry | None = None) -> None:
        """Copy a file that is about to be replaced to a hidden place. `seen`: what `find_file` has just found there."""
        await self.copy(path, place, replace=False)

    async def can_note(self, version: str, place: Path) -> bool:
        """Whether `note_version` may come after the change that replaces this version of a file."""
        return False

    async def note_version(self, path: Path, version: str, place: Path) -> bool:
        """Keep a version of a file that may have been replaced or removed, as `copy_to_trash` does; False if it may be gone."""
        return False

    async def restore(self, place: Path, target: Path, *, replace: bool = False) -> None:
        """Move the content that `move_to_trash` or `copy_to_trash` put into `place` to `target`. Errors as in `move`."""
        await self.move(place, target, replace=replace)

    async def files_in_trash(self, place: Path) -> AsyncIterator[list[Path]]:
        """The files that `restore` brings back with a folder, as paths below its target, in batches."""
        async for files in self.walk(place).files():
            yield files

    async def purge(self, place: Path) -> None:
        """Remove the content of the place for good, if there is any."""
        with suppress(NotFound):
            await self.delete(place, recursive=True)

    async def check(self, *, writable: bool) -> None:  # noqa: B027
        """Raise if this machine cannot use the storage or, if `writable`, cannot write to it. Sends no request."""

    async def space(self) -> tuple[int, int] | None:
        """The size of the disk and the free space on it, in bytes; None if the kind has no limit of its own."""
        return None

    async def volume_id(self) -> str | None:
        """An id kept in the storage, created by the first call; None if the kind has none, or it cannot be created."""
        return None

    def expect_volume(self, expected_id: str | None) -> None:  # noqa: B027
        """From now on, raise `ProviderUnavailable` if the storage does not have this id."""

    async def sweep(self) -> int:
        """Remove the remains of failed uploads without touching running ones. Returns how many there were."""
        return 0

    async def close(self) -> None:
        """Release all resources. The provider is not used afterwards."""
        return
