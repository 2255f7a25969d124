"""`Path`: a validated path.

Nothing below the HTTP layer handles path text: no segment of a `Path` can escape its root, be hidden from a listing or
be read differently by two services.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self
from urllib.parse import unquote_to_bytes

from portico.model.errors import InvalidPath

RESERVED_PREFIX = ".portico~"
"""Names with this prefix are internal (staging, probes): never listed, read or written through the gateway.

In any case: to some file systems and services, names that differ only in case are the same.
"""

TRASH = f"{RESERVED_PREFIX}trash"
"""The folder of the trash, at the top of a connection."""

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f/\\\\\ud800-\udfff]")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def name_flaw(name: str) -> str | None:
    """Why `name` cannot be the name of an entry, as the end of a sentence; None if it can."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return f"is {name!r}, which is not a valid name"
    if _FORBIDDEN.search(name):
        return "contains a slash, a backslash, a control character or text that is not valid Unicode"
    if name[: len(RESERVED_PREFIX)].casefold() == RESERVED_PREFIX:
        return f"begins with {RESERVED_PREFIX!r}, which is reserved for the gateway"
    return None


def flawless_names(names: Collection[str]) -> bool:
    """Whether all names are obviously valid; if not, check each."""
    text = "".join(names)
    return (
        text.isprintable()
        and "/" not in text
        and "\\" not in text
        and all(names)
        and "\n." not in "\n" + "\n".join(names)
    )


@dataclass(frozen=True, slots=True)
class Path:
    """Segments from a root; none at all is the root itself."""

    segments: tuple[str, ...] = ()
    as_folder: bool = field(default=False, compare=False)
    """Whether it was written with a slash at the end: where a file and a folder have this name, the folder is meant."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `a/b/c`; one leading and one trailing slash are allowed."""
        inner = text.removeprefix("/").removesuffix("/") if text != "/" else ""
        if not inner:
            if text not in ("", "/"):
                raise InvalidPath("The path contains an empty segment; use single slashes.")
            return cls()
        segments = tuple(inner.split("/"))
        for segment in segments:
            if flaw := name_flaw(segment):
                raise InvalidPath(f"A segment of the path {flaw}; use the names as the listing shows them.")
        return cls(segments, as_folder=text.endswith("/"))

    @classmethod
    def from_request(cls, raw: bytes) -> Self:
        """Read the part of a request's raw, still percent-encoded path that follows the endpoint's own slash."""
        if _BAD_ESCAPE.search(raw):
            raise InvalidPath("The path contains a '%' that doesn't start an escape; write it as '%25'.")
        try:
            text = unquote_to_bytes(raw).decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidPath("The path is not valid UTF-8; percent-encode its UTF-8 bytes.") from None
        if text.startswith("/"):
            raise InvalidPath("The path contains an empty segment; use single slashes.")
        return cls.parse(text)

    @property
    def is_root(self) -> bool:
        return not self.segments

    @property
    def name(self) -> str:
        """The last segment; `/` for the root."""
        return self.segments[-1] if self.segments else "/"

    @property
    def parent(self) -> "Path":
        return Path(self.segments[:-1])

    def child(self, name: str) -> "Path":
        """The entry `name` in this folder; `InvalidPath` if the name is not allowed."""
        if flaw := name_flaw(name):
            raise InvalidPath(f"The name {flaw}; choose another name.")
        return Path((*self.segments, name))

    def under(self, root: "Path") -> "Path":
        return Path(root.segments + self.segments, self.as_folder) if root.segments else self

    def holds(self, other: "Path") -> bool:
        """Whether `other` is this path or lies below it."""
        return other.segments[: len(self.segments)] == self.segments

    def __str__(self) -> str:
        return "/" + "/".join(self.segments)


TOP: Final = Path()


class Place(NamedTuple):
    """Where something is kept: the same for all who see it, whatever their roots are."""

    connection: str
    path: Path
    """From the top of the connection."""

    def below(self, path: Path) -> "Place":
        return Place(self.connection, path.under(self.path))

    def path_to(self, other: "Place") -> Path | None:
        """The path that leads from here to the other place; None if that is not here or below."""
        if other.connection != self.connection or not self.path.holds(other.path):
            return None
        return Path(other.path.segments[len(self.path.segments) :])

    def __str__(self) -> str:
        return f"{self.connection}{self.path}"
