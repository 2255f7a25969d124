"""Performs steps with blocking sockets, in the caller's thread and in some of its own."""

import threading
import time
from typing import Any

from portico.client.sockets import Flag, Sockets
from portico.client.steps import Alone, Ask, Need, Pause, Steps, Stopped, T, Together, Work

_GRACE_SECONDS = 5.0
"""How long an interrupted caller waits for all its threads to notice."""


def _never() -> bool:
    return False


class Workers:
    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self._lock = threading.Lock()

    def run(self, steps: Steps[T], stopped: Flag = _never) -> T:
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                need = steps.throw(error) if error else steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = error = None
            try:
                result = self._perform(need, stopped)
            except BaseException as raised:
                error = raised

    def _perform(self, need: Need, stopped: Flag) -> Any:
        match need:
            case Ask():
                return self._sockets.exchange(need, stopped)
            case Work(call):
                return call()
            case Pause(seconds):
                return _pause(seconds, stopped)
            case Alone(steps):
                with self._lock:
                    return self.run(steps, stopped)
            case Together():
                return _Crew(self, need, stopped).work()

    def close(self) -> None:
        self._sockets.close()


class _Crew:
    """Threads that take steps from one iterator until it ends, or one of them fails."""

    def __init__(self, workers: Workers, need: Together, stopped: Flag) -> None:
        self._workers = workers
        self._need = need
        self._outer = stopped
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._running = need.limit
        self._over = threading.Event()

    def work(self) -> None:
        threads = [threading.Thread(target=self._labour, daemon=True) for _ in range(self._need.limit)]
        try:
            for thread in threads:
                thread.start()
            # A join that is interrupted leaves a thread that counts as ended, in some versions of Python.
            if threads:
                self._over.wait()
        except BaseException:
            self._stop.set()
            self._over.wait(_GRACE_SECONDS)
            raise
        if self._errors:
            raise self._errors[0]

    def _labour(self) -> None:
        try:
            while (steps := self._next()) is not None:
                self._workers.run(steps, self._stopped)
        except BaseException as error:
            # One that was told to stop because another failed comes behind that one.
            self._errors.append(error)
            self._stop.set()
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._over.set()

    def _next(self) -> Steps[None] | None:
        with self._lock:
            return None if self._stopped() else next(self._need.steps, None)

    def _stopped(self) -> bool:
        return self._stop.is_set() or self._outer()


def _pause(seconds: float, stopped: Flag) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if stopped():
            raise Stopped
        time.sleep(min(left, 0.1))
