"""A walk through everything below a folder."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from portico.drive import Drive
from portico.entries import Entry
from portico.paths import Path

_PAGE = 1000


@dataclass(slots=True)
class _Level:
    folder: Path
    cursor: str | None = None
    ended: bool = False
    waiting: list[Path] = field(default_factory=list)
    """Folders of the last page that are still to be entered, the next one last."""


async def walk(drive: Drive, folder: Path) -> AsyncIterator[tuple[Path, Entry]]:
    """Every entry below `folder`, a folder before its content. Holds one page for each level of the tree."""
    levels = [_Level(folder)]
    while levels:
        level = levels[-1]
        if level.waiting:
            levels.append(_Level(level.waiting.pop()))
        elif level.ended:
            levels.pop()
        else:
            page = await drive.list_page(level.folder, _PAGE, level.cursor)
            level.cursor, level.ended = page.token, page.token is None
            found = [(level.folder.child(entry.name), entry) for entry in page.entries]
            level.waiting = [path for path, entry in reversed(found) if entry.is_folder]
            for each in found:
                yield each
