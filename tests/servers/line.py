"""A line between a browser and a gateway: it relays bytes, counts them, and can be cut, silent or down."""

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self

_RESET = struct.pack("ii", 1, 0)
"""Closing a socket with this SO_LINGER resets the connection."""


class Line:
    """Use it as a context. It runs in threads of its own, beside a test that occupies its thread."""

    def __init__(self, port: int) -> None:
        self._upstream = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._is_up = True
        self._cuts: list[int] = []
        self.sent = 0
        """Bytes that went to the gateway."""
        self.cuts = 0
        """How often the line was cut by `cut_after`."""

    def cut_after(self, *counts: int, stay_down: bool = False) -> None:
        """Reset all connections each time that so many further bytes went to the gateway."""
        with self._lock:
            position = self.sent
            for count in counts:
                position += count
                self._cuts.append(position)
            self._stay_down = stay_down

    def cut(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                connection.shutdown(socket.SHUT_RDWR)

    def down(self) -> None:
        """Reset all connections, and every new one."""
        self._is_up = False
        self.cut()

    def up(self) -> None:
        self._is_up = True

    def silence(self) -> None:
        """Keep all connections open, but let nothing through any more."""
        self._flowing.clear()

    def speak(self) -> None:
        self._flowing.set()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.speak()
        self.down()
        for thread in self._threads:
            thread.join()

    def _start(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                browser, _ = self._listener.accept()
            except OSError:
                return
            if not self._is_up:
                browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                browser.close()
                continue
            gateway = socket.create_connection(self._upstream)
            with self._lock:
                self._connections |= {browser, gateway}
            self._start(self._relay, browser, gateway, True)
            self._start(self._relay, gateway, browser, False)

    def _relay(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(2**16):
                self._flowing.wait()
                target.sendall(data)
                if counted:
                    self._count(len(data))
        except OSError:
            pass
        with self._lock:
            self._connections -= {source, target}
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _count(self, size: int) -> None:
        with self._lock:
            self.sent += size
            due = bool(self._cuts) and self.sent >= self._cuts[0]
            if due:
                self._cuts.pop(0)
                self.cuts += 1
                if self._stay_down and not self._cuts:
                    self._is_up = False
        if due:
            self.cut()
