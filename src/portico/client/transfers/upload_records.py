"""Records of unfinished uploads, so that a later call, or a later run of the program, goes on with them.

A record is a hint: if it is lost or wrong, the file is sent from its beginning. It has hashes of names, not names.
"""

import contextlib
import hashlib
import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

from portico.client.transfers.locked_file import locked_file

_SUFFIX = ".upload"
_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    id: str
    """The end of its address. The rest is not kept: the gateway may have another address by then."""
    version: str
    """Of the local file and of what was said of it; with another one, the upload is of no use."""
    checked: bool
    """Whether every byte of it was verified."""
    expires: float
    """In seconds since 1970."""


class UploadsInMemory:
    """Records that last as long as the client. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, UnfinishedUpload] = {}
        self._held: set[str] = set()

    def open(self, *key: str) -> "UploadRecord | None":
        """The record for this key; None if it is in use."""
        name = _name(key)
        with self._lock:
            if name in self._held:
                return None
            self._held.add(name)
        return _MemoryRecord(name, self._known, self._held)


class _MemoryRecord:
    def __init__(self, name: str, known: dict[str, UnfinishedUpload], held: set[str]) -> None:
        self._name = name
        self._known = known
        self._held = held

    def load(self) -> UnfinishedUpload | None:
        return _current(self._known.get(self._name))

    def save(self, upload: UnfinishedUpload | None) -> None:
        if upload:
            self._known[self._name] = upload
        else:
            self._known.pop(self._name, None)

    def close(self) -> None:
        self._held.discard(self._name)


class UploadsInFolder:
    """Records in private files, which programs may share. They are removed when their uploads have expired."""

    def __init__(self, folder: str | os.PathLike[str], account: str) -> None:
        """`account` distinguishes users of gateways. It should not change with the address of a gateway."""
        self._folder = Path(folder)
        self._account = account
        self._cleaned = False

    def open(self, *key: str) -> "UploadRecord | None":
        """The record for this key; None if it is in use, or cannot be written."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._cleaned:
                self._cleaned = True
                for path in self._folder.glob(f"*{_SUFFIX}"):
                    with contextlib.suppress(OSError):
                        if record := self._record(path):
                            record.close()  # which removes one that has expired
            return self._record(self._folder / f"{_name((self._account, *key))}{_SUFFIX}")
        except OSError:  # the upload does without
            return None

    def _record(self, path: Path) -> "_FileRecord | None":
        return _FileRecord(path, file) if (file := locked_file(path, 0o600)) else None


class _FileRecord:
    """A locked file. Its content is one short line, and written at once; a damaged one is as good as none."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self._path = path
        self._file = file

    def load(self) -> UnfinishedUpload | None:
        try:
            self._file.seek(0)
            kept = json.loads(self._file.read(_MAX_BYTES))
            upload = UnfinishedUpload(**kept)
            if [type(value) for value in kept.values()] != [str, str, bool, float]:
                return None
            return _current(upload)
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def save(self, upload: UnfinishedUpload | None) -> None:
        with contextlib.suppress(OSError):
            self._file.truncate(0)
            self._file.seek(0)
            if upload:
                self._file.write(json.dumps(asdict(upload)).encode())
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Release the record, and remove it if it holds nothing that can be resumed."""
        used = self.load() is not None
        if os.name == "nt":  # where an open file cannot be removed
            self._file.close()
        if not used:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._file.close()


UploadRecord = _MemoryRecord | _FileRecord
"""The place for one unfinished upload. It is held by one sender at a time."""
UploadRecords = UploadsInMemory | UploadsInFolder


def _current(upload: UnfinishedUpload | None) -> UnfinishedUpload | None:
    return upload if upload and upload.expires > time.time() else None


def _name(key: tuple[str, ...]) -> str:
    return hashlib.blake2b(os.fsencode("\0".join(key)), digest_size=16).hexdigest()
