"""Sending files: one, or many with several in each request and several requests at once.

What is repeated after a failure that may pass: whatever can be read again, and only the files that the gateway did not
name as stored. Where a name may be replaced, twice is the same as once. With `fail`, a file is sent again if the end of
its request never left, if the gateway cannot have begun, or if a look shows that it is not there. With
`rename`, only if the gateway cannot have stored it: a second time would make a second file.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from portico.client import files
from portico.client.entries import Entry, entry_of
from portico.client.errors import (
    COMMON,
    AlreadyExists,
    ClientError,
    ConnectionFailed,
    Forbidden,
    InvalidPath,
    NotAGateway,
    NotFound,
    SourceChanged,
    Temporary,
    TransfersFailed,
    WrongSize,
)
from portico.client.files import OnConflict
from portico.client.forms import Form, Outgoing
from portico.client.paths import check_name, clean, join, path_of, split, target
from portico.client.progress import Meter, Progress
from portico.client.receipts import Receipt, Received
from portico.client.session import Session, is_unheard
from portico.client.sources import Content, Uploadable, source_of
from portico.client.steps import Answer, Ask, Steps, Together, work

SMALL = 1024 * 1024
"""Files up to this size share requests."""
BATCH_FILES = 100
BATCH_BYTES = 8 * 1024 * 1024
_OPEN_FOLDERS = 64
"""For how many folders batches are filled at the same time."""


@dataclass(frozen=True, slots=True)
class Options:
    on_conflict: OnConflict | None = None
    verify: bool = False
    progress: Progress | None = None
    stored: Received | None = None


def outgoing(source: Uploadable, path: str, content_type: str | None = None) -> Outgoing:
    """A path that ends with a slash is a folder, in which the local file keeps its name."""
    if path.endswith("/") or not path:
        if not isinstance(source, str | os.PathLike):
            clean(path + "name")
            raise ValueError(f"{path!r} is a folder; add the name that the content shall have there")
        path = join(path, check_name(os.path.basename(os.path.abspath(source))))
    return Outgoing(clean(path), source_of(source), content_type)


def upload(session: Session, file: Outgoing, options: Options) -> Steps[Entry | None]:
    """The file as it was stored; None if it may have another name, and the gateway does not say which."""
    kept: list[Receipt] = []
    failures = yield from _send(session, [file], replace(options, stored=kept.append))
    for error in failures.values():
        raise error
    return kept[0].entry


def upload_all(
    session: Session, items: Iterable[tuple[Uploadable, str]], options: Options, limit: int
) -> Steps[None]:
    """Many files. What fails by itself is told at the end; what would meet all others ends it at once."""
    failures: dict[str, Exception] = {}

    def job(batch: list[Outgoing]) -> Steps[None]:
        if len(batch) > 1 or (batch[0].source.size or SMALL + 1) <= SMALL:
            batch = yield from work(lambda: _in_memory(batch, failures))
        try:
            failures.update((yield from _send(session, batch, options)))
        except OSError as error:
            failures[batch[0].path] = error

    yield Together(map(job, _batches(items, options, failures)), limit)
    if failures:
        raise TransfersFailed(failures)


def _batches(
    items: Iterable[tuple[Uploadable, str]], options: Options, failures: dict[str, Exception]
) -> Iterator[list[Outgoing]]:
    filling: dict[str, tuple[list[Outgoing], int]] = {}
    shared = options.on_conflict in (None, "replace")
    for source, path in items:
        try:
            file = outgoing(source, path)
        except (OSError, ClientError) as error:
            failures[path] = error
            continue
        size = file.source.size
        if not shared or size is None or size > SMALL:
            yield [file]
            continue
        folder = split(file.path)[0]
        batch, total = filling.pop(folder, ([], 0))
        if total + size > BATCH_BYTES or file.name in {other.name for other in batch}:
            yield batch
            batch, total = [], 0
        batch.append(file)
        if len(batch) == BATCH_FILES:
            yield batch
            continue
        filling[folder] = (batch, total + size)
        if len(filling) > _OPEN_FOLDERS:
            yield filling.pop(next(iter(filling)))[0]
    for batch, _ in filling.values():
        yield batch


def _in_memory(batch: list[Outgoing], failures: dict[str, Exception]) -> list[Outgoing]:
    """The batch with its contents: what cannot be read must not break off a request with others in it."""
    read = []
    for file in batch:
        try:
            read.append(replace(file, source=file.source.read()))
        except (OSError, SourceChanged) as error:
            failures[file.path] = error
    return read


def _again(batch: list[Outgoing], failures: dict[str, Exception]) -> list[Outgoing]:
    """The batch with the contents that its files have by now."""
    renewed = []
    for file in batch:
        source = file.source
        try:
            renewed.append(replace(file, source=source.again()) if isinstance(source, Content) else file)
        except (OSError, SourceChanged) as error:
            failures[file.path] = error
    return renewed


def _send(session: Session, batch: list[Outgoing], options: Options) -> Steps[Mapping[str, Exception]]:
    """Send files to one folder; those that could not be stored for their own sake, and why."""
    failures: dict[str, Exception] = {}
    lost = False
    patience = session.patience()
    left = batch
    while left:
        meter = Meter(left[0].path, left[0].source.size, options.progress) if len(batch) == 1 else None
        form = Form(left, meter)
        rest: list[Outgoing] = []
        place = target(split(left[0].path)[0], onConflict=options.on_conflict)
        try:
            headers = {"Content-Type": form.content_type, "Prefer": "return=representation"}
            began = time.monotonic()
            answer = yield from session.signed(Ask("POST", place, headers, body=form, patient=True))
            stored = _reported(left, answer, time.monotonic() - began)
        except Temporary as error:
            stored, rest = _by_fate(left, error)
            if stored:
                patience.renew()
            if not form.replayable or not (yield from _may_repeat(session, form, left[0], error, options)):
                raise
            yield from patience.after(error)
            # Of several files the first may stand, even if the end of the request never left.
            broken = isinstance(error, ConnectionFailed) or not is_unheard(error)
            lost = lost or (broken and (form.closed or len(left) > 1))
            rest = yield from work(partial(_again, rest, failures))
        except ClientError as error:
            stored, rest = _by_fate(left, error)
            culprits = [file for file in rest if file.name in error.failed]
            if isinstance(error, COMMON):
                raise
            if not culprits and not stored:
                culprits = rest
            rest = [file for file in rest if file not in culprits]
            for file in culprits:
                if lost and isinstance(error, AlreadyExists) and (yield from _stands(session, file)):
                    stored.append(file)
                else:
                    failures[file.path] = error
        failures |= yield from _looked_at(session, stored, options)
        left = rest
    return failures


def _reported(batch: list[Outgoing], answer: Answer, seconds: float) -> list[Outgoing]:
    """The batch with what the gateway says of it; one that is older than this client says nothing."""
    entries: list[Entry] = []
    try:
        if answer.status == 200:
            entries = [entry_of(item) for item in answer.json()["content"]]
        elif path := path_of(answer.headers.get("content-location", "")):
            entries = [Entry(split(path)[1], path, is_folder=False, size=batch[0].sent)]
        for entry in entries:
            clean(entry.path)
    except (NotAGateway, InvalidPath, KeyError, TypeError):
        return batch
    if len(entries) != len(batch):
        return batch
    return [replace(file, entry=entry, seconds=seconds) for file, entry in zip(batch, entries, strict=True)]


def _by_fate(batch: list[Outgoing], error: ClientError) -> tuple[list[Outgoing], list[Outgoing]]:
    """Those that stand in spite of the error, and the others."""
    stored = [file for file in batch if file.name in error.stored]
    return stored, [file for file in batch if file.name not in error.stored]


def _may_repeat(
    session: Session, form: Form, file: Outgoing, error: Temporary, options: Options
) -> Steps[bool]:
    if options.on_conflict in (None, "replace") or not form.closed:
        return True
    if options.on_conflict == "rename":
        return not isinstance(error, ConnectionFailed) and is_unheard(error)
    if not isinstance(error, ConnectionFailed) and is_unheard(error):
        return True
    try:
        yield from files.stat(session, file.path)
    except NotFound:
        return True
    return False


def _stands(session: Session, file: Outgoing) -> Steps[bool]:
    """Whether it seems to be the file itself that is in its way, sent before by a request whose answer was lost."""
    try:
        return (yield from files.stat(session, file.path)).size == file.sent
    except (NotFound, Forbidden):
        return False


def _looked_at(session: Session, stored: list[Outgoing], options: Options) -> Steps[dict[str, ClientError]]:
    """Tell of the files that stand; those that are not as long as what was sent, if that is to be verified."""
    failures: dict[str, ClientError] = {}
    for file in stored:
        if file.entry is None and options.on_conflict != "rename":
            file.entry = Entry(file.name, file.path, is_folder=False, size=file.sent)
        if options.verify and file.entry:
            path = file.entry.path
            size = (yield from files.stat(session, path)).size
            if size != file.sent:
                detail = f"{path} has {size} bytes at the gateway, but {file.sent} were sent."
                failures[file.path] = WrongSize(detail)
                continue
        if options.stored:
            options.stored(file.receipt)
        if options.progress:
            options.progress(file.path, file.sent, file.sent)
    return failures
