"""Content of files: opening, reading whole files and ranges, downloading."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression

from portico.client import IsAFolder, Progress
from portico.filesystem.errors import translate_errors
from portico.filesystem.metadata import Details, MetadataFileSystem
from portico.filesystem.open_files import Compressed, ReadFile, Text, WriteFile


class ContentFileSystem(MetadataFileSystem):
    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Details | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        if "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **kwargs)
        text = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
        binary = mode.replace("t", "").replace("b", "") + "b"
        file: Any = super().open(path, binary, block_size, cache_options, **kwargs)
        if kind := get_compression(path, compression):
            file = Compressed(compr[kind](file, mode="w"), file)
        return file if "b" in mode else Text(file, **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Details | None = None,
        cache_type: str | None = None,
        size: int | None = None,
        etag: str | None = None,
        content_type: str | None = None,
    ) -> ReadFile | WriteFile:
        if mode == "rb":
            return ReadFile(
                self,
                path,
                block_size=block_size or self._block_size,
                cache_type=cache_type or self._cache_type,
                cache_options=cache_options,
                size=size,
                etag=etag,
            )
        if mode not in ("wb", "xb"):
            raise NotImplementedError(
                f"mode {mode!r} isn't supported, because a gateway stores whole files only; read "
                "the file and write it again"
            )
        if mode == "xb" and self._type(path, blind=""):
            raise FileExistsError(path)
        return WriteFile(self, path, mode, autocommit=autocommit, content_type=content_type)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        with translate_errors(path):
            if (start or 0) >= 0 and (end is None or end >= 0):
                return self.client.read(path, start or 0, end)
            entry = self.client.head(path)
            first, stop, _step = slice(start, end).indices(entry.size or 0)
            return self.client.read(path, first, stop, etag=entry.etag)

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Several ranges at once. `max_gap` is only a hint and ignored."""
        if not isinstance(paths, list):
            raise TypeError("the paths must be a list")
        firsts = starts if isinstance(starts, list) else [starts] * len(paths)
        stops = ends if isinstance(ends, list) else [ends] * len(paths)
        ranges = list(zip(paths, firsts, stops, strict=True))
        return self._concurrently(lambda one: self.cat_file(*one, **kwargs), ranges, on_error)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **kwargs)
        contents = self._concurrently(lambda one: self.cat_file(one, **kwargs), paths, on_error)
        found = zip(paths, contents, strict=True)
        return {path: one for path, one in found if on_error != "omit" or not isinstance(one, Exception)}

    def _concurrently(self, get: Callable[[Any], Any], items: Sequence[Any], on_error: str) -> list[Any]:
        def attempt(item: Any) -> Any:
            try:
                return get(item)
            except Exception as error:
                if on_error == "raise":
                    raise
                return error

        with ThreadPoolExecutor(self._connection_options.connections) as pool:
            return list(pool.map(attempt, items))

    def get_file(
        self, rpath: str, lpath: Any = None, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **_: Any
    ) -> None:
        rpath = self._strip_protocol(rpath)
        outfile = outfile or (lpath if hasattr(lpath, "write") else None)
        if outfile is None:
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        with translate_errors(rpath):
            try:
                self.client.download(rpath, outfile or lpath, progress=progress_of(callback))
            except IsAFolder:
                if outfile is not None:
                    raise
                os.makedirs(lpath, exist_ok=True)


def progress_of(callback: Any) -> Progress:
    def update(_: str, done: int, total: int | None) -> None:
        if total is not None:
            callback.set_size(total)
        callback.absolute_update(done)

    return update
