"""Walking trees of any depth with one descriptor on each side."""

import errno
import os
from collections.abc import Callable, Iterable
from typing import Self

from portico.errors import NotFound, already_exists
from portico.paths import Path
from portico.providers.local.cancellation import CancelToken
from portico.providers.local.confined_fs import FOLDER_FLAGS, Volume, open_child, open_folder


class Traversal:
    """An open folder that can be moved down into its folders and up again.

    The way up is `..`, compared with the folder that the way down started from: if the folder was moved meanwhile,
    `..` is another folder, and `up` fails.
    """

    def __init__(self, top: Volume, path: Path, *, make: bool = False) -> None:
        self.folder = open_folder(top, path, make=make)
        self._above: list[tuple[int, int]] = []

    def down(self, name: str, *, make: bool = False) -> None:
        info = os.fstat(self.folder)
        self.folder = open_child(self.folder, name, make=make)
        self._above.append((info.st_dev, info.st_ino))

    def up(self) -> None:
        above = os.open("..", FOLDER_FLAGS, dir_fd=self.folder)
        info = os.fstat(above)
        if (info.st_dev, info.st_ino) != self._above.pop():
            os.close(above)
            raise NotFound("A folder was moved away while its content was worked on; list it again.")
        os.close(self.folder)
        self.folder = above

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)


def traverse(
    token: CancelToken,
    here: Traversal,
    there: Traversal,
    visit: Callable[[], Iterable[str]],
    *,
    make: bool = False,
    leave: Callable[[str], None] | None = None,
) -> None:
    """Visit two trees side by side: `visit` does the work for the current folders and returns the names to enter.

    `leave` is called with a folder's name after all inside it is done. A folder that has gone from `here` is skipped;
    with `make`, one that is missing from `there` is created.
    """
    pending = [iter(visit())]
    names: list[str] = []
    while pending:
        token.check()
        name = next(pending[-1], None)
        if name is not None:
            if _enter(here, there, name, make=make):
                names.append(name)
                pending.append(iter(visit()))
            continue
        pending.pop()
        if names:
            here.up()
            there.up()
            if leave:
                leave(names[-1])
            names.pop()


def _enter(here: Traversal, there: Traversal, name: str, *, make: bool) -> bool:
    try:
        here.down(name)
    except (FileNotFoundError, NotADirectoryError):
        return False  # removed meanwhile
    try:
        there.down(name, make=make)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise already_exists(name) from error
        raise
    return True
