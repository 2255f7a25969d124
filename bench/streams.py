"""Large bodies, in and out: by `sendfile` where it is plain HTTP, from mapped memory where it is TLS."""

import mmap
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.load import Target

_PIECE = 2**20
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sending:
    """A request whose body is `before`, a file, `after`."""

    method: str
    path: str
    headers: dict[str, str]
    before: bytes = b""
    after: bytes = b""

    def head(self, size: int) -> bytes:
        length = len(self.before) + size + len(self.after)
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.before


def send(target: Target, sendings: Sequence[Sending], file: str, part: int | None = None) -> float:
    """Seconds until all of these, sent at once, are answered; `part` sends only so much of the file."""
    return _at_once([partial(_send, target, sending, file, part) for sending in sendings])


def fetch(target: Target, requests: Sequence[bytes], discard: bool = False) -> float:
    """Seconds until all of these answers, asked for at once, have arrived. With `discard`, the kernel drops what comes
    over plain HTTP instead of copying it, so that two shared cores are the server's."""
    return _at_once([partial(_fetch, target, content, discard) for content in requests])


def _at_once(works: Sequence[Callable[[], None]]) -> float:
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.perf_counter() - began


def _send(target: Target, sending: Sending, file: str, part: int | None) -> None:
    with target.connect() as connection, open(file, "rb") as content:
        size = os.fstat(content.fileno()).st_size if part is None else part
        try:
            connection.sendall(sending.head(size))
            if target.tls:
                with mmap.mmap(content.fileno(), 0, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
                    for start in range(0, size, _PIECE):
                        connection.sendall(view[start : min(size, start + _PIECE)])
            else:
                # In the kernel without a copy: what is measured is the server.
                connection.sendfile(content, 0, size)
            if sending.after:
                connection.sendall(sending.after)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer may say why
        answer = connection.recv(2**16)
        if answer.startswith(b"HTTP/1.1 100"):
            answer = answer.partition(b"\r\n\r\n")[2] or connection.recv(2**16)
        if answer[9:10] != b"2":
            raise RuntimeError(f"the upload was refused: {answer[:600].decode('latin-1')}")


def _fetch(target: Target, content: bytes, discard: bool) -> None:
    flags = socket.MSG_TRUNC if discard and not target.tls else 0
    buffer = bytearray(_PIECE)
    with target.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * _PIECE)
        connection.sendall(content)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(2**16)
            if not piece:
                raise RuntimeError("the answer ended before it began")
            head += piece
        found = _LENGTH.search(head)
        if head[9:12] != b"200" or not found:
            raise RuntimeError(f"no file came: {head[:600].decode('latin-1')}")
        left = int(found[1]) - (len(head) - head.index(b"\r\n\r\n") - 4)
        while left > 0:
            got = connection.recv_into(buffer, 0, flags)
            if not got:
                raise RuntimeError("the answer ended too early")
            left -= got
