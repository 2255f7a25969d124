"""What is stored: objects with their generations, kept in memory while they are small."""

import hashlib
import re
import struct
import tempfile
import weakref
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

import google_crc32c

from .refusals import Refusal, condition_not_met, invalid, missing_object

_IN_MEMORY = 64 * 2**20
_generations = count(int(datetime.now(UTC).timestamp() * 1_000_000))


class Content:
    """Bytes that grow and are then shared by all objects that hold them."""

    def __init__(self, data: bytes = b"") -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._md5 = hashlib.md5()
        self._crc = 0
        self.size = 0
        self.append(data)

    def append(self, data: bytes) -> None:
        self._file.seek(self.size)
        self._file.write(data)
        self._md5.update(data)
        self._crc = google_crc32c.extend(self._crc, data)
        self.size += len(data)

    def read(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        return self._file.read(stop - start)

    @property
    def md5(self) -> str:
        return b64encode(self._md5.digest()).decode()

    @property
    def crc32c(self) -> str:
        return b64encode(struct.pack(">I", self._crc)).decode()

    def check(self, crc32c: str | None, md5: str | None) -> None:
        if crc32c is not None and crc32c != self.crc32c:
            raise invalid(f'Provided CRC32C "{crc32c}" doesn\'t match calculated CRC32C "{self.crc32c}".')
        if md5 is not None and md5 != self.md5:
            raise invalid(f'Provided MD5 hash "{md5}" doesn\'t match calculated MD5 hash "{self.md5}".')


@dataclass
class StoredObject:
    bucket: str
    name: str
    content: Content
    content_type: str | None
    metadata: dict[str, str]
    content_encoding: str | None = None
    generation: int = field(default_factory=lambda: next(_generations))
    metageneration: int = 1
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def etag(self) -> str:
        return b64encode(f"{self.generation}/{self.metageneration}".encode()).decode()

    def resource(self, base: str) -> dict[str, Any]:
        moment = self.updated.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        link = f"{base}/storage/v1/b/{self.bucket}/o/{self.name}"
        described: dict[str, Any] = {
            "kind": "storage#object",
            "id": f"{self.bucket}/{self.name}/{self.generation}",
            "selfLink": link,
            "mediaLink": f"{link}?generation={self.generation}&alt=media",
            "name": self.name,
            "bucket": self.bucket,
            "generation": str(self.generation),
            "metageneration": str(self.metageneration),
            "storageClass": "STANDARD",
            "size": str(self.content.size),
            "md5Hash": self.content.md5,
            "crc32c": self.content.crc32c,
            "etag": self.etag,
            "timeCreated": moment,
            "updated": moment,
        }
        for name, value in (
            ("contentType", self.content_type),
            ("contentEncoding", self.content_encoding),
            ("metadata", self.metadata),
        ):
            if value:
                described[name] = value
        return described


@dataclass
class Bucket:
    name: str
    public: bool = False
    """Whether anonymous callers may do everything."""
    denied: set[str] = field(default_factory=set)
    """Permissions that no caller has."""
    dates_downloads: bool = True
    """Whether a download's headers say when the object was changed."""
    objects: dict[str, StoredObject] = field(default_factory=dict)
    _sorted: tuple[list[str], list[bytes]] | None = None
    versioning: bool = False
    noncurrent: dict[tuple[str, int], StoredObject] = field(default_factory=dict)
    """What was deleted or replaced while the bucket kept versions, by name and generation."""

    def current(self, name: str, query: Mapping[str, str]) -> StoredObject:
        """The object that is asked for, if the conditions of the query hold."""
        found = self.objects.get(name)
        generation = _number(query, "generation")
        if generation is not None and (found is None or found.generation != generation):
            found = self.noncurrent.get((name, generation))
        if found is None:
            raise missing_object(self.name, name)
        check_conditions(found, query)
        return found

    def put(self, stored: StoredObject) -> None:
        self._retire(stored.name)
        if stored.name not in self.objects:
            self._sorted = None
        self.objects[stored.name] = stored

    def delete(self, found: StoredObject, query: Mapping[str, str]) -> None:
        """Without a generation in the query, the object stays as a version; with one, it goes for good."""
        if "generation" in query:
            self.noncurrent.pop((found.name, found.generation), None)
        if self.objects.get(found.name) is found:
            if "generation" not in query:
                self._retire(found.name)
            del self.objects[found.name]
            self._sorted = None

    def _retire(self, name: str) -> None:
        if self.versioning and (old := self.objects.get(name)):
            self.noncurrent[name, old.generation] = old

    def sorted_names(self) -> tuple[list[str], list[bytes]]:
        """In the order of the service, as text and as bytes."""
        if self._sorted is None or len(self._sorted[0]) != len(self.objects):  # tests also change it directly
            names = sorted(self.objects, key=str.encode)
            self._sorted = names, [name.encode() for name in names]
        return self._sorted


def check_conditions(found: StoredObject | None, query: Mapping[str, str], prefix: str = "if") -> None:
    """`prefix` is `ifSource` for the source of a rewrite."""
    for noun, value in (
        ("Generation", found.generation if found else 0),
        ("Metageneration", found.metageneration if found else 0),
    ):
        wanted = _number(query, f"{prefix}{noun}Match")
        if wanted is not None and wanted != value:
            raise condition_not_met()
        unwanted = _number(query, f"{prefix}{noun}NotMatch")
        if unwanted is not None and unwanted == value:
            raise condition_not_met()


def check_name(name: str | None) -> str:
    if not name:
        raise Refusal(400, "required", "Required object name.")
    if len(name.encode()) > 1024 or re.search("[\r\n]", name) or name in (".", ".."):
        raise invalid("Disallowed unicode characters or length present in object name.")
    if name.startswith(".well-known/acme-challenge/"):
        raise invalid("Object names that begin with '.well-known/acme-challenge/' are not allowed.")
    return name


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise invalid(f"Invalid value for {name}.")
    return int(text)
