"""The server: routes, authorisation and faults, in a thread of its own."""

import asyncio
import atexit
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from aiohttp import web

from . import uploads
from .accounts import EMAIL, Accounts
from .buckets import Bucket, Content, StoredObject, check_conditions, check_name
from .faults import Answer, CutBody, DropAnswer, Fault, Silence, Status
from .listing import list_page, trimmed
from .refusals import Refusal, invalid, missing_object

_REWRITE_STEP = 4 * 2**20
"""Bytes that one call of a rewrite copies at most."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CUT: web.RequestKey[int] = web.RequestKey("cut", int)


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    query: Mapping[str, str]


@cache
def shared_server() -> "GcsServer":
    """The one of this run, started when it is first asked for."""
    server = GcsServer()
    atexit.register(server.__exit__)
    return server.__enter__()


class GcsServer:
    """`with GcsServer() as server:`; buckets are made by `make_bucket`, wrongs are ordered by `faults`."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.buckets: dict[str, Bucket] = {}
        self.sessions: dict[str, uploads.Session] = {}
        self.rewrites: dict[str, tuple[StoredObject, str, int]] = {}
        self.faults: list[Fault] = []
        self.calls: deque[Call] = deque(maxlen=10_000)
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def make_bucket(self, name: str, *, public: bool = False) -> Bucket:
        bucket = self.buckets[name] = Bucket(name, public)
        return bucket

    def reset(self) -> None:
        """Forget everything but the accounts."""
        for known in (self.buckets, self.sessions, self.rewrites, self.faults, self.calls):
            known.clear()

    @property
    def open_sessions(self) -> int:
        return sum(session.stored is None for session in self.sessions.values())

    @property
    def token_uri(self) -> str:
        return f"{self.address}/token"

    def write_key_file(self, file: Path) -> str:
        file.write_text(json.dumps(self.accounts.service_account(self.token_uri)))
        return str(file)

    async def _serve(self) -> None:
        app = web.Application(middlewares=[self._middleware], client_max_size=0)
        app.add_routes(
            [
                web.post("/token", self.accounts.grant),
                web.get("/computeMetadata/v1/instance/service-accounts/default/token", self.accounts.metadata),
                web.post("/v1/projects/-/serviceAccounts/{tail:.*}", self.accounts.impersonate),
                web.get("/storage/v1/b/{bucket}", self._describe),
                web.get("/storage/v1/b/{bucket}/o", self._list),
                web.post("/upload/storage/v1/b/{bucket}/o", self._insert),
                web.put("/upload/storage/v1/b/{bucket}/o", self._resume),
                web.delete("/upload/storage/v1/b/{bucket}/o", self._cancel),
                web.route("*", "/{way:(?:download/)?storage}/v1/b/{bucket}/o/{tail:.*}", self._object),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.address = f"http://127.0.0.1:{port}"
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    # Faults, authorisation, errors

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.calls.append(Call(request.method, request.rel_url.raw_path, dict(request.query)))
        fault = next((f.what for f in self.faults if f.meets(request.method, request.rel_url.raw_path_qs)), None)
        if isinstance(fault, Status):
            if not fault.early:
                await request.read()
            return web.Response(status=fault.status, body=fault.body, headers=fault.headers)
        if isinstance(fault, Answer) and request.method == "GET":
            return web.Response(status=fault.status, body=fault.body)
        if isinstance(fault, Silence) and not fault.afterwards:
            await asyncio.sleep(3600)
        if isinstance(fault, CutBody):
            request[CUT] = fault.after
        try:
            answer = await handler(request)
        except Refusal as refusal:
            answer = refusal.answer(plain=request.query.get("alt") == "media")
        if isinstance(fault, Silence):
            await asyncio.sleep(3600)
        if isinstance(fault, DropAnswer):
            assert request.transport is not None
            request.transport.abort()
        if isinstance(fault, Answer):
            return web.Response(status=fault.status, body=fault.body)
        return answer

    def _bucket(self, request: web.Request, *permissions: str) -> Bucket:
        bucket = self.buckets.get(request.match_info["bucket"])
        header = request.headers.get("Authorization")
        if header is not None and not self.accounts.knows(header):
            raise Refusal(401, "authError", "Invalid Credentials", {"WWW-Authenticate": "Bearer"})
        if header is None and not (bucket and bucket.public):
            message = "Anonymous caller does not have storage.objects.list access to the Google Cloud Storage bucket."
            raise Refusal(401, "required", message, {"WWW-Authenticate": "Bearer"})
        if bucket is None:
            raise Refusal(404, "notFound", "The specified bucket does not exist.")
        for permission in permissions:
            self._allow(bucket, permission)
        return bucket

    def _allow(self, bucket: Bucket, permission: str) -> None:
        if permission in bucket.denied:
            raise Refusal(
                403,
                "forbidden",
                f"{EMAIL} does not have {permission} access to the Google Cloud Storage object. "
                f"Permission '{permission}' denied on resource (or it may not exist).",
            )

    def _json(self, request: web.Request, document: Any, status: int = 200) -> web.Response:
        body = json.dumps(trimmed(document, request.query.get("fields"))).encode()
        return web.Response(status=status, body=body, content_type="application/json")

    async def _describe(self, request: web.Request) -> web.StreamResponse:
        bucket = self._bucket(request, "storage.buckets.get")
        described = {"kind": "storage#bucket", "id": bucket.name, "name": bucket.name}
        versioning = {"versioning": {"enabled": True}} if bucket.versioning else {}
        return self._json(request, {**described, **versioning})

    # Objects

    async def _list(self, request: web.Request) -> web.StreamResponse:
        bucket = self._bucket(request, "storage.objects.list")
        return self._json(request, list_page(bucket, request.query, self.address))

    async def _object(self, request: web.Request) -> web.StreamResponse:
        # The name's own slashes are escaped, those around it are not: only the raw path tells them apart.
        parts = request.rel_url.raw_path.partition("/o/")[2].split("/")
        name = unquote(parts[0], errors="strict")
        if request.method == "POST" and len(parts) == 6 and parts[1:3] + parts[4:5] == ["rewriteTo", "b", "o"]:
            return await self._rewrite(request, name, unquote(parts[3]), unquote(parts[5], errors="strict"))
        if len(parts) > 1:
            raise Refusal(404, "notFound", "Not Found")
        match request.method:
            case "GET" if request.query.get("alt") == "media":
                return await self._media(request, name)
            case "GET":
                bucket = self._bucket(request, "storage.objects.get")
                return self._json(request, self._current(bucket, name, request.query).resource(self.address))
            case "DELETE":
                bucket = self._bucket(request, "storage.objects.delete")
                bucket.delete(self._current(bucket, name, request.query), request.query)
                return web.Response(status=204)
        raise Refusal(405, "methodNotAllowed", "Method not allowed")

    def _current(self, bucket: Bucket, name: str, query: Mapping[str, str]) -> StoredObject:
        if (
            name not in bucket.objects
        ):  # without the permission to list, the answer does not reveal that there is nothing
            self._allow(bucket, "storage.objects.list")
        return bucket.current(name, query)

    async def _media(self, request: web.Request, name: str) -> web.StreamResponse:
        bucket = self._bucket(request, "storage.objects.get")
        found = self._current(bucket, name, request.query)
        size = found.content.size
        headers = {
            "X-Goog-Generation": str(found.generation),
            "X-Goog-Metageneration": str(found.metageneration),
            "X-Goog-Hash": f"crc32c={found.content.crc32c},md5={found.content.md5}",
            "X-Goog-Stored-Content-Length": str(size),
            "ETag": found.etag,
            "Content-Type": found.content_type or "application/octet-stream",
        }
        if bucket.dates_downloads:
            headers["Last-Modified"] = found.updated.strftime("%a, %d %b %Y %H:%M:%S GMT")
        if found.content_encoding:
            if "gzip" not in request.headers.get("Accept-Encoding", ""):
                raise Refusal(500, "internalError", "This server does not unpack what is stored packed.")
            headers["Content-Encoding"] = found.content_encoding
        asked = request.http_range
        start, stop = 0, size
        if "Range" in request.headers:
            start = asked.start if asked.start is not None else 0
            start = max(0, size + start) if start < 0 else start
            stop = size if asked.stop is None else min(asked.stop, size)
            if start >= size:
                outside = {"Content-Range": f"bytes */{size}"}
                raise Refusal(416, "requestedRangeNotSatisfiable", "Request range not satisfiable", outside)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        response = web.StreamResponse(status=206 if "Range" in request.headers else 200, headers=headers)
        response.content_length = stop - start
        await response.prepare(request)
        cut_at = start + request[CUT] if CUT in request else stop
        while start < min(stop, cut_at):
            piece = found.content.read(start, min(start + 2**18, stop, cut_at))
            await response.write(piece)
            start += len(piece)
        if cut_at < stop:
            assert request.transport is not None
            request.transport.close()
        return response

    async def _rewrite(self, request: web.Request, source: str, bucket_name: str, target: str) -> web.Response:
        bucket = self._bucket(request, "storage.objects.get", "storage.objects.create")
        if bucket_name != bucket.name:
            raise invalid("This server copies within a bucket.")
        wanted = request.query.get("sourceGeneration")
        found = self._current(bucket, source, {} if wanted is None else {"generation": wanted})
        check_conditions(found, request.query, "ifSource")
        old = bucket.objects.get(check_name(target))
        check_conditions(old, request.query)
        if old is not None:
            self._allow(bucket, "storage.objects.delete")
        if await request.read() not in (b"", b"{}"):
            raise invalid("This server copies objects as they are.")
        done = 0
        if (token := request.query.get("rewriteToken")) is not None:
            begun = self.rewrites.pop(token, None)
            if begun is None or begun[:2] != (found, target):
                raise invalid("Invalid rewrite token.")
            done = begun[2]
        done = min(done + _REWRITE_STEP, found.content.size)
        report = {
            "kind": "storage#rewriteResponse",
            "totalBytesRewritten": str(done),
            "objectSize": str(found.content.size),
            "done": done == found.content.size,
        }
        if done < found.content.size:
            report["rewriteToken"] = token = f"rewrite-{len(self.calls)}"
            self.rewrites[token] = (found, target, done)
        else:
            copy = StoredObject(
                bucket.name, target, found.content, found.content_type, dict(found.metadata), found.content_encoding
            )
            bucket.put(copy)
            report["resource"] = copy.resource(self.address)
        return self._json(request, report)

    # Uploads

    async def _insert(self, request: web.Request) -> web.StreamResponse:
        bucket = self._bucket(request, "storage.objects.create")
        query = request.query
        cut = request.get(CUT)
        if cut is not None:
            await request.content.readexactly(cut)
            assert request.transport is not None
            request.transport.abort()
            raise Refusal(400, "badContent", "cut")
        body = await request.read()
        own_type = request.headers.get("Content-Type")
        match query.get("uploadType"):
            case "media":
                known = {**uploads.describe(query, {}, own_type), **uploads.read_hashes(request.headers)}
                media = body
            case "multipart":
                metadata, media_type, media = uploads.read_multipart(own_type or "", body)
                known = uploads.describe(query, metadata, media_type)
            case "resumable":
                return self._begin(request, bucket, body)
            case _:
                raise invalid("Upload requests must have an uploadType.")
        stored = uploads.commit(bucket, query, known, Content(media), self._allow)
        return self._json(request, stored.resource(self.address))

    def _begin(self, request: web.Request, bucket: Bucket, body: bytes) -> web.Response:
        media_type = request.headers.get("X-Upload-Content-Type")
        known = uploads.describe(request.query, uploads.read_metadata(body), media_type)
        check_conditions(bucket.objects.get(known["name"]), request.query)
        length = request.headers.get("X-Upload-Content-Length")
        upload_id, address = uploads.new_address(request)
        self.sessions[upload_id] = uploads.Session(
            bucket, dict(request.query), known, expected=None if length is None else int(length)
        )
        headers = {"Location": address, "X-GUploader-UploadID": upload_id}
        return web.Response(status=200, headers=headers)

    def _session(self, request: web.Request) -> uploads.Session:
        session = self.sessions.get(request.query.get("upload_id", ""))
        if session is None:  # the address is the permission
            raise Refusal(404, "notFound", "Not Found")
        return session

    async def _resume(self, request: web.Request) -> web.StreamResponse:
        session = self._session(request)
        stored = await uploads.receive(session, request, request.get(CUT), self._allow)
        if stored is not None:
            document = trimmed(stored.resource(self.address), session.query.get("fields"))
            return web.Response(body=json.dumps(document).encode(), content_type="application/json")
        headers = {"Range": f"bytes=0-{session.content.size - 1}"} if session.content.size else {}
        return web.Response(status=308, headers=headers)

    async def _cancel(self, request: web.Request) -> web.StreamResponse:
        if self._session(request).stored is not None:
            raise missing_object("", "")
        del self.sessions[request.query["upload_id"]]
        return web.Response(status=499, reason="Client Closed Request")
