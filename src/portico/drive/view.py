"""`DriveView`: what a Web User sees of the part of their tree that is in one provider, the same for all providers.

A view confines its user below the root, checks the user's rights, clamps and orders listings, and seals cursors. Paths
given to it are those of the user's tree, at or below the drive's mount point.
"""

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter

from portico.drive.cursors import CursorSeal
from portico.drive.errors import with_whole_path
from portico.drive.mount_table import InnerMounts, folder_entry
from portico.drive.walk import DriveWalk
from portico.model.entries import Download, Entry, Page, presentable
from portico.model.errors import (
    Forbidden,
    InvalidCursor,
    NotAFolder,
    NotFound,
    NotPossible,
    PorticoError,
    is_a_folder,
    root_is_a_folder,
)
from portico.model.paths import TOP, Path, Place
from portico.model.rights import Right, missing_word
from portico.providers.contract.provider import Provider

_BY_NAME = attrgetter("name")
_IS_FOLDER = attrgetter("is_folder")


def sort_entries(entries: list[Entry]) -> None:
    """Sort one page in place. Two sorts with C keys are quicker than one with a Python key."""
    entries.sort(key=_BY_NAME)
    entries.sort(key=_IS_FOLDER, reverse=True)


RIGHT_MISSING = "You don't have permission to {} here. Ask your administrator."


class DriveView:
    def __init__(
        self,
        provider: Provider,
        root: Path,
        rights: Collection[Right],
        seal: CursorSeal,
        *,
        point: Path = TOP,
        inner: InnerMounts | None = None,
        connection: str = "",
    ) -> None:
        """`point`: where `root`, a folder of the provider, is in the user's tree. `inner`: if there are mounts below it."""
        self._provider = provider
        self._root = root
        self._depth = len(point.segments)
        self._inner = inner
        self.point = point
        self.connection = connection
        """Its name; empty if the drive has none."""
        self.rights = rights
        self._seal = seal
        self.right_missing = RIGHT_MISSING
        """What is answered if a right is missing."""

    @property
    def root(self) -> Path:
        return self._root

    def _place(self, path: Path) -> Path:
        """The provider's path."""
        return Path(self._root.segments + path.segments[self._depth :], path.as_folder)

    def place(self, path: Path) -> Place:
        """Where the journal says that a path is: from the top of the provider, as in the trash."""
        return Place(self.connection, self._place(path))

    def path_of(self, place: Path) -> Path:
        """The reverse of `place`."""
        if not self._root.holds(place):
            raise NotPossible("The connection has another prefix by now.")
        return Path(place.segments[len(self._root.segments) :], place.as_folder).under(self.point)

    def _is_there(self, path: Path) -> bool:
        """Whether the tree has this folder, even if the storage has none."""
        return len(path.segments) == self._depth or (self._inner is not None and self._inner.takes(path))

    def has(self, path: Path, *, is_folder: bool) -> bool:
        """Whether this path belongs to the drive, and no mount below hides it."""
        return self._inner is None or not self._inner.hides(path, Entry(path.name, is_folder))

    def _may_lack(self, folder: Path, error: PorticoError) -> bool:
        """Whether the storage need not have this folder. A file in its place is hidden by the mounts below."""
        return self._is_there(folder) and (isinstance(error, NotFound) or len(folder.segments) != self._depth)

    def allows(self, right: Right) -> bool:
        return right in self.rights

    def require(self, *rights: Right) -> None:
        for right in rights:
            if right not in self.rights:
                raise Forbidden(self.right_missing.format(missing_word(right, self.rights)))

    @property
    def max_page_size(self) -> int:
        return self._provider.max_page_size

    async def list_page(self, folder: Path, size: int, cursor: str | None = None, *, file_first: bool = False) -> Page:
        """As `Provider.list_page`: any size, ordered within the page, with a sealed cursor as its token.

        With a cursor, a folder that is gone is `InvalidCursor`. The root exists even while it holds nothing.
        """
        self.require(Right.LIST)
        path = self._place(folder)
        token = None if cursor is None else self._seal.open(cursor, self._scope(path))
        size = self._page_size(folder, size, is_first=cursor is None)
        file_first = file_first and not self._is_there(folder)  # a file of that name is not the user's
        try:
            page = await self._provider.list_page(path, size, token, file_first=file_first)
        except (NotFound, NotAFolder) as error:
            if cursor is not None:
                raise InvalidCursor("The folder no longer exists. List its parent folder.") from error
            if not self._may_lack(folder, error):
                raise with_whole_path(error, folder) from None
            page = Page([])
        return self._shown(page, folder, is_first=cursor is None)

    async def read_or_list(self, path: Path, size: int) -> Download | Page:
        """As `Provider.read_or_list`, with what `read` and `list_page` do."""
        self.require(Right.LIST, Right.DOWNLOAD)
        if self._is_there(path):  # a file of that name is not the user's
            return await self.list_page(path, size)
        size = self._page_size(path, size, is_first=True)
        try:
            found = await self._provider.read_or_list(self._place(path), size)
        except (NotFound, NotAFolder) as error:
            raise with_whole_path(error, path) from None
        if isinstance(found, Download):
            presentable(found.entry)
            return found
        return self._shown(found, path, is_first=True)

    def _page_size(self, folder: Path, size: int, *, is_first: bool) -> int:
        size = min(size, self._provider.max_page_size)
        return max(1, size - len(self._inner.shown_in(folder))) if self._inner and is_first else size

    def _shown(self, page: Page, folder: Path, *, is_first: bool) -> Page:
        """A page of the provider as the user sees it."""
        if self._inner:
            self._inner.add_to(page, folder, is_first=is_first)
        sort_entries(page.entries)
        if page.token is not None:
            page.token = self._seal.close(page.token, self._scope(self._place(folder)))
        return page

    def walk(
        self, folder: Path, cursor: str | None = None, *, right: Right = Right.LIST, reads_ahead: bool = False
    ) -> DriveWalk:
        """Everything below a folder that no other mount holds; with a cursor, from where an earlier walk has come to.

        `reads_ahead`: as `TreeWalk.reads_ahead`.
        """
        self.require(right)
        path = self._place(folder)
        scope = self._scope(path)
        return DriveWalk(
            self._provider,
            path,
            folder,
            self._seal,
            scope,
            cursor,
            may_lack=self._may_lack,
            inner=self._inner,
            reads_ahead=reads_ahead,
        )

    def location(self, path: Path) -> str:
        """Names the place for all who see it: users with other roots, workers and nodes."""
        return self._scope(self._place(path))

    def _scope(self, path: Path) -> str:
        return f"{self._provider.kind}\0{self._provider.identity}\0{path}"

    async def stat(self, path: Path) -> Entry:
        self.require(Right.LIST)
        return await self._stat(path)

    async def find(self, path: Path) -> Entry | None:
        """The entry, if there is one. Needs no right: what a user sees of it is for the caller to decide."""
        try:
            return await self._stat(path)
        except (NotFound, NotAFolder):
            return None

    async def has_mark(self, path: Path, mark: str, size: int) -> bool:
        """As `Provider.has_mark`."""
        return await self._provider.has_mark(self._place(path), mark, size)

    async def find_root(self) -> Entry | None:
        """What is at the root, which may be gone. Needs no right, as `find`."""
        if self._root.is_root:
            return folder_entry(Path())
        try:
            # A file of the same name may exist, too.
            return await self._provider.stat(Path(self._root.segments, as_folder=True))
        except (NotFound, NotAFolder):
            return None

    async def read_to_compare(self, path: Path, entry: Entry) -> Download:
        """This version of a file. Needs no right: its content must not be shown."""
        return await self._provider.read(self._place(path), etag=entry.etag)

    async def _stat(self, path: Path) -> Entry:
        if self._is_there(path):
            return folder_entry(path)
        try:
            return presentable(await self._provider.stat(self._place(path)))
        except NotFound as error:
            raise with_whole_path(error, path) from None

    async def _find(self, place: Path) -> Entry | None:
        try:
            return await self._provider.stat(place)
        except (NotFound, NotAFolder):
            return None

    async def stat_for_download(self, path: Path) -> Entry:
        """The entry of something that is about to be read."""
        self.require(Right.DOWNLOAD)
        return await self._stat(path)

    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        self.require(Right.DOWNLOAD)
        if self._is_there(path):
            raise root_is_a_folder() if path.is_root else is_a_folder(path.name)
        try:
            download = await self._provider.read(self._place(path), start, stop, etag=etag)
        except NotFound as error:
            raise with_whole_path(error, path) from None
        presentable(download.entry)
        return download

    @property
    def small_file(self) -> int:
        """Bytes: `read_small` reads files up to this size."""
        return self._provider.small_file

    async def read_small(
        self, paths: Sequence[Path], checksum: Callable[[bytes], int]
    ) -> list[tuple[bytes, int] | None]:
        """As `Provider.read_small`."""
        self.require(Right.DOWNLOAD)
        return await self._provider.read_small([self._place(path) for path in paths], checksum)
