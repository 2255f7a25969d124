"""`WriteOptions`: how a file is written."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime

import msgspec

from portico.paths import Path


class KeptFile(msgspec.Struct):
    """Where a file that is replaced is kept.

    Most uploads replace nothing. A commit that finds a file, and no place for it, awaits `prepare` and begins again; `prepare`
    sets the place if it finds the file, too. For a provider that does not keep the file itself, `prepare` keeps it, and sets
    its etag: a copy or move that finds another version then awaits `prepare` and begins again.
    """

    prepare: Callable[[], Awaitable[None]]
    place: Path | None = None
    etag: str | None = None
    """Of the file that was found; None if there was none."""
    may_copy: bool = False
    """Whether the file is copied to its place if the file system cannot link it there."""
    copied: str | None = None
    """The etag of the version that was copied to the place."""
    is_kept: bool = False
    """Set by the provider: whether the file that was replaced is in its place."""


class WriteOptions(msgspec.Struct, frozen=True):
    """What `Provider.write` is asked for beside the content; it says there what is promised."""

    replace: bool = True
    """Whether a file that exists is replaced."""
    at_most: int | None = None
    """The largest number of bytes that can arrive, if known; it only helps to plan. Of a resumable upload: its size."""
    modified: datetime | None = None
    """Kept as the file's time where the service can; `stat` returns it."""
    if_match: str | None = None
    """Only this version is replaced; the decision is atomic if the service can compare and replace in one step."""
    alternatives: Iterator[Path] | None = None
    """Other names in the same folder, tried in order if the path is taken when the file is committed. A service that
    fixes the name earlier may ignore them."""
    ancestors_checked_at: float | None = None
    """When the caller knew from `check_ancestors`, or from a file that it had written, that the folder could be written to:
    by the monotonic clock."""
    kept: KeptFile | None = None
    """For a provider that `keeps_at_commit`."""
