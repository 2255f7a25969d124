"""A store without a disk: canned listings, discarded uploads, random downloads.

What a gateway before it costs is then all the gateway's. It runs in processes of its own, with a thread for each
connection that reads into one buffer again and again: `python -m bench.stores PORT [--tls CERT KEY] [--rate BYTES]`.
"""

import argparse
import os
import re
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from multiprocessing import Value
from pathlib import Path
from urllib.parse import parse_qs, unquote

from bench.canned import FOLDER, blob_page, gcs_page, s3_page
from bench.load import Target
from bench.processes import Process, free_port
from bench.servers import S3_KEY, S3_SECRET
from bench.workspace import Workspace

_BUFFER = 2**20
_PROCESSES = 4
_NOISE = os.urandom(_BUFFER)
_ETAG = '"0123456789abcdef0123456789abcdef-1"'
_SIZED = re.compile(r"sized-(\d+)$")
"""A key with this suffix is an object of that many bytes; there are no others."""
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_EMPTY = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Name>bench</Name><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"
)
_XML = "application/xml"
_CALLS = Value("L", 0)
"""Requests so far, in all processes."""


class CannedStore(Process):
    """The store, started."""

    def __init__(self, work: Workspace, *, tls: bool = False, rate: int = 0) -> None:
        port = free_port()
        self.target = Target(port, tls)
        flags = ["--tls", str(work.certificate), str(work.key)] if tls else []
        super().__init__(
            "canned store",
            [sys.executable, "-m", "bench.stores", str(port), *flags, "--rate", str(rate)],
            port,
            log=work.folder / f"store-{port}.log",
        )

    @property
    def url(self) -> str:
        return self.target.url

    @property
    def calls(self) -> int:
        """How many requests it has had."""
        with urllib.request.urlopen(f"{self.url}/calls") as answer:
            return int(answer.read())

    @property
    def s3(self) -> dict[str, str]:
        """The options of a connection to it."""
        return s3_options(self.url)


def s3_options(url: str) -> dict[str, str]:
    return {
        "bucket": "bench",
        "endpoint_url": url,
        "region": "us-east-1",
        "access_key_id": S3_KEY,
        "secret_access_key": S3_SECRET,
    }


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


class _Conversation:
    """One connection, request by request."""

    def __init__(self, connection: socket.socket, rate: int, pages: dict[str, bytes]) -> None:
        self._connection = connection
        self._rate = rate
        self._pages = pages
        self._buffer = bytearray(64 * 1024 if rate else _BUFFER)
        self._ahead = b""
        """Bytes received of the next request, or of the body."""

    def run(self) -> None:
        while request := self._head():
            if "expect" in request.headers:
                self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if "transfer-encoding" in request.headers:
                self._swallow_chunks()
            else:
                self._swallow(int(request.headers.get("content-length", 0)))
            if request.path == "/calls":
                self._send(str(_CALLS.value).encode(), "text/plain")
                continue
            with _CALLS.get_lock():
                _CALLS.value += 1
            self._answer(request)

    def _head(self) -> _Request | None:
        text = self._ahead
        while (end := text.find(b"\r\n\r\n")) < 0:
            piece = self._connection.recv(65536)
            if not piece:
                return None
            text += piece
        self._ahead = text[end + 4 :]
        first, *lines = text[:end].decode("latin-1").split("\r\n")
        method, place, _ = first.split(" ")
        path, _, query = place.partition("?")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return _Request(method, unquote(path), parse_qs(query, keep_blank_values=True), headers)

    def _swallow(self, size: int) -> None:
        taken = min(size, len(self._ahead))
        self._ahead = self._ahead[taken:]
        left = size - taken
        receive, buffer, length = self._connection.recv_into, self._buffer, len(self._buffer)
        while left > 0:
            got = receive(buffer, min(left, length))
            if not got:
                raise ConnectionError
            left -= got
            if self._rate:
                time.sleep(got / self._rate)

    def _swallow_chunks(self) -> None:
        while True:
            while (end := self._ahead.find(b"\r\n")) < 0:
                self._ahead += self._received()
            size = int(self._ahead[:end].partition(b";")[0], 16)
            self._ahead = self._ahead[end + 2 :]
            if not size:
                while b"\r\n" not in self._ahead:
                    self._ahead += self._received()
                self._ahead = self._ahead[2:]
                return
            self._swallow(size + 2)

    def _received(self) -> bytes:
        piece = self._connection.recv(65536)
        if not piece:
            raise ConnectionError
        return piece

    def _answer(self, request: _Request) -> None:
        method, query = request.method, request.query
        if "/storage/v1/b/" in request.path and method == "GET":
            self._send(self._pages["gcs-trimmed" if "fields" in query else "gcs"], "application/json")
        elif query.get("comp") == ["list"]:
            self._send(self._pages["blob"], _XML)
        elif method == "GET" and ("list-type" in query or "delimiter" in query or "prefix" in query):
            self._send(self._pages["s3"] if query.get("prefix") == [FOLDER] else _EMPTY, _XML)
        elif method == "POST":
            self._send(_multipart("uploads" in query), _XML)
        elif method == "PUT":
            self._send(b"", _XML, ETag=_ETAG)
        elif method == "DELETE":
            self._send(b"", _XML, status="204 No Content")
        elif sized := _SIZED.search(request.path):
            self._object(request, int(sized[1]))
        elif method == "HEAD" and request.path.strip("/").count("/") == 0:
            self._send(b"", _XML)  # the bucket is there
        else:
            self._send(b"" if method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>", _XML, "404 Not Found")

    def _object(self, request: _Request, size: int) -> None:
        start, stop, status = 0, size, "200 OK"
        headers = {"ETag": _ETAG, "Accept-Ranges": "bytes", "Last-Modified": "Sat, 14 Nov 2026 09:30:00 GMT"}
        if span := _RANGE.match(request.headers.get("range", "")):
            start, stop = int(span[1]), min(size, int(span[2]) + 1 if span[2] else size)
            status = "206 Partial Content"
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        self._send_head(status, stop - start, "application/octet-stream", headers)
        left = 0 if request.method == "HEAD" else stop - start
        while left > 0:
            piece = memoryview(_NOISE)[:left]
            self._connection.sendall(piece)
            left -= len(piece)

    def _send(self, body: bytes, kind: str, status: str = "200 OK", **headers: str) -> None:
        self._send_head(status, len(body), kind, headers, body)

    def _send_head(self, status: str, length: int, kind: str, headers: dict[str, str], body: bytes = b"") -> None:
        fields = {"Content-Type": kind, "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()), **headers}
        fields |= {"x-ms-version": "2021-12-02", "x-amz-request-id": "bench"}
        if not status.startswith("204"):
            fields["Content-Length"] = str(length)
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        self._connection.sendall("\r\n".join(lines).encode() + body)


def _multipart(begins: bool) -> bytes:
    kind = "InitiateMultipartUploadResult" if begins else "CompleteMultipartUploadResult"
    inner = "<UploadId>bench-upload</UploadId>" if begins else f"<ETag>{_ETAG.replace(chr(34), '&quot;')}</ETag>"
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{kind} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Bucket>bench</Bucket><Key>key</Key>{inner}</{kind}>"
    ).encode()


def _converse(connection: socket.socket, context: ssl.SSLContext | None, rate: int, pages: dict[str, bytes]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with context.wrap_socket(connection, server_side=True) if context else connection as stream:
            _Conversation(stream, rate, pages).run()
    except (OSError, ValueError):
        pass  # the client has gone


def _serve(listener: socket.socket, context: ssl.SSLContext | None, rate: int) -> None:
    pages = {"s3": s3_page(), "blob": blob_page(), "gcs": gcs_page(""), "gcs-trimmed": gcs_page("trimmed")}
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_converse, args=(connection, context, rate, pages), daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--tls", nargs=2, type=Path)
    parser.add_argument("--rate", type=int, default=0, help="bytes a second that one connection may send; 0: all")
    arguments = parser.parse_args()
    context = None
    if arguments.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*arguments.tls)
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=512)
    if arguments.rate:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    children = []
    for _ in range(_PROCESSES):
        if not (child := os.fork()):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _serve(listener, context, arguments.rate)
        children.append(child)

    def end(*_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGTERM)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
