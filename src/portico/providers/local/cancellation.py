"""Cancelling work that runs in a thread."""

import threading


class Cancelled(Exception):
    """The work was cancelled before its end."""


class NotDone(Exception):
    """The work has changed nothing yet: something else has to be done before it is tried again."""


class CancelToken:
    """Passed to work that may take long, which calls `check` wherever it can stop safely."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self.started = False
        """Whether the work has called `check` at all. Work that is cancelled before that does nothing."""

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        self.started = True
        if self._cancelled.is_set():
            raise Cancelled
