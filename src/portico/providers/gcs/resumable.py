"""Resumable uploads: a session of the service, which takes parts in order and lives for a week.

Bytes that the service has already are sent again if a process died before it saved them: the service ignores them. The
checksum of everything is part of the state, and the service verifies it at the end.
"""

from dataclasses import replace

from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.model.errors import already_exists, not_found
from portico.providers.gcs.checksums import Checksum
from portico.providers.gcs.errors import translated
from portico.providers.gcs.responses import ObjectResource
from portico.providers.gcs.service import Service
from portico.providers.gcs.uploads import ObjectUpload, ResumableSession, SessionLost, insert, storing
from portico.providers.multipart.parts import UploadPart
from portico.providers.objects.part_store import PartLimits, PartStore, SentPart, UploadState
from portico.providers.objects.service import name_of

_QUANTUM = 256 * 1024


class GcsUpload(PartStore):
    limits = PartLimits(smallest=_QUANTUM, multiple=_QUANTUM, takes_last=False, in_order=True)

    def __init__(self, service: Service, state: UploadState) -> None:
        self._service = service
        self._state = state
        self._session: ResumableSession | None = None

    @property
    def _upload(self) -> ObjectUpload:
        state = self._state
        return ObjectUpload(
            state.goal, state.content_type, replace=state.replaces_goal, modified=state.modified, mark=state.id
        )

    async def begin(self) -> str:
        upload = self._upload
        with storing(upload):
            session = await ResumableSession.begin(self._service, upload)
        return session.address

    async def send(self, part: UploadPart) -> str:
        # It may be the last part of a request, but it is not that of the file.
        await self._send(replace(part, last=False))
        assert self._session
        return self._session.checksum.state

    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        stored = await self._send(last)
        assert stored
        return stored.entry()

    async def _send(self, part: UploadPart) -> ObjectResource | None:
        session, self._session = self._session, None
        if session is None or session.kept != part.offset:
            sent = self._state.parts[-1:]
            checksum = Checksum.restored(sent[0].result) if sent else Checksum()
            session = ResumableSession(self._service, self._state.session, part.offset, checksum)
        upload = self._upload
        session.before_last = self.kept.prepare if self.kept else None
        try:
            with storing(upload):
                stored = await session.send(part)
        except SessionLost as error:
            name = name_of(self._state.key)
            if upload.generation == 0 and await self._service.find(upload.key):
                raise already_exists(name) from error
            raise not_found(name, cause=error.cause) from error
        self._session = session
        return stored

    async def put(self, whole: UploadPart) -> Entry:
        return (await insert(self._service, self._upload, whole, self.kept)).entry()

    async def put_hidden(self, key: str, part: UploadPart) -> None:
        await insert(self._service, ObjectUpload(key, UNKNOWN_TYPE, replace=True), part)

    async def own(self, key: str, size: int) -> Entry | None:
        found = await self._service.find(key)
        return found.entry() if found and (found.mark, found.size) == (self._state.id, size) else None

    async def abort(self) -> None:
        with translated(name_of(self._state.key)):
            await ResumableSession(self._service, self._state.session).cancel()
