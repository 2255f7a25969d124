"""What an object store has to do for a resumable upload, and the state of such an upload."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Self

import msgspec

from portico.model.entries import Entry
from portico.model.paths import RESERVED_PREFIX
from portico.providers.contract.uploads import KeptFile, Look, over_seen
from portico.providers.multipart.parts import (
    MAX_PART_BYTES,
    MIB,
    MIN_PART_BYTES,
    Parts,
    UploadPart,
    max_file_bytes,
    part_sizes,
)

UPLOADS_PREFIX = f"{RESERVED_PREFIX}uploads/"
"""Of the keys under which resumable uploads keep what is not yet, or not only, in parts."""
TRIALS_PREFIX = f"{UPLOADS_PREFIX}conditions-"
"""Of empty objects by which a service is tried; they stay only if the process ends in the meantime."""
_EQUAL_BYTES = 16 * MIB
"""Of each part, if all must be equal and the size of the file is unknown."""


class SentPart(msgspec.Struct, array_like=True):
    number: int
    """For the service; numbers may have gaps."""
    size: int
    result: str
    """Of `PartStore.send`."""


class Tail(msgspec.Struct, array_like=True):
    """Bytes at the end of a request that were too few for a part, in an object of their own."""

    name: str
    size: int


class PartList(msgspec.Struct, array_like=True):
    """Parts that were sent long ago, listed in an object of their own: the state is saved after each part."""

    name: str
    size: int
    """Of all these parts."""

    @staticmethod
    def encode(parts: list[SentPart]) -> bytes:
        return msgspec.json.encode(parts)

    @staticmethod
    def decode(text: bytes) -> list[SentPart]:
        return msgspec.json.decode(text, type=list[SentPart])


class UploadState(msgspec.Struct, omit_defaults=True):
    id: str
    """Random. It is also the mark in the metadata of the file, by which the upload recognizes it."""
    key: str
    """Of the file."""
    content_type: str
    replace: bool
    renamed: bool
    """Whether the name is chosen at the end. Then the parts go to a hidden key, and the file is a copy of that."""
    size: int | None
    """Of the whole file, if known."""
    modified: datetime | None

    session: str = ""
    """What `PartStore.begin` returned."""
    intents: list[datetime] = []
    """When `PartStore.begin` was called without its result having been saved, by `PartStore.now`."""
    lists: list[PartList] = []
    parts: list[SentPart] = []
    """Those that follow the ones in `lists`."""
    tails: list[Tail] = []
    """The bytes that follow the parts."""
    next_number: int = 1
    """The first part number that no writer has used or may still use."""
    committing: bool = False
    """Whether the object at `goal` may be there already."""
    committed: str | None = None
    """The etag of the object at the hidden key."""
    copying: bool = False
    """Whether the copy at `key` may be there already."""

    @classmethod
    def decode(cls, text: bytes) -> Self:
        return msgspec.json.decode(text, type=cls)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @property
    def folder(self) -> str:
        """The prefix of all hidden keys of this upload."""
        return f"{UPLOADS_PREFIX}{self.id}/"

    @property
    def goal(self) -> str:
        """The key that is written by the service's own upload."""
        return f"{self.folder}file" if self.renamed else self.key

    @property
    def replaces_goal(self) -> bool:
        return self.replace or self.renamed


@dataclass(frozen=True, slots=True)
class PartLimits:
    """What a service requires of parts."""

    max_number: int | None = None
    smallest: int = 1
    """Bytes of a part that is not the last one."""
    multiple: int = 1
    """The size of a part that is not the last one is a multiple of this."""
    equal: bool = False
    """Whether all parts but the last one have the same size."""
    takes_last: bool = True
    """Whether the last part can be sent as any other. If not, it is given to `PartStore.commit`."""
    in_order: bool = False
    """Whether a part can be sent only after the previous one. Then only the last result is kept."""

    def part_size(self, state: UploadState, number: int, offset: int) -> int:
        """How large the part with this number and offset is to be, so that the numbers suffice."""
        if self.max_number is None:
            return MIN_PART_BYTES
        if self.equal:
            known = part_sizes(state.size, self.max_number * 9 // 10)
            return known(1) if state.size is not None else _EQUAL_BYTES
        if state.size is not None:
            return max(MIN_PART_BYTES, self._needed(state, number, offset))
        planned = part_sizes(None, self.max_number)(number)
        return planned if planned < MAX_PART_BYTES else max(planned, self._needed(state, number, offset))

    def _needed(self, state: UploadState, number: int, offset: int) -> int:
        """The size of all parts from this one on, with which the numbers suffice for the largest possible file."""
        assert self.max_number is not None
        size = max_file_bytes(self.max_number) if state.size is None else state.size
        left = self.max_number + 1 - number
        # Some are kept for writers that die: a tenth, and towards the end 64.
        usable = max(1, min(left * 9 // 10, max(left - 64, left // 2)))
        return -(-(size - offset) // (usable * MIB)) * MIB

    def sendable(self, state: UploadState, number: int, offset: int, count: int) -> int:
        """How many of the last `count` bytes of a request, which do not fill a part, can be sent as one."""
        if self.takes_last and state.size is not None and offset + count >= state.size:
            return count
        count -= count % self.multiple
        if self.equal or count < self.smallest or not self._spares(state, number, offset, count):
            return 0
        return count

    def _spares(self, state: UploadState, number: int, offset: int, count: int) -> bool:
        """Whether there are numbers enough for a part that is smaller than planned."""
        if self.max_number is None:
            return True
        planned = self._needed(state, 1, 0)
        most = max(MIN_PART_BYTES, planned if state.size is not None else planned * 9 // 8)
        return number <= self.max_number * 9 // 10 and self._needed(state, number + 1, offset + count) <= most


class PartStore(ABC):
    """One upload in a service. It reads the state, and the caller writes it. Errors are those of `portico.model.errors`."""

    limits: PartLimits
    kept: KeptFile | None = None
    """How the file that is replaced is kept."""
    look: Look | None = None
    """What there is at the goal, if it was looked at before."""
    if_match: str | None = None
    """The only version that is replaced, if the client has chosen one."""
    begins: ClassVar[bool] = True
    """Whether the service has to know that an upload begins."""

    async def replacing(
        self, name: str, replaces: bool, commit: Callable[[bool, str | None], Awaitable[Entry]]
    ) -> Entry:
        return await over_seen(self.kept, self.look, name, replaces, self.if_match, commit)

    @abstractmethod
    async def begin(self) -> str:
        """Begin an upload to `UploadState.goal`. That it may have begun was saved before; the result is saved next."""

    @abstractmethod
    async def send(self, part: UploadPart) -> str:
        """Send a part, numbered as in the file; returns what `commit` needs of it. `NotFound`: the upload is lost."""

    @abstractmethod
    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        """Make the object at `goal` of all parts, and of `last` if it is not empty. `NotFound`: the upload is lost."""

    @abstractmethod
    async def put(self, whole: UploadPart) -> Entry:
        """Make the object at `goal` by one request, with the same mark and the same promises as `commit`."""

    @abstractmethod
    async def put_parts(self, parts: Parts) -> Entry:
        """Make the object at `goal` of a stream. If that fails, only what the service or the upload log removes is left."""

    @abstractmethod
    async def own(self, key: str, size: int) -> Entry | None:
        """The object at the key, if it has this upload's mark and size."""

    @abstractmethod
    async def abort(self) -> None:
        """Remove what the service keeps of the upload; it may be gone already. A file that was committed stays."""

    async def now(self) -> datetime | None:
        """The time by the service's clock, if `abort_lost` needs it."""
        return None

    async def abort_lost(self) -> None:  # noqa: B027
        """Remove uploads that began at `UploadState.intents`, and are not the session."""
