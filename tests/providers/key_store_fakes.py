"""An object store in memory, whose process can die before or after any request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from secrets import token_hex

from portico.model.entries import Chunks, Download, Entry
from portico.model.errors import NotFound, already_exists
from portico.model.paths import Path
from portico.providers.contract.uploads import WriteOptions
from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import UploadPart
from portico.providers.objects.part_store import UPLOADS_PREFIX, PartLimits, PartStore, SentPart, UploadState
from portico.providers.objects.resumable import ResumableObjectUpload
from portico.providers.objects.service import KeyPage, ObjectService, Version, key_of

KIB = 1024
LIMITS = {
    "s3": PartLimits(100, smallest=5 * KIB),
    "r2": PartLimits(100, smallest=5 * KIB, equal=True),
    "azure": PartLimits(500),
    "gcs": PartLimits(multiple=256, smallest=256, takes_last=False, in_order=True),
}
PART = 8 * KIB


class Killed(BaseException):
    """The process dies: nothing after this happens, not even what handles errors."""


@dataclass
class Object:
    content: bytes
    mark: str
    etag: str = field(default_factory=lambda: token_hex(4))


@dataclass
class Bucket:
    """What outlives a process."""

    limits: PartLimits
    objects: dict[str, Object] = field(default_factory=dict)
    sessions: dict[str, dict[int, bytes]] = field(default_factory=dict)
    written: int = 0
    read: int = 0
    requests: list[str] = field(default_factory=list)
    dies_at: float = -1
    """At which request: before it at 3, after it at 3.5."""

    def before(self, request: str) -> None:
        self.requests.append(request)
        if self.dies_at == len(self.requests):
            raise Killed

    def after(self) -> None:
        if self.dies_at == len(self.requests) + 0.5:
            raise Killed


class _Pieces:
    def __init__(self, content: bytes) -> None:
        self._pieces = iter([content[:100], content[100:]] if content else [])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        return


class FakeParts(PartStore):
    def __init__(self, bucket: Bucket, state: UploadState) -> None:
        self.limits = bucket.limits
        self._bucket = bucket
        self._state = state

    async def begin(self) -> str:
        self._bucket.before("begin")
        session = token_hex(4)
        self._bucket.sessions[session] = {}
        self._bucket.after()
        return session

    async def send(self, part: UploadPart) -> str:
        self._bucket.before("send")
        parts = self._session()
        content = b"".join(part.chunks)
        assert len(content) == part.size
        assert self.limits.max_number is None or 1 <= part.number <= self.limits.max_number
        if self.limits.in_order:  # as a session: what it has already is not stored again
            have = sum(map(len, parts.values()))
            assert part.offset <= have
            content = content[have - part.offset :]
            assert part.size % self.limits.multiple == 0
        else:
            assert part.number not in parts, "a part number is used once"
        parts[len(parts) if self.limits.in_order else part.number] = content
        self._bucket.written += len(content)
        self._bucket.after()
        return token_hex(2)

    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        self._bucket.before("commit")
        assert last.size == 0 or not self.limits.takes_last
        sent = self._session()
        if self.limits.in_order:
            chosen = [*sent.values(), b"".join(last.chunks)]
        else:
            chosen = [sent[part.number] for part in parts]
            assert all(len(part) >= self.limits.smallest for part in chosen[:-1])
            assert not self.limits.equal or len({len(part) for part in chosen[:-1]}) <= 1
        entry = self._make(b"".join(chosen))
        assert entry.size == size
        del self._bucket.sessions[self._state.session]
        self._bucket.after()
        return entry

    async def put(self, whole: UploadPart) -> Entry:
        self._bucket.before("put")
        if self._state.goal.startswith(UPLOADS_PREFIX) and not self._state.renamed:
            assert whole.size
            assert self._state.goal not in self._bucket.objects
        entry = self._make(b"".join(whole.chunks))
        self._bucket.written += whole.size
        self._bucket.after()
        return entry

    async def own(self, key: str, size: int) -> Entry | None:
        found = self._bucket.objects.get(key)
        if found and found.mark == self._state.id and len(found.content) == size:
            return Entry(key, False, size, etag=found.etag)
        return None

    async def abort(self) -> None:
        self._bucket.before("abort")
        self._bucket.sessions.pop(self._state.session, None)
        self._bucket.after()

    async def now(self) -> datetime | None:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def abort_lost(self) -> None:
        assert self._state.intents
        for session in [name for name in self._bucket.sessions if name != self._state.session]:
            del self._bucket.sessions[session]

    put_parts = None  # type: ignore[assignment]

    def _session(self) -> dict[int, bytes]:
        parts = self._bucket.sessions.get(self._state.session)
        if parts is None:
            raise NotFound("no such upload")
        return parts

    def _make(self, content: bytes) -> Entry:
        state = self._state
        if state.goal in self._bucket.objects and not state.replaces_goal:
            raise already_exists(state.goal)
        made = self._bucket.objects[state.goal] = Object(content, state.id)
        return Entry(state.goal, False, len(content), etag=made.etag)


class FakeStore(ObjectService):
    max_page_size = 7

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.memory = MemoryBudget(2**20)

    def part_store(self, state: UploadState) -> FakeParts:
        return FakeParts(self.bucket, state)

    async def begin_upload(
        self, path: Path, _: str, options: WriteOptions = WriteOptions(), *, renamed: bool = False
    ) -> ResumableObjectUpload:
        chosen = {"replace": options.replace, "size": options.at_most, "modified": options.modified}
        return await self.begin(key_of(path), renamed=renamed, **chosen)

    async def resume_upload(
        self, state: bytes, *, known_offset: int | None = None, trusted: bool = True
    ) -> ResumableObjectUpload:
        return self.resumed(state)

    async def begin(self, key: str, **options: object) -> ResumableObjectUpload:
        chosen = {"replace": True, "renamed": False, "size": None, "modified": None} | options
        state = UploadState(token_hex(16), key, "text/plain", **chosen)  # type: ignore[arg-type]
        return ResumableObjectUpload(self, state, self.target)

    def resumed(self, state: bytes) -> ResumableObjectUpload:
        return ResumableObjectUpload(self, UploadState.decode(state), self.target)

    @asynccontextmanager
    async def target(self, path: Path) -> AsyncIterator[None]:
        assert path.segments
        yield

    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> KeyPage:
        keys = sorted(key for key in self.bucket.objects if key.startswith(prefix) and key > (token or ""))
        page = [Entry(key, False, etag=self.bucket.objects[key].etag) for key in keys[:size]]
        return KeyPage(page, [], keys[size - 1] if len(keys) > size else None)

    async def find(self, key: str) -> Entry | None:
        found = self.bucket.objects.get(key)
        return Entry(key, False, len(found.content), etag=found.etag) if found else None

    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        self.bucket.before("open")
        found = self.bucket.objects.get(key)
        if found is None:
            raise NotFound("no such object")
        size = len(found.content)
        self.bucket.read += size
        chunks: Chunks = _Pieces(found.content)
        return Download(Entry(key, False, size, etag=found.etag), 0, size, chunks)

    async def duplicate(
        self, source: Version, target: str, *, replace: bool, if_match: str | None = None, looked: bool = False
    ) -> None:
        assert if_match is None
        self.bucket.before("duplicate")
        found = self.bucket.objects.get(source.key)
        if found is None:
            raise NotFound("no such object")
        assert found.etag == source.etag
        if target in self.bucket.objects and not replace:
            raise already_exists(target)
        self.bucket.objects[target] = _copied(found)
        self.bucket.after()

    async def remove(self, keys: list[str]) -> None:
        self.bucket.before("remove")
        assert len(keys) <= self.max_page_size
        for key in keys:
            self.bucket.objects.pop(key, None)
        self.bucket.after()

    remove_version = store = list_page = walk = stat = read = write = None  # type: ignore[assignment]
    check_ancestors = make_folder = delete = copy = move = None  # type: ignore[assignment]


def _copied(source: Object) -> Object:
    return replace(source, etag=token_hex(4))
