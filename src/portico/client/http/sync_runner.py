"""Runs operations with blocking sockets, in the caller's thread and in worker threads."""

import threading
import time
from typing import Any

from portico.client.http.effects import Blocking, Concurrently, Effect, Exclusive, Operation, Request, Sleep, Stopped, T
from portico.client.http.sync_pool import Flag, SyncPool

_GRACE_SECONDS = 5.0
"""How long an interrupted caller waits for its threads to stop."""


class SyncRunner:
    def __init__(self, pool: SyncPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()

    def run(self, operation: Operation[T], stopped: Flag = lambda: False) -> T:
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = operation.throw(error) if error else operation.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = error = None
            try:
                result = self._perform(effect, stopped)
            except BaseException as raised:
                error = raised

    def _perform(self, effect: Effect, stopped: Flag) -> Any:
        match effect:
            case Request():
                return self._pool.exchange(effect, stopped)
            case Blocking(call):
                return call()
            case Sleep(seconds):
                return _sleep(seconds, stopped)
            case Exclusive(operation):
                with self._lock:
                    return self.run(operation, stopped)
            case Concurrently():
                return _ThreadGroup(self, effect, stopped).run()


class _ThreadGroup:
    """Threads that take operations from one iterator until it ends or one of them fails."""

    def __init__(self, runner: SyncRunner, effect: Concurrently, stopped: Flag) -> None:
        self._runner = runner
        self._effect = effect
        self._outer = stopped
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._running = effect.limit
        self._done = threading.Event()

    def run(self) -> None:
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self._effect.limit)]
        try:
            for thread in threads:
                thread.start()
            # Not join: in some versions of Python, an interrupted join marks a running thread as finished.
            if threads:
                self._done.wait()
        except BaseException:
            self._stop.set()
            self._done.wait(_GRACE_SECONDS)
            raise
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        try:
            while (operation := self._next()) is not None:
                self._runner.run(operation, self._stopped)
        except BaseException as error:
            # The first error is the cause; those after it come from threads that were stopped.
            self._errors.append(error)
            self._stop.set()
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._done.set()

    def _next(self) -> Operation[None] | None:
        with self._lock:
            return None if self._stopped() else next(self._effect.operations, None)

    def _stopped(self) -> bool:
        return self._stop.is_set() or self._outer()


def _sleep(seconds: float, stopped: Flag) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if stopped():
            raise Stopped
        time.sleep(min(left, 0.1))
