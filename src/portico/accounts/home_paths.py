"""Files and folders that options name: those inside the home are kept relative to it, and so move with it."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HomePaths:
    home: str
    names: Collection[str]
    """The options that name a file or a folder of this machine."""
    keep_relative: bool
    """Whether what is stored moves with the home, because the database is inside it. Nodes that share a database
    elsewhere may have different homes, and must not take the folder of one for that of another."""

    def stored(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options as they are to be kept."""
        if not self.keep_relative:
            return dict(options)
        return {key: self._relative(text) if key in self.names else text for key, text in options.items()}

    def resolved(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options as they are to be used and shown: with absolute paths."""
        return {
            key: os.path.normpath(os.path.join(self.home, text)) if key in self.names else text
            for key, text in options.items()
        }

    def _relative(self, path: str) -> str:
        # A link inside the home is a part of it, wherever it leads; a home that is reached by a link is the same home.
        for resolve in (os.path.normpath, os.path.realpath):
            place, home = resolve(path), resolve(self.home)
            if os.path.isabs(place) and os.path.commonpath([place, home]) == home:
                return os.path.relpath(place, home)
        return path
