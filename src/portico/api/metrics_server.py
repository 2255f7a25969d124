"""Serves `/metrics` on an address of its own."""

import asyncio
import errno
from collections.abc import Callable

import structlog

RETRY_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_MAX_REQUEST_LENGTH = 8 * 1024

log = structlog.get_logger()


async def serve_metrics(host: str, port: int, text: Callable[[], str]) -> None:
    """Answer scrapes until this is cancelled.

    Of several workers the first one has the address; the others wait, and one of them has it as soon as it is free.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, text))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except Exception as error:
            log.error("bug", exc_info=error)
        finally:
            writer.close()

    reported = ""
    while True:
        try:
            server = await asyncio.start_server(answer, host, port, limit=_MAX_REQUEST_LENGTH)
        except OSError as error:
            # In use: mostly by another worker, which answers for all.
            if error.errno != errno.EADDRINUSE and str(error) != reported:
                reported = str(error)
                log.error("metrics-not-served", address=f"{host}:{port}", why=reported)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        async with server:
            await server.serve_forever()


def _response(head: bytes, text: Callable[[], str]) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    status, body, kind = "200 OK", b"", "text/plain; version=0.0.4; charset=utf-8"
    if method not in (b"GET", b"HEAD"):
        status = "405 Method Not Allowed\r\nAllow: GET, HEAD"
    elif path != b"/metrics":
        status = "404 Not Found"
    else:
        body = text().encode()
    lines = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return lines.encode() + (b"" if method == b"HEAD" else body)
