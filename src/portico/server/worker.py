"""What happens in each worker process: loading the application, signals, and limits on connections."""

import asyncio
import ctypes
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from granian import _signals

from portico.model.errors import PorticoError, for_administrator
from portico.runtime.processes import borrowed_socket
from portico.server.idle_connections import IdleConnections
from portico.settings.settings import Settings, load

RETIREMENT_SECONDS = 3600.0
"""How long a request that was running at a reload may continue, in the worker that was replaced."""


class RetiredWorkers:
    def __init__(self) -> None:
        self._ends: dict[BaseProcess, float] = {}
        """Each worker, and when it is killed."""

    def retire(self, worker: BaseProcess) -> None:
        if worker.pid and worker.is_alive():
            os.kill(worker.pid, RETIRE_SIGNAL)
            self._ends[worker] = time.monotonic() + RETIREMENT_SECONDS

    def tend(self) -> None:
        for worker, end in list(self._ends.items()):
            if not worker.is_alive():
                del self._ends[worker]
            elif time.monotonic() > end:
                worker.kill()

    def terminate(self) -> None:
        for worker in self._ends:
            worker.terminate()

    def join(self, until: float) -> None:
        """Wait for all of them, and kill those that are still running at that time."""
        for worker in self._ends:
            worker.join(max(0.0, until - time.monotonic()))
            worker.kill()
            worker.join()
        self._ends.clear()


UNREAD_TIMEOUT_MS = 120_000
KILL_WITH_PARENT = sys.platform == "linux"
"""Whether the kernel can be asked to kill a process whose parent has ended."""
RETIRE_SIGNAL = signal.SIGUSR1
"""From the parent: accept no more connections, and finish what is running."""
DRAIN_SIGNAL = signal.SIGUSR2
"""From the parent: be not ready, and go on serving until SIGTERM."""


def load_app_in_worker(home: str, overrides: dict[str, str], listening: Connection, *, patient: bool = True) -> Any:
    """The application; the id of this process is sent to `listening` when it accepts connections.

    If `patient`, it waits for a database that does not answer.
    """
    # A forked worker inherits its parent's handlers, and would ignore SIGTERM until it serves.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(DRAIN_SIGNAL, signal.SIG_IGN)  # by default it would end a worker that is starting
    # Ctrl-C goes to the parent, which then signals its workers: two signals at once may deadlock Granian's stop.
    os.setpgid(0, 0)
    _end_with_parent()
    share_arenas()
    gc.disable()  # until it serves
    from portico.observability import logs
    from portico.server.application import create_app

    try:
        settings = load(Path(home), overrides=overrides)
        request_log = logs.configure(settings.log_level, settings.node)
        app = create_app(settings, request_log, patient=patient)
        _call_on_stop(app.on_stop, app.on_drain)
        return _with_signals_held(_with_connection_limit(app, settings), listening)
    except PorticoError as error:
        print(for_administrator(error), file=sys.stderr, flush=True)
        sys.exit(1)


def _call_on_stop(stop_work: Callable[[], None], drain: Callable[[], None]) -> None:
    """Call `stop_work` on SIGTERM: Granian shuts the application down only after all requests have ended.

    On `RETIRE_SIGNAL` the worker was replaced: it accepts no more connections, but all its work may continue. On
    `DRAIN_SIGNAL` it goes on as before, but `drain` is called.
    """
    set_signals = _signals.set_loop_signals

    def set_and_call(loop: Any) -> Any:
        event = set_signals(loop)  # type: ignore[no-untyped-call]
        retired = False

        def retire() -> None:
            nonlocal retired
            if not retired:  # twice might deadlock Granian's stop
                retired = True
                event.set()

        def stop() -> None:
            stop_work()
            retire()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        loop.add_signal_handler(RETIRE_SIGNAL, retire)
        loop.add_signal_handler(DRAIN_SIGNAL, drain)
        return event

    _signals.set_loop_signals = set_and_call


def _with_connection_limit(app: Any, settings: Settings) -> Any:
    if sys.platform != "linux" or not settings.max_connections_per_address:
        return app
    idle = IdleConnections(settings.port, settings.max_connections_per_address, settings.behind_proxy)
    idle.watch()
    return idle.tracking(app)


def _end_with_parent() -> None:
    """Without its parent, a worker would occupy the port and block the next start.

    It is killed: an orderly stop would wait for its requests, and whatever is killed leaves nothing half done.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    set_parent_death_signal = 1
    if KILL_WITH_PARENT and ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL) == 0:
        if os.getppid() != parent.pid:  # it was gone before
            os.kill(os.getpid(), signal.SIGKILL)
        return

    def end() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end, name="parent", daemon=True).start()


def share_arenas() -> None:
    """Let all threads share two arenas of glibc's malloc.

    By default, most of the dozens of threads have one each, and keep in it what only another thread could use again: a
    worker grew for tens of thousands of requests.
    """
    if sys.platform == "linux":
        arena_max = -8
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(arena_max, 2)


def _with_signals_held(app: Any, listening: Connection) -> Any:
    """Block the signals between the startup of the app and serving.

    The event loop does not run in between, and uvloop loses a signal that arrives then. A startup that fails with one of
    our errors prints its sentence instead of a traceback.
    """

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return

        failures = []

        async def send_held(message: Any) -> None:
            if message["type"] == "lifespan.startup.failed":
                failures.append(message)
                return
            if message["type"] == "lifespan.startup.complete":
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, RETIRE_SIGNAL})
                asyncio.get_running_loop().call_later(0.1, _on_listening, listening)
            await send(message)

        try:
            await app(scope, receive, send_held)
        except Exception as error:
            if not failures:
                raise
            if not isinstance(error, PorticoError):
                await send(failures[0])
                raise
            print(for_administrator(error), file=sys.stderr, flush=True)
            await send({"type": "lifespan.startup.failed"})

    return application


def _on_listening(listening: Connection) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, RETIRE_SIGNAL})
    listening.send(os.getpid())
    gc.freeze()
    gc.enable()
    if sys.platform == "linux":
        _time_out_unread_responses()


def _time_out_unread_responses() -> None:
    """Let the kernel close connections whose client reads nothing; Granian would keep them, and their responses, forever.

    Connections inherit the option from the listening socket.
    """
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError), borrowed_socket(int(number)) as found:
            if found.type == socket.SOCK_STREAM and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_TIMEOUT_MS)
