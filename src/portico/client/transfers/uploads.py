"""Uploads of one file, or of many in shared and concurrent requests.

After a temporary failure, the files are sent again that can be read again and that the gateway did not report as stored.
Requests have an idempotency key: the same files are stored once.

If the gateway ignores keys, as older ones do, repeating is safe if existing files may be replaced. With `fail`, a file is
sent again if the request was not sent completely, if the gateway cannot have processed it, or if the file does not exist.
With `rename`, it is sent again only if the gateway cannot have stored it, since a retry could create a second file.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from portico.client import files
from portico.client.auth.backoff import is_unprocessed
from portico.client.auth.session import AuthSession
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
    RequestRunning,
    Temporary,
    TransfersFailed,
    WrongSize,
)
from portico.client.files import OnConflict
from portico.client.http.effects import Concurrently, Operation, Request, Response, blocking
from portico.client.http.idempotency import new_key
from portico.client.paths import clean, path_of, split, target
from portico.client.transfers.batches import SMALL, batches, read_all, refresh
from portico.client.transfers.multipart import MultipartForm, UploadItem
from portico.client.transfers.progress import Meter, Progress, Receipt, Received
from portico.client.transfers.sources import Source, Uploadable


@dataclass(frozen=True, slots=True)
class Options:
    on_conflict: OnConflict | None = None
    verify: bool = False
    progress: Progress | None = None
    stored: Received | None = None


def upload(session: AuthSession, file: UploadItem, options: Options) -> Operation[Entry | None]:
    """Upload one file; return None if it may have been renamed and the gateway does not report the name."""
    receipts: list[Receipt] = []
    failures = yield from _send(session, [file], replace(options, stored=receipts.append))
    for error in failures.values():
        raise error
    return receipts[0].entry


def upload_all(
    session: AuthSession, items: Iterable[tuple[Uploadable, str]], options: Options, limit: int
) -> Operation[None]:
    """Upload many files. Failures of single files are raised at the end, failures that affect all files at once."""
    failures: dict[str, Exception] = {}

    def job(batch: list[UploadItem]) -> Operation[None]:
        if len(batch) > 1 or (batch[0].source.size or SMALL + 1) <= SMALL:
            batch = yield from blocking(lambda: read_all(batch, failures))
        try:
            failures.update((yield from _send(session, batch, options)))
        except OSError as error:
            failures[batch[0].path] = error

    shared = options.on_conflict in (None, "replace")
    yield Concurrently(map(job, batches(items, failures, shared=shared)), limit)
    if failures:
        raise TransfersFailed(failures)


def _send(
    session: AuthSession, batch: list[UploadItem], options: Options
) -> Operation[Mapping[str, Exception]]:
    """Send files to one folder; return the failures of single files."""
    failures: dict[str, Exception] = {}
    lost = False
    backoff = session.backoff()
    left = batch
    key: dict[str, str] = {}
    keyed: list[Source] = []
    """What the key is for."""
    while left:
        if (sources := [file.source for file in left]) != keyed:
            key, keyed = new_key(), sources
        meter = Meter(left[0].path, left[0].source.size, options.progress) if len(batch) == 1 else None
        form = MultipartForm(left, meter)
        rest: list[UploadItem] = []
        place = target(split(left[0].path)[0], onConflict=options.on_conflict)
        try:
            headers = {"Content-Type": form.content_type, "Prefer": "return=representation", **key}
            began = time.monotonic()
            response = yield from session.request_once(
                Request("POST", place, headers, body=form, long_running=True)
            )
            stored = _reported(left, response, time.monotonic() - began)
        except Temporary as error:
            stored, rest = _split_stored(left, error)
            if stored:
                backoff.reset()
            if not form.replayable:
                raise
            only_with_key = False
            if not isinstance(error, RequestRunning) and _is_doubtful(form, error, options):
                only_with_key = yield from session.honours_keys()
                if not only_with_key and not (yield from _may_repeat(session, left[0], options)):
                    raise
            yield from backoff.wait(error)
            # Of several files, the first may be stored even if the request was not sent completely.
            broken = isinstance(error, ConnectionFailed) or not is_unprocessed(error)
            lost = lost or (broken and (form.closed or len(left) > 1))
            rest = yield from blocking(partial(refresh, rest, failures))
            if only_with_key and [file.source for file in rest] != keyed:
                raise  # another content is another file, and the first one may be stored
        except ClientError as error:
            stored, rest = _split_stored(left, error)
            rejected = [file for file in rest if file.name in error.failed]
            if isinstance(error, COMMON):
                raise
            if not rejected and not stored:
                rejected = rest
            rest = [file for file in rest if file not in rejected]
            for file in rejected:
                if (
                    lost
                    and isinstance(error, AlreadyExists)
                    and not (yield from session.honours_keys())
                    and (yield from _was_stored(session, file))
                ):
                    stored.append(file)
                else:
                    failures[file.path] = error
        failures |= yield from _confirm(session, stored, options)
        left = rest
    return failures


def _reported(batch: list[UploadItem], response: Response, seconds: float) -> list[UploadItem]:
    """The batch with the entries that the gateway reports; an older gateway reports none."""
    entries: list[Entry] = []
    try:
        if response.status == 200:
            entries = [entry_of(item) for item in response.json()["content"]]
        elif path := path_of(response.headers.get("content-location", "")):
            entries = [Entry(split(path)[1], path, is_folder=False, size=batch[0].sent)]
        for entry in entries:
            clean(entry.path)
    except (NotAGateway, InvalidPath, KeyError, TypeError):
        return batch
    if len(entries) != len(batch):
        return batch
    return [replace(file, entry=entry, seconds=seconds) for file, entry in zip(batch, entries, strict=True)]


def _split_stored(batch: list[UploadItem], error: ClientError) -> tuple[list[UploadItem], list[UploadItem]]:
    """The files that were stored in spite of the error, and the others."""
    stored = [file for file in batch if file.name in error.stored]
    return stored, [file for file in batch if file.name not in error.stored]


def _is_doubtful(form: MultipartForm, error: Temporary, options: Options) -> bool:
    """Whether the file may have been stored, so that sending it again could do harm."""
    if options.on_conflict in (None, "replace") or not form.closed:
        return False
    return isinstance(error, ConnectionFailed) or not is_unprocessed(error)


def _may_repeat(session: AuthSession, file: UploadItem, options: Options) -> Operation[bool]:
    """Whether a gateway that ignores keys has certainly not stored the file."""
    if options.on_conflict == "rename":
        return False
    try:
        yield from files.stat(session, file.path)
    except NotFound:
        return True
    return False


def _was_stored(session: AuthSession, file: UploadItem) -> Operation[bool]:
    """Whether the existing file seems to be this one, stored by a request whose response was lost."""
    try:
        return (yield from files.stat(session, file.path)).size == file.sent
    except (NotFound, Forbidden):
        return False


def _confirm(
    session: AuthSession, stored: list[UploadItem], options: Options
) -> Operation[dict[str, ClientError]]:
    """Report stored files; with `verify`, return those whose size is wrong."""
    failures: dict[str, ClientError] = {}
    for file in stored:
        if file.entry is None and options.on_conflict != "rename":
            file.entry = Entry(file.name, file.path, is_folder=False, size=file.sent)
        if options.verify and file.entry:
            path = file.entry.path
            size = (yield from files.stat(session, path)).size
            if size != file.sent:
                detail = f"{path} has {size} bytes on the gateway, but {file.sent} were sent."
                failures[file.path] = WrongSize(detail)
                continue
        if options.stored:
            options.stored(file.receipt)
        if options.progress:
            options.progress(file.path, file.sent, file.sent)
    return failures
