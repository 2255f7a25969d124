"""The service's responses about one object, and its errors, decoded by msgspec."""

from typing import Literal, TypeVar

import msgspec

from portico.model import timestamps
from portico.model.entries import Entry, guess_content_type
from portico.providers.multipart.parts import MARK
from portico.providers.objects.service import MTIME
from portico.providers.objects.service import read as read_mtime
from portico.providers.wire.responses import malformed_response, size_of

T = TypeVar("T")

OBJECT_FIELDS = "kind,name,size,updated,contentType,generation,crc32c,md5Hash,metadata"
GSUTIL_MTIME = "goog-reserved-file-mtime"
"""The metadata in which gsutil keeps a modification time, in seconds. rclone reads and writes it beside its own."""
REWRITE_FIELDS = "kind,done,rewriteToken,totalBytesRewritten"


class ObjectResource(msgspec.Struct, rename="camel"):
    kind: Literal["storage#object"]
    name: str
    size: int
    updated: str
    generation: int
    content_type: str | None = None
    crc32c: str | None = None
    md5_hash: str | None = None
    metadata: dict[str, str] = {}

    @property
    def mark(self) -> str | None:
        return self.metadata.get(MARK)

    def entry(self) -> Entry:
        """The entry, named by the whole key. Its etag is the generation, which changes only with the content."""
        kind = self.content_type or guess_content_type(self.name)
        written = stamp(self.updated)
        size = size_of(str(self.size))
        modified = read_mtime(self.metadata.get(MTIME)) or read_mtime(self.metadata.get(GSUTIL_MTIME)) or written
        generation = str(self.generation)
        return Entry(self.name, False, size, modified, kind, generation, written=written, version=generation)


def stamp(text: str) -> str:
    try:
        return timestamps.from_iso(text)
    except ValueError:
        raise malformed_response("an object without a valid time") from None


class RewriteResponse(msgspec.Struct, rename="camel"):
    kind: Literal["storage#rewriteResponse"]
    done: bool
    rewrite_token: str | None = None
    total_bytes_rewritten: int = 0


class _Reason(msgspec.Struct):
    reason: str = ""


class ErrorBody(msgspec.Struct):
    """The `error` object of an error response."""

    message: str = ""
    errors: list[_Reason] = []

    @property
    def reason(self) -> str:
        return self.errors[0].reason if self.errors else ""


class _ErrorResponse(msgspec.Struct):
    error: ErrorBody


# Not strict: sizes and generations are numbers that the service writes as strings.
_OBJECTS = msgspec.json.Decoder(ObjectResource, strict=False)
REWRITES = msgspec.json.Decoder(RewriteResponse, strict=False)
_ERRORS = msgspec.json.Decoder(_ErrorResponse)


def read_object(body: bytes) -> ObjectResource:
    return decode(_OBJECTS, body)


def read_error(body: bytes) -> ErrorBody:
    try:
        return _ERRORS.decode(body).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ErrorBody(body[:300].decode(errors="replace"))  # errors of downloads are plain text


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """The decoded response; `ProviderFailed` if it is something else."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise malformed_response(f"{len(body)} bytes that are not what was requested ({error})"[:300]) from None
