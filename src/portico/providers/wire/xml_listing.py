"""Reading listings in XML: a fast scan for the form that services send, a real parser for everything else.

The SDKs build an object for every field of every entry, which costs thirty times more than the rest of a listing. A
page is a sequence of flat records, so the scan splits it at their tags. It gives up at anything unusual (comments,
CDATA sections, namespace prefixes, attributes of wanted elements, unbalanced tags), and the parser takes over. Both
always give the same result. Documents with a DTD are refused: no service sends one.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from xml.etree import ElementTree

from portico.providers.wire.responses import check_count, malformed_response

Record = tuple[str | None, ...]
T = TypeVar("T")

_PROLOGUE = re.compile(r"\s*(<\?xml[^>]*\?>)?\s*<([A-Za-z][\w.-]*)(\s[^<>]*)?>")
_ENTITY = re.compile(r"&(?:#x([0-9A-Fa-f]{1,6})|#([0-9]{1,7})|(lt|gt|amp|quot|apos));")
_MOST_TAGS, _MOST_ENTITIES = 128, 32
"""Tags, opening and closing, and entities of one record, on average."""
_MOST_TAGS_TO_PARSE = 131_072
"""The parser takes a microsecond for each tag."""
_LARGE = 2**20
_SLICE = 65_536
_HOLE = "<\0>"
"""Replaces a record that was cut out; no document contains a NUL."""
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What to read from a document: records by their tag, with their fields, and fields outside of records."""

    records: Mapping[str, tuple[str, ...]]
    fields: tuple[str, ...]


@dataclass(slots=True)
class Document:
    records: dict[str, list[Record]]
    fields: dict[str, str | None]


def read(body: bytes, shape: Shape, asked: int) -> Document:
    """The records and fields of `body`, with None for missing fields; `ProviderFailed` if it is not such a page.

    `asked` is the number of requested records, which bounds the work done here.
    """
    # Counting frequent characters takes time, too, and small pages are read quickly anyway.
    tags = body.count(b"<") if len(body) > _LARGE else 0
    if tags > (asked + 1) * _MOST_TAGS or body.count(b"&") > (asked + 1) * _MOST_ENTITIES:
        raise malformed_response("a listing with far more in it than was requested")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise malformed_response("a listing that is not UTF-8") from None
    document = scan(text, shape) or parse(text, shape)
    check_count(sum(map(len, document.records.values())), asked)
    return document


async def run_parser(reader: Callable[..., T], body: bytes, *arguments: Any) -> T:
    """The result of `reader`; large bodies are read in a thread, so that the event loop is not blocked."""
    if len(body) <= _LARGE:
        return reader(body, *arguments)
    return await asyncio.to_thread(reader, body, *arguments)


def scan(text: str, shape: Shape) -> Document | None:
    """Read the document by scanning; None if it has an unusual form."""
    prologue = _PROLOGUE.match(text)
    if prologue is None or _is_unusual(text, prologue):
        return None
    body = text[prologue.end() :].rstrip()
    if not body.endswith(f"</{prologue[2]}>"):
        return None
    records: dict[str, list[Record]] = {}
    for tag, names in shape.records.items():
        found = _cut(body, tag, names)
        if found is None:
            return None
        records[tag], body = found
    fields: dict[str, str | None] = {}
    for name in shape.fields:
        try:
            fields[name] = _field(body, name)
        except ValueError:
            return None
    return Document(records, fields)


def _is_unusual(text: str, prologue: re.Match[str]) -> bool:
    """Whether there is more than tags and text. Attributes are harmless on elements that are not read."""
    start = prologue.end()
    return (
        "\0" in text
        or "xmlns:" in text
        or "<xml:" in text
        or _tag_begins_with("!", text, start)
        or _tag_begins_with("?", text, start)
    )


def _tag_begins_with(mark: str, text: str, start: int) -> bool:
    """Searches for the mark, which is rare, instead of the bracket before it, which is not."""
    while (start := text.find(mark, start)) >= 0:
        if text[start - 1] == "<":
            return True
        start += 1
    return False


@cache
def _beginning(tag: str) -> re.Pattern[str]:
    return re.compile(rf"<{re.escape(tag)}([\s/>])")


@cache
def _unusual(tag: str) -> re.Pattern[str]:
    return re.compile(rf"<{re.escape(tag)}[\s/]")


def _cut(text: str, tag: str, names: tuple[str, ...]) -> tuple[list[Record], str] | None:
    """The records of one tag, and the text without them."""
    pieces = text.split(f"<{tag}>")
    end = f"</{tag}>"
    if end in pieces[0] or _unusual(tag).search(text):
        return None
    holes = "\0" in text
    insides: list[str] = []
    outsides = [pieces[0]]
    for piece in pieces[1:]:
        inside, closed, rest = piece.partition(end)
        if not closed or end in rest or (holes and _HOLE in inside):
            return None
        insides.append(inside)
        outsides.append(rest)
    outside = _HOLE.join(outsides)
    if not insides:
        return [], outside
    try:
        columns = [_column(insides, name, text.count(f"<{name}") - outside.count(f"<{name}")) for name in names]
    except ValueError:
        return None
    return list(zip(*columns, strict=True)), outside


def _column(insides: list[str], name: str, beginnings: int) -> list[str | None]:
    """One field of all records; `beginnings` is the number of tags that begin with its name."""
    if not beginnings:
        return [None] * len(insides)
    opening, closing = f"<{name}>", f"</{name}>"
    column: list[str | None] = []
    found = 0
    for inside in insides:
        start = inside.find(opening)
        if start < 0:
            column.append(None)
            continue
        found += 1
        start += len(opening)
        stop = inside.find("<", start)
        if not inside.startswith(closing, stop):
            raise ValueError
        value = inside[start:stop]
        column.append(_plain(value) if "&" in value or "\r" in value else value)
    if found == beginnings:
        return column
    # A record has two of them, or an empty one, or a tag whose name begins with this one: read each record.
    return [_field(inside, name) for inside in insides]


def _field(text: str, name: str) -> str | None:
    """The text of the element `name`; `ValueError` if only the parser can tell."""
    beginnings = list(_beginning(name).finditer(text))
    if not beginnings:
        return None
    (beginning,) = beginnings
    if text.startswith(("/>", " />"), beginning.start(1)):
        return ""
    start = beginning.end()
    stop = text.find("<", start)
    if beginning[1] != ">" or not text.startswith(f"</{name}>", stop):
        raise ValueError
    return _plain(text[start:stop])


def _plain(value: str) -> str:
    if "\r" in value:
        raise ValueError
    if "&" not in value:
        return value
    if value.count("&") != len(_ENTITY.findall(value)):
        raise ValueError
    return _ENTITY.sub(_character, value)


def _character(match: re.Match[str]) -> str:
    hexadecimal, decimal, name = match.groups()
    if name:
        return _NAMED[name]
    code = int(hexadecimal, 16) if hexadecimal else int(decimal)
    if not (code in (9, 10, 13) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF):
        raise ValueError
    return chr(code)


def parse(text: str, shape: Shape) -> Document:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise malformed_response("a listing with a DTD")
    if text.count("<") > _MOST_TAGS_TO_PARSE:
        raise malformed_response("a large listing of an unusual form")
    parser = ElementTree.XMLParser()  # noqa: S314  (no DTD, so no entities to expand)
    try:
        for start in range(0, len(text), _SLICE):
            parser.feed(text[start : start + _SLICE])
        root = parser.close()
    except ElementTree.ParseError:
        raise malformed_response("a listing that is not XML") from None
    document = Document({tag: [] for tag in shape.records}, dict.fromkeys(shape.fields))
    try:
        _collect(root, shape, document)
    except RecursionError:
        raise malformed_response("an endlessly nested listing") from None
    return document


def _collect(element: ElementTree.Element, shape: Shape, document: Document) -> None:
    for child in element:
        tag = _local(child)
        if tag in shape.records:
            names = shape.records[tag]
            document.records[tag].append(tuple([_find(child, name) for name in names]))
        elif tag in shape.fields and document.fields[tag] is None:
            document.fields[tag] = child.text or ""
        else:
            _collect(child, shape, document)


def _find(record: ElementTree.Element, name: str) -> str | None:
    for element in record.iter():
        if element is not record and _local(element) == name:
            return element.text or ""
    return None


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
