"""What a share holds: folders and files in memory, with the names and the refusals of the real service."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

LONGEST_NAME = 255
LONGEST_PATH = 2048
DEEPEST = 250
LARGEST_FILE = 4 * 2**40

_FORBIDDEN = re.compile('[\x00-\x1f\x7f-\x9f"\\\\/:|<>*?\ue000-\uf8ff\U0010fffe\U0010ffff]')
_RESERVED = {"PRN", "AUX", "NUL", "CON", "CLOCK$", *(f"{port}{n}" for port in ("LPT", "COM") for n in range(1, 10))}
_numbers = count(13_835_128_424_026_341_376)


class Refusal(Exception):
    """An answer of the service that is an error."""

    def __init__(self, status: int, code: str, **headers: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass
class Node:
    name: str
    id: int = field(default_factory=lambda: next(_numbers))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    written: datetime = field(default_factory=lambda: datetime.now(UTC))
    changed: datetime = field(default_factory=lambda: datetime.now(UTC))
    etag: str = field(default_factory=lambda: f'"0x{next(_numbers):X}"')
    metadata: dict[str, str] = field(default_factory=dict)

    def touch(self, *, written: bool = False) -> None:
        self.changed = datetime.now(UTC)
        self.etag = f'"0x{next(_numbers):X}"'
        if written:
            self.written = self.changed


@dataclass
class File(Node):
    content: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict)
    copy_id: str = ""
    copy_source: str = ""
    copied: bytes | None = None
    """What a copy that is still going on will put here."""
    copy_looks: int = 0
    """How often somebody must look until the copy is done."""


@dataclass
class Folder(Node):
    children: dict[str, Node] = field(default_factory=dict)
    """By `folded` name."""

    def ordered(self) -> list[tuple[str, Node]]:
        return sorted(self.children.items())


def folded(name: str) -> str:
    """Names are compared character by character, without case."""
    return "".join(upper if len(upper := letter.upper()) == 1 else letter for letter in name)


def split(path: str, *, trailing_dots: bool) -> tuple[str, ...]:
    """The components of a decoded path below the share; `Refusal` for what the service cannot hold."""
    path = path.removesuffix("/")
    if not path:
        return ()
    if len(path) > LONGEST_PATH:
        raise Refusal(400, "InvalidFileOrDirectoryPathName")
    names = path.split("/")
    if len(names) > DEEPEST:
        raise Refusal(400, "InvalidFileOrDirectoryPathName")
    return tuple(_checked(name if trailing_dots else name.rstrip(".")) for name in names)


def _checked(name: str) -> str:
    if not name or name in (".", "..") or _FORBIDDEN.search(name) or name.upper() in _RESERVED:
        raise Refusal(400, "InvalidResourceName")
    if len(name.encode("utf-16-le")) > 2 * LONGEST_NAME:
        raise Refusal(400, "InvalidFileOrDirectoryPathName")
    return name


class Share:
    def __init__(self) -> None:
        self.root = Folder("")

    def find(self, path: tuple[str, ...]) -> Node | None:
        node: Node = self.root
        for name in path:
            if not isinstance(node, Folder) or folded(name) not in node.children:
                return None
            node = node.children[folded(name)]
        return node

    def file(self, path: tuple[str, ...]) -> File:
        node = self.find(path)
        if not isinstance(node, File):
            raise Refusal(404, "ResourceNotFound")
        return node

    def folder(self, path: tuple[str, ...]) -> Folder:
        node = self.find(path)
        if not isinstance(node, Folder):
            raise Refusal(404, "ResourceNotFound")
        return node

    def parent(self, path: tuple[str, ...]) -> Folder:
        node = self.find(path[:-1])
        if not isinstance(node, Folder):
            raise Refusal(404, "ParentNotFound")
        return node

    def make_folder(self, path: tuple[str, ...]) -> Folder:
        if not path:
            raise Refusal(405, "UnsupportedHttpVerb")
        children = self.parent(path).children
        if folded(path[-1]) in children:
            raise Refusal(409, "ResourceAlreadyExists")
        made = children[folded(path[-1])] = Folder(path[-1])
        return made

    def make_file(self, path: tuple[str, ...], size: int) -> File:
        """A file of zeros, in place of one that is there."""
        if not 0 <= size <= LARGEST_FILE:
            raise Refusal(400, "OutOfRangeInput")
        if not path:
            raise Refusal(405, "UnsupportedHttpVerb")
        children = self.parent(path).children
        if isinstance(children.get(folded(path[-1])), Folder):
            raise Refusal(409, "ResourceTypeMismatch")
        made = children[folded(path[-1])] = File(path[-1], content=bytearray(size))
        return made

    def delete_file(self, path: tuple[str, ...]) -> None:
        self.file(path)
        del self.parent(path).children[folded(path[-1])]

    def delete_folder(self, path: tuple[str, ...]) -> None:
        if self.folder(path).children:
            raise Refusal(409, "DirectoryNotEmpty")
        if not path:
            raise Refusal(405, "UnsupportedHttpVerb")
        del self.parent(path).children[folded(path[-1])]

    def rename(self, source: tuple[str, ...], target: tuple[str, ...], *, folder: bool, replace: bool) -> Node:
        node: Node = self.folder(source) if folder else self.file(source)
        if not source or not target:
            raise Refusal(400, "InvalidInput")
        children = self.parent(target).children
        if folder and tuple(map(folded, target[: len(source)])) == tuple(map(folded, source)) != tuple(
            map(folded, target)
        ):
            raise Refusal(400, "InvalidInput")
        there = children.get(folded(target[-1]))
        in_the_way = there is not None and there is not node
        if in_the_way and (folder or isinstance(there, Folder) or not replace):
            raise Refusal(409, "ResourceAlreadyExists")
        del self.parent(source).children[folded(source[-1])]
        children[folded(target[-1])] = node
        node.name = target[-1]
        node.touch()
        return node

    def everything(self) -> Iterator[str]:
        """All paths, for tests that look for what was left behind."""
        pending: list[tuple[str, Folder]] = [("", self.root)]
        while pending:
            above, folder = pending.pop()
            for _, node in folder.ordered():
                yield f"{above}/{node.name}"
                if isinstance(node, Folder):
                    pending.append((f"{above}/{node.name}", node))
