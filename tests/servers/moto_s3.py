"""An S3 in memory: moto's server, one for the whole run."""

import atexit
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from aiohttp import web
from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3 import models, responses
from moto.s3.exceptions import PreconditionFailed
from moto.s3.models import s3_backends

from .threaded_server import ThreadedServer

KEYS = {"access-key-id": "portico-test", "secret-access-key": "portico-test-secret"}


@cache
def moto_s3() -> str:
    """The server's address; it is started when it is first asked for."""
    _tell_when_uploads_began()
    _list_no_deleted_folders()
    _compare_in_copies()
    server = _Server("moto").start()
    atexit.register(server.stop)
    return server.url


class _Server(ThreadedServer):
    """One thread that keeps connections: moto's own server takes a thread and a connection for each request, which is
    more work than the answer."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # S3, and STS where it is asked. The dispatcher of all services is a quarter of the work of a request.
        self._s3, self._all_services = create_backend_app("s3"), DomainDispatcherApplication(create_backend_app)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # the answer has not begun
        body = await request.content.read()  # of any size
        answer = web.Response()

        def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            answer.set_status(int(status[:3]))
            for name, value in headers:
                answer.headers.add(name, value)

        asked = request.method, request.path
        application = self._all_services if asked == ("POST", "/") else self._s3
        pieces = application(_environ(request, body), start_response)
        answer.body = b"".join(pieces)
        pieces.close()
        return answer


def _environ(request: web.BaseRequest, body: bytes) -> dict[str, Any]:
    """The request as WSGI has it."""
    environ = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(request.rel_url.raw_path).decode("latin-1"),
        "QUERY_STRING": request.rel_url.raw_query_string,
        "RAW_URI": request.raw_path,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    return environ


def _tell_when_uploads_began() -> None:
    """moto says of every multipart upload that it was begun in 2010; a sweep goes by when it was."""
    began: dict[str, datetime] = {}
    create, result = models.FakeMultipart.__init__, responses.ActionResult

    def noted(upload: Any, *args: Any, **options: Any) -> None:
        create(upload, *args, **options)
        began[upload.id] = datetime.now(UTC)

    def dated(content: Any) -> Any:
        for upload in content.get("Uploads", ()) if isinstance(content, dict) else ():
            upload["Initiated"] = began[upload["UploadId"]]
        return result(content)

    models.FakeMultipart.__init__ = noted
    responses.ActionResult = dated


def _list_no_deleted_folders() -> None:
    """moto lists a folder even if all that was in it is deleted, and only older versions are left."""
    listed = models.S3Backend.list_objects

    def list_objects(backend: Any, bucket: Any, *args: Any, **options: Any) -> Any:
        if bucket.versioning_status == "Enabled":
            marker = models.FakeDeleteMarker
            live = {name: key for name, key in bucket.keys.items() if not isinstance(key, marker)}
            bucket = SimpleNamespace(keys=live)
        return listed(backend, bucket, *args, **options)

    models.S3Backend.list_objects = list_objects


def _compare_in_copies() -> None:
    """moto ignores the conditions of a copy, which Amazon honors."""
    copy = responses.S3Response.copy_object

    def copy_object(response: Any) -> Any:
        headers, backend = response.headers, response.backend
        source, _, query = unquote(headers["x-amz-copy-source"]).lstrip("/").partition("?versionId=")
        copied = backend.get_object(*source.split("/", 1), version_id=query or None)
        target = backend.get_object(response.bucket_name, response.parse_key_name())
        for header, found in (("x-amz-copy-source-if-match", copied), ("If-Match", target)):
            if (etag := headers.get(header)) and (found is None or found.etag.strip('"') != etag.strip('"')):
                raise PreconditionFailed(header)
        if headers.get("If-None-Match") == "*" and target is not None:
            raise PreconditionFailed("If-None-Match")
        return copy(response)

    responses.S3Response.copy_object = copy_object


@contextmanager
def moto_buckets(*names: str) -> Iterator[None]:
    """New buckets, removed with all that they hold. Behind the server's back: by its interface this took longer than
    most tests that need one."""
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for name in names:
        backend.create_bucket(name, "us-east-1")
    try:
        yield
    finally:
        for name in names:
            bucket = backend.buckets[name]
            for content in (bucket.keys, bucket.multiparts):
                for thing in content.values():
                    if hasattr(thing, "dispose"):  # a delete marker holds nothing
                        thing.dispose()
                content.clear()
            backend.delete_bucket(name)
