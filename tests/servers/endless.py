"""A storage service whose listings never end, for each kind of provider.

Whatever is asked to be copied, renamed or removed is said to be done. A listing goes on for ever, in the way that
`shape` says.
"""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

DATE = "Mon, 02 Nov 2020 10:00:00 GMT"
KEY = "AAAA"  # of an account, as base64


@dataclass(frozen=True)
class Shape:
    """How a listing goes on: the names and the token of its n-th page."""

    names: Callable[[int], list[str]]
    token: Callable[[int], str]


SHAPES: Mapping[str, Shape] = {
    "tokens that alternate": Shape(lambda n: [f"{n:06}"], lambda n: "odd" if n % 2 else "even"),
    "tokens that alternate, the same names": Shape(lambda n: ["a", "b"], lambda n: "odd" if n % 2 else "even"),
    "fresh tokens, the same names": Shape(lambda n: ["a", "b"], lambda n: f"token-{n}"),
    "fresh tokens, nothing else": Shape(lambda n: [], lambda n: f"token-{n}"),
}


@dataclass
class EndlessService:
    shape: Shape
    port: int = 0
    calls: int = 0
    pages: Iterator[int] = field(default_factory=itertools.count)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> Mapping[str, Mapping[str, str]]:
        """Of a connection of each kind."""
        azure = {"account-url": f"{self.url}/account", "account-key": KEY}
        return {
            "s3": {"bucket": "bucket", "endpoint-url": self.url, "access-key-id": "k", "secret-access-key": "s"},
            "gcs": {"bucket": "bucket", "endpoint-url": self.url, "anonymous": "true"},
            "azure-blob": {"container": "container", **azure},
            "azure-files": {"share": "share", **azure},
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.calls += 1
        query = request.query
        if query.get("prefix", "").startswith("target"):
            return self._nothing(query)
        if "list-type" in query:
            return self._s3_page(query)
        if "uploads" in query:
            return self._s3_uploads(query)
        if "delete" in query:
            return web.Response(text="<DeleteResult></DeleteResult>", content_type="application/xml")
        if request.path.endswith("/o") and request.method == "GET":
            return self._gcs_page(query)
        if "rewriteTo" in request.path:
            return web.json_response({"kind": "storage#rewriteResponse", "done": True})
        if query.get("comp") == "list":
            return self._azure_page(query, files=query.get("restype") == "directory")
        if request.path.endswith("/share/folder") and request.method == "DELETE":
            if "restype" not in query:
                return _missing()
            return web.Response(status=409, headers={"x-ms-error-code": "DirectoryNotEmpty"})
        if query.get("restype") == "directory":
            return web.Response(status=201 if request.method == "PUT" else 200, headers=_FILE)
        if request.method == "PUT" and "x-amz-copy-source" in request.headers:
            return web.Response(
                text='<CopyObjectResult><ETag>"e"</ETag></CopyObjectResult>', content_type="application/xml"
            )
        if request.method == "PUT":
            return web.Response(status=201, headers={**_FILE, "x-ms-copy-status": "success"})
        if request.method == "DELETE":
            return web.Response(status=202 if "x-ms-version" in request.headers else 204)
        if request.method == "HEAD" and ".portico~" in request.path:
            return web.Response(headers={**_FILE, "x-ms-copy-status": "success"})
        if request.path.startswith("/bucket/.portico~"):
            return web.Response(text='{"key": "some/file", "upload": null}', headers=_FILE)
        return _missing()

    def _nothing(self, query: Mapping[str, str]) -> web.Response:
        """The place that things are copied to holds nothing."""
        if "list-type" in query:
            text = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        elif query.get("comp") == "list":
            text = "<EnumerationResults><NextMarker></NextMarker></EnumerationResults>"
        else:
            return web.json_response({"kind": "storage#objects"})
        return web.Response(text=text, content_type="application/xml")

    def _s3_page(self, query: Mapping[str, str]) -> web.Response:
        names, token, prefix = self._next(query.get("prefix", ""))
        entries = "".join(
            f"<Contents><Key>{escape(prefix + name)}</Key><LastModified>2020-11-02T10:00:00.000Z</LastModified>"
            f"<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
            for name in names
        )
        return web.Response(
            text=f"<ListBucketResult><IsTruncated>true</IsTruncated>{entries}"
            f"<NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>",
            content_type="application/xml",
        )

    def _s3_uploads(self, query: Mapping[str, str]) -> web.Response:
        names, token, prefix = self._next(query.get("prefix", ""))
        entries = "".join(
            f"<Upload><Key>{escape(prefix)}</Key><UploadId>{name}</UploadId>"
            "<Initiated>2020-11-02T10:00:00.000Z</Initiated></Upload>"
            for name in names
        )
        return web.Response(
            text=f"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>{entries}<NextKeyMarker>{escape(prefix)}"
            f"</NextKeyMarker><NextUploadIdMarker>{token}</NextUploadIdMarker></ListMultipartUploadsResult>",
            content_type="application/xml",
        )

    def _gcs_page(self, query: Mapping[str, str]) -> web.Response:
        names, token, prefix = self._next(query.get("prefix", ""))
        items = [
            {"name": prefix + name, "size": "1", "updated": "2020-11-02T10:00:00.000Z", "generation": "1"}
            for name in names
        ]
        return web.json_response({"kind": "storage#objects", "items": items, "nextPageToken": token})

    def _azure_page(self, query: Mapping[str, str], *, files: bool) -> web.Response:
        names, token, prefix = self._next("" if files else query.get("prefix", ""))
        tag = "File" if files else "Blob"
        entries = "".join(
            f"<{tag}><Name>{escape(prefix + name)}</Name><Properties><Content-Length>1</Content-Length>"
            f"<Last-Modified>{DATE}</Last-Modified><LastWriteTime>2020-11-02T10:00:00.0000000Z</LastWriteTime>"
            f"<Etag>e</Etag></Properties></{tag}>"
            for name in names
        )
        inside = f"<Entries>{entries}</Entries>" if files else f"<Blobs>{entries}</Blobs>"
        return web.Response(
            text=f"<EnumerationResults>{inside}<NextMarker>{token}</NextMarker></EnumerationResults>",
            content_type="application/xml",
        )

    def _next(self, prefix: str) -> tuple[list[str], str, str]:
        number = next(self.pages)
        return self.shape.names(number), self.shape.token(number), prefix


_FILE: dict[str, str] = {
    "ETag": '"e"',
    "Last-Modified": DATE,
    "x-ms-file-last-write-time": "2020-11-02T10:00:00.0000000Z",
    "x-ms-file-id": "1",
}


def _missing() -> web.Response:
    return web.Response(
        status=404,
        headers={"x-ms-error-code": "ResourceNotFound"},
        text='{"error": {"code": 404, "message": "No such object"}}',
    )


@asynccontextmanager
async def endless_service(shape: Shape) -> AsyncIterator[EndlessService]:
    service = EndlessService(shape)

    async def handle(request: Any) -> web.StreamResponse:
        return await service.answer(request)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.port = runner.addresses[0][1]
    try:
        yield service
    finally:
        await runner.cleanup()
