"""An HTTP server of ours in a thread of its own, on a free port of the loopback address."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Self

from aiohttp import web

from ..gateways import WAIT


class ThreadedServer:
    """A subclass answers requests in `_handle`."""

    def __init__(self, name: str) -> None:
        self.url = ""
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        self._started.result(WAIT)
        return self

    def stop(self) -> None:
        loop, stop = self._started.result(WAIT)
        loop.call_soon_threadsafe(stop.set)
        self._thread.join(WAIT)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._started.set_exception(error)

    async def _serve(self) -> None:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        stop = asyncio.Event()
        self._started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        await runner.cleanup()
