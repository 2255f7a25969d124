"""Which files there are: listings, single entries, and both of them cached for a moment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

from fsspec.dircache import DirCache
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from portico.client import Client, Entry, Forbidden, NotAFolder
from portico.filesystem.access import Access, shared
from portico.filesystem.blocks import BLOCK, Blocks
from portico.filesystem.failures import translated

Details = dict[str, Any]

_OPTIONS = {"use_listings_cache", "asynchronous", "loop", "batch_size"}
"""What fsspec itself may hand over, beside the parameters that are named."""
_SECRETS = ("password", "token", "client_secret")


class Looking(AbstractFileSystem):
    """The options, and whatever changes nothing and moves no content."""

    protocol = "portico"
    root_marker = "/"
    blocksize = BLOCK

    def __init__(
        self,
        gateway: str | None = None,
        *,
        profile: str | None = None,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        ca: str | None = None,
        timeout: float = 30.0,
        connections: int = 8,
        default_block_size: int = BLOCK,
        default_cache_type: str = Blocks.name,
        listings_expiry_time: float | None = 10.0,
        max_paths: int | None = 1000,
        **options: Any,
    ) -> None:
        """`gateway` is the address; fsspec keeps the name `url` for itself. `profile` is a sign-in of the command's.

        `listings_expiry_time` is for how many seconds a listing is good, `use_listings_cache=False` lists anew.
        """
        if unknown := options.keys() - _OPTIONS:
            raise TypeError(f"portico:// has no option {min(unknown)!r}")
        self._access = Access.of(
            os.environ,
            profile=profile,
            url=gateway,
            username=username,
            password=password,
            token=token,
            client_id=client_id,
            client_secret=client_secret,
            ca=ca,
            timeout=timeout,
            connections=connections,
        )
        options |= {"listings_expiry_time": listings_expiry_time, "max_paths": max_paths}
        super().__init__(**options)
        self._entries = DirCache(**options)
        """Single files and folders that were looked at."""
        self._shared = shared(self._access)
        self._block_size = default_block_size
        self._cache_type = default_cache_type

    @property
    def client(self) -> Client:
        """For what fsspec has no words."""
        if self._shared.process != os.getpid():
            self._shared = shared(self._access)
        return self._shared.client

    @property
    def fsid(self) -> str:
        return f"portico_{self._access.url}"

    def __dask_tokenize__(self) -> tuple[str, str]:
        """Goes into the names of tasks: different for each user, and of no use to who wants to guess a password."""
        return self._access.url, self._access.digest()

    def to_dict(self, *, include_password: bool = True) -> Details:
        told: Details = super().to_dict(include_password=include_password)
        hidden = () if include_password else _SECRETS
        return {name: value for name, value in told.items() if name not in hidden}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if path.startswith("portico://"):
            path = path.removeprefix("portico://")
            if path and not path.startswith("/"):
                raise ValueError(
                    f"Write portico:///{path}, with three slashes; the gateway's address is the option gateway."
                )
        return "/" + path.strip("/")

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        listed: list[Details] | None = None if refresh else self.dircache.get(path)
        if listed is None:
            with translated(path):
                try:
                    listed = [_details(entry) for entry in self.client.list(path)]
                    self.dircache[path] = listed
                except NotAFolder:
                    listed = [_details(self.client.stat(path))]
        return listed if detail else [found["name"] for found in listed]

    def info(self, path: str, refresh: bool = False, **_: Any) -> Details:
        path = self._strip_protocol(path)
        if not refresh:
            for found in self.dircache.get(self._parent(path)) or self._entries.get(path) or []:
                if found["name"] == path:
                    return cast("Details", found)
        with translated(path):
            found = _details(self.client.stat(path))
        self._entries[path] = [found]
        return found

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Unlike fsspec's own, it does not say no where it cannot know."""
        return self._type(path, **kwargs) is not None

    def isdir(self, path: str) -> bool:
        return self._type(path, blind="") == "directory"

    def isfile(self, path: str) -> bool:
        return self._type(path, blind="") == "file"

    def _type(self, path: str, blind: str | None = None, **kwargs: Any) -> str | None:
        """`file`, `directory` or None; `blind`, if that is given, for a user who may store files but not look."""
        try:
            return str(self.info(path, **kwargs)["type"])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            if blind is None or not isinstance(error.__cause__, Forbidden):
                raise
            return blind

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Left out is what vanished meanwhile; a gateway that does not answer is no empty folder."""
        react = _unless_missing if on_error == "omit" else on_error
        walked: Iterator[Any] = super().walk(path, maxdepth, topdown, on_error=react, **kwargs)
        return walked

    def modified(self, path: str) -> datetime | None:
        found = self.info(path).get("mtime")
        return None if found is None else datetime.fromtimestamp(found, UTC)

    def ukey(self, path: str) -> str:
        path = self._strip_protocol(path)
        with translated(path):
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
        """Whatever happens inside, the listings around these paths are forgotten."""
        try:
            with translated(paths[0]):
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


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _forget(cache: DirCache, path: str) -> None:
    """What is known of a path, of all below it, and of the folders above, which may have been made on the way."""
    below = path.rstrip("/") + "/"
    for known in list(cache):
        if known == path or known.startswith(below) or below.startswith(known.rstrip("/") + "/"):
            cache.pop(known, None)
