"""Options that name files: paths inside the home are stored relative to it, so that they move with it."""

import os
from collections.abc import Collection, Mapping

import msgspec


class HomePaths(msgspec.Struct, frozen=True):
    home: str
    names: Collection[str]
    """The options that name a file or folder."""
    keep_relative: bool
    """Whether the database is inside the home and moves with it. Nodes that share a database elsewhere may have
    different homes, and a relative path would mean a different folder on each."""

    def stored(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options as they are stored."""
        if not self.keep_relative:
            return dict(options)
        return {key: self._relative(text) if key in self.names else text for key, text in options.items()}

    def resolved(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options as they are used and shown, with absolute paths."""
        return {
            key: os.path.normpath(os.path.join(self.home, text)) if key in self.names else text
            for key, text in options.items()
        }

    def _relative(self, path: str) -> str:
        # A link inside the home belongs to it, wherever it points; the home itself may be reached by a link.
        for resolve in (os.path.normpath, os.path.realpath):
            resolved, home = resolve(path), resolve(self.home)
            if os.path.isabs(resolved) and os.path.commonpath([resolved, home]) == home:
                return os.path.relpath(resolved, home)
        return path
