"""The audit log: one JSON line for each sign-in and each change, appended to a file or to standard output.

A line is a single `write()` to a file that is open for appending, so lines of several processes do not mix. Writers share
a lock, which nobody waits for; a process that finds a torn line, left on a full disk, takes it alone to end that line.
The file is reopened when it was moved or removed, as log rotation does. A line never contains a password, a token, a
secret or a cursor.
"""

import fcntl
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from portico.model import timestamps
from portico.model.errors import Unavailable
from portico.model.visible_text import visible_json

BEGUN = "begun"
DONE = "done"
INTERRUPTED = "interrupted"
CHECKPOINT = "audit.checkpoint"
"""The action of a line with how far a process's lines go."""
UNKNOWN = "unknown"
"""A process died, and what the storage holds now does not tell what has become of its change."""
COMMAND = "os:"
"""How the names of those begin who run commands."""

Text = str | msgspec.UnsetType


def is_command(user: str) -> bool:
    """Whether this is not a Web User but a system account."""
    return user.startswith(COMMAND)


class AuditLine(msgspec.Struct, kw_only=True, gc=False):
    """Who did what, to which path, from which address, with which outcome."""

    time: str = msgspec.field(default_factory=lambda: timestamps.from_epoch(time.time_ns() // 1_000_000))
    node: Text = msgspec.UNSET
    """The node that served the request, if there are several."""
    request_id: Text = msgspec.UNSET
    user: Text = msgspec.UNSET
    """A Web User, or `os:NAME`: the system account that ran the command."""
    key: Text = msgspec.UNSET
    """The id of the user's API key, if the request was made with one."""
    key_name: Text = msgspec.UNSET
    folder: Text = msgspec.UNSET
    """What the paths of that key start from, if it is not the user's root."""
    link: Text = msgspec.UNSET
    """The share link by which a guest did it; `user` is then its owner, and paths count from the link's folder."""
    guest: Text = msgspec.UNSET
    """The name that the guest has given."""
    session: Text = msgspec.UNSET
    """The id of the user's session, if the user has signed in."""
    client: Text = msgspec.UNSET
    """The client's address, if known."""
    action: str
    path: Text = msgspec.UNSET
    """As the user sees it, from the user's root."""
    target: Text = msgspec.UNSET
    subject: Text = msgspec.UNSET
    """The user or connection that an administrator changed."""
    changed: list[str] | msgspec.UnsetType = msgspec.UNSET
    """The names of its changed fields, never their values."""
    bytes: int | msgspec.UnsetType = msgspec.UNSET
    lost: int | msgspec.UnsetType = msgspec.UNSET
    checkpoint: Text = msgspec.UNSET
    """As the process has signed it."""
    outcome: str = DONE
    """`done`, `begun`, `interrupted`, `unknown`, or the code of the error."""


class Audit:
    """The log that is off: writes nothing and never raises."""

    def check(self) -> None:
        """`Unavailable` if lines are required and none can be written now."""

    def begin(self, line: AuditLine) -> None:
        """Called before a change takes effect. If lines are required, writes that it begins or raises `Unavailable`."""

    def record(self, line: AuditLine) -> None:
        """For a change that takes effect only if this returns. Raises `Unavailable` if the line is required and lost."""

    def end(self, line: AuditLine) -> None:
        """Called after a change, which can no longer be refused: never raises."""

    def close(self) -> None:
        return


def _log() -> Any:
    import structlog  # slow to import, and commands write audit lines too

    return structlog.get_logger()


def log_loss(why: str, lost: int) -> None:
    if lost == 1:
        _log().error("audit-log-not-writable", why=why)


OnLoss = Callable[[str, int], None]
"""Called with the reason why a line was lost, and how many were lost in a row."""


class AuditLog(Audit):
    def __init__(self, file: str | int, *, required: bool = False, on_loss: OnLoss = log_loss, node: str = "") -> None:
        """`file` is a path or the descriptor of an open stream. `node`, if not empty, is part of every line."""
        self._node = node or msgspec.UNSET
        self._path = file if isinstance(file, str) else None
        self._descriptor = file if isinstance(file, int) else -1
        self._required = required
        self._on_loss = on_loss
        self._identity: tuple[int, int] | None = None
        self._size = 0
        """Of the file, when it was last looked at."""
        self._whole = 0
        """The size of the file after the last line, unless somebody else wrote one at that time."""
        self._lost = 0

    def check(self) -> None:
        if not self._required:
            return
        try:
            self._catch_up()
        except OSError as error:
            raise unavailable(_why(error), self._path) from error

    def begin(self, line: AuditLine) -> None:
        if self._required:
            self._write(msgspec.structs.replace(line, outcome=BEGUN))

    def record(self, line: AuditLine) -> None:
        self._write(line)

    def end(self, line: AuditLine) -> None:
        try:
            self._write(line)
        except Unavailable:
            pass  # on_loss has reported it

    def close(self) -> None:
        if self._path is not None and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, line: AuditLine) -> None:
        try:
            self._catch_up()
            self._append(line)
        except OSError as error:
            self._lost += 1
            self._on_loss(_why(error), self._lost)
            if self._required:
                raise unavailable(_why(error), self._path) from error

    def _catch_up(self) -> None:
        """Open the current file if necessary and, after lines were lost, write how many."""
        if self._path is not None:
            self._open()
        if self._lost:
            self._append(AuditLine(action="audit", lost=self._lost))
            _log().warning("audit-log-writable-again", lost=self._lost)
            self._lost = 0

    def _open(self) -> None:
        assert self._path is not None
        try:
            found = os.stat(self._path)
            if (found.st_dev, found.st_ino) == self._identity:
                self._size = found.st_size
                return
        except FileNotFoundError:
            pass
        self.close()
        self._identity = None
        # Without O_NONBLOCK, opening a pipe that nobody reads would block the whole process.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        opened = os.fstat(descriptor)
        if not stat.S_ISREG(opened.st_mode):
            os.close(descriptor)
            raise OSError(0, "it is not a regular file")
        self._descriptor, self._identity = descriptor, (opened.st_dev, opened.st_ino)
        self._size, self._whole = opened.st_size, 0

    def _append(self, line: AuditLine) -> None:
        line.node = self._node
        text = encode(line) + b"\n"
        if self._path is None:
            if not select.select([], [self._descriptor], [], 0)[1]:
                raise OSError(0, "no process reads the stream")
            self._put(text)
        elif self._size != self._whole and self._is_torn() and self._locked(fcntl.LOCK_EX, attempts=_ATTEMPTS):
            # No process is writing now, so what looked torn is not the first half of a line.
            with self._unlocking():
                self._put(b"\n" + text if self._is_torn() else text)
        else:
            self._locked(fcntl.LOCK_SH)  # refused only while another process ends a torn line; whole lines never mix
            with self._unlocking():
                self._put(text)

    def _locked(self, lock: int, *, attempts: int = 1) -> bool:
        """Never waits for the lock: this runs on the event loop."""
        for _ in range(attempts):
            try:
                fcntl.flock(self._descriptor, lock | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                continue
            except OSError:  # a file system without locks
                break
        return False

    @contextmanager
    def _unlocking(self) -> Iterator[None]:
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _put(self, text: bytes) -> None:
        if os.write(self._descriptor, text) < len(text):
            raise OSError(0, "no room for a whole line")
        self._size += len(text)
        self._whole = self._size

    def _is_torn(self) -> bool:
        """Whether the last line has no end, because this or another process had no room for it."""
        size = os.fstat(self._descriptor).st_size
        if not size or os.pread(self._descriptor, 1, size - 1) == b"\n":
            return False
        # It may also be a long line whose write is under way: the file grows page by page. Setting the file's time
        # takes the lock of the writer in the kernel, so by then that write has ended.
        os.utime(self._descriptor)
        return os.fstat(self._descriptor).st_size == size


_ATTEMPTS = 20
"""How often the lock is tried, a microsecond each, before a torn line is left as it is."""

_encode = msgspec.json.Encoder().encode


def encode(line: AuditLine) -> bytes:
    data = _encode(line)
    return data if data.isascii() else visible_json(data)


def unavailable(why: str, file: str | None = None) -> Unavailable:
    name = f"the audit log {file} (the setting audit.log)" if file else "the audit log"
    return Unavailable(
        "The gateway can't write its audit log, so nothing was changed. Try again in a moment.",
        retry_after=5,
        cause=f"{name} can't be written ({why})",
    )


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def open_audit(
    file: str | None, *, required: bool, command: bool = False, on_loss: OnLoss = log_loss, node: str = ""
) -> Audit:
    """The audit log in a file. A command writes to standard error instead of its own standard output."""
    if file is None:
        return Audit()
    if file == "stdout":
        stream = sys.__stderr__ if command else sys.__stdout__
        return AuditLog(stream.fileno() if stream else 1, required=required, on_loss=on_loss, node=node)
    return AuditLog(file, required=required, on_loss=on_loss, node=node)
