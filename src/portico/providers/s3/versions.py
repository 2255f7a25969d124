"""Versions of a bucket. Restoring removes delete markers: nothing is copied unless it gets another name."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec

from portico.model.entries import Entry
from portico.model.errors import NotFound
from portico.providers.objects.service import ObjectService, Version
from portico.providers.objects.versions import Current, ObjectVersions, Restored, VersionNote
from portico.providers.s3 import copies
from portico.providers.s3.listing import entry_of
from portico.providers.s3.service import Service
from portico.runtime.tasks import for_each

PAGE = 500
"""Keys in a listing of versions, which the SDK parses."""


class Newest(msgspec.Struct):
    """The newest states of one key."""

    version: str | None = None
    """The newest one that has content."""
    marker: str | None = None
    """The delete marker, if that is newer."""


class S3Versions(ObjectVersions):
    def __init__(self, store: ObjectService, service: Service) -> None:
        super().__init__(store)
        self._service = service

    async def _are_kept(self, prefix: str) -> bool:
        if (await self._service.call("get_bucket_versioning")).get("Status") != "Enabled":
            return False
        await self._service.call("list_object_versions", Prefix=prefix, MaxKeys=1)  # may they be listed?
        return True

    async def pages(self, prefix: str) -> AsyncIterator[list[Current]]:
        async for response in self._listings(prefix, None):
            yield [
                Current(
                    Entry(version["Key"], False, version.get("Size", 0), etag=str(version["ETag"]).strip('"')),
                    version["VersionId"],
                )
                for version in response.get("Versions", [])
                if version["IsLatest"] and version["Key"].startswith(prefix)
            ]

    async def find(self, key: str) -> Current | None:
        found = await self._service.head(key)
        return Current(entry_of(key, found), found.get("VersionId") or "null") if found else None

    def note_may_follow(self, version: str) -> bool:
        return version != "null"  # that of a bucket which keeps no others

    async def copy(self, key: str, version: str, target: str, *, replace: bool) -> None:
        await copies.copy(self._service, Version(key, None), target, replace=replace, version_id=version)

    async def _listings(self, prefix: str, after: str | None) -> AsyncGenerator[dict[str, Any]]:
        position: dict[str, str] = {} if after is None else {"KeyMarker": after}
        while True:
            response = await self._service.call("list_object_versions", Prefix=prefix, MaxKeys=PAGE, **position)
            yield response
            following = {
                name: response[f"Next{name}"]
                for name in ("KeyMarker", "VersionIdMarker")
                if response.get(f"Next{name}")
            }
            if not response.get("IsTruncated") or not following or following == position:
                return
            position = following

    async def restore(
        self, note: VersionNote, after: str | None, target: str, restored: Restored, *, replace: bool
    ) -> None:
        keys = {note.source + rest: version for rest, version in note.versions}
        current = await self._newest(note.source, after, list(keys)) if target == note.source else {}
        markers = [
            {"Key": key, "VersionId": now.marker}
            for key, now in current.items()
            if now.marker and now.version == keys[key]
        ]
        kept = {marker["Key"] for marker in markers}
        kept |= {key for key, now in current.items() if not now.marker and now.version == keys[key]}
        for start in range(0, len(markers), 1000):
            batch = markers[start : start + 1000]
            response = await self._service.call("delete_objects", Delete={"Objects": batch, "Quiet": True})
            kept -= {error.get("Key", "") for error in response.get("Errors", [])}

        restored.add(kept)

        async def bring_back(key: str) -> None:
            goal = target + key[len(note.source) :]
            try:
                await self.copy(key, keys[key], goal, replace=replace)
            except NotFound:
                restored.add_gone(key)
            else:
                restored.add([key])

        await for_each(bring_back, [key for key in keys if key not in kept])

    async def _newest(self, prefix: str, after: str | None, keys: list[str]) -> dict[str, Newest]:
        found = {key: Newest() for key in keys}
        last = max(keys, default="")
        async with aclosing(self._listings(prefix, after)) as listings:
            async for response in listings:
                for version in response.get("Versions", []):
                    now = found.get(version["Key"])
                    if now and now.version is None:
                        now.version = version["VersionId"]
                for marker in response.get("DeleteMarkers", []):
                    now = found.get(marker["Key"])
                    if now and marker["IsLatest"]:
                        now.marker = marker["VersionId"]
                if (response.get("NextKeyMarker") or "") > last:
                    break
        return found
