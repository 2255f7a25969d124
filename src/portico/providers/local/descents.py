"""Going down into folders and back up, at the same cost at any depth."""

import errno
import os
from collections.abc import Callable, Iterable
from typing import Self

from portico.errors import NotFound, already_exists
from portico.paths import Path
from portico.providers.local.descriptors import FOLDER_FLAGS, open_folder, step
from portico.providers.local.stops import Stop


class Descent:
    """A folder that is held open, and what is needed to go back up: one descriptor, whatever the depth.

    The way up is `..`, followed only to the very folder that we came from: if somebody has moved ours meanwhile, it
    leads elsewhere, and is not taken.
    """

    def __init__(self, top: str, path: Path, *, make: bool = False) -> None:
        self.folder = open_folder(top, path, make=make)
        self._above: list[tuple[int, int]] = []

    def down(self, name: str, *, make: bool = False) -> None:
        info = os.fstat(self.folder)
        self.folder = step(self.folder, name, make=make)
        self._above.append((info.st_dev, info.st_ino))

    def up(self) -> None:
        above = os.open("..", FOLDER_FLAGS, dir_fd=self.folder)
        info = os.fstat(above)
        if (info.st_dev, info.st_ino) != self._above.pop():
            os.close(above)
            raise NotFound("A folder was moved away while its content was worked on; look at it again.")
        os.close(self.folder)
        self.folder = above

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)


def go_through(
    stop: Stop,
    here: Descent,
    there: Descent,
    visit: Callable[[], Iterable[str]],
    *,
    make: bool = False,
    leave: Callable[[str], None] | None = None,
) -> None:
    """Visit two folders, and then, at the same time in both, those inside that `visit` names.

    `leave` is called with the name of each when all inside it is done. A folder that is no longer `here` is passed
    over; with `make` one that is not `there` is made.
    """
    pending = [iter(visit())]
    names: list[str] = []
    while pending:
        stop.check()
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


def _enter(here: Descent, there: Descent, name: str, *, make: bool) -> bool:
    try:
        here.down(name)
    except (FileNotFoundError, NotADirectoryError):
        return False  # somebody removed it meanwhile
    try:
        there.down(name, make=make)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise already_exists(name) from error
        raise
    return True
