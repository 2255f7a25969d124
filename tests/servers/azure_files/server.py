"""The service itself: HTTP in front of the shares, in a thread of its own, with faults on demand."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

from aiohttp import web

from ..threaded_server import ThreadedServer
from .listing import listing, stamp
from .shares import File, Folder, Node, Refusal, Share, split
from .signatures import check_sas, check_shared_key

LARGEST_RANGE = 4 * 2**20
_HEADERS = ("content-type", "content-encoding", "content-language", "content-disposition", "cache-control")


@dataclass(frozen=True, slots=True)
class Call:
    """A request as the service understands it."""

    method: str
    share: str
    path: tuple[str, ...]
    query: dict[str, str]
    headers: dict[str, str] = field(repr=False)
    """By lower-case name."""

    @property
    def verb(self) -> str:
        """What it asks for, in one word or two: `PUT range`, `GET directory list`."""
        words = (self.method, self.query.get("restype", ""), self.query.get("comp", ""))
        return " ".join(filter(None, words))

    def flag(self, name: str) -> bool:
        return self.headers.get(name, "").lower() == "true"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None
    """Where in the body the connection breaks."""


class Lost(Exception):
    """The connection breaks instead of an answer."""


Fault = Callable[[Call, Callable[[], Answer]], Awaitable[Answer | None]]
"""Is asked first: an answer of its own, None for the usual one, or `Lost`. The second argument does the work."""


class AzureFilesServer(ThreadedServer):
    def __init__(self, account: str = "porticotest", key: str | None = None) -> None:
        super().__init__("azure-files-server")
        self.account = account
        self.key = key or base64.b64encode(b"the key of the test account, never used elsewhere").decode()
        self.shares: dict[str, Share] = {}
        self.calls: list[Call] = []
        self.fault: Fault | None = None
        self.copy_looks = 0
        """How often a copy answers that it is still pending."""

    @property
    def connection_string(self) -> str:
        return f"AccountName={self.account};AccountKey={self.key};FileEndpoint={self.url}"

    # One request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        try:
            call = self._read(request)
            self.calls.append(call)
            answer = await self.fault(call, lambda: self._work(call, body)) if self.fault else None
            answer = answer or self._work(call, body)
        except Lost:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        except Refusal as refusal:
            answer = refused(refusal)
        headers = {
            "Server": "Windows-Azure-File/1.0 Microsoft-HTTPAPI/2.0",
            "x-ms-request-id": str(uuid4()),
            "x-ms-version": request.headers.get("x-ms-version", ""),
            "x-ms-client-request-id": request.headers.get("x-ms-client-request-id", ""),
            **answer.headers,
        }
        if request.method == "HEAD":
            return web.Response(status=answer.status, headers=headers)
        if answer.cut is not None:
            return await _cut(request, answer, headers)
        return web.Response(status=answer.status, headers=headers, body=answer.body)

    def _read(self, request: web.BaseRequest) -> Call:
        raw_path, _, raw_query = request.raw_path.partition("?")
        query = parse_qsl(raw_query, keep_blank_values=True)
        headers = {name.lower(): value for name, value in request.headers.items()}
        values = dict(query)
        self._admit(request, raw_path, query, values)
        share, _, path = unquote(raw_path.removeprefix("/"), errors="strict").partition("/")
        dots = headers.get("x-ms-allow-trailing-dot", "").lower() == "true"
        return Call(request.method, share, split(path, trailing_dots=dots), values, headers)

    def _admit(
        self, request: web.BaseRequest, raw_path: str, query: list[tuple[str, str]], values: dict[str, str]
    ) -> None:
        version = request.headers.get("x-ms-version", values.get("sv", ""))
        if not re.fullmatch(r"20\d\d-\d\d-\d\d", version) or version < "2021-06-08":
            raise Refusal(400, "InvalidHeaderValue")
        if "Authorization" in request.headers:
            check_shared_key(self.account, self.key, request.method, raw_path, query, request.headers)
        elif "sig" in values:
            check_sas(self.account, self.key, values, _letters(request.method, values))
        else:
            raise Refusal(401, "NoAuthenticationInformation", WWW_Authenticate="Bearer")

    def _work(self, call: Call, body: bytes) -> Answer:
        if call.query.get("restype") == "share":
            return self._share(call)
        if call.share not in self.shares:
            raise Refusal(404, "ShareNotFound")
        share = self.shares[call.share]
        kind = "directory" if call.query.get("restype") == "directory" else "file"
        comp = call.query.get("comp", "")
        work: Callable[[Share, Call, bytes], Answer] | None = getattr(
            self, f"_{kind}_{call.method.lower()}{'_' if comp else ''}{comp}", None
        )
        if work is None:
            raise Refusal(405, "UnsupportedHttpVerb")
        return work(share, call, body)

    def _share(self, call: Call) -> Answer:
        if call.method == "PUT" and call.share in self.shares:
            raise Refusal(409, "ShareAlreadyExists")
        if call.method == "PUT":
            self.shares[call.share] = Share()
            return Answer(201, {"ETag": '"0x1"', "Last-Modified": "Sun, 01 Jan 2023 00:00:00 GMT"})
        if call.share not in self.shares:
            raise Refusal(404, "ShareNotFound")
        if call.method == "DELETE":
            del self.shares[call.share]
            return Answer(202)
        return Answer(200, {"ETag": '"0x1"', "x-ms-share-quota": "5120"})

    # Folders

    def _directory_get_list(self, share: Share, call: Call, _: bytes) -> Answer:
        extended = call.flag("x-ms-file-extended-info")
        where = "/".join(call.path)
        folder = share.folder(call.path)
        page = listing(f"{self.url}/", call.share, where, folder, call.query, extended=extended)
        return Answer(200, {"Content-Type": "application/xml"}, page)

    def _directory_put(self, share: Share, call: Call, _: bytes) -> Answer:
        folder = share.make_folder(call.path)
        _set_properties(folder, call)
        return Answer(201, described(folder))

    def _directory_get(self, share: Share, call: Call, _: bytes) -> Answer:
        return Answer(200, described(share.folder(call.path)))

    _directory_head = _directory_get

    def _directory_delete(self, share: Share, call: Call, _: bytes) -> Answer:
        share.delete_folder(call.path)
        return Answer(202)

    def _directory_put_rename(self, share: Share, call: Call, _: bytes) -> Answer:
        node = share.rename(self._source(call, "x-ms-file-rename-source"), call.path, folder=True, replace=False)
        return Answer(200, described(node))

    def _directory_put_properties(self, share: Share, call: Call, _: bytes) -> Answer:
        return _set_properties(share.folder(call.path), call)

    def _directory_put_metadata(self, share: Share, call: Call, _: bytes) -> Answer:
        return _set_metadata(share.folder(call.path), call)

    # Files

    def _file_put(self, share: Share, call: Call, body: bytes) -> Answer:
        if "x-ms-copy-source" in call.headers:
            return self._copy(share, call)
        if call.headers.get("x-ms-type", "").lower() != "file" or body:
            raise Refusal(400, "InvalidHeaderValue")
        size = call.headers.get("x-ms-content-length", "")
        if not size.isdigit():
            raise Refusal(400, "MissingRequiredHeader")
        _check_times(call)
        file = share.make_file(call.path, int(size))
        file.headers = _own_headers(call)
        _set_properties(file, call)
        return Answer(201, described(file))

    def _file_put_range(self, share: Share, call: Call, body: bytes) -> Answer:
        file = share.file(call.path)
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", call.headers.get("x-ms-range") or call.headers.get("range", ""))
        mode = call.headers.get("x-ms-write", "").lower()
        if match is None or mode not in ("update", "clear"):
            raise Refusal(400, "InvalidHeaderValue")
        start, stop = int(match[1]), int(match[2]) + 1
        if stop > len(file.content) or stop <= start:
            raise Refusal(416, "InvalidRange")
        if mode == "update" and stop - start > LARGEST_RANGE:
            raise Refusal(413, "RequestBodyTooLarge")
        if len(body) != (stop - start if mode == "update" else 0):
            raise Refusal(400, "InvalidHeaderValue")
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        if call.headers.get("content-md5", md5) != md5:
            raise Refusal(400, "Md5Mismatch")
        file.content[start:stop] = body if mode == "update" else bytes(stop - start)
        file.touch(written=True)
        return Answer(201, described(file) | {"Content-MD5": md5})

    def _file_put_properties(self, share: Share, call: Call, _: bytes) -> Answer:
        file = share.file(call.path)
        if size := call.headers.get("x-ms-content-length"):
            file.content[int(size) :] = bytes(max(0, int(size) - len(file.content)))
        file.headers = _own_headers(call)  # what is not said again is cleared
        return _set_properties(file, call, written="x-ms-content-length" in call.headers)

    def _file_put_metadata(self, share: Share, call: Call, _: bytes) -> Answer:
        return _set_metadata(share.file(call.path), call)

    def _file_put_rename(self, share: Share, call: Call, _: bytes) -> Answer:
        source = self._source(call, "x-ms-file-rename-source")
        replace = call.flag("x-ms-file-rename-replace-if-exists")
        _check_times(call)
        file = share.rename(source, call.path, folder=False, replace=replace)
        return _set_times(file, call)

    def _copy(self, share: Share, call: Call) -> Answer:
        source = share.file(self._source(call, "x-ms-copy-source"))
        content = bytes(source.content)
        file = share.make_file(call.path, len(content))
        file.headers = dict(source.headers)
        file.copy_id, file.copy_source = str(uuid4()), call.headers["x-ms-copy-source"].partition("?")[0]
        file.copied, file.copy_looks = content, self.copy_looks
        _advance(file)
        return Answer(202, described(file) | _copy_headers(file))

    def _file_put_copy(self, share: Share, call: Call, _: bytes) -> Answer:
        file = share.file(call.path)
        if file.copied is None:
            raise Refusal(409, "NoPendingCopyOperation")
        file.copied, file.content = None, bytearray()
        return Answer(204)

    def _file_head(self, share: Share, call: Call, _: bytes) -> Answer:
        file = share.file(call.path)
        _advance(file)
        length = {"Content-Length": str(len(file.content))}
        return Answer(200, described(file) | _content_headers(file) | _copy_headers(file) | length)

    def _file_get(self, share: Share, call: Call, _: bytes) -> Answer:
        file = share.file(call.path)
        headers = described(file) | _content_headers(file) | _copy_headers(file) | {"Accept-Ranges": "bytes"}
        size = len(file.content)
        asked = call.headers.get("x-ms-range") or call.headers.get("range")
        if not asked:
            return Answer(200, headers, bytes(file.content))
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
        if match is None:
            raise Refusal(400, "InvalidHeaderValue")
        start, stop = int(match[1]), min(int(match[2]) + 1 if match[2] else size, size)
        if start >= size:
            raise Refusal(416, "InvalidRange", Content_Range=f"bytes */{size}")
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        return Answer(206, headers, bytes(file.content[start:stop]))

    def _file_delete(self, share: Share, call: Call, _: bytes) -> Answer:
        share.delete_file(call.path)
        return Answer(202)

    def _source(self, call: Call, header: str) -> tuple[str, ...]:
        """The path that a header names by its whole URL; with a SAS the source must carry one too."""
        url = urlsplit(call.headers.get(header, ""))
        share, _, path = unquote(url.path.removeprefix("/"), errors="strict").partition("/")
        if url.scheme != "http" or url.netloc != call.headers["host"] or share != call.share:
            raise Refusal(400, "InvalidHeaderValue")
        if "sig" in call.query and "sig" not in dict(parse_qsl(url.query)):
            raise Refusal(403, "AuthenticationFailed")
        return split(path, trailing_dots=call.flag("x-ms-source-allow-trailing-dot"))


async def _cut(request: web.BaseRequest, answer: Answer, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_length = len(answer.body)
    await response.prepare(request)
    await response.write(answer.body[: answer.cut])
    await asyncio.sleep(0.05)
    assert request.transport is not None
    request.transport.abort()
    return response


def refused(refusal: Refusal) -> Answer:
    body = (
        '\ufeff<?xml version="1.0" encoding="utf-8"?>'
        f"<Error><Code>{refusal.code}</Code><Message>raw words of the service</Message></Error>"
    )
    headers = {"x-ms-error-code": refusal.code, "Content-Type": "application/xml", **refusal.headers}
    return Answer(refusal.status, headers, body.encode())


def described(node: Node) -> dict[str, str]:
    return {
        "ETag": node.etag,
        "Last-Modified": format_datetime(node.changed, usegmt=True),
        "x-ms-file-id": str(node.id),
        "x-ms-file-attributes": "Directory" if isinstance(node, Folder) else "Archive",
        "x-ms-file-creation-time": stamp(node.created),
        "x-ms-file-last-write-time": stamp(node.written),
        "x-ms-file-change-time": stamp(node.changed),
        "x-ms-server-encrypted": "true",
        **node.metadata,
    }


def _content_headers(file: File) -> dict[str, str]:
    return {"x-ms-type": "File", "Content-Type": "application/octet-stream", **file.headers}


def _own_headers(call: Call) -> dict[str, str]:
    named = {name.title(): call.headers.get(f"x-ms-{name}") for name in _HEADERS}
    return {name: value for name, value in named.items() if value}


def _copy_headers(file: File) -> dict[str, str]:
    if not file.copy_id:
        return {}
    done = 0 if file.copied is not None else len(file.content)
    return {
        "x-ms-copy-id": file.copy_id,
        "x-ms-copy-source": file.copy_source,
        "x-ms-copy-status": "pending" if file.copied is not None else "success",
        "x-ms-copy-progress": f"{done}/{len(file.content)}",
    }


def _advance(file: File) -> None:
    if file.copied is None:
        return
    if file.copy_looks:
        file.copy_looks -= 1
        return
    file.content, file.copied = bytearray(file.copied), None
    file.touch(written=True)


def _set_properties(node: Node, call: Call, *, written: bool = False) -> Answer:
    _check_times(call)
    node.touch(written=written)
    node.metadata |= {name: value for name, value in call.headers.items() if name.startswith("x-ms-meta-")}
    return _set_times(node, call)


_TIMES = {"created": "x-ms-file-creation-time", "written": "x-ms-file-last-write-time"}
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})\dZ")


def _check_times(call: Call) -> None:
    """A time has seven fractional digits, as in the service's own answers, and is one that Windows knows."""
    for header in _TIMES.values():
        value = call.headers.get(header, "now")
        match = _TIME.fullmatch(value)
        if value.lower() not in ("now", "preserve") and not (match and value >= "1601"):
            raise Refusal(400, "InvalidHeaderValue")


def _set_times(node: Node, call: Call) -> Answer:
    for name, header in _TIMES.items():
        if match := _TIME.fullmatch(call.headers.get(header, "")):
            setattr(node, name, datetime.fromisoformat(match[1] + "+00:00"))
        elif call.headers.get(header, "").lower() == "now":
            setattr(node, name, node.changed)
    return Answer(200, described(node))


def _set_metadata(node: Node, call: Call) -> Answer:
    node.metadata = {name: value for name, value in call.headers.items() if name.startswith("x-ms-meta-")}
    node.touch()
    return Answer(200, described(node))


def _letters(method: str, query: dict[str, str]) -> str:
    """Which permissions of a SAS allow this, each of them alone."""
    if query.get("comp") == "list":
        return "l"
    return {"GET": "r", "HEAD": "r", "DELETE": "d"}.get(method, "w")
