"""Changes that have begun and not ended, noted where others find them if this process is killed.

With PostgreSQL, they are rows (`begun_rows`). SQLite serves one machine only, where a row would cost more than a small
change: each process has a file, and a lock on it that ends with the process. The disk is waited for in neither case: a power cut
may take the last ones back.
"""

import errno
import fcntl
import mmap
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Final, Protocol

import msgspec
from sqlalchemy import Connection

from portico.observability.audit import unavailable
from portico.store.trash import Trashed

_SIZE: Final = 2**20
"""Bytes of a file. When it is full, a process begins another one."""
_MORE: Final = 1000
"""Bytes by which a change may be longer at its end."""


class Noted(msgspec.Struct, omit_defaults=True):
    """A change as it is noted."""

    id: str
    at: int
    connection: str
    place: str
    to_connection: str | None
    target: str | None
    before: str | None
    line: str
    owner: str = ""
    """The lease of the process; empty if it has let go."""
    has_ended: bool = False
    """Then the rest is known, too, and `line` has the outcome."""
    after: str | None = None
    kept: list[Trashed] = []
    mark: str | None = None
    """Of an upload: what its file has, and no other one (`WriteOptions.mark`)."""


class BegunChanges(Protocol):
    async def begin(self, change: Noted) -> None:
        """`Unavailable` if that cannot be noted."""

    def end(self, change: Noted) -> None:
        """It has ended, and its row will be written."""

    def remove(self, connection: Connection, ids: Sequence[str]) -> None:
        """Called in the transaction that writes their rows. PostgreSQL's does it itself."""

    def forget(self, ids: Sequence[str]) -> None:
        """Their rows are written."""

    async def let_go(self, change: Noted) -> None:
        """Its outcome is unknown: the next process that looks settles it."""

    async def left(self, limit: int) -> list[Noted]:
        """Changes whose processes have ended or let go, for this one to settle: about as many of each connection."""

    async def close(self) -> None: ...


class _File:
    """It is mapped into memory, so that a line costs no call of the kernel, and stays when the process is killed."""

    def __init__(self, folder: str) -> None:
        while True:
            self.path = os.path.join(folder, token_hex(8))
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            if os.fstat(self._descriptor).st_nlink:
                break
            os.close(self._descriptor)  # another process took it for that of a dead one
        try:
            # All of it now: on a full disk, a later write to the memory would end the process.
            if os.write(self._descriptor, bytes(_SIZE)) < _SIZE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._content = mmap.mmap(self._descriptor, _SIZE)
        except BaseException:
            os.unlink(self.path)
            os.close(self._descriptor)
            raise
        self._end = 0
        self.open: set[str] = set()
        """The ids of changes whose rows are not written."""

    def append(self, change: Noted) -> bool:
        """False if there is no room: for a change that begins, there must be enough for its end."""
        data = _ENCODER.encode(change) + b"\n"
        end = self._end + len(data)
        if end + (0 if change.has_ended else len(data) + _MORE) > _SIZE:
            return False
        self._content[self._end : end] = data
        self._end = end
        return True

    def clear(self) -> None:
        self._content[: self._end] = bytes(self._end)
        self._end = 0

    def close(self) -> None:
        self._content.close()
        os.close(self._descriptor)

    def remove(self) -> None:
        os.unlink(self.path)
        self.close()


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Noted)


class BegunFiles:
    """A line when a change begins, and one more when it has ended. A file is removed when all of its changes are forgotten."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: list[_File] = []
        """The last one is written to."""
        self._spare: _File | None = None
        """Its pages are in memory, so that the event loop need not wait for the disk to take new ones."""
        self._at: dict[str, _File] = {}
        """The file of each change."""
        self._left: dict[str, Noted] = {}
        """Changes that this process has taken over, or let go of."""

    async def begin(self, change: Noted) -> None:
        self._note(change)

    def _note(self, change: Noted) -> None:
        try:
            if not (self._files and self._files[-1].append(change)):
                self._make_room()
                if not self._files[-1].append(change):
                    raise OSError(0, "the change has too many details")
        except OSError as error:
            raise unavailable(f"{self._folder}: {error.strerror or error}") from error
        file = self._files[-1]
        file.open.add(change.id)
        self._at[change.id] = file

    def end(self, change: Noted) -> None:
        if file := self._at.get(change.id):
            file.append(change)  # if there is no room, a look at the storage finds the same

    def remove(self, connection: Connection, ids: Sequence[str]) -> None:
        """A row that is there already is not written again."""

    def forget(self, ids: Sequence[str]) -> None:
        for each in ids:
            self._left.pop(each, None)
            if (file := self._at.pop(each, None)) is None:
                continue
            file.open.discard(each)
            if not file.open and file is not self._files[-1]:
                self._files.remove(file)
                if self._spare:
                    file.remove()
                else:
                    file.clear()
                    self._spare = file

    async def let_go(self, change: Noted) -> None:
        self._left[change.id] = change

    async def left(self, limit: int) -> list[Noted]:
        for change in self._of_the_dead():
            self._left[change.id] = change
        found: defaultdict[str, list[Noted]] = defaultdict(list)
        for change in self._left.values():
            found[change.connection].append(change)
        return [change for changes in found.values() for change in changes[: max(1, limit // len(found))]]

    async def close(self) -> None:
        for file in [*self._files, *([self._spare] if self._spare else [])]:
            if file.open:
                file.close()  # another process settles them
            else:
                file.remove()
        self._files.clear()

    def _make_room(self) -> None:
        if self._files and not self._files[-1].open:
            self._files[-1].clear()
            return
        if self._spare is None:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            self._spare = _File(self._folder)
        self._files.append(self._spare)
        self._spare = None

    def _of_the_dead(self) -> Iterator[Noted]:
        """Take over the files of processes that have ended: their changes are in this process's file then."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return
        mine = {os.path.basename(file.path) for file in [*self._files, *([self._spare] if self._spare else [])]}
        for name in names:
            path = os.path.join(self._folder, name)
            if name in mine:
                continue
            with suppress(FileNotFoundError), open(path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                changes: dict[str, Noted] = {}
                for line in file.read().rstrip(b"\0").splitlines():
                    with suppress(msgspec.DecodeError):  # torn, and so of a change that has not begun
                        change = _DECODER.decode(line)
                        changes[change.id] = change
                for change in changes.values():
                    self._note(change)
                    yield change
                os.unlink(path)
