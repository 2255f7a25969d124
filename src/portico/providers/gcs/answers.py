"""Google's answers, decoded straight into structures."""

from typing import Literal, TypeVar

import msgspec

from portico import timestamps
from portico.entries import Entry, guess_content_type
from portico.providers.answers import nonsense, size_of

T = TypeVar("T")

LIST_FIELDS = "kind,nextPageToken,prefixes,items(name,size,updated,contentType)"
FLAT_FIELDS = "kind,nextPageToken,items(name,size,updated,contentType,generation)"
OBJECT_FIELDS = "kind,name,size,updated,contentType,generation,crc32c,md5Hash,metadata"
REWRITE_FIELDS = "kind,done,rewriteToken,totalBytesRewritten"

_LARGE = 2**20
_MOST_QUOTES = 256
"""Of one object in a listing."""

MARK = "portico-upload"
"""The custom metadata by which an upload of ours is told from another's when its answer was lost."""


class Listed(
    Entry, rename={"last_modified": "updated", "content_type": "contentType", "etag": "generation"}, gc=False
):
    """An object of a listing, decoded straight into what is handed on."""

    is_folder: bool = False
    last_modified: str | None = None
    content_type: str = ""
    etag: str | None = None
    """The generation, where it is asked for."""


class ListAnswer(msgspec.Struct, rename="camel"):
    # A trimmed answer for an empty folder is nothing but its kind: without it, `{}` of anybody would be a listing.
    kind: Literal["storage#objects"]
    items: list[Listed] = []
    prefixes: list[str] = []
    next_page_token: str | None = None


class ObjectAnswer(msgspec.Struct, rename="camel"):
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
        """As `Entry`, by its whole key. The generation is its etag: it changes with the content, and only then."""
        kind = self.content_type or guess_content_type(self.name)
        return Entry(
            self.name, False, size_of(str(self.size)), stamp(self.updated), kind, str(self.generation)
        )


def stamp(text: str) -> str:
    try:
        return timestamps.from_iso(text)
    except ValueError:
        raise nonsense("an object without a time") from None


class RewriteAnswer(msgspec.Struct, rename="camel"):
    kind: Literal["storage#rewriteResponse"]
    done: bool
    rewrite_token: str | None = None
    total_bytes_rewritten: int = 0


class _Flaw(msgspec.Struct):
    reason: str = ""


class Fault(msgspec.Struct):
    """What stands under `error` in an answer that is no success."""

    message: str = ""
    errors: list[_Flaw] = []

    @property
    def reason(self) -> str:
        return self.errors[0].reason if self.errors else ""


class _FaultAnswer(msgspec.Struct):
    error: Fault


# Not strict: sizes and generations are numbers that the service writes as strings.
_LISTS = msgspec.json.Decoder(ListAnswer, strict=False)
_OBJECTS = msgspec.json.Decoder(ObjectAnswer, strict=False)
_REWRITES = msgspec.json.Decoder(RewriteAnswer, strict=False)
_FAULTS = msgspec.json.Decoder(_FaultAnswer)


def read_listing(body: bytes, asked: int) -> ListAnswer:
    if len(body) > _LARGE and body.count(b'"') > (asked + 1) * _MOST_QUOTES:
        raise nonsense("a listing with far more in it than was asked for")
    return _read(_LISTS, body)


def read_object(body: bytes) -> ObjectAnswer:
    return _read(_OBJECTS, body)


def read_rewrite(body: bytes) -> RewriteAnswer:
    return _read(_REWRITES, body)


def read_fault(body: bytes) -> Fault:
    try:
        return _FAULTS.decode(body).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Fault(body[:300].decode(errors="replace"))  # downloads are refused in plain text


def _read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise nonsense(f"{len(body)} bytes that are not what was asked for ({error})"[:300]) from None
