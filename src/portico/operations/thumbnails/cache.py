"""`ThumbnailCache`: a folder of bounded size, shared by the workers of a node."""

import os
import secrets
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog

_FORGET_FAILURE = 24 * 3600
"""Seconds after which a file of which no thumbnail could be made is tried again."""
_KEPT = 0.9
"""The share of the size that is kept when the oldest ones are removed."""
_BLOCK = 4096
_PAGES = struct.Struct(">I")

log = structlog.get_logger()


class Cached(NamedTuple):
    content: bytes
    """Empty if no thumbnail can be made."""
    pages: int


class ThumbnailCache:
    """Blocking calls, for a thread. What is used last stays longest."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        self._written = 0
        self._failed = False

    def get(self, key: str) -> Cached | None:
        file = self._file(key)
        try:
            content = file.read_bytes()
            pages = _PAGES.unpack_from(content)[0]
            if len(content) == _PAGES.size and time.time() - file.stat().st_mtime > _FORGET_FAILURE:
                return None
            if len(content) > _PAGES.size:
                os.utime(file)
        except (OSError, struct.error):
            return None
        return Cached(content[_PAGES.size :], pages)

    def put(self, key: str, cached: Cached) -> None:
        """A cache that cannot be written is reported once, and done without."""
        file = self._file(key)
        staged = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            file.parent.mkdir(mode=0o700, exist_ok=True)
            staged.write_bytes(_PAGES.pack(cached.pages) + cached.content)
            staged.replace(file)
        except OSError as error:
            with suppress(OSError):
                staged.unlink()
            if not self._failed:
                self._failed = True
                log.warning("thumbnails-not-kept", why=error.strerror)
            return
        self._written += len(cached.content) + _BLOCK
        if self._written > self._size / 16:
            self.sweep()

    def sweep(self) -> None:
        """Remove the oldest ones until the rest fits."""
        self._written = 0
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        if total <= self._size:
            return
        for _, size, path in files:
            with suppress(OSError):
                os.unlink(path)
            total -= size
            if total <= self._size * _KEPT:
                return

    def _files(self) -> Iterator[tuple[float, int, str]]:
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(folder, name)
                with suppress(OSError):
                    found = os.stat(path, follow_symlinks=False)
                    # As the file system counts them.
                    yield found.st_mtime, -(-found.st_size // _BLOCK) * _BLOCK, path

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / key
