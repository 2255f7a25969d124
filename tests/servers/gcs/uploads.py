"""Uploads: media, multipart and resumable."""

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from .buckets import Bucket, Content, StoredObject, check_conditions, check_name
from .refusals import Refusal, invalid

QUANTUM = 256 * 1024
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")

Allow = Callable[[Bucket, str], None]


@dataclass
class Session:
    bucket: Bucket
    query: Mapping[str, str]
    described: dict[str, Any]
    content: Content = field(default_factory=Content)
    expected: int | None = None
    stored: StoredObject | None = None


def describe(query: Mapping[str, str], metadata: Mapping[str, Any], content_type: str | None) -> dict[str, Any]:
    """What is to be stored, from the metadata and the query, which may name the object too."""
    if "name" in query and metadata.get("name", query["name"]) != query["name"]:
        raise invalid("Value in content does not agree with value in query.")
    known = dict(metadata)
    known["name"] = check_name(metadata.get("name") or query.get("name"))
    known.setdefault("contentType", content_type)
    return known


def commit(
    bucket: Bucket, query: Mapping[str, str], known: Mapping[str, Any], content: Content, allow: Allow
) -> StoredObject:
    old = bucket.objects.get(known["name"])
    check_conditions(old, query)
    content.check(known.get("crc32c"), known.get("md5Hash"))
    if old is not None:
        allow(bucket, "storage.objects.delete")
    stored = StoredObject(
        bucket.name,
        known["name"],
        content,
        known.get("contentType"),
        dict(known.get("metadata") or {}),
        known.get("contentEncoding"),
    )
    bucket.put(stored)
    return stored


def read_multipart(content_type: str, body: bytes) -> tuple[dict[str, Any], str | None, bytes]:
    """The metadata, the media's own type, and the media."""
    boundary = re.search(r'boundary="?([^";]+)"?', content_type)
    if not content_type.startswith("multipart/related") or not boundary:
        raise invalid("Multipart upload needs multipart/related with a boundary.")
    mark = b"--" + boundary[1].encode()
    start, end = body.find(mark), body.rfind(b"\r\n" + mark + b"--")
    middle = body.find(b"\r\n" + mark + b"\r\n", start)
    if start != 0 or end < 0 or not 0 <= middle < end:
        raise invalid("Malformed multipart body.")
    first = body[len(mark) + 2 : middle]
    second = body[middle + len(mark) + 2 : end]  # its headers may be missing
    head, _, metadata = first.partition(b"\r\n\r\n")
    if b"application/json" not in head.lower():
        raise invalid("The first part of a multipart upload is the metadata.")
    media_head, gap, media = second.partition(b"\r\n\r\n")
    if not gap:
        raise invalid("Malformed multipart body.")
    kind = re.search(rb"(?i)content-type: *([^\r\n]+)", media_head)
    return read_metadata(metadata), kind[1].decode() if kind else None, media


def read_metadata(body: bytes) -> dict[str, Any]:
    try:
        metadata = json.loads(body) if body.strip() else {}
    except ValueError:
        raise Refusal(400, "parseError", "Parse Error") from None
    if not isinstance(metadata, dict):
        raise Refusal(400, "parseError", "Parse Error")
    return metadata


def read_hashes(headers: Mapping[str, str]) -> dict[str, str]:
    """`X-Goog-Hash` by the names that the metadata uses."""
    found = {}
    for item in headers.get("X-Goog-Hash", "").split(","):
        name, _, value = item.strip().partition("=")
        if name in ("crc32c", "md5"):
            found["md5Hash" if name == "md5" else name] = value
    return found


def new_address(request: web.Request) -> tuple[str, str]:
    upload_id = secrets.token_urlsafe(32)
    return upload_id, str(request.url.with_query({"uploadType": "resumable", "upload_id": upload_id}))


async def receive(session: Session, request: web.Request, cut_after: int | None, allow: Allow) -> StoredObject | None:
    """Take a chunk, or tell how far the upload is; the object once it is complete."""
    place = _CONTENT_RANGE.fullmatch(request.headers.get("Content-Range", ""))
    if not place:
        raise Refusal(400, "badContent", "Failed to parse Content-Range header.")
    total = None if place[3] == "*" else int(place[3])
    if session.stored is not None:
        await request.read()
        return session.stored
    if session.expected is not None and total not in (None, session.expected):
        raise invalid("The size of the upload is not the one that was announced.")
    if place[1] is not None:
        await _take(session, request, int(place[1]), int(place[2]), total, cut_after)
    elif (request.content_length or 0) > 0:
        raise Refusal(400, "badContent", "A status query has no body.")
    if total is None or session.content.size < total:
        return None
    if session.content.size > total:
        raise invalid("More bytes than the upload has in all.")
    known = {**session.described, **read_hashes(request.headers)}
    session.stored = commit(session.bucket, session.query, known, session.content, allow)
    return session.stored


async def _take(
    session: Session, request: web.Request, first: int, last: int, total: int | None, cut_after: int | None
) -> None:
    length = last - first + 1
    if request.content_length != length:
        raise Refusal(400, "badContent", "Content-Length does not agree with Content-Range.")
    if total is None and length % QUANTUM:
        raise invalid(f"All chunks but the last must be multiples of {QUANTUM} bytes.")
    if first > session.content.size:
        raise invalid(
            f"According to the Content-Range header, the upload offset is {first} byte(s), "
            f"which exceeds already uploaded size of {session.content.size} byte(s)."
        )
    known = session.content.size - first
    taken = bytearray()
    try:
        async for piece in request.content.iter_any():
            taken += piece
            if cut_after is not None and len(taken) >= cut_after:
                assert request.transport is not None
                request.transport.abort()
                raise ConnectionResetError("as the test wants it")
    except (OSError, web.HTTPException):
        # Of a chunk that broke off, whole quanta are kept.
        whole = (first + len(taken)) // QUANTUM * QUANTUM - first
        session.content.append(bytes(taken[known : max(known, whole)]))
        raise
    session.content.append(bytes(taken[known:]))
