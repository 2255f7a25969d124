"""A file that is being downloaded: it stands under a name of its own until it is whole.

A download that may be carried on keeps behind the content, at the end of the part file, which version of the file it
is and which ranges of it are there.
"""

import contextlib
import json
import os
import secrets
import threading
from collections.abc import Iterator
from typing import Any

from portico.client.errors import NotPossible

_MARK = b"\nportico-part 1 "
_LONGEST_NOTE = 1024 * 1024


class Part:
    """Ranges may be written and noted by several threads."""

    def __init__(self, target: str, *, keep: bool) -> None:
        folder, name = os.path.split(os.path.abspath(target))
        unique = "" if keep else f".{secrets.token_hex(4)}"
        self._target = target
        self.keep = keep
        self._lock = threading.Lock()
        self._done: list[tuple[int, int]] = []
        self.path = os.path.join(folder, f".{name}{unique}.portico-part")
        self.etag: str | None = None
        self.size = 0
        self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115
        try:
            _lock(self._file.fileno(), target)
            if keep:
                self._recall()
        except BaseException:
            self._file.close()
            raise

    @property
    def closed(self) -> bool:
        return self._file.closed

    def begin(self, size: int, etag: str | None) -> None:
        """From now on it is a download of this version."""
        self.size, self.etag = size, etag

    def reset(self) -> None:
        self._done.clear()
        self.size, self.etag = 0, None
        self._file.truncate(0)

    @property
    def received(self) -> int:
        return sum(stop - start for start, stop in self._done)

    def gaps(self, length: int) -> Iterator[tuple[int, int]]:
        """What is missing, in ranges of at most `length`."""
        position = 0
        for start, stop in [*_merged(self._done), (self.size, self.size)]:
            while position < start:
                yield position, min(position + length, start)
                position = min(position + length, start)
            position = max(position, stop)

    def add(self, start: int, stop: int) -> None:
        """Note that a range has been written."""
        if start >= stop:
            return
        with self._lock:
            self._done = _merged([*self._done, (start, stop)])
            if self.keep and self.etag:
                os.fsync(self._file.fileno())  # a note must not outlive the bytes that it speaks of
                self._note()

    def commit(self) -> None:
        """Give the file its name."""
        self._file.truncate(self.size)
        self._file.close()
        os.replace(self.path, self._target)

    def close(self) -> None:
        """Let go of it; what cannot be carried on is removed."""
        self._file.close()
        if not (self.keep and self.etag and self._done):
            with contextlib.suppress(OSError):
                os.unlink(self.path)

    def _note(self) -> None:
        note = json.dumps({"etag": self.etag, "size": self.size, "done": self._done}).encode()
        with open(self.path, "r+b") as file:
            file.seek(self.size)
            file.write(note + _MARK + b"%08d" % len(note))
            file.truncate()

    def _recall(self) -> None:
        """Take up what an earlier download has noted; anything that is not such a note is nothing."""
        try:
            note = _note_at_the_end(self.path)
            self.etag, self.size = str(note["etag"]), int(note["size"])
            self._done = [(int(start), int(stop)) for start, stop in note["done"]]
        except (ValueError, KeyError, TypeError):
            self.reset()


def _note_at_the_end(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - len(_MARK) - 8))
        mark, length = file.read(len(_MARK)), file.read(8)
        if mark != _MARK or not 0 < int(length) <= min(_LONGEST_NOTE, end - len(_MARK) - 8):
            raise ValueError("no note")
        file.seek(end - len(_MARK) - 8 - int(length))
        note: dict[str, Any] = json.loads(file.read(int(length)))
        return note


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def _lock(descriptor: int, target: str) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise NotPossible(f"{target} is being downloaded by another program; wait for it.") from None
