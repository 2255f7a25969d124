"""`POST` on a path without an action: files in, streamed to the provider as they arrive."""

import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from portico.accounts.tokens import Session
from portico.api.auditing import Change, line_of
from portico.api.bodies import JsonResponse, stored_body
from portico.api.digests import Digests, digests_of
from portico.api.incoming import IncomingBody, is_content_coded
from portico.api.multipart import MultipartReader, Part
from portico.api.preferences import REPRESENTATION, prefers_representation
from portico.api.problems import problem_response
from portico.api.queries import Query, address_of, path_of
from portico.api.services import Services, name_action, services_of
from portico.api.session import drive_of, single_header
from portico.drive import Drive, OnConflict
from portico.entries import Entry, guess_content_type
from portico.errors import InvalidRequest, NotSignedIn, PorticoError, TooLarge, UnsupportedMediaType
from portico.paths import Path
from portico.rights import Right

_STORED = Response(status_code=204)
_TRUSTED_SECONDS = 0.2
"""With what a session is cached for, this keeps within the second that a disabled account may still count."""


async def upload(request: Request, query: Query) -> Response:
    name_action(request, "upload")
    asked = time.monotonic()
    session, drive = await drive_of(request, waits=False)
    folder = path_of(request)
    on_conflict = query.choice("onConflict", OnConflict)
    services = services_of(request)
    services.audit.check()  # before a large body is sent for nothing
    try:
        drive.require(Right.UPLOAD, *([Right.OVERWRITE] if on_conflict is OnConflict.REPLACE else []))
        digests = digests_of(request.headers.items())
        form = _form(request, services, digests)
        if "Expect" in request.headers:  # the client waits for a refusal before it sends
            await drive.check_target(folder)
        at_most = _announced_size(request, drive)
    except PorticoError as error:
        _note_refusal(request, folder, error)
        raise
    transfer = _Transfer(
        request, services, session, drive, folder, on_conflict, at_most, form, digests, checked=asked
    )
    try:
        while part := await form.next_part():
            await transfer.take(part)
        if not transfer.stored:
            raise InvalidRequest("The form holds no file; send each in a part named 'data'.")
    except PorticoError as error:
        if not transfer.failed:
            _note_refusal(request, folder, error)
        names = [entry.name for entry in transfer.stored]
        return problem_response(request, error, stored=names, failed=transfer.failed)
    return _stored(request, folder, transfer.stored)


def _stored(request: Request, folder: Path, entries: list[Entry]) -> Response:
    """Says under which names the files are, which the client need not know: see `OnConflict.RENAME`."""
    if prefers_representation(request):
        applied = (b"preference-applied", REPRESENTATION.encode())
        return JsonResponse(stored_body(folder, entries), 200, applied)
    if len(entries) == 1:
        return Response(
            status_code=204, headers={"Content-Location": address_of(folder.child(entries[0].name))}
        )
    return _STORED


def _note_refusal(request: Request, folder: Path, error: PorticoError) -> None:
    """What went wrong before or between the files; each file has a line of its own."""
    line = line_of(request, "upload", outcome=error.code)
    line.path = str(folder)
    services_of(request).audit.end(line)


def _form(request: Request, services: Services, digests: Digests | None) -> MultipartReader:
    if is_content_coded(request):
        raise UnsupportedMediaType("The body is content-coded; send it as it is.")
    content_type = single_header(request, "Content-Type") or ""
    body = IncomingBody(request.receive, pace=services.pace)
    watched = digests.watch(body) if digests else body
    return MultipartReader(watched, content_type, max_parts=services.max_files)


def _announced_size(request: Request, drive: Drive) -> int | None:
    """What the whole body will hold, and so each file at most."""
    announced = request.headers.get("Content-Length", "")
    if not announced.isdecimal() or len(announced) > 18:
        return None
    if int(announced) > drive.max_file_size:
        raise TooLarge(f"The storage takes files of up to {drive.max_file_size} bytes; send less at once.")
    return int(announced)


class _Transfer:
    """The files of one request, and what became of each."""

    def __init__(
        self,
        request: Request,
        services: Services,
        session: Session,
        drive: Drive,
        folder: Path,
        on_conflict: OnConflict | None,
        at_most: int | None,
        form: MultipartReader,
        digests: Digests | None,
        *,
        checked: float,
    ) -> None:
        """`digests` are those of the whole body, and `checked` is when the user was last looked at."""
        self._request = request
        self._services = services
        self._session = session
        self._drive = drive
        self._folder = folder
        self._on_conflict = on_conflict
        self._at_most = at_most
        self._form = form
        self._digests = digests
        self.stored: list[Entry] = []
        self.failed: list[str] = []
        self._seen: set[str] = set()
        self._checked = checked

    async def take(self, part: Part) -> None:
        self.failed.append(part.filename)
        with Change(self._request, "upload", self._folder) as change:
            path = self._folder.child(part.filename)
            change.line.path = str(path)
            if part.filename in self._seen:
                raise InvalidRequest(f"'{part.filename}' stands twice in this form; send each name once.")
            self._seen.add(part.filename)
            content_type = part.content_type or guess_content_type(part.filename)
            chunks = self._guarded(part, digests_of(part.headers.items()), change)
            entry = await self._drive.write(
                path, chunks, content_type, self._on_conflict, at_most=self._at_most
            )
            if entry.name != path.name:
                change.line.path = str(self._folder.child(entry.name))
        self.failed.pop()
        self.stored.append(entry)

    async def _guarded(self, part: Part, digests: Digests | None, change: Change) -> AsyncIterator[bytes]:
        """The part's bytes, ending in an error, and so in nothing stored, if the file may not stand."""
        limit = min(self._services.max_file_size or self._drive.max_file_size, self._drive.max_file_size)
        size = change.line.bytes = 0
        async for chunk in part.chunks:
            size += len(chunk)
            change.line.bytes = size
            if size > limit:
                raise TooLarge(f"'{part.filename}' is larger than the {limit} bytes that a file may have.")
            if digests:
                await digests.update(chunk)
            yield chunk
        if digests:
            await digests.check()
        if self._digests:
            await self._check_body(self._digests)
        await self._check_user()
        change.begin()  # the file is committed next

    async def _check_body(self, digests: Digests) -> None:
        """The digest of a whole form is known at its end: only a single file can be held back until then."""
        if await self._form.next_part():
            raise InvalidRequest(
                "A digest of the whole form can be verified for one file only; "
                "send one file, or give each part a digest of its own."
            )
        await digests.check()

    async def _check_user(self) -> None:
        """Whoever was disabled meanwhile stores nothing more; within a moment of the last look, nobody was."""
        if time.monotonic() - self._checked < _TRUSTED_SECONDS:
            return
        asked = time.monotonic()
        if not await self._services.tokens.still_valid(self._session.user.id):
            raise NotSignedIn("The account was disabled while the file was sent; it was not stored.")
        self._checked = asked
