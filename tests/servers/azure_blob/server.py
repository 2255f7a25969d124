"""HTTP in front of the containers, in a thread of its own."""

import base64
import re
from collections import Counter
from email.utils import format_datetime
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

from aiohttp import web

from ..azure_files import Answer, Refusal, refused
from ..azure_files.signatures import check_shared_key
from ..threaded_server import ThreadedServer
from .containers import Blob, Container, check_conditions, check_md5
from .listing import listing


class AzureBlobServer(ThreadedServer):
    def __init__(self) -> None:
        super().__init__("azure-blob-server")
        self.account = "porticotest"
        self.key = base64.b64encode(b"the key of the test account, never used elsewhere").decode()
        self.containers: dict[str, Container] = {}
        self.calls: Counter[str] = Counter()
        """How often each kind of request came."""

    @property
    def connection_string(self) -> str:
        return f"AccountName={self.account};AccountKey={self.key};BlobEndpoint={self.url}"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        try:
            answer = self._work(request, body)
        except Refusal as refusal:
            answer = refused(refusal)
        headers = {
            "x-ms-request-id": str(uuid4()),
            "x-ms-version": request.headers.get("x-ms-version", ""),
            **answer.headers,
        }
        if request.method == "HEAD":
            return web.Response(status=answer.status, headers=headers)
        headers.pop("Content-Length", None)
        return web.Response(status=answer.status, headers=headers, body=answer.body)

    def _work(self, request: web.BaseRequest, body: bytes) -> Answer:
        raw_path, _, raw_query = request.raw_path.partition("?")
        pairs = parse_qsl(raw_query, keep_blank_values=True)
        if "Authorization" not in request.headers:
            raise Refusal(401, "NoAuthenticationInformation")
        check_shared_key(self.account, self.key, request.method, raw_path, pairs, request.headers)
        query = dict(pairs)
        headers = {name.lower(): value for name, value in request.headers.items()}
        place, _, name = unquote(raw_path.removeprefix("/"), errors="strict").partition("/")
        container = self.containers.get(place)
        if container is None:
            raise Refusal(404, "ContainerNotFound")
        copies = "x-ms-copy-source" in headers
        self.calls[" ".join(filter(None, (request.method, query.get("comp"), "copy" * copies)))] += 1
        match request.method, query.get("comp"):
            case "GET", "list" if query.get("restype") == "container" and not name:
                return Answer(200, {"Content-Type": "application/xml"}, listing(container, query))
            case "PUT", "block":
                check_md5(body, headers)
                container.stage(name, query["blockid"], body)
                return Answer(201)
            case "PUT", "blocklist":
                return self._commit(container, name, headers, body)
            case "PUT", None:
                return self._put(container, name, headers, body)
            case (("GET" | "HEAD"), None):
                return self._get(container.find(name, query), container.blobs.get(name), headers)
            case "DELETE", None:
                check_conditions(container.find(name, query), headers)
                container.delete(name, query)
                return Answer(202)
        raise Refusal(400, "UnsupportedHttpVerb")

    def _put(self, container: Container, name: str, headers: dict[str, str], body: bytes) -> Answer:
        check_conditions(container.blobs.get(name), headers)
        if "x-ms-copy-source" in headers:
            return self._copy(container, name, headers)
        if headers.get("x-ms-blob-type") != "BlockBlob":
            raise Refusal(400, "MissingRequiredHeader")
        check_md5(body, headers)
        return Answer(201, _described(container.put(name, body, _own(headers))))

    def _commit(self, container: Container, name: str, headers: dict[str, str], body: bytes) -> Answer:
        check_conditions(container.blobs.get(name), headers)
        staged = container.blocks.get(name, {})
        blocks = re.findall(r"<Latest>([^<]*)</Latest>", body.decode())
        if not all(block in staged for block in blocks):
            raise Refusal(400, "InvalidBlockList")
        content = b"".join(staged[block] for block in blocks)
        return Answer(201, _described(container.put(name, content, _own(headers))))

    def _copy(self, container: Container, name: str, headers: dict[str, str]) -> Answer:
        source = urlsplit(headers["x-ms-copy-source"])
        if not headers["x-ms-copy-source"].startswith(f"{self.url}/"):
            raise Refusal(404, "CannotVerifyCopySource")
        origin, _, key = unquote(source.path.removeprefix("/"), errors="strict").partition("/")
        found = self.containers[origin].find(key, dict(parse_qsl(source.query)))
        check_conditions(found, headers, "x-ms-source-")
        blob = container.put(name, found.content, dict(found.headers))
        copied = {"x-ms-copy-id": str(uuid4()), "x-ms-copy-status": "success"}
        return Answer(202, _described(blob) | copied)

    def _get(self, blob: Blob, current: Blob | None, headers: dict[str, str]) -> Answer:
        check_conditions(blob, headers)
        described = _described(blob) | blob.headers | {"x-ms-blob-type": "BlockBlob"}
        if blob.version and blob is current:
            described["x-ms-is-current-version"] = "true"
        size = len(blob.content)
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("x-ms-range", "")):
            start, stop = int(asked[1]), min(int(asked[2] or size - 1) + 1, size)
            if start >= size:
                raise Refusal(416, "InvalidRange")
            described["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
            return Answer(206, described, blob.content[start:stop])
        return Answer(200, described | {"Content-Length": str(size)}, blob.content)


def _own(headers: dict[str, str]) -> dict[str, str]:
    """What is kept of a blob's headers."""
    metadata = {name: value for name, value in headers.items() if name.startswith("x-ms-meta-")}
    return {"Content-Type": headers.get("x-ms-blob-content-type", "application/octet-stream"), **metadata}


def _described(blob: Blob) -> dict[str, str]:
    described = {"ETag": blob.etag, "Last-Modified": format_datetime(blob.written, usegmt=True)}
    return described | ({"x-ms-version-id": blob.version} if blob.version else {})
