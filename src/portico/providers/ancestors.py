"""Finding the deepest existing folder of a path with few requests."""

from collections.abc import Awaitable, Callable

from portico.paths import Path


async def existing_depth(folder: Path, exists: Callable[[Path], Awaitable[object]]) -> int:
    """How many leading segments of `folder` exist as folders, found by bisection.

    The deepest folder is tried first: it usually exists, which takes one request. Bisection is sound because every
    folder above an existing folder exists.
    """
    known, limit = 0, len(folder.segments)
    depth = limit
    while known < limit:
        if await exists(Path(folder.segments[:depth])):
            known = depth
        else:
            limit = depth - 1
        depth = (known + limit + 1) // 2
    return known
