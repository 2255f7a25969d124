"""Resumable uploads: a multipart upload that outlives its writers."""

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.providers.multipart.parts import MIB, UploadPart
from portico.providers.objects.part_store import PartLimits, PartStore, SentPart, UploadState
from portico.providers.s3 import uploads
from portico.providers.s3.listing import entry_of
from portico.providers.s3.service import Service
from portico.providers.s3.uploads import MAX_PARTS, Target, abort, abort_begun_at

_CLOUDFLARE = ".r2.cloudflarestorage.com"
_SMALLEST = 5 * MIB


class S3Parts(PartStore):
    def __init__(self, service: Service, state: UploadState) -> None:
        self._service = service
        self._state = state
        host = urlsplit(service.endpoint_url or "").hostname or ""
        self.limits = PartLimits(MAX_PARTS, smallest=_SMALLEST, equal=host.endswith(_CLOUDFLARE))

    async def begin(self) -> str:
        await self._service.open()
        return await uploads.begin(self._service, self._target)

    async def send(self, part: UploadPart) -> str:
        await self._service.open()
        state = self._state
        sent = await uploads.send_part(self._service, state.goal, state.session, part)
        return f"{sent['ETag']} {sent.get('ChecksumCRC32', '')}"

    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        await self._service.open()
        described = [_described(part.number, part.result) for part in parts]
        session = self._state.session
        return await uploads.complete(self._service, self._target, session, described, size, self.kept)

    async def put(self, whole: UploadPart) -> Entry:
        await self._service.open()
        return await uploads.put(self._service, self._target, whole, self.kept)

    async def put_hidden(self, key: str, part: UploadPart) -> None:
        await self._service.open()
        await uploads.put(self._service, Target(key, UNKNOWN_TYPE, replace=True), part)

    async def own(self, key: str, size: int) -> Entry | None:
        found = await self._service.head(key)
        return entry_of(key, found) if found and uploads.is_marked(found, self._state.id, size) else None

    async def abort(self) -> None:
        await abort(self._service, self._state.goal, self._state.session)

    async def now(self) -> datetime:
        return await self._service.now()

    async def abort_lost(self) -> None:
        state = self._state
        await abort_begun_at(self._service, state.goal, state.intents, but=state.session)

    @property
    def _target(self) -> Target:
        state = self._state
        return Target(state.goal, state.content_type, state.replaces_goal, state.modified, mark=state.id)


def _described(number: int, result: str) -> dict[str, Any]:
    etag, _, checksum = result.partition(" ")
    return {"PartNumber": number, "ETag": etag, **({"ChecksumCRC32": checksum} if checksum else {})}
