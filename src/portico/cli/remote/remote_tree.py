"""A folder on the gateway with everything below it, read in one request."""

import sys
from collections.abc import Iterable

from portico.cli.remote.connect import Gateway
from portico.client.entries import Entry
from portico.client.errors import NotFound

MOST = 100_000
"""Entries. The rest of a larger tree is listed folder by folder, so that memory is bounded."""


class RemoteTree:
    """Its first folders are listed one by one, the rest by one walk, as soon as there are so many of them."""

    def __init__(self, client: Gateway, folder: str, *, one_by_one: int = 0, most: int = MOST) -> None:
        """`folder` is a clean path."""
        self._client = client
        self._folder = folder
        self.one_by_one = one_by_one
        """Folders that are still to be looked at one by one."""
        self._most = most
        self._listed: dict[str, list[Entry]] | None = None

    def content(self, folder: str) -> Iterable[Entry]:
        """The entries of a folder. Of the same one, they can be asked for once."""
        if self.one_by_one:
            self.one_by_one -= 1
            return self._client.list(folder)
        if self._listed is None:
            self._listed = self._walked()
        if self._listed is None:
            self.one_by_one = sys.maxsize
            return self._client.list(folder)
        if (entries := self._listed.pop(folder, None)) is None:
            raise NotFound(f"'{folder}' not found.")
        return entries

    def _walked(self) -> dict[str, list[Entry]] | None:
        """All entries by folder; None if there are too many."""
        listed: dict[str, list[Entry]] = {self._folder: []}
        for count, entry in enumerate(self._client.list(self._folder, recursive=True)):
            if count == self._most:
                return None
            listed.setdefault(entry.path.removesuffix(f"/{entry.name}") or "/", []).append(entry)
            if entry.is_folder:
                listed.setdefault(entry.path, [])
        return listed
