"""Granian, told how to serve us."""

import asyncio
import ctypes
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from granian import _signals
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from portico.cli.listening import Address
from portico.cli.tls import Certificate
from portico.cli.waiting import WaitingConnections
from portico.errors import PorticoError
from portico.settings import Settings, SettingsError, load

HEADER_TIMEOUT = 10_000  # milliseconds
HEADER_BYTES = 128 * 1024
"""What a connection may take in memory before its request is complete; more is answered with 431. Uploads are read by
the same buffer, and half of it would double what they cost."""
UNREAD_TIMEOUT = 120_000  # milliseconds
STOP_TIMEOUT = 25
"""Seconds that running requests have to end after SIGTERM, before their worker is killed."""

RESPAWN_SECONDS = 60.0
MOST_RESPAWNS = 20
"""Crashes within that time after which the server gives up: its workers cannot even start."""


class WorkersFailed(PorticoError):
    code = "workers-failed"


class SignalFlag:
    """As `threading.Event`, for signal handlers.

    It has no lock, which a handler could wait for in the very thread that holds it. And it looks again and again: a
    signal that the kernel gives to another thread, as happens when two come at once, does not wake the main one, in
    which Python runs the handlers.
    """

    _LOOK_SECONDS = 0.1

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float = math.inf) -> bool:
        until = time.monotonic() + timeout
        while not self._is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self._LOOK_SECONDS))
        return self._is_set


class Server(MPServer):
    def __init__(
        self, settings: Settings, address: Address, overrides: dict[str, str], tls: Certificate | None
    ) -> None:
        super().__init__(
            "portico.app",
            address=str(address),
            port=settings.port,
            interface=Interfaces.ASGI,
            workers=settings.workers,
            http=HTTPModes.http1,
            websockets=False,
            backpressure=connections_within(
                settings.max_connections, raised_descriptor_limit(settings.max_connections)
            ),
            http1_settings=HTTP1Settings(header_read_timeout=HEADER_TIMEOUT, max_buffer_size=HEADER_BYTES),
            log_level=LogLevels.debug if settings.log_level == "debug" else LogLevels.warning,
            ssl_cert=tls.file if tls else None,
            ssl_key=tls.key if tls else None,
            ssl_protocol_min=SSLProtocols.tls12,
            respawn_failed_workers=True,
            workers_kill_timeout=STOP_TIMEOUT,
        )
        self.main_loop_interrupt = SignalFlag()  # type: ignore[assignment]
        self._home = settings.home
        self._overrides = overrides
        self._on_terminal = sys.stdout.isatty()
        self._respawns: list[float] = []
        self._on_ready: Callable[[], None] = lambda: None
        self._contact = _contact(address, settings.port)

    def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until SIGINT or SIGTERM; `on_ready` is called once the first worker accepts connections."""
        self._on_ready = on_ready
        loader = partial(load_in_worker, str(self._home), self._overrides)
        try:
            self.serve(target_loader=loader, wrap_loader=False)
        except SystemExit:
            pass
        if not self.interrupt_signal:
            raise WorkersFailed(
                "Portico has stopped, because its workers fail again and again; the reason stands above."
            )

    def startup(self, spawn_target: Any, target_loader: Any) -> None:
        super().startup(spawn_target, target_loader)  # type: ignore[no-untyped-call]
        while not self._accepts_connections():
            if self.main_loop_interrupt.wait(0.02):
                return
        self._on_ready()

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        """Granian ends with the second crash of a worker in five seconds; we, only if there is no end to them."""
        super()._respawn_workers(workers, spawn_target, target_loader, delay)
        now = time.monotonic()
        self._respawns = [moment for moment in self._respawns if now - moment < RESPAWN_SECONDS]
        self._respawns += [now] * len(workers)
        if len(self._respawns) <= MOST_RESPAWNS:
            self.respawned_wrks.clear()
            time.sleep(min(2.0, 0.1 * len(self._respawns)))

    def signal_handler_reload(self, *args: Any, **kwargs: Any) -> None:
        """SIGHUP: new workers with the settings as they are now; a closed terminal, though, ends the server."""
        if self._on_terminal:
            self.signal_handler_interrupt()  # type: ignore[no-untyped-call]
            return
        try:
            load(self._home, overrides=self._overrides)
            super().signal_handler_reload()  # type: ignore[no-untyped-call]
        except SettingsError as error:
            print(f"{error.detail}\nThe settings stay as they were.", file=sys.stderr, flush=True)

    def _accepts_connections(self) -> bool:
        try:
            socket.create_connection(self._contact, timeout=1).close()
        except OSError:
            return False
        return True


def raised_descriptor_limit(connections: int) -> int:
    """How many descriptors each process may have, after asking for as many as there is a use for."""
    wanted = 4 * connections + 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


def connections_within(most: int, descriptors: int) -> int:
    """A connection may need a file beside its own descriptor. Without any left, Granian would spin on accepting."""
    return max(8, min(most, (descriptors - 128) // 2))


def load_in_worker(home: str, overrides: dict[str, str]) -> Any:
    # A forked worker begins with the handlers of its parent, and would not hear SIGTERM until it serves.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A Ctrl-C is for the parent, which then tells its workers: two signals at once may lock Granian's stop up.
    os.setpgid(0, 0)
    _end_with_parent()
    from portico.app import load_app

    try:
        app = load_app(home, overrides)
        _call_at_stop(app.on_stop)
        chosen = load(Path(home), overrides=overrides)
        return _hearing_signals(_without_crowds(app, chosen))
    except PorticoError as error:
        print(error.detail, file=sys.stderr, flush=True)
        sys.exit(1)


def _call_at_stop(stop_work: Callable[[], None]) -> None:
    """Call it when SIGTERM comes: Granian ends the application only after all requests have ended."""
    set_signals = _signals.set_loop_signals

    def set_and_call(loop: Any) -> Any:
        event = set_signals(loop)  # type: ignore[no-untyped-call]

        def stop() -> None:
            stop_work()
            event.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        return event

    _signals.set_loop_signals = set_and_call


def _without_crowds(app: Any, chosen: Settings) -> Any:
    if sys.platform != "linux" or not chosen.max_connections_per_address:
        return app
    waiting = WaitingConnections(chosen.port, chosen.max_connections_per_address, chosen.behind_proxy)
    waiting.watch()
    return waiting.noting(app)


def _end_with_parent() -> None:
    """A worker whose parent was killed would keep the port from the next start."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


def _hearing_signals(app: Any) -> Any:
    """Hold SIGTERM back while Granian goes from the start-up of the app to serving.

    The event loop stands still meanwhile, and uvloop forgets a signal that comes then.
    """

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return

        async def send_held(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                asyncio.get_running_loop().call_later(0.1, _serving)
            await send(message)

        await app(scope, receive, send_held)

    return application


def _serving() -> None:
    """What is to be done once Granian listens."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if sys.platform == "linux":
        _end_unread_answers()


def _end_unread_answers() -> None:
    """Have the kernel end connections whose client takes nothing; Granian would keep them, and their answers, for ever.

    A connection has this from the socket that it came in by.
    """
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(number))) as found:
            if found.type == socket.SOCK_STREAM and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_TIMEOUT)


def _contact(address: Address, port: int) -> tuple[str, int]:
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
    return local.get(str(address), str(address)), port
