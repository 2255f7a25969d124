"""The trash of a bucket with versioning: what is deleted stays as a version, and the trash notes which one it was.

Notes are hidden objects below the place in the trash, each for a page of keys and written before these are deleted.
Nothing is copied. Restoring removes the delete markers. What is purged is the notes: how long older versions are kept is
the bucket's own lifecycle, as without a trash.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from time import monotonic
from typing import Any

import msgspec

from portico.errors import PorticoError
from portico.paths import RESERVED_PREFIX
from portico.providers.keys import Version
from portico.providers.s3 import copies
from portico.providers.s3.service import Service
from portico.providers.tasks import for_each

NOTE = f"{RESERVED_PREFIX}versions-"
"""How the names of notes begin; no file of a user can have such a name."""
PAGE = 500
"""Keys in a listing of versions, which the SDK parses."""
_TRUSTED_SECONDS = 10.0


class VersionNote(msgspec.Struct):
    source: str
    """The key of a file, or the prefix of a folder, as it was."""
    is_folder: bool
    versions: list[tuple[str, str]]
    """What follows the source in each key, in order, and the version."""


class Current(msgspec.Struct):
    """The newest states of one key."""

    version: str | None = None
    """The newest one that has content."""
    marker: str | None = None
    """The delete marker, if that is newer."""


class Versions:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._known = (False, 0.0)

    async def are_kept(self, prefix: str) -> bool:
        """Whether the bucket keeps versions, and the gateway may list them."""
        kept, until = self._known
        if monotonic() < until:
            return kept
        try:
            kept = (await self._service.call("get_bucket_versioning")).get("Status") == "Enabled"
            if kept:  # and may they be listed?
                await self._service.call("list_object_versions", Prefix=prefix, MaxKeys=1)
        except PorticoError:
            kept = False
        self._known = kept, monotonic() + _TRUSTED_SECONDS
        return kept

    async def pages(self, prefix: str) -> AsyncIterator[list[tuple[str, str, str, int]]]:
        """Keys with the version, etag and size of each, as far as they are not deleted."""
        async for response in self._listings(prefix, None):
            yield [
                (
                    version["Key"],
                    version["VersionId"],
                    str(version["ETag"]).strip('"'),
                    version.get("Size", 0),
                )
                for version in response.get("Versions", [])
                if version["IsLatest"] and version["Key"].startswith(prefix)
            ]

    async def _listings(self, prefix: str, after: str | None) -> AsyncGenerator[dict[str, Any]]:
        position: dict[str, str] = {} if after is None else {"KeyMarker": after}
        while True:
            response = await self._service.call(
                "list_object_versions", Prefix=prefix, MaxKeys=PAGE, **position
            )
            yield response
            following = {
                name: response[f"Next{name}"]
                for name in ("KeyMarker", "VersionIdMarker")
                if response.get(f"Next{name}")
            }
            if not response.get("IsTruncated") or not following or following == position:
                return
            position = following

    async def write_note(self, place: str, number: int, note: VersionNote) -> None:
        await self._service.call(
            "put_object", Key=f"{place}{NOTE}{number:08}", Body=msgspec.json.encode(note)
        )

    async def read_note(self, key: str) -> VersionNote:
        response = await self._service.call("get_object", Key=key)
        async with response["Body"] as body:
            return msgspec.json.decode(await body.read(), type=VersionNote)

    async def restore(self, note: VersionNote, after: str | None, target: str, *, replace: bool) -> None:
        """Make the noted versions the current ones, below the target: without a copy where they were."""
        keys = {note.source + rest: version for rest, version in note.versions}
        current = await self._current(note.source, after, list(keys)) if target == note.source else {}
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

        async def copy(key: str) -> None:
            goal = target + key[len(note.source) :]
            # `NotFound` if the lifecycle of the bucket has removed the version.
            await copies.copy(self._service, Version(key, None), goal, replace=replace, version_id=keys[key])

        await for_each(copy, [key for key in keys if key not in kept])

    async def _current(self, prefix: str, after: str | None, keys: list[str]) -> dict[str, Current]:
        found = {key: Current() for key in keys}
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
