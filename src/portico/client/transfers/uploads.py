"""Uploads of one file, or of many in shared and concurrent requests.

Large files are sent in parts (`resumable`). A file that is alone in its request is its body (`PUT`); several are a form.

After a temporary failure, the files are sent again that can be read again and that the gateway did not report as stored.
Requests have an idempotency key: the same files are stored once.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from portico.client import files
from portico.client.auth.backoff import is_unprocessed
from portico.client.auth.session import AuthSession
from portico.client.entries import Entry
from portico.client.errors import (
    COMMON,
    AlreadyExists,
    ClientError,
    ConnectionFailed,
    Forbidden,
    NotFound,
    RequestRunning,
    Temporary,
    TransfersFailed,
    WrongDigest,
    WrongSize,
)
from portico.client.http.effects import Concurrently, Operation, Request, blocking, new_key
from portico.client.paths import split, target
from portico.client.transfers.batches import SMALL, batches, read_all, refresh
from portico.client.transfers.multipart import FileBody, MultipartForm, UploadItem, digest_text, reported
from portico.client.transfers.progress import Meter, Receipt
from portico.client.transfers.resumable_upload import UploadOptions
from portico.client.transfers.sources import Source, Uploadable

HASHED_BEFORE = 8 * 1024 * 1024
"""A file up to this size is read and hashed before it is sent, so that the gateway can refuse what does not match. A larger
one is hashed while it is sent, and its digest compared with the one that the gateway returns."""


def upload(session: AuthSession, file: UploadItem, options: UploadOptions) -> Operation[Entry | None]:
    """Upload one file; return None if it may have been renamed and the gateway does not report the name."""
    receipts: list[Receipt] = []
    failures: dict[str, Exception] = {}
    batch = yield from _prepared([file], options, failures)
    failures |= yield from _send(session, batch, replace(options, stored=receipts.append))
    for error in failures.values():
        raise error
    return receipts[0].entry


def upload_all(
    session: AuthSession, items: Iterable[tuple[Uploadable, str]], options: UploadOptions, limit: int
) -> Operation[None]:
    """Upload many files. Failures of single files are raised at the end, failures that affect all files at once."""
    failures: dict[str, Exception] = {}

    def job(batch: list[UploadItem]) -> Operation[None]:
        if len(batch) > 1 or (batch[0].source.size or SMALL + 1) <= SMALL:
            batch = yield from blocking(lambda: read_all(batch, failures))
        try:
            prepared = yield from _prepared(batch, options, failures)
            failures.update((yield from _send(session, prepared, options)))
        except OSError as error:
            failures[batch[0].path] = error

    shared = options.on_conflict in (None, "replace")
    yield Concurrently(map(job, batches(items, failures, shared=shared)), limit)
    if failures:
        raise TransfersFailed(failures)


def _prepared(
    batch: list[UploadItem], options: UploadOptions, failures: dict[str, Exception]
) -> Operation[list[UploadItem]]:
    """The files with all that is said of them before they are sent. Unreadable files go to `failures`."""
    if options.times:
        batch = [replace(file, modified=_modified(file.source.modified_ns)) for file in batch]
    hashed = [file for file in batch if options.verifies(file) and (file.source.size or 0) <= HASHED_BEFORE]
    if not any(file.source.size is not None for file in hashed):
        return batch
    return (yield from blocking(lambda: read_all(batch, failures, hashed=hashed)))


def _modified(nanoseconds: int | None) -> str | None:
    """A time as the gateway takes it; it takes none before 1970."""
    if nanoseconds is None or nanoseconds < 0:
        return None
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9 // 1000:06}"


def _send(session: AuthSession, batch: list[UploadItem], options: UploadOptions) -> Operation[Mapping[str, Exception]]:
    """Send files to one folder; return the failures of single files."""
    failures: dict[str, Exception] = {}
    if len(batch) == 1 and options.resumable:
        try:
            if file := (yield from options.resumable.send(batch[0], options)):
                return (yield from _confirm(session, [file], replace(options, verify=False)))
        except COMMON:
            raise
        except ClientError as error:
            return {batch[0].path: error}
    lost_with: dict[str, str] | None = None
    """The key of an attempt that may have stored files without reporting them."""
    only_with_key = False
    """Whether nothing but the key prevents a second file."""
    backoff = session.backoff()
    left = batch
    key: dict[str, str] = {}
    keyed: list[Source] = []
    """What the key is for."""
    while left:
        if (sources := [file.source for file in left]) != keyed:
            key, keyed = new_key(), sources
        request, body = _request(left, options, key)
        rest: list[UploadItem] = []
        try:
            began = time.monotonic()
            response = yield from session.request_once(request)
            stored = reported(left, response, time.monotonic() - began)
        except Temporary as error:
            stored, rest = _split_stored(left, error)
            if stored:
                backoff.reset()
            if not body.replayable:
                raise
            broken = isinstance(error, ConnectionFailed) or not is_unprocessed(error)
            replaces = options.on_conflict in (None, "replace")
            if broken and body.closed and not (replaces or isinstance(error, RequestRunning)):
                only_with_key = True  # it may be stored, and sending it again could do harm
            yield from backoff.wait(error)
            # Of several files, the first may be stored even if the request was not sent completely.
            if broken and (body.closed or len(left) > 1):
                lost_with = lost_with or key
            rest = yield from blocking(partial(refresh, rest, failures))
            rest = yield from _prepared(rest, options, failures)
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
                    lost_with
                    and isinstance(error, AlreadyExists)
                    and lost_with is not key
                    and (yield from _was_stored(session, file))
                ):
                    stored.append(file)
                else:
                    failures[file.path] = error
        failures |= yield from _confirm(session, stored, options)
        left = rest
    return failures


def _request(
    batch: list[UploadItem], options: UploadOptions, key: dict[str, str]
) -> tuple[Request, MultipartForm | FileBody]:
    file = batch[0]
    if len(batch) > 1:
        form = MultipartForm(batch)
        headers = {"Content-Type": form.content_type, **options.headers, **key}
        place = target(split(file.path)[0], onConflict=options.on_conflict)
        return Request("POST", place, headers, body=form, long_running=True), form
    headers = {**file.headers, **options.headers, **key}
    hashed = file.sha256 is None and options.verifies(file)
    if hashed:
        headers["Want-Repr-Digest"] = "sha-256=1"
    meter = Meter(file.path, file.source.size, options.progress)
    body = FileBody(file, meter, hashed=hashed)
    place = target(file.path, onConflict=options.on_conflict)
    return Request("PUT", place, headers, body=body, long_running=True), body


def _split_stored(batch: list[UploadItem], error: ClientError) -> tuple[list[UploadItem], list[UploadItem]]:
    """The files that were stored in spite of the error, and the others."""
    stored = [file for file in batch if file.name in error.stored]
    return stored, [file for file in batch if file.name not in error.stored]


def _was_stored(session: AuthSession, file: UploadItem) -> Operation[bool]:
    """Whether the existing file seems to be this one, stored by a request whose response was lost."""
    try:
        return (yield from files.stat(session, file.path)).size == file.sent
    except (NotFound, Forbidden):
        return False


def _confirm(
    session: AuthSession, stored: list[UploadItem], options: UploadOptions
) -> Operation[dict[str, ClientError]]:
    """Report stored files; return those that are to be verified and are not what was sent."""
    failures: dict[str, ClientError] = {}
    for file in stored:
        if file.entry is None and options.on_conflict != "rename":
            file.entry = Entry(file.name, file.path, is_folder=False, size=file.sent)
        if file.entry and options.verifies(file) and (error := (yield from _difference(session, file))):
            failures[file.path] = error
            continue
        if options.stored:
            options.stored(file.receipt)
        if options.progress:
            options.progress(file.path, file.sent, file.sent)
    return failures


def _difference(session: AuthSession, file: UploadItem) -> Operation[ClientError | None]:
    """What is wrong with a stored file. If an error reported it as stored, only its size can be compared."""
    assert file.entry
    path = file.entry.path
    if file.sha256 and file.entry.digest:
        if file.entry.digest == digest_text(file.sha256):
            return None
        return WrongDigest(f"The SHA-256 of {path} on the gateway differs from what was sent. Upload the file again.")
    size = (yield from files.stat(session, path)).size
    if size == file.sent:
        return None
    return WrongSize(f"{path} has {size} bytes on the gateway, but {file.sent} were sent. Upload the file again.")
