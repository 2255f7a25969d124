"""A partial file: a download under a temporary name until it is complete.

If the download may be resumed, the file ends with a note of its version and of the ranges written so far.
"""

import contextlib
import hashlib
import json
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from portico.client.errors import NotPossible
from portico.client.transfers.locked_file import locked_file

_CHUNK = 1024 * 1024

_MARK = b"\nportico-part 1 "
_MAX_NOTE = 1024 * 1024
_SUFFIX = ".portico-part"
_EPOCH = datetime.fromtimestamp(0, UTC)
_MAX_NAME = 255


class PartialFile:
    """Several threads may write ranges at once."""

    def __init__(self, target: str, *, keep: bool) -> None:
        folder, name = os.path.split(os.path.abspath(target))
        self.path = os.path.join(folder, _temporary_name(name, ""))
        if not (keep and _may_be_ours(self.path)):
            keep = False
            self.path = os.path.join(folder, _temporary_name(name, f".{secrets.token_hex(4)}"))
        self._target = target
        self.keep = keep
        self._lock = threading.Lock()
        self._done: list[tuple[int, int]] = []
        self.etag: str | None = None
        self.size = 0
        """With `etag`, the version to download."""
        self._mode = _mode(target)
        file = locked_file(self.path, 0o666)
        if file is None:
            raise NotPossible(f"Another program is downloading {target}; wait until it has finished.")
        self._file = file
        try:
            if self._mode is not None:
                os.chmod(self.path, self._mode | stat.S_IRUSR | stat.S_IWUSR)
            if keep:
                self._load_note()
        except BaseException:
            self._file.close()
            raise

    @property
    def closed(self) -> bool:
        return self._file.closed

    def reset(self) -> None:
        self._done.clear()
        self.size, self.etag = 0, None
        self._file.truncate(0)

    @property
    def received(self) -> int:
        return sum(stop - start for start, stop in self._done)

    def gaps(self, length: int) -> Iterator[tuple[int, int]]:
        """The missing ranges, each of at most `length` bytes."""
        position = 0
        for start, stop in [*_merged(self._done), (self.size, self.size)]:
            while position < start:
                yield position, min(position + length, start)
                position = min(position + length, start)
            position = max(position, stop)

    def add(self, start: int, stop: int) -> None:
        if start >= stop:
            return
        with self._lock:
            self._done = _merged([*self._done, (start, stop)])
            if self.keep and self.etag and self.received < self.size:  # a whole file has nothing to resume
                os.fsync(self._file.fileno())  # the bytes must be durable before the note
                note = json.dumps({"etag": self.etag, "size": self.size, "done": self._done}).encode()
                with open(self.path, "r+b") as file:
                    file.seek(self.size)
                    file.write(note + _MARK + b"%08d" % len(note))
                    file.truncate()

    def sha256(self) -> bytes:
        """Of the content, once it is complete."""
        digest = hashlib.sha256()
        left = self.size
        with open(self.path, "rb") as file:
            while left and (chunk := file.read(min(left, _CHUNK))):
                digest.update(chunk)
                left -= len(chunk)
        return digest.digest()

    def commit(self, modified: datetime | None = None) -> os.stat_result:
        """Move the file to its target, with the mode of the file it replaces and the given time; return its status."""
        self._file.truncate(self.size)
        if modified is not None:
            # As an integer: a float would be rounded, and the file could look older than it is.
            moment = (modified - _EPOCH) // timedelta(microseconds=1) * 1000
            os.utime(self.path, ns=(moment, moment))
        if self._mode is not None:
            os.chmod(self.path, self._mode)
        self._release()
        os.replace(self.path, self._target)
        status = os.stat(self._target) if self._file.closed else os.fstat(self._file.fileno())
        self._file.close()
        return status

    def close(self) -> None:
        """Close the file, and delete it unless it can be resumed."""
        self._release()
        if not (self.keep and self.etag and self._done):
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._file.close()

    def _release(self) -> None:
        """Close the file early on Windows, where open files cannot be renamed and there are no locks.

        Elsewhere the lock is held until after the rename. Otherwise another program could take the finished file for a
        partial one.
        """
        if os.name == "nt":
            self._file.close()

    def _load_note(self) -> None:
        """Load the note of an earlier download; without a valid note, start over."""
        try:
            with open(self.path, "rb") as file:
                end = file.seek(0, os.SEEK_END) - len(_MARK) - 8
                file.seek(max(0, end))
                mark, length = file.read(len(_MARK)), int(file.read(8))
                if mark != _MARK or not 0 < length <= min(_MAX_NOTE, end):
                    raise ValueError("no note")
                file.seek(end - length)
                note = json.loads(file.read(length))
            self.etag, self.size = str(note["etag"]), int(note["size"])
            self._done = [(int(start), int(stop)) for start, stop in note["done"]]
        except (ValueError, KeyError, TypeError):
            self.reset()


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _temporary_name(name: str, unique: str) -> str:
    """A name in the folder of the target. A name that would be too long is cut and made unique by a hash."""
    whole = f".{name}{unique}{_SUFFIX}"
    if len(os.fsencode(whole)) <= _MAX_NAME:
        return whole
    rest = f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}{unique}{_SUFFIX}"
    while len(os.fsencode(f".{name}{rest}")) > _MAX_NAME:
        name = name[:-1]
    return f".{name}{rest}"


def _mode(target: str) -> int | None:
    """The mode of the file to replace; None if there is none, or it is a link."""
    try:
        if not stat.S_ISREG(kind := os.stat(target).st_mode) and not stat.S_ISDIR(kind):
            raise NotPossible(f"{target} is not a regular file; open it and pass the stream.")
        kind = os.lstat(target).st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(kind) & 0o777 if stat.S_ISREG(kind) else None


def _may_be_ours(path: str) -> bool:
    """Whether the partial file is new, or one that this user has written: in a shared folder others may have put it there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    owner = os.geteuid() if hasattr(os, "geteuid") else found.st_uid
    return stat.S_ISREG(found.st_mode) and found.st_uid == owner and found.st_nlink == 1
