"""`PorticoFileSystem`: the fsspec filesystem, and the operations that change files."""

import os
from glob import has_magic
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.utils import stringify_path

from portico.client import OnConflict, Progress, Uploadable
from portico.filesystem.content import ContentFileSystem, progress_of


class PorticoFileSystem(ContentFileSystem):
    """The files of a Portico gateway, as `portico:///folder/file`.

    The address and the sign-in come from options, from the environment (`PORTICO_URL`, `PORTICO_TOKEN`,
    `PORTICO_USERNAME`, `PORTICO_PASSWORD`, `PORTICO_PROFILE`) or from a profile of `portico login`. Options, including
    passwords, are pickled, since workers elsewhere need them; values from the environment or a profile are not.
    """

    def store(
        self,
        path: str,
        source: Uploadable,
        on_conflict: OnConflict | None = None,
        content_type: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        with self._changing(path):
            self.client.upload(source, path, on_conflict=on_conflict, content_type=content_type, progress=progress)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb", **kwargs) as file:
                file.write(value)
        else:
            self.store(self._strip_protocol(path), value, _on_conflict(mode), kwargs.get("content_type"))

    def put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        content_type: str | None = None,
        **_: Any,
    ) -> None:
        rpath = self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
        else:
            self.store(rpath, os.fspath(lpath), _on_conflict(mode), content_type, progress_of(callback))

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(path)
        if not create_parents and not self.exists(self._parent(path)):
            raise FileNotFoundError(self._parent(path))
        self.makedirs(path, exist_ok=True)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and self.exists(path):
            raise FileExistsError(path)
        with self._changing(path):
            self.client.make_folder(path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy one file; a folder is only created, since fsspec copies its content one by one."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            self.makedirs(target, exist_ok=True)
            return
        with self._changing(source, target):
            self.client.copy(source, target)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Move a single file or folder on the gateway, without a copy; into the target if that is a folder."""
        path1, path2 = stringify_path(path1), stringify_path(path2)
        if not isinstance(path1, str) or not isinstance(path2, str) or has_magic(path1) or maxdepth is not None:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        into = path2.endswith("/") or (self.isdir(target) and not path1.endswith("/"))
        if into and source != target:
            target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
        if source != target:
            with self._changing(source, target):
                self.client.move(source, target)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        with self._changing(path):
            self.client.delete(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete each path with one request; `recursive` allows folders with content."""
        for one in path if isinstance(path, list) else [path]:
            if has_magic(stringify_path(one)) or maxdepth is not None:
                super().rm(one, recursive=recursive, maxdepth=maxdepth)
                continue
            plain = self._strip_protocol(one)
            with self._changing(plain):
                self.client.delete(plain, recursive=recursive)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if not self.info(path, refresh=True)["type"] == "directory":
            raise NotADirectoryError(path)
        self.rm_file(path)


def _on_conflict(mode: str) -> OnConflict | None:
    return "fail" if mode == "create" else None
