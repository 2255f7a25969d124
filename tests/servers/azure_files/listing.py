"""The answer to a listing: BOM, XML, markers that mean nothing to anyone else."""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from email.utils import format_datetime
from xml.sax.saxutils import escape, quoteattr

from .shares import File, Folder, Node, Refusal, folded

MOST = 5000


def listing(
    base: str, share: str, directory: str, folder: Folder, query: Mapping[str, str], *, extended: bool
) -> bytes:
    size = _size(query.get("maxresults"))
    start = read_marker(query["marker"]) if query.get("marker") else ""
    prefix = query.get("prefix", "")
    include = {word.lower() for word in query.get("include", "").split(",") if word}
    found = [(key, node) for key, node in folder.ordered() if key >= start and key.startswith(folded(prefix))]
    page, rest = found[:size], found[size:]
    place = f"ServiceEndpoint={quoteattr(base)} ShareName={quoteattr(share)} DirectoryPath={quoteattr(directory)}"
    parts = [f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults {place}>']
    parts += [f"<{tag}>{escape(query[name])}</{tag}>" for tag, name in _ECHOED if query.get(name)]
    if extended:
        parts.append(f"<DirectoryId>{folder.id}</DirectoryId>")
    parts.append("<Entries>")
    parts += [_record(node, include, extended) for _, node in page]
    parts.append("</Entries>")
    parts.append(f"<NextMarker>{make_marker(rest[0][0])}</NextMarker>" if rest else "<NextMarker />")
    parts.append("</EnumerationResults>")
    return b"\xef\xbb\xbf" + "".join(parts).encode()


_ECHOED = (("Prefix", "prefix"), ("Marker", "marker"), ("MaxResults", "maxresults"))


def make_marker(key: str) -> str:
    encoded = base64.b64encode(key.encode()).decode()
    return f"1!{len(encoded)}!{encoded}"


def read_marker(marker: str) -> str:
    match = re.fullmatch(r"1!(\d{1,5})!([A-Za-z0-9+/]+=*)", marker)
    try:
        if match is None or int(match[1]) != len(match[2]):
            raise ValueError
        return base64.b64decode(match[2], validate=True).decode()
    except (ValueError, binascii.Error):
        raise Refusal(400, "InvalidQueryParameterValue") from None


def _size(text: str | None) -> int:
    if text is None:
        return MOST
    if not re.fullmatch(r"-?\d{1,10}", text):
        raise Refusal(400, "InvalidQueryParameterValue")
    if int(text) <= 0:
        raise Refusal(400, "OutOfRangeQueryParameterValue")
    return min(int(text), MOST)


def _record(node: Node, include: Collection[str], extended: bool) -> str:
    tag = "File" if isinstance(node, File) else "Directory"
    properties = f"<Content-Length>{len(node.content)}</Content-Length>" if isinstance(node, File) else ""
    if "timestamps" in include:
        properties += (
            f"<CreationTime>{stamp(node.created)}</CreationTime>"
            f"<LastAccessTime>{stamp(node.written)}</LastAccessTime>"
            f"<LastWriteTime>{stamp(node.written)}</LastWriteTime>"
            f"<ChangeTime>{stamp(node.changed)}</ChangeTime>"
            f"<Last-Modified>{format_datetime(node.changed, usegmt=True)}</Last-Modified>"
        )
    if "etag" in include:
        properties += f"<Etag>{escape(node.etag)}</Etag>"
    ids = f"<FileId>{node.id}</FileId>" if extended else ""
    wrapped = f"<Properties>{properties}</Properties>" if properties else "<Properties />"
    attributes = ""
    if "attributes" in include:
        attributes = f"<Attributes>{'Archive' if isinstance(node, File) else 'Directory'}</Attributes>"
    return f"<{tag}><Name>{escape(node.name)}</Name>{ids}{wrapped}{attributes}</{tag}>"


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
