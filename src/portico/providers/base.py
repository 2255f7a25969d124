"""The one storage interface. A provider is one storage service; everything shared by all of them is in `Drive`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import ClassVar

from portico.entries import Download, Entry, Page
from portico.paths import Path

TIMEOUT_SECONDS = 30.0
"""How long a service may take for an answer, or be silent where content moves, unless it is set otherwise."""


class Provider(ABC):
    """A tree of files and folders in one service.

    Paths count from the top of the bucket, container, share or folder; `Drive` confines a user below it. A
    provider raises only errors of `portico.errors`, and says in their `cause` what the administrator must know.
    Any method may be called at any time by many tasks at once.
    """

    kind: ClassVar[str]
    max_page_size: ClassVar[int]
    max_file_size: ClassVar[int]
    """Bytes; what is larger is refused, early where the size is known."""

    identity: str
    """Names the bucket, container, share or folder: equal on two nodes that see the same tree, else different."""

    @abstractmethod
    async def list_page(
        self, folder: Path, size: int, token: str | None, *, file_first: bool = False
    ) -> Page:
        """At most `size` entries of `folder`, from the start or from where `token` left off.

        A store of keys may hold a file and a folder of the same name. With `file_first` that is `NotAFolder`.

        `size` is between 1 and `max_page_size`. A page may be short, and may be empty and still have a token.
        Every entry that stands still during a walk appears exactly once. Names that `Path` cannot express are
        left out and logged.

        `NotFound`: there is no such folder. `NotAFolder`: it is a file. `InvalidCursor`: the service rejects the
        token.
        """

    @abstractmethod
    async def stat(self, path: Path) -> Entry:
        """The entry at `path`, with its etag if it is a file. `NotFound` if there is none.

        Of a file and a folder of the same name it is the folder if `path.as_folder`, else the file. The same holds
        for `delete` and for the source of `copy` and `move`.
        """

    @abstractmethod
    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        """The file's bytes from `start` up to `stop`, or to its end; `stop` beyond the end means the end.

        Fails here or, by the provider's own fault, not at all: once the download is returned, its chunks come
        as they are pulled, all of one version of the file. An abandoned download is closed by its taker.

        `NotFound`, `IsAFolder`. `Changed`: the file's etag is not `etag`. `RangeNotSatisfiable`: `start` lies
        behind the end.
        """

    @abstractmethod
    async def write(
        self,
        path: Path,
        chunks: AsyncIterator[bytes],
        content_type: str,
        *,
        replace: bool = True,
        at_most: int | None = None,
        otherwise: Iterator[Path] | None = None,
        way_checked: bool = False,
    ) -> Entry:
        """Make the file at `path` hold `chunks`, all or nothing, and return its entry.

        `at_most` is the number of bytes that can come at most, where that is known; it only helps to plan.
        `otherwise` are other names in the same folder, to be tried in turn if `path` turns out to be taken when the
        file is committed; a service that fixes the name before that may pass them over. `way_checked`: the caller
        knows from `check_way`, or from a file that it wrote just now, that the folder can be written into.

        Nobody sees the file before its last chunk is safe. When this returns, the file is durable and listed.
        If `chunks` raises, if the task is cancelled or the process dies, the old file stands and nothing stays
        behind that `sweep` does not remove. Memory is a constant, whatever the size. Missing folders on the way
        are made when the file is committed.

        `AlreadyExists`: there is such a file and `replace` is false, decided atomically. `IsAFolder`: there is a
        folder of that name. `NotAFolder`: something on the way is a file. `InvalidPath`: the service cannot hold
        the name.
        """

    @abstractmethod
    async def check_way(self, folder: Path) -> None:
        """`NotAFolder` if `folder`, or one above it, is a file, so that nothing can be written into it.

        The number of calls to a service grows with the logarithm of the depth at most.
        """

    @abstractmethod
    async def make_folder(self, path: Path) -> None:
        """Make the folder and those above it; one that exists is fine. `NotAFolder`: something there is a file."""

    @abstractmethod
    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        """Remove a file, an empty folder or, if `recursive`, a folder with all that it holds.

        `NotFound`. `FolderNotEmpty`: the folder has content and `recursive` is false.
        """

    @abstractmethod
    async def copy(self, source: Path, target: Path, *, replace: bool = True) -> None:
        """Copy a file or a whole folder. Each file appears whole or not at all.

        A folder copied onto a folder is merged into it. If it fails midway the error says how much was done, and
        asking again with `replace` carries on. When it is cancelled, files that were copied stay, each of them whole.

        `NotFound`: no `source`. `AlreadyExists`: `target` exists and `replace` is false, or a folder would
        replace a file. `IsAFolder`: a file would replace a folder.
        """

    @abstractmethod
    async def move(self, source: Path, target: Path, *, replace: bool = True) -> None:
        """As `copy`, and the source goes: what was moved is at the target before, and what came since stays.

        A file that is replaced meanwhile is moved or stays, in either case as its newest version.
        """

    async def check(self, *, writable: bool) -> None:  # noqa: B027
        """Raise what keeps this machine from using the storage, or from writing if `writable`; no service is asked."""

    async def sweep(self) -> int:
        """Remove what broken uploads of ours left behind, without touching running ones; how many there were."""
        return 0

    async def close(self) -> None:
        """Give back what the provider holds; it is not used afterwards."""
        return
