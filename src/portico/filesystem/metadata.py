"""Listings and metadata, with a short-lived cache."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

from fsspec.dircache import DirCache
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from portico.client import Client, Entry, Forbidden, NotAFolder
from portico.filesystem.block_cache import BLOCK, BlockCache
from portico.filesystem.clients import Clients
from portico.filesystem.errors import translate_errors
from portico.filesystem.options import Options

Details = dict[str, Any]

_OPTIONS = {"use_listings_cache", "asynchronous", "loop", "batch_size"}
"""Further options that fsspec itself may pass."""
_SECRETS = ("password", "key", "token", "client_secret")


class MetadataFileSystem(AbstractFileSystem):
    protocol = "portico"
    root_marker = "/"
    blocksize = BLOCK
    _clients: ClassVar = Clients()

    def __init__(
        self,
        gateway: str | None = None,
        *,
        profile: str | None = None,
        username: str | None = None,
        password: str | None = None,
        key: str | None = None,
        token: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        ca: str | None = None,
        timeout: float = 30.0,
        connections: int = 8,
        default_block_size: int = BLOCK,
        default_cache_type: str = BlockCache.name,
        listings_expiry_time: float | None = 10.0,
        max_paths: int | None = 1000,
        **options: Any,
    ) -> None:
        """`gateway` is the address, since fsspec reserves the name `url`. `profile` is a saved `portico login`.

        `listings_expiry_time` is how long listings are cached, in seconds; `use_listings_cache=False` disables the cache.
        """
        if unknown := options.keys() - _OPTIONS:
            raise TypeError(f"portico:// has no option {min(unknown)!r}")
        self._connection_options = Options(
            gateway or "", username, password, token, client_id, client_secret, ca, timeout, connections, profile, key
        ).completed(os.environ)
        options |= {"listings_expiry_time": listings_expiry_time, "max_paths": max_paths}
        super().__init__(**options)
        self._entries = DirCache(**options)
        """A cache of single files and folders."""
        self._shared = self._clients.get(self._connection_options)
        self._block_size = default_block_size
        self._cache_type = default_cache_type

    @property
    def client(self) -> Client:
        """The underlying client, for operations that fsspec does not have."""
        if self._shared.process != os.getpid():
            self._shared = self._clients.get(self._connection_options)
        return self._shared.client

    @property
    def fsid(self) -> str:
        return f"portico_{self._connection_options.url}"

    def __dask_tokenize__(self) -> tuple[str, str]:
        """Part of task names: different for each user, but no help in guessing a password."""
        return self._connection_options.url, self._connection_options.digest()

    def to_dict(self, *, include_password: bool = True) -> Details:
        serialized: Details = super().to_dict(include_password=include_password)
        hidden = () if include_password else _SECRETS
        return {name: value for name, value in serialized.items() if name not in hidden}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if path.startswith("portico://"):
            path = path.removeprefix("portico://")
            if path and not path.startswith("/"):
                raise ValueError(
                    f"Write portico:///{path} with three slashes; set the gateway's address with the option 'gateway'."
                )
        return "/" + path.strip("/")

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        listed: list[Details] | None = None if refresh else self.dircache.get(path)
        if listed is None:
            with translate_errors(path):
                try:
                    listed = [_details(entry) for entry in self.client.list(path)]
                    self.dircache[path] = listed
                except NotAFolder:
                    listed = [_details(self.client.stat(path))]
        return listed if detail else [found["name"] for found in listed]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """Everything below a folder, in one request; the listings of all folders are then in the cache."""
        path = self._strip_protocol(path)
        if maxdepth is not None or kwargs:
            return super().find(path, maxdepth, withdirs, detail, **kwargs)
        folders: dict[str, list[Details]] = {path: []}
        try:
            with translate_errors(path):
                for entry in self.client.list(path, recursive=True):
                    found = _details(entry)
                    folders.setdefault(self._parent(entry.path), []).append(found)
                    if entry.is_folder:
                        folders.setdefault(entry.path, [])
        except (FileNotFoundError, NotADirectoryError):
            return super().find(path, maxdepth, withdirs, detail)
        for folder, listed in folders.items():
            self.dircache[folder] = listed
        below = {each["name"]: each for listed in folders.values() for each in listed}
        if withdirs:
            below[path] = self.info(path)
        names = sorted(name for name, each in below.items() if withdirs or each["type"] == "file")
        return {name: below[name] for name in names} if detail else names

    def info(self, path: str, refresh: bool = False, **_: Any) -> Details:
        path = self._strip_protocol(path)
        if not refresh:
            for found in self.dircache.get(self._parent(path)) or self._entries.get(path) or []:
                if found["name"] == path:
                    return cast("Details", found)
        with translate_errors(path):
            found = _details(self.client.stat(path))
        self._entries[path] = [found]
        return found

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Unlike fsspec's own, raises if the gateway cannot be asked."""
        return self._type(path, **kwargs) is not None

    def isdir(self, path: str) -> bool:
        return self._type(path, blind="") == "directory"

    def isfile(self, path: str) -> bool:
        return self._type(path, blind="") == "file"

    def _type(self, path: str, blind: str | None = None, **kwargs: Any) -> str | None:
        """`file`, `directory` or None; `blind`, if given, for users who may upload but not list."""
        try:
            return str(self.info(path, **kwargs)["type"])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            if blind is None or not isinstance(error.__cause__, Forbidden):
                raise
            return blind

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "omit", **kwargs: Any
    ) -> Iterator[Any]:
        """With "omit", only folders that have disappeared are left out; other errors are raised."""
        react = _raise_unless_missing if on_error == "omit" else on_error
        walked: Iterator[Any] = super().walk(path, maxdepth, topdown, on_error=react, **kwargs)
        return walked

    def modified(self, path: str) -> datetime | None:
        found = self.info(path).get("mtime")
        return None if found is None else datetime.fromtimestamp(found, UTC)

    def ukey(self, path: str) -> str:
        path = self._strip_protocol(path)
        with translate_errors(path):
            entry = self.client.head(path)
        return entry.etag or f"{entry.size}-{entry.last_modified}"

    def invalidate_cache(self, path: str | None = None) -> None:
        super().invalidate_cache(path)
        for cache in (self.dircache, self._entries):
            if path is None:
                cache.clear()
            else:
                _forget(cache, self._strip_protocol(path))

    @contextmanager
    def _changing(self, *paths: str) -> Iterator[None]:
        """Translate errors, and invalidate the cache for these paths in any case."""
        try:
            with translate_errors(paths[0]):
                yield
        finally:
            for path in paths:
                self.invalidate_cache(path)


def _details(entry: Entry) -> Details:
    modified = entry.modified
    return {
        "name": entry.path,
        "size": 0 if entry.is_folder else entry.size,
        "type": "directory" if entry.is_folder else "file",
        "content_type": entry.content_type,
        "mtime": modified.timestamp() if modified else None,
    }


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _forget(cache: DirCache, path: str) -> None:
    """Remove a path, everything below it, and its parents, which may have been created with it."""
    below = path.rstrip("/") + "/"
    for known in list(cache):
        if known == path or known.startswith(below) or below.startswith(known.rstrip("/") + "/"):
            cache.pop(known, None)
