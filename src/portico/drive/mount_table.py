"""Virtual folders above mount points, and stored entries that mounts hide."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from portico.model.entries import FOLDER_TYPE, Download, Entry, Page
from portico.model.errors import Forbidden, is_a_folder, not_found
from portico.model.paths import Path
from portico.model.reach import Mount, Reach
from portico.providers.contract.provider import Found, Provider, TreeWalk


def folder_entry(path: Path) -> Entry:
    return Entry(path.name, True, content_type=FOLDER_TYPE)


class InnerMounts:
    """The mounts below one mount."""

    def __init__(self, reach: Reach, mount: Mount, *, ignores_case: bool) -> None:
        """`ignores_case`: of the storage of the outer mount."""
        self._reach = reach
        self._mount = mount
        self._ignores_case = ignores_case

    def shown_in(self, folder: Path) -> list[str]:
        """Mount points in a folder, and folders on the way to one. They exist even if the storage has none."""
        return [name for name, is_shown in self._reach.names_in(folder).items() if is_shown]

    def leads(self, path: Path) -> bool:
        """Whether there is a mount point below this path."""
        return any(self._reach.names_in(path).values())

    def takes(self, path: Path) -> bool:
        """Whether this path is a mount point, or leads to one, so that nothing else can have it."""
        path = self.spelled(path)
        return self._reach.is_point(path) or self.leads(path)

    def add_to(self, page: Page, folder: Path, *, is_first: bool) -> None:
        """Turn a page of stored entries into one of the tree: drop hidden entries, and add mount points to the first page."""
        shown = self.shown_in(folder)
        page.entries = [
            entry
            for entry in page.entries
            if not self.hides((path := self.spelled(folder.child(entry.name))), entry) and path.name not in shown
        ]
        if is_first:
            page.entries += [folder_entry(folder.child(name)) for name in shown]

    def hides(self, path: Path, entry: Entry) -> bool:
        """Whether a stored entry is not part of the tree."""
        path = self.spelled(path)
        return self._reach.at(path) is not self._mount or (not entry.is_folder and self.leads(path))

    def spelled(self, path: Path) -> Path:
        """The mount table's spelling, if it is the same path to the storage."""
        while self._ignores_case and (spelled := self._reach.spelled(path)) and spelled[1] is self._mount:
            path = spelled[0]
        return path


class VirtualFolders(Provider):
    """The folders above mount points that no mount holds. They can be listed, and nothing else."""

    kind = "virtual"
    max_page_size = 5000
    max_file_size = 2**63 - 1

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self.identity = str(reach)

    @property
    def refusal(self) -> str:
        """Why nothing can be stored here."""
        paths = [str(mount.path) for mount in self._reach.mounts if mount.rights]
        if not paths:
            return "Your account has no folders yet. Ask your administrator."
        return f"This folder only contains other folders. Use one of them: {', '.join(paths[:10])}."

    def _names(self, folder: Path) -> Mapping[str, bool]:
        if not self._reach.is_virtual(folder):
            raise not_found(folder.name)
        return self._reach.names_in(folder)

    async def list_page(self, folder: Path, size: int, token: str | None, *, file_first: bool = False) -> Page:
        names = sorted(name for name, is_shown in self._names(folder).items() if is_shown)
        start = 0 if token is None else bisect_right(names, token)
        page = names[start : start + size]
        return Page([folder_entry(folder.child(name)) for name in page], page[-1] if names[start + size :] else None)

    def walk(self, folder: Path, token: str | None = None) -> TreeWalk:
        self._names(folder)
        return _NoWalk()

    async def stat(self, path: Path) -> Entry:
        self._names(path)
        return folder_entry(path)

    async def read(self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None) -> Download:
        self._names(path)
        raise is_a_folder(path.name)

    async def _refused(self, *_: Any, **__: Any) -> Any:
        raise Forbidden(self.refusal)

    write = begin_upload = resume_upload = check_ancestors = make_folder = delete = copy = move = _refused


class _NoWalk(TreeWalk):
    async def page(self, size: int) -> list[Found]:
        return []

    @property
    def token(self) -> str | None:
        return None
