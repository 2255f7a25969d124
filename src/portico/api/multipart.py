"""A streaming reader of `multipart/form-data`.

The result does not depend on how the body is split into chunks. A part has ended only when the boundary after it was
seen, and the body only when the closing boundary was seen; everything else is an error.
"""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser

from portico.model.errors import InvalidRequest, TooLarge, UnsupportedMediaType

_MAX_PREAMBLE = 64 * 1024
"""Bytes allowed before the first boundary."""
_MAX_IDLE = 512 * 1024
"""Bytes without anything of a file: more than the headers of a part can take, so this ends an epilogue only."""
_MAX_HEADER_LENGTH = 8 * 1024
_MAX_HEADERS = 16
_MAX_CONTENT_TYPE_LENGTH = 1024

_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PARAMETER = re.compile(r';\s*([!#$%&\'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]*)\s*')
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MEDIA_TYPE = re.compile(r"[!#$&\-^_.+0-9A-Za-z]{1,127}/[!#$&\-^_.+0-9A-Za-z]{1,127}(\s*;[\x20-\x7e]*)?")
_PLAIN_ENCODINGS = ("", "7bit", "8bit", "binary")


class FormFile(msgspec.Struct):
    """One file of the form. Its chunks must be read to the end before the next part is asked for."""

    filename: str
    content_type: str | None
    chunks: AsyncIterator[bytes]
    headers: dict[str, str]


class _Parser(PushMultipartParser):  # type: ignore[misc]
    """The library's, with a bare line feed in a header refused wherever the body happens to be cut."""

    def _on_segment_headerline(self, line: bytes) -> None:
        if b"\n" in line:
            raise MultipartError("a bare line feed in a header")
        super()._on_segment_headerline(line)


class MultipartReader:
    def __init__(self, body: AsyncIterator[bytes], content_type: str, *, max_files: int) -> None:
        self._body = body
        boundary = _boundary_of(content_type)
        self._delimiter = b"--" + boundary
        self._parser = _Parser(
            boundary,
            max_header_size=_MAX_HEADER_LENGTH + 16,  # the exact limit is checked in _file
            max_header_count=_MAX_HEADERS,
            max_segment_count=max_files,
            header_charset="latin-1",
        )
        self._max_files = max_files
        self._events: Iterator[Any] = iter(())
        self._begun = False
        self._inside = False
        self._idle = 0

    async def next_file(self) -> FormFile | None:
        """The next file, or None when the closing boundary and the end of the body were seen."""
        if self._inside:
            raise RuntimeError("the part before was not read to its end")
        segment = await self._next_event()
        if segment is None:
            return None
        self._inside = True
        return _file(segment, self._chunks())

    async def _chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._next_event()) is not None:
            yield chunk
        self._inside = False

    async def _next_event(self) -> Any:
        """A segment, a chunk of it, or None at its end; outside of a segment, None at the end of the body."""
        try:
            while True:
                for event in self._events:
                    self._idle = 0
                    return event
                if self._parser.closed:
                    return None
                chunk = await self._next_chunk()
                if not self._inside and self._idle > _MAX_IDLE:
                    raise InvalidRequest(
                        "The multipart body contains too much data outside its parts; send only the files."
                    )
                self._idle += len(chunk)
                self._events = self._parser.parse(chunk)
        except ParserLimitReached as error:
            if "segment count" in str(error):
                raise TooLarge(
                    f"A request can upload at most {self._max_files} files; send the rest in another request."
                ) from None
            raise InvalidRequest(
                "A part has too many headers, or headers that are too long; send fewer or shorter ones."
            ) from None
        except MultipartError:
            raise InvalidRequest(
                "The multipart body is malformed or ends before its closing boundary; send the whole body again."
            ) from None

    async def _next_chunk(self) -> bytes:
        """The body from its first boundary on; nothing at its end."""
        if self._begun:
            return await anext(self._body, b"")
        self._begun = True
        head = bytearray()
        searched = 0
        async for chunk in self._body:
            head += chunk
            start = head.find(self._delimiter, searched)
            searched = max(0, len(head) - len(self._delimiter))
            if 0 <= start <= _MAX_PREAMBLE:
                # A damaged first boundary must not make a preamble of the file behind it.
                if start and head[max(0, start - 2) : start] != b"\r\n":
                    break
                return bytes(head[start:])
            if len(head) > _MAX_PREAMBLE + len(self._delimiter):
                break
        raise InvalidRequest(
            "The body doesn't start with the boundary given in Content-Type; use the same boundary in both."
        )


def _boundary_of(content_type: str) -> bytes:
    if len(content_type) > _MAX_CONTENT_TYPE_LENGTH:
        raise InvalidRequest("The Content-Type is too long; use a boundary of at most 70 characters.")
    kind, _, parameters = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        raise UnsupportedMediaType(
            "The content type isn't supported; send the files as multipart/form-data, each in a part named 'data'."
        )
    boundary = _parameters(";" + parameters).get("boundary", "").encode("latin-1", "replace")
    if not _BOUNDARY.fullmatch(boundary):
        raise InvalidRequest("The Content-Type has no valid boundary; use 1 to 70 letters, digits or '()+_,-./:=?.")
    return boundary


def _file(segment: MultipartSegment, chunks: AsyncIterator[bytes]) -> FormFile:
    headers: dict[str, str] = {}
    for header, value in segment.headerlist:
        if header in headers or len(header) + len(value) > _MAX_HEADER_LENGTH or _CONTROL.search(value):
            raise InvalidRequest("A part has a header that is repeated, too long or malformed; correct it.")
        headers[header] = value
    if headers.get("Content-Transfer-Encoding", "").strip().lower() not in _PLAIN_ENCODINGS:
        raise InvalidRequest("A part has a Content-Transfer-Encoding; send its bytes unencoded.")
    disposition = _parameters(";" + headers["Content-Disposition"].partition(";")[2])
    name = _text(disposition.get("name", ""))
    if name != "data":
        raise InvalidRequest(f"A part is named '{name[:40]}'; every part must be a file named 'data'.")
    return FormFile(_filename(disposition), media_type(headers.get("Content-Type", "")), chunks, headers)


def media_type(text: str) -> str | None:
    text = text.strip()
    return text if _MEDIA_TYPE.fullmatch(text) else None


def _filename(disposition: dict[str, str]) -> str:
    extended = disposition.get("filename*")
    if extended is not None:
        charset, _, rest = extended.partition("'")
        _, quote, encoded = rest.partition("'")
        if charset.lower() != "utf-8" or not quote or _BAD_ESCAPE.search(encoded):
            raise InvalidRequest(
                "The filename* of a part is malformed; write UTF-8'' followed by the percent-encoded name."
            )
        return _text(unquote_to_bytes(encoded).decode("latin-1"))
    name = disposition.get("filename")
    if not name:
        raise InvalidRequest("A part named 'data' has no filename; send it as a file.")
    # Browsers write a quote and a line break so, and nothing else.
    for escape, character in (("%22", '"'), ("%0D", "\r"), ("%0A", "\n")):
        name = name.replace(escape, character)
    return _text(name)


def _parameters(text: str) -> dict[str, str]:
    """`; a=b; c="d"` as a dictionary."""
    found: dict[str, str] = {}
    position = 0
    while match := _PARAMETER.match(text, position):
        name, value = match[1].lower(), match[2]
        if name in found:
            raise InvalidRequest(f"The header parameter '{name}' appears twice; send it once.")
        if value.startswith('"'):
            value = value[1:-1]
            # A backslash escapes only a quote or a backslash: `c:\\x` must not become `c:x`.
            if "\\" in value:
                value = re.sub(r'\\(["\\])', r"\1", value)
        found[name] = value
        position = match.end()
    if text[position:].strip(" \t;"):
        raise InvalidRequest("A header in the multipart body is malformed; correct it.")
    return found


def _text(value: str) -> str:
    """A header's bytes, which the parser hands on as Latin-1, as the UTF-8 that they are."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise InvalidRequest("A name in the multipart body is not valid UTF-8; encode names as UTF-8.") from None
