"""Keys and paths: what an object store has to implement, and which names its listings show.

A key is a path without its leading slash. A service implements how keys are listed, found, read, stored, copied and
removed. Files and folders are built on that in `objects`, whole trees in `object_trees`.
"""

import math
import re
from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import compress
from secrets import token_hex
from typing import ClassVar, NamedTuple

import structlog

from portico.model import timestamps
from portico.model.entries import FOLDER_TYPE, UNKNOWN_TYPE, Download, Entry
from portico.model.errors import AlreadyExists, Changed
from portico.model.paths import RESERVED_PREFIX, Path, flawless_names, name_flaw
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import Look, WriteOptions
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import UploadPart, part_sizes, split
from portico.providers.objects.part_store import PartStore, UploadState
from portico.providers.wire.responses import Progress
from portico.runtime.tasks import CONCURRENCY, for_each

FOLDER_MARKER = "application/x-directory"
"""The content type."""
MTIME = "mtime"
"""The name of the metadata, in every service."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?")
_MAX_TEXT = 64


def as_seconds(moment: datetime) -> str:
    """Decimal seconds since 1970, for S3: `1556938921.123`."""
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    whole, fraction = divmod(abs(microseconds), 1_000_000)
    text = f"{whole}.{fraction:06}".rstrip("0").removesuffix(".")
    return f"-{text}" if microseconds < 0 else text


def as_rfc3339(moment: datetime) -> str:
    """A date with nine digits of a second, for Azure Blob and Google Cloud Storage."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"


def read(text: str | None) -> str | None:
    """Either form as `timestamps` writes it; None if it is missing or neither."""
    if text is None or len(text) > _MAX_TEXT:
        return None
    if number := _SECONDS.fullmatch(text):
        sign, seconds, fraction = number.groups()
        milliseconds = int(seconds) * 1000 + int((fraction or "").ljust(3, "0")[:3])
        return timestamps.from_epoch(-milliseconds if sign else milliseconds)
    try:
        return timestamps.from_iso(text)
    except ValueError:
        return None


log = structlog.get_logger()


@dataclass(slots=True)
class KeyPage:
    """A page of a listing: objects and common prefixes, both with whole keys, and the service's token."""

    objects: list[Entry]
    """Their `name` is the whole key. In a flat listing they have an etag."""
    prefixes: list[str] = field(default_factory=list)
    token: str | None = None

    def holds_anything(self, prefix: str) -> bool:
        shown = (*(entry.name for entry in self.objects), *self.prefixes)
        return self.token is not None or any(key.startswith(prefix) for key in shown)


class Version(NamedTuple):
    """A version of an object: its etag, or None for any version, as for the marker of a folder."""

    key: str
    etag: str | None
    copied_at: float = 0.0
    """When its copy began, by the monotonic clock: it was the current one after that."""


class ObjectService(Provider):
    max_key_bytes: ClassVar[int] = 1024
    removal_passes: ClassVar[int] = 1
    """How often a tree is listed to remove it: more than once if a folder may be listed pages before its content."""

    concurrent_removals: ClassVar[int] = CONCURRENCY
    """How many objects are removed at the same time, one by one."""

    looks_to_replace: ClassVar[bool] = False
    """Whether a copy that may replace something has to look at its target first."""

    memory: MemoryBudget
    """The budget of its uploads."""

    # What a service implements. Keys are whole; errors are those of `portico.model.errors`.

    @abstractmethod
    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> KeyPage:
        """Keys that begin with `prefix`. Unless `flat`, those with a further slash are grouped as prefixes."""

    @abstractmethod
    async def find(self, key: str) -> Entry | None:
        """The object, or None; a folder's entry if the service marks the folder by an object without the slash."""

    @abstractmethod
    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        """As `Provider.read`."""

    @abstractmethod
    def part_store(self, state: UploadState) -> PartStore:
        """What the service does for one upload."""

    @abstractmethod
    async def duplicate(
        self, source: Version, target: str, *, replace: bool, if_match: str | None = None, looked: bool = False
    ) -> None:
        """Copy one object inside the service. `if_match`: only over this version, as far as the service can compare.
        `looked`: the caller has just seen that the target is what these say.

        `NotFound`. `AlreadyExists`: also if the target is not the version `if_match`. `Changed`: the source has another version by now.
        """

    @abstractmethod
    async def remove(self, keys: list[str]) -> None:
        """Remove up to a page of objects; missing ones are ignored.

        A key that ends in a slash is a folder's marker, whatever its form in the service.
        """

    @abstractmethod
    async def remove_version(self, version: Version) -> None:
        """Remove an object; a missing one is ignored. `Changed`: the service says that it has another version by now."""

    async def look_lasts(self) -> float:
        """For how many seconds a look at a file counts: the service refuses to replace or remove what has changed since."""
        return math.inf

    # What is built on that.

    async def store(
        self, key: str, chunks: AsyncIterator[bytes], content_type: str, options: WriteOptions, look: Look | None = None
    ) -> Entry:
        """As `Provider.write`. `look`: at the key."""
        upload = self.part_store(_new_state(key, content_type, options))
        upload.if_match, upload.kept, upload.look = options.if_match, options.kept, look
        sizes = part_sizes(options.at_most, upload.limits.max_number)
        async with split(self.memory, chunks, sizes, options.at_most) as parts:
            return await (upload.put(parts.first) if parts.first.last else upload.put_parts(parts))

    async def put(
        self, key: str, chunks: list[bytes], content_type: str = UNKNOWN_TYPE, *, replace: bool = True
    ) -> None:
        """Store a small object of the gateway's own by one request."""
        state = _new_state(key, content_type, WriteOptions(replace=replace))
        await self.part_store(state).put(UploadPart(1, chunks, sum(map(len, chunks)), last=True))

    async def remove_versions(self, versions: list[Version]) -> list[Version]:
        """As `remove`, but an object that has another version by now stays. Returns these, each as it is now."""
        newer: list[Version] = []

        async def remove_one(version: Version) -> None:
            if found := await self._remove_unless_newer(version):
                newer.append(found)

        await for_each(remove_one, versions, self.concurrent_removals)
        return newer

    async def _remove_unless_newer(self, version: Version) -> Version | None:
        try:
            await self.remove_version(version)
        except Changed:
            found = await self.find(version.key)
            if found is None:
                return None
            if found.etag == version.etag:
                # Swift compares with another etag than the one it shows for a file stored in parts.
                await self.remove_version(Version(version.key, None))
            elif not found.is_folder:  # a new folder took the place of what was removed
                return Version(version.key, found.etag)
        return None

    async def mark(self, key: str) -> None:
        """Make a folder's marker unless it exists."""
        try:
            await self.put(key, [], FOLDER_MARKER, replace=False)
        except AlreadyExists:
            pass

    def fits(self, key: str) -> bool:
        return len(key.encode()) <= self.max_key_bytes

    async def peek(self, prefix: str, size: int) -> KeyPage:
        """The first keys at or below a prefix. With the delimiter: some stores list empty folders only that way."""
        return await self.list_keys(prefix, size, None)

    async def list_content(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> KeyPage:
        """As `list_keys`. SeaweedFS ends a listing of one key at the folder's own marker, whatever follows it."""
        listing = await self.list_keys(prefix, size, token, flat=flat)
        shown = [*(entry.name for entry in listing.objects), *listing.prefixes]
        if size > 1 or token is not None or listing.token is not None or shown != [prefix]:
            return listing
        two = await self.list_keys(prefix, 2, None, flat=flat)
        marked = any(entry.name == prefix for entry in two.objects)
        return two if marked else await self.list_keys(prefix, size, None, flat=flat)

    async def holds_keys(self, prefix: str) -> bool:
        return self.fits(prefix) and (await self.peek(prefix, 1)).holds_anything(prefix)

    async def pages(self, prefix: str, *, flat: bool) -> AsyncIterator[KeyPage]:
        """All pages of a listing, without keys that do not begin with `prefix`."""
        token = None
        progress = Progress()
        while True:
            listing = await self.list_keys(prefix, self.max_page_size, token, flat=flat)
            listing.objects = [entry for entry in listing.objects if entry.name.startswith(prefix)]
            listing.prefixes = [key for key in listing.prefixes if key.startswith(prefix) and key != prefix]
            token = listing.token
            progress.page([*(entry.name for entry in listing.objects), *listing.prefixes], token)
            yield listing
            if token is None:
                return


def key_of(path: Path) -> str:
    return "/".join(path.segments)


def path_of(key: str) -> Path:
    """The path of a key that `key_of` made; it may be one of the gateway's own."""
    return Path(tuple(key.split("/")))


def name_of(key: str) -> str:
    """The name of the file at a key, or of the folder whose marker it is."""
    return key.removesuffix("/").rpartition("/")[2]


def folder_key(path: Path) -> str:
    """The prefix of all keys in the folder. It ends in a slash, so that `al` does not match `alice`."""
    return key_of(path) + "/" if path.segments else ""


def folder_entry(path: Path) -> Entry:
    return Entry(path.name, True, content_type=FOLDER_TYPE)


def entries_of(prefix: str, listing: KeyPage) -> tuple[list[Entry], bool]:
    """The entries of a folder, and whether the folder exists even if there are none."""
    cut = len(prefix)
    keys = [entry.name for entry in listing.objects]
    names = [key[cut:] for key in keys]
    marked = any(key.startswith(prefix) for key in keys)  # even a key whose name cannot be shown
    # Nearly always all names are valid, and checking all of them at once is cheap.
    if flawless_names(names) and all(key.startswith(prefix) for key in keys):
        entries = listing.objects
    else:
        shown = [key != prefix and _shown(prefix, key, name) for key, name in zip(keys, names, strict=True)]
        entries = list(compress(listing.objects, shown))
        names = list(compress(names, shown))
    for entry, name in zip(entries, names, strict=True):
        entry.name = name
    for key in dict.fromkeys(listing.prefixes):
        name = key[cut:].removesuffix("/")
        if _shown(prefix, key, name):
            entries.append(Entry(name, True, content_type=FOLDER_TYPE))
        else:
            marked = True  # something exists, even if its name cannot be shown
    return entries, marked


def _shown(prefix: str, key: str, name: str) -> bool:
    flaw = name_flaw(name) if key.startswith(prefix) else "is outside the requested folder"
    if flaw and not name.startswith(RESERVED_PREFIX):
        log.warning("left-out-of-listing", key=ascii(key), why=f"the name {flaw}")
    return not flaw


def _new_state(key: str, content_type: str, options: WriteOptions) -> UploadState:
    size, modified = options.at_most, options.modified
    mark = options.mark or token_hex(16)
    return UploadState(mark, key, content_type, options.replace, renamed=False, size=size, modified=modified)
