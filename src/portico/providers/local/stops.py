"""Calling off what a thread does."""

import threading


class Stopped(Exception):
    """The work was called off before its end."""


class Stop:
    """Is handed to work that may take long, which asks `check` wherever it can end without harm."""

    def __init__(self) -> None:
        self._called = threading.Event()
        self.begun = False
        """Whether the work has asked at all. What is called off before that does nothing."""

    def call(self) -> None:
        self._called.set()

    def check(self) -> None:
        self.begun = True
        if self._called.is_set():
            raise Stopped
