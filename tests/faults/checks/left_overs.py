"""Uploads in every way, with every outcome, on every service: the storage holds what the answer said, and nothing else.

Looked at from behind the gateway: multipart uploads, blocks, sessions, staged files and hidden objects count, and rows of
uploads that nobody can continue.
"""

import asyncio
import random
import sqlite3
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

from portico.api.tus import MEDIA_TYPE, UPLOADS

from ...gateways import FILES
from ..figures import Effort, Figure, Line, Lines, Set, none_of
from ..raw_http import MULTIPART, TRANSPORT, Answer, Wire, form, head

_SIZE = 10 * 2**20
"""More than a part of any service, and more than a body that is held in memory until it is verified."""
_SENT = 9 * 2**20
"""Of a body that breaks off: more than a part."""
_SMALL = 2**18
_PATIENCE = 60.0
"""Seconds after which something is left for good."""
_CONTENT = random.Random(25).randbytes(_SIZE)

Checked = tuple[str, Callable[[bytes], str]]
CHECKSUM: Checked = "Upload-Checksum", lambda content: f"sha256 {_base64(sha256(content).digest())}"
DIGEST: Checked = "Content-Digest", lambda content: f"sha-256=:{_base64(sha256(content).digest())}:"


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


@dataclass
class Trial:
    """One upload, by one way, with one outcome."""

    set_: Set
    name: str
    outcome: str
    content: bytes = _CONTENT
    held: dict[str, bytes] = field(default_factory=dict)
    """What the storage has to hold."""
    wrong: list[str] = field(default_factory=list)
    lost: str = ""
    """The kind of its record, if nobody can continue it after a kill."""
    trashed: list[str] = field(default_factory=list)
    """The states of what was replaced."""
    known: set[str] = field(default_factory=set)
    """Left by trials before."""

    @property
    def breaks(self) -> bool:
        return self.outcome in ("cut", "killed")

    async def send(
        self,
        method: str,
        target: str,
        *headers: str,
        body: bytes = b"",
        breaks: bool = False,
        status: int = 0,
        before: bytes = b"",
    ) -> Answer | None:
        """The answer; None if the body breaks off, as the outcome wants it, once some of it is in the storage."""
        gateway = self.set_.gateway
        wire = await Wire.to(gateway.port)
        try:
            request = head(method, target, gateway.token, *headers, f"Content-Length: {len(before + body)}")
            if breaks:
                await wire.send(request + before + body[: min(_SENT, len(body) - _SMALL)])
                await self.until(self._has_begun, "nothing of a body reached the storage")
                if self.outcome == "killed":
                    await asyncio.to_thread(gateway.kill)
                    self._age()
                    await asyncio.to_thread(gateway.start)
                return None
            try:
                await wire.send(request + before + body)
            except ConnectionError:
                pass  # it was refused before it was all sent
            answer = await wire.answer(bodiless=method == "HEAD")
        finally:
            wire.reset()
        if answer.status != status:
            self.wrong.append(f"{method} answered {answer.status} {answer.code}, not {status}")
        return answer

    async def _has_begun(self) -> bool:
        return self.set_.storage.has_begun(await self.left_over())

    async def left_over(self) -> list[str]:
        return [each for each in await self.set_.storage.left_over() if each not in self.known]

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                while not await condition():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.wrong.append(what)

    async def take_name(self) -> None:
        """Let there be a file of this name."""
        await self.send("PUT", f"{FILES}/{self.name}", body=b"old", status=201)
        self.held[self.name] = b"old"

    def stored(self, name: str = "") -> None:
        self.held[name or self.name] = self.content

    def _age(self) -> None:
        """Let records of uploads that nobody can continue be as old as they can get. Every start of a gateway sweeps."""
        statement = "UPDATE uploads SET expires_at = 0, owned_until = 0 WHERE kind = ?"
        with closing(sqlite3.connect(self.set_.gateway.home / "portico.db", timeout=60)) as database:
            database.execute(statement, [self.lost])
            database.commit()
        self.set_.storage.age()

    async def check(self, before: Mapping[str, bytes]) -> None:
        left: list[str] = []

        async def is_clean() -> bool:
            found = [*await self.left_over(), *self._rows()]
            recorded = self.lost != "plain"
            forgets = partial(self.set_.storage.forgets, outcome=self.outcome, recorded=recorded)
            left[:] = [each for each in found if not forgets(each)]
            return not left

        await self.until(is_clean, "something is left")
        wanted = {**before, **{name: sha256(content).digest() for name, content in self.held.items()}}
        found = await self.set_.storage.files()
        for name in wanted.keys() ^ found.keys():
            self.wrong.append(f"'{name}' is {'there' if name in found else 'not there'}")
        self.wrong += [f"'{name}' has other content" for name in wanted if wanted[name] != found.get(name)]
        self.wrong += left
        if (trashed := self._trashed()) != self.trashed:
            self.wrong.append(f"the trash has {trashed}, not {self.trashed}")
        self.known |= {*await self.left_over(), *self._rows()}

    def _rows(self) -> list[str]:
        query = "SELECT kind || ' upload ' || id FROM uploads WHERE status != 'finished'"
        return [row for row in self._select(query) if row not in self.known]

    def _trashed(self) -> list[str]:
        return self._select("SELECT status FROM trash WHERE path LIKE ?", f"%/{self.name}")

    def _select(self, query: str, *parameters: str) -> list[str]:
        with closing(sqlite3.connect(self.set_.gateway.home / "portico.db", timeout=60)) as database:
            return [row for (row,) in database.execute(query, parameters)]


# One request


async def by_form(trial: Trial) -> None:
    trial.lost = "plain"
    refused = trial.outcome == "refused"
    if refused:
        await trial.take_name()
    frame, _, end = form(trial.name, b"\0").partition(b"\0")
    target = f"{FILES}/?onConflict=fail"
    body = trial.content + end
    await trial.send(
        "POST", target, MULTIPART.strip(), body=body, before=frame, breaks=trial.breaks, status=409 if refused else 204
    )
    if trial.outcome == "done":
        trial.stored()


async def by_put(trial: Trial, checked: Checked | None = None) -> None:
    trial.lost = "plain"
    headers = {"refused": ["If-None-Match: *"], "wrong": []}.get(trial.outcome, [])
    if trial.outcome == "refused":
        await trial.take_name()
    if checked:
        headers = [*headers, _header(trial, checked, trial.content)]
    status = {"refused": 412, "wrong": 400}.get(trial.outcome, 201)
    await trial.send("PUT", f"{FILES}/{trial.name}", *headers, body=trial.content, breaks=trial.breaks, status=status)
    if trial.outcome == "done":
        trial.stored()


async def over_a_file(trial: Trial) -> None:
    """The old file is in the trash, or in its place."""
    trial.lost = "plain"
    await trial.take_name()
    await trial.send("PUT", f"{FILES}/{trial.name}", body=trial.content, breaks=trial.breaks, status=204)
    if trial.outcome == "done":
        trial.stored()
        trial.trashed = ["kept"]


def _header(trial: Trial, checked: Checked, body: bytes) -> str:
    name, value = checked
    return f"{name}: {value(b'other' if trial.outcome == 'wrong' else body)}"


# tus


async def by_tus(trial: Trial, *, requests: int = 1, checked: Checked | None = None, on_conflict: str = "fail") -> None:
    """An upload that breaks off can be continued: here it is ended instead, unless nothing of it was kept."""
    if (trial.outcome == "refused" and not checked) or on_conflict == "rename":
        await trial.take_name()
    size = len(trial.content)
    metadata = f"Upload-Metadata: filename {_base64(trial.name.encode())},onConflict {_base64(on_conflict.encode())}"
    if trial.outcome == "refused" and not checked:
        await trial.send("POST", UPLOADS, "Tus-Resumable: 1.0.0", f"Upload-Length: {size}", metadata, status=409)
        return
    announced = size - 1 if trial.outcome == "refused" else size
    address = await _created(trial, f"Upload-Length: {announced}", metadata)
    status = {"wrong": 400 if checked == DIGEST else 460, "refused": 413}.get(trial.outcome, 204)
    step = -(-size // requests)
    for start in range(0, size, step):
        last = start + step >= size
        if trial.outcome == "ended" and last:
            break
        body = trial.content[start : start + step]
        headers = [_header(trial, checked, body)] if checked else []
        await _patch(trial, address, start, body, *headers, breaks=trial.breaks and last, status=status)
    if trial.outcome == "done":
        stem, dot, end = trial.name.partition(".")
        trial.stored(f"{stem} (1){dot}{end}" if on_conflict == "rename" else "")
        return
    if checked and trial.outcome != "ended":  # nothing of the body was kept, although the upload is still there
        await trial.until(lambda: _is_clean(trial), "a body that was not verified is left")
    await trial.send("DELETE", address, "Tus-Resumable: 1.0.0", status=204)


async def _is_clean(trial: Trial) -> bool:
    return not await trial.left_over()


async def with_creation(trial: Trial) -> None:
    """The body comes with the creation, so that a client that is cut off never learns of the upload."""
    trial.lost = "resumable"
    metadata = f"Upload-Metadata: filename {_base64(trial.name.encode())}"
    headers = "Tus-Resumable: 1.0.0", f"Upload-Length: {len(trial.content)}", f"Content-Type: {MEDIA_TYPE}"
    await trial.send("POST", UPLOADS, *headers, metadata, body=trial.content, breaks=trial.breaks, status=201)
    if trial.outcome == "done":
        trial.stored()


async def by_concatenation(trial: Trial, *, checked: Checked | None = None) -> None:
    half = len(trial.content) // 20
    pieces = trial.content[:half], trial.content[half:]
    parts = []
    for piece in pieces:
        last = piece is pieces[-1]
        parts.append(await _created(trial, f"Upload-Length: {len(piece)}", "Upload-Concat: partial"))
        headers = []
        if checked:
            name, value = checked
            headers = [f"{name}: {value(b'other' if last and trial.outcome == 'wrong' else piece)}"]
        status = 460 if last and trial.outcome == "wrong" else 204
        await _patch(trial, parts[-1], 0, piece, *headers, breaks=trial.breaks and last, status=status)
    if trial.outcome == "refused":
        await trial.take_name()
    if trial.outcome in ("done", "refused"):
        metadata = f"Upload-Metadata: filename {_base64(trial.name.encode())},onConflict {_base64(b'fail')}"
        concat = f"Upload-Concat: final;{' '.join(parts)}"
        status = 201 if trial.outcome == "done" else 409
        await trial.send("POST", UPLOADS, "Tus-Resumable: 1.0.0", concat, metadata, status=status)
    if trial.outcome == "done":
        trial.stored()
        return
    for part in parts:
        await trial.send("DELETE", part, "Tus-Resumable: 1.0.0", status=204)


async def _created(trial: Trial, *headers: str) -> str:
    answer = await trial.send("POST", UPLOADS, "Tus-Resumable: 1.0.0", *headers, status=201)
    return (answer and answer.header("location")) or f"{UPLOADS}/none"


async def _patch(
    trial: Trial, address: str, offset: int, body: bytes, *headers: str, breaks: bool, status: int
) -> None:
    fixed = "Tus-Resumable: 1.0.0", f"Upload-Offset: {offset}", f"Content-Type: {MEDIA_TYPE}"
    await trial.send("PATCH", address, *fixed, *headers, body=body, breaks=breaks, status=status)


Way = Callable[[Trial], Awaitable[None]]
WAYS: Mapping[str, tuple[Way, str]] = {
    "form": (by_form, "done refused cut killed"),
    "PUT": (by_put, "done refused cut killed"),
    "PUT with a digest": (partial(by_put, checked=DIGEST), "done refused wrong cut killed"),
    "PUT over a file": (over_a_file, "done cut killed"),
    "tus": (by_tus, "done refused cut killed"),
    "tus in several requests": (partial(by_tus, requests=3), "done ended cut killed"),
    "tus under a free name": (partial(by_tus, on_conflict="rename"), "done cut"),
    "tus with a checksum": (partial(by_tus, checked=CHECKSUM), "done refused wrong cut killed"),
    "tus with checksums": (partial(by_tus, checked=CHECKSUM, requests=3), "ended"),
    "tus with a digest": (partial(by_tus, checked=DIGEST), "done wrong cut"),
    "tus with its creation": (with_creation, "done cut killed"),
    "tus concatenation": (by_concatenation, "done refused cut killed ended"),
    "tus concatenation with checksums": (partial(by_concatenation, checked=CHECKSUM), "done wrong cut killed"),
}
SMALL = "PUT with a digest", "tus with a checksum", "tus with a digest"
"""Ways that are also tried with a body that is held in memory."""

BRIEFLY = {
    ("tus with a checksum", "wrong"),
    ("tus with a checksum", "cut"),
    ("tus with a checksum", "killed"),
    ("tus under a free name", "cut"),
    ("tus concatenation", "refused"),
    ("PUT", "killed"),
    ("PUT over a file", "done"),
    ("tus in several requests", "cut"),
}
"""What `make test` tries: whatever has to be cleaned up by somebody else than the request that failed."""


async def every_outcome(effort: Effort, kind: str) -> list[Figure]:
    wrong: list[str] = []
    known: set[str] = set()
    tried = 0
    async with effort.gateway(kind=kind) as set_:
        for way, (run, outcomes) in WAYS.items():
            for outcome in outcomes.split():
                sizes = [_SIZE, _SMALL] if way in SMALL and outcome in ("done", "wrong") else [_SIZE]
                for size in sizes:
                    if not effort.long and (size == _SMALL or (way, outcome) not in BRIEFLY):
                        continue
                    tried += 1
                    trial = Trial(set_, f"{tried}.bin", outcome, _CONTENT[:size], known=known)
                    before = await set_.storage.files()
                    try:
                        await run(trial)
                        await trial.check(before)
                    except TRANSPORT as error:
                        trial.wrong.append(repr(error))
                    flaws = [f"{way}, {outcome}, {size} bytes: {each}" for each in trial.wrong]
                    for flaw in flaws:
                        effort.say(f"{kind}: {flaw}")
                    wrong += flaws
    return [none_of(f"{kind}: uploads whose storage is not as the answer said", tried, wrong)]


def _line(kind: str) -> Line:
    return lambda effort: every_outcome(effort, kind)


LINES: Lines = {
    f"left-over-{kind}": _line(kind) for kind in ("local", "s3", "s3-swift", "azure-blob", "azure-files", "gcs")
}
