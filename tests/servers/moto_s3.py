"""An S3 in memory: moto's server, one for the whole run."""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3 import models, responses
from moto.s3.exceptions import PreconditionFailed
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

KEYS = {"access-key-id": "portico-test", "secret-access-key": "portico-test-secret"}


@cache
def moto_s3() -> str:
    """The server's address; it is started when it is first asked for."""
    _tell_when_uploads_began()
    _list_no_deleted_folders()
    _compare_in_copies()
    server = make_server("127.0.0.1", 0, _application(), threaded=True, request_handler=_Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    atexit.register(server.shutdown)
    return f"http://127.0.0.1:{server.port}"


def _application() -> Any:
    """S3, and STS where it is asked. The dispatcher of all services is a quarter of the work of a request."""
    s3, all_services = create_backend_app("s3"), DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        asked = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        return (all_services if asked == ("POST", "/") else s3)(environ, start_response)

    return application


class _Handler(MotoRequestHandler):  # type: ignore[misc]
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nobody reads it."""


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
