"""A record of which local and remote files are known to be equal.

It is a cache: files it does not know are transferred or compared, so it may be lost, and any error means that it knows
nothing. It stores hashes of names, not names.
"""

import hashlib
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from portico.client.auth.profiles import user_folder

if TYPE_CHECKING:
    import sqlite3

_MAX_PAIRS = 1_000_000
"""The maximum number of pairs, about 80 MB; the least recently seen are removed first."""
_DAYS = 400
"""Pairs not seen for this many days are removed."""
_REFRESHED = 30
"""After how many days the date of a pair is updated."""
_PENDING = 500
_SECONDS = 1.0
_TABLE = """CREATE TABLE IF NOT EXISTS pairs (
    id BLOB PRIMARY KEY, local BLOB NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, etag TEXT,
    day INTEGER NOT NULL
) WITHOUT ROWID"""


class Pair(NamedTuple):
    """A local and a remote file when they were equal."""

    local: bytes
    """The `fingerprint` of the local file."""
    since: int
    until: int
    """The bounds of the remote file's modification time, in milliseconds."""
    etag: str | None = None
    """The remote file's ETag, if its time might not show an immediate change."""
    day: int = 0


def folder(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path | None:
    """The folder for records, and for those of unfinished uploads; None for a user without a home."""
    try:
        return user_folder("LOCALAPPDATA", "XDG_STATE_HOME", ".local/state", environment, platform) / "transfers"
    except RuntimeError:
        return None


def fingerprint(status: os.stat_result) -> bytes:
    """Changes when the file is changed or replaced. It includes the ctime, which tools cannot set."""
    facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return _hashed(repr(facts).encode())


def _hashed(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _id(path: str, local: str) -> bytes:
    return _hashed(os.fsencode(f"{path}\0{os.path.abspath(local)}"))


class TransferRecord:
    """The pairs of one user and gateway. Threads and programs may share it."""

    def __init__(self, url: str, user: str) -> None:
        self._lock = threading.Lock()
        self._pending: dict[bytes, Pair] = {}
        self._flushed = time.monotonic()
        self._written = False
        self._today = int(time.time() // 86400)
        place = folder()
        name = _hashed(f"{url}\0{user}".encode(errors="surrogateescape")).hex()
        self._file = place / f"{name}.db" if place else None
        self._database = self._opened()

    def find(self, path: str, local: str) -> Pair | None:
        with self._lock:
            if self._database is None:
                return None
            try:
                query = "SELECT local, since, until, etag, day FROM pairs WHERE id = ?"
                row = self._database.execute(query, (_id(path, local),)).fetchone()
            except Exception as error:
                self._failed(error)
                return None
        pair = Pair(*row) if row else None
        if pair and pair.day < self._today - _REFRESHED:
            self.add(path, local, pair)
        return pair

    def add(self, path: str, local: str, pair: Pair) -> None:
        with self._lock:
            if self._database is None:
                return
            self._pending[_id(path, local)] = pair._replace(day=self._today)
            if len(self._pending) >= _PENDING or time.monotonic() - self._flushed > _SECONDS:
                self._flush()

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        if self._database is None or not self._pending:
            return
        rows = [(name, *pair) for name, pair in self._pending.items()]
        try:
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO pairs VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._written = True
        except Exception as error:
            self._failed(error)
        self._pending.clear()

    def _opened(self) -> "sqlite3.Connection | None":
        if self._file is None:
            return None
        try:
            import sqlite3

            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))
            database = sqlite3.connect(self._file, timeout=10, check_same_thread=False)
        except Exception:  # no SQLite, or the folder is not writable
            return None
        try:
            database.execute("PRAGMA synchronous = OFF")
            database.execute(_TABLE)
        except Exception as error:
            self._database = database
            self._failed(error)
            return None
        return database

    def _failed(self, error: Exception) -> None:
        """Ignore a locked database; delete a damaged one, so that the next run starts over."""
        import sqlite3

        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return
        if self._database is not None:
            with suppress(Exception):
                self._database.close()
        self._database = None
        if type(error) is sqlite3.DatabaseError and self._file:
            with suppress(OSError):
                self._file.unlink()

    def _prune(self) -> None:
        if self._database is None or not self._written:
            return
        try:
            with self._database as database:
                database.execute("DELETE FROM pairs WHERE day < ?", (self._today - _DAYS,))
                (count,) = database.execute("SELECT count(*) FROM pairs").fetchone()
                if count > _MAX_PAIRS:
                    oldest = "SELECT id FROM pairs ORDER BY day LIMIT ?"
                    database.execute(f"DELETE FROM pairs WHERE id IN ({oldest})", (count - _MAX_PAIRS,))  # noqa: S608
        except Exception as error:
            self._failed(error)
        with suppress(OSError):  # those of gateways that have not been used for long
            for file in self._file.parent.glob("*.db") if self._file else ():
                if file.stat().st_mtime < time.time() - _DAYS * 86400:
                    file.unlink()

    def close(self) -> None:
        with self._lock:
            self._flush()
            self._prune()
            if self._database is not None:
                self._database.close()
                self._database = None
