"""What the HTTP server itself costs: an application on it that writes, syncs and reads files, and does nothing else."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from bench.load import Target
from bench.processes import Process, free_port
from bench.workspace import Workspace
from portico.server.processes import BUFFER_BYTES

_PIECE = 2**20


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """PUT writes a file below the folder in which the process runs, GET reads it."""
    if scope["type"] != "http":
        return
    name = scope["path"].rpartition("/")[2]
    if scope["method"] == "GET":
        await _read(name, send)
        return
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    more = True
    while more:
        message = await receive()
        os.write(file, message["body"])
        more = message["more_body"]
    await asyncio.to_thread(os.fsync, file)
    os.close(file)
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


async def _read(name: str, send: Any) -> None:
    size = os.stat(name).st_size
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    file = os.open(name, os.O_RDONLY)
    while chunk := await asyncio.to_thread(os.read, file, _PIECE):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    os.close(file)
    await send({"type": "http.response.body"})


class BareServer(Process):
    def __init__(self, work: Workspace, folder: Path, *, tls: bool = False) -> None:
        port = free_port()
        self.target = Target(port, tls)
        files = [str(work.certificate), str(work.key)] if tls else []
        command = [sys.executable, "-m", "bench.bare", str(port), str(folder), *files]
        super().__init__("a bare application", command, port, log=work.folder / f"bare-{port}.log")


def serve(port: int, folder: str, *tls: str) -> None:
    os.chdir(folder)
    Server(
        "bench.bare:application",
        port=port,
        interface=Interfaces.ASGI,
        workers=2,
        http=HTTPModes.http1,
        websockets=False,
        http1_settings=HTTP1Settings(max_buffer_size=BUFFER_BYTES),
        log_level=LogLevels.warning,
        ssl_cert=Path(tls[0]) if tls else None,
        ssl_key=Path(tls[1]) if tls else None,
    ).serve()


if __name__ == "__main__":
    serve(int(sys.argv[1]), *sys.argv[2:])
