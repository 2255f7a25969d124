"""What a container holds: blobs, blocks that wait for their list, and the versions of an account with versioning."""

import base64
import hashlib
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from ..azure_files import Refusal

_numbers = count(0x8DE_0000_0000_0000)
_ticks = count(1)
_START = datetime.now(UTC)


def _new_version() -> str:
    """A time, and no two are the same."""
    moment = _START + timedelta(microseconds=next(_ticks))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f0Z")


@dataclass
class Blob:
    name: str
    content: bytes
    headers: dict[str, str]
    """Content type and metadata, as they are sent."""
    version: str | None
    etag: str = field(default_factory=lambda: f'"0x{next(_numbers):X}"')
    written: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class Container:
    versioning: bool = True
    """A setting of the account; here, containers differ in it."""
    blobs: dict[str, Blob] = field(default_factory=dict)
    older: dict[str, list[Blob]] = field(default_factory=dict)
    """Versions that are no longer current, the oldest first."""
    blocks: dict[str, dict[str, bytes]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """Of current and older blobs, in order."""

    def find(self, name: str, query: Mapping[str, str]) -> Blob:
        blob = self.blobs.get(name)
        if (version := query.get("versionid")) is not None and (not blob or blob.version != version):
            blob = next((old for old in self.older.get(name, []) if old.version == version), None)
        if blob is None:
            raise Refusal(404, "BlobNotFound")
        return blob

    def put(self, name: str, content: bytes, headers: dict[str, str]) -> Blob:
        self._retire(name)
        blob = Blob(name, content, headers, _new_version() if self.versioning else None)
        self.blobs[name] = blob
        self.blocks.pop(name, None)  # the service drops what waits for another list
        place = bisect_left(self.names, name)
        if self.names[place : place + 1] != [name]:
            insort(self.names, name)
        return blob

    def delete(self, name: str, query: Mapping[str, str]) -> None:
        blob = self.find(name, query)
        if "versionid" in query:
            if blob is self.blobs.get(name):
                raise Refusal(403, "OperationNotAllowedOnRootBlob")
            self.older[name].remove(blob)
        else:
            self._retire(name)
            del self.blobs[name]
        if name not in self.blobs and not self.older.get(name):
            self.names.remove(name)

    def _retire(self, name: str) -> None:
        """With versioning, what was current becomes a version, also if it had no id before."""
        old = self.blobs.get(name)
        if old and self.versioning:
            old.version = old.version or _new_version()
            self.older.setdefault(name, []).append(old)

    def stage(self, name: str, block: str, content: bytes) -> None:
        blocks = self.blocks.setdefault(name, {})
        if any(len(other) != len(block) for other in blocks):
            raise Refusal(400, "InvalidBlobOrBlock")
        blocks[block] = content


def check_conditions(blob: Blob | None, headers: Mapping[str, str], prefix: str = "") -> None:
    """`prefix` is `x-ms-source-` for the source of a copy."""
    match, none = headers.get(f"{prefix}if-match"), headers.get(f"{prefix}if-none-match")
    code = "SourceConditionNotMet" if prefix else "ConditionNotMet"
    if match is not None and (blob is None or match not in ("*", blob.etag)):
        raise Refusal(412, code)
    if none == "*" and blob is not None:
        raise Refusal(409, "BlobAlreadyExists")


def check_md5(content: bytes, headers: Mapping[str, str]) -> None:
    md5 = base64.b64encode(hashlib.md5(content).digest()).decode()
    if headers.get("content-md5", md5) != md5:
        raise Refusal(400, "Md5Mismatch")
