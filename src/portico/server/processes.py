"""The parent process of the server: Granian, which starts and replaces the workers."""

import gc
import math
import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from portico.model.errors import PorticoError
from portico.server.bind_address import Address
from portico.server.worker import DRAIN_SIGNAL, RetiredWorkers, load_app_in_worker
from portico.settings.settings import KEYS, Settings, SettingsError, load


def notify(state: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state such as `READY=1`; does nothing if no service manager asked for it."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(address.replace("@", "\0", 1) if address[0] == "@" else address)
        sender.sendall(state.encode())


if TYPE_CHECKING:
    from portico.server.certificates import Certificate, ServedCertificate

HEADER_TIMEOUT_MS = 10_000
BUFFER_BYTES = 256 * 1024
"""Read from a connection at once: uploads cost a third more processor time with half of it. A header that does not fit is
answered with 431."""

CERTIFICATE_SECONDS = 5.0
"""How often the files of the certificate are looked at."""

FIXED = tuple(
    f"server.{name}" for name in ("host", "port", "tls", "workers", "max-connections", "drain-delay", "stop-timeout")
)
"""Settings of this process and its socket, which a reload keeps."""

RESPAWN_SECONDS = 60.0
MAX_RESPAWNS = 20
"""The server gives up after more crashes than this in `RESPAWN_SECONDS`: the workers cannot even start."""


class WorkersFailed(PorticoError, code="workers-failed"): ...


class SignalFlag:
    """A `threading.Event` for signal handlers.

    It has no lock, so a handler cannot deadlock with the thread that it interrupts. And it polls: a signal that the
    kernel delivers to another thread does not wake the main one, in which Python runs the handlers. `on_poll` is called
    meanwhile.
    """

    _POLL_SECONDS = 0.1

    def __init__(self, on_poll: Callable[[], None] = lambda: None) -> None:
        self._is_set = False
        self._on_poll = on_poll

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float = math.inf) -> bool:
        until = time.monotonic() + timeout
        while not self._is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self._POLL_SECONDS))
            self._on_poll()
        return self._is_set


class Server(MPServer):
    def __init__(
        self,
        settings: Settings,
        address: Address,
        overrides: dict[str, str],
        tls: "Certificate | None",
        load_certificate: "Callable[[], Certificate]",
    ) -> None:
        super().__init__(
            "portico.server.application",
            address=str(address),
            port=settings.port,
            interface=Interfaces.ASGI,
            workers=settings.workers,
            http=HTTPModes.http1,
            websockets=False,
            backpressure=connections_within(
                settings.max_connections, raised_descriptor_limit(settings.max_connections)
            ),
            http1_settings=HTTP1Settings(header_read_timeout=HEADER_TIMEOUT_MS, max_buffer_size=BUFFER_BYTES),
            log_level=LogLevels.debug if settings.log_level == "debug" else LogLevels.warning,
            ssl_cert=tls.file if tls else None,
            ssl_key=tls.key if tls else None,
            ssl_protocol_min=SSLProtocols.tls12,
            respawn_failed_workers=True,
            workers_kill_timeout=int(settings.stop_timeout.total_seconds()),
        )
        self.main_loop_interrupt = SignalFlag(self._tend)  # type: ignore[assignment]
        self._settings = settings
        self._overrides = overrides
        self._on_terminal = sys.stdout.isatty()
        self._drain_delay = settings.drain_delay.total_seconds()
        self._stop_now = SignalFlag()
        self._respawns: list[float] = []
        self._on_ready: Callable[[], None] = lambda: None
        local = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
        self._endpoint = local.get(str(address), str(address)), settings.port
        self._listening, self._announcement = multiprocessing.Pipe(duplex=False)
        self._listeners: set[int] = set()
        self._retired = RetiredWorkers()
        self._certificate: ServedCertificate | None = None
        if tls:
            from portico.server import certificates

            self._certificate = certificates.ServedCertificate(tls, load_certificate)
        self._next_look = 0.0
        self._give_certificate_to_workers()

    def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until SIGINT or SIGTERM; `on_ready` is called once the first worker accepts connections."""
        self._on_ready = on_ready
        if multiprocessing.get_start_method() == "fork":
            import_module("portico.server.application")  # once for all workers, which share the memory, too
        loader = partial(load_app_in_worker, str(self._settings.home), self._overrides, self._announcement)
        with suppress(SystemExit):
            self.serve(target_loader=loader, wrap_loader=False)
        if not self.interrupt_signal:
            raise WorkersFailed("Portico has stopped, because its workers keep failing. The reason is above.")

    def startup(self, spawn_target: Any, target_loader: Any) -> None:
        gc.freeze()  # or the workers' garbage collectors would write to the pages that they share
        super().startup(spawn_target, target_loader)  # type: ignore[no-untyped-call]
        gc.enable()
        while not self._accepts_connections():
            if self.main_loop_interrupt.wait(0.02):
                return
        self._on_ready()
        notify("READY=1")

    def _stop_workers(self) -> None:
        until = time.monotonic() + (self.workers_kill_timeout or 0)
        self._retired.terminate()
        super()._stop_workers()  # type: ignore[no-untyped-call]
        self._retired.join(until)

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        """Granian stops after two crashes within five seconds; this server stops only if they continue."""
        super()._respawn_workers(workers, spawn_target, target_loader, delay)
        now = time.monotonic()
        self._respawns = [moment for moment in self._respawns if now - moment < RESPAWN_SECONDS]
        self._respawns += [now] * len(workers)
        if len(self._respawns) <= MAX_RESPAWNS:
            self.respawned_wrks.clear()
            time.sleep(min(2.0, 0.1 * len(self._respawns)))

    def signal_handler_interrupt(self, number: int = 0, *args: Any) -> None:
        """Only the first SIGTERM waits for load balancers; Ctrl-C and a second signal do not."""
        if self.interrupt_signal or number != signal.SIGTERM:
            self._stop_now.set()
        super().signal_handler_interrupt()  # type: ignore[no-untyped-call]

    def shutdown(self, exit_code: int = 0) -> None:
        notify("STOPPING=1")
        if self.interrupt_signal:
            for worker in self.wrks:
                with suppress(ProcessLookupError, TypeError):  # it has ended, or not begun
                    os.kill(worker.inner.pid, DRAIN_SIGNAL)
            self._stop_now.wait(self._drain_delay)
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]

    def signal_handler_reload(self, *args: Any, **kwargs: Any) -> None:
        """SIGHUP: replace the workers, with the current settings; on a terminal, stop, because it was closed."""
        if self._on_terminal:
            self.signal_handler_interrupt()
            return
        try:
            chosen = load(self._settings.home, overrides=self._overrides)
            if kept := [key for key in FIXED if getattr(chosen, KEYS[key]) != getattr(self._settings, KEYS[key])]:
                text = f"{', '.join(kept)}: changes take effect at the next start. All other changes took effect now."
                print(text, file=sys.stderr, flush=True)
            super().signal_handler_reload()  # type: ignore[no-untyped-call]
        except SettingsError as error:
            print(f"{error.detail}\nThe old settings stay in effect.", file=sys.stderr, flush=True)

    def _reload(self, spawn_target: Any, target_loader: Any) -> None:
        """Replace the workers one after the other: the next one listens before the previous one stops listening.

        Granian would stop a worker whose successor cannot start, and kill it while it still serves a long download.
        """
        self.reload_signal = False
        self.main_loop_interrupt.clear()
        if self._certificate and self._certificate.renew():
            self._give_certificate_to_workers()
        loader = partial(target_loader, patient=False)  # the old workers stay if it fails
        for number, worker in enumerate(self.wrks):
            successor = self._spawn_worker(number, spawn_target, loader)
            successor.interrupt_by_parent = True  # until it serves, its end does not call for another one
            successor.start()  # type: ignore[no-untyped-call]
            if not self._serves(successor.inner):
                self._retired.retire(successor.inner)
                if not self.interrupt_signal:
                    text = "A new worker couldn't start; the reason is above. The old workers keep running."
                    print(text, file=sys.stderr, flush=True)
                return
            successor.interrupt_by_parent = False
            self.wrks[number] = successor
            worker.interrupt_by_parent = True
            self._retired.retire(worker.inner)
            if not successor.inner.is_alive():
                self.interrupt_children.append(number)
                self.main_loop_interrupt.set()

    def _serves(self, worker: BaseProcess) -> bool:
        """Wait for a new worker; False if it has ended, or the server is asked to stop."""
        while worker.is_alive() and not self.interrupt_signal:
            if worker.pid in self._listeners:
                return True
            self._read_announcements()
            time.sleep(0.05)
        return False

    def _tend(self) -> None:
        """Called several times a second while there is nothing else to do."""
        self._read_announcements()
        self._retired.tend()
        if self._certificate and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + CERTIFICATE_SECONDS
            if self._certificate.renew():
                self._give_certificate_to_workers()
                super().signal_handler_reload()  # type: ignore[no-untyped-call]

    def _read_announcements(self) -> None:
        while self._listening.poll():
            self._listeners.add(self._listening.recv())
        self._listeners &= {child.pid for child in multiprocessing.active_children()}

    def _give_certificate_to_workers(self) -> None:
        """Granian would resolve the files' links once and for all, and read them again for every worker."""
        if self._certificate:
            enabled, _, _, *others = self.ssl_ctx
            files = str(self._certificate.file), str(self._certificate.key)
            self.ssl_ctx = (enabled, *files, *others)  # type: ignore[assignment]

    def _accepts_connections(self) -> bool:
        try:
            socket.create_connection(self._endpoint, timeout=1).close()
        except OSError:
            return False
        return True


def raised_descriptor_limit(connections: int) -> int:
    """Raise the limit of file descriptors to what the connections need; returns how many each process may have."""
    wanted = 4 * connections + 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised


def connections_within(most: int, descriptors: int) -> int:
    """A connection may need a second descriptor, for a file. Without any left, Granian would spin in accept."""
    return max(8, min(most, (descriptors - 128) // 2))
