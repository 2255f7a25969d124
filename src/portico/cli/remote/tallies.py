"""What a command that transfers files has done so far: counted by many threads, told in the end."""

import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import TypeVar

from portico.cli.exits import DONE
from portico.cli.remote import units
from portico.cli.remote.failures import common_code, sentence

T = TypeVar("T")


class Halt(Exception):
    """An error was noted, and the command is not to go on after one."""


class Tally:
    def __init__(self, done: str, options: Namespace) -> None:
        """`done` is the word for what is done to files, such as `uploaded`."""
        self.done_word = done
        self._twice = done == "uploaded"
        """Whether the end is told twice: when all is sent, and when it is stored."""
        self.quiet: bool = options.quiet
        self.goes_on: bool = options.goes_on
        self.dry: bool = options.dry_run
        self.no_clobber: bool = options.no_clobber
        self.planned = 0
        self.planned_bytes = 0
        self.whole = False
        """Whether all that is to be transferred is known."""
        self.begun = 0
        self.skipped = 0
        self.deleted = 0
        self.failures: dict[str, Exception] = {}
        self.started = time.monotonic()
        self._lock = threading.Lock()
        self._finished = 0
        self._finished_bytes = 0
        self._running: dict[str, tuple[int, int | None]] = {}

    @property
    def halted(self) -> bool:
        return bool(self.failures) and not self.goes_on

    def plan(self, size: int) -> None:
        self.planned += 1
        self.planned_bytes += size

    def fail(self, path: str, error: Exception) -> None:
        """Note an error; `Halt` if that is the end."""
        self.failures[path] = error
        if not self.goes_on:
            raise Halt

    def skip(self) -> None:
        """One is there already."""
        self.skipped += 1

    def halting(self, plan: Iterator[T]) -> Iterator[T]:
        """A plan that ends when the command is to end."""
        try:
            yield from plan
        except Halt:
            pass

    def note(self, text: str) -> None:
        """Something that one should know, and no error."""
        print(text, file=sys.stderr, flush=True)

    def progress(self, path: str, done: int, total: int | None) -> None:
        """How far the transfer of a file is. Small ones report once, when they are through."""
        with self._lock:
            known = self._running.pop(path, None)
            if done != total or (known and self._twice):
                self._running[path] = (done, total)
            else:
                self._finished += 1
                self._finished_bytes += done

    def state(self) -> tuple[int, int]:
        """How many files, and how many bytes, are through."""
        with self._lock:
            running = self._running.values()
            files = self._finished + sum(1 for done, total in running if done == total)
            return files, self._finished_bytes + sum(done for done, _ in running)

    def finish(self) -> int:
        """Name the failures, sum up, and say how the command ends."""
        for path, error in self.failures.items():
            text = sentence(error)
            named = (isinstance(error, OSError) and error.filename) or path in text
            print(text if named else f"{path}: {text}", file=sys.stderr)
        if not self.quiet:
            print(self._summary(), file=sys.stderr, flush=True)
        return common_code(self.failures) if self.failures else DONE

    def _summary(self) -> str:
        done = f"would be {self.done_word}" if self.dry else self.done_word
        files = f"{self.planned if self.dry else self.begun} {done}"
        deleted = "would be deleted" if self.dry else "deleted"
        counts = {"skipped": self.skipped, deleted: self.deleted, "failed": len(self.failures)}
        parts = [files, *(f"{count} {word}" for word, count in counts.items() if count)]
        if self.dry:
            return f"{', '.join(parts)}, {units.size(self.planned_bytes)}"
        span = units.span(time.monotonic() - self.started)
        return f"{', '.join(parts)}, {units.size(self.state()[1])} in {span}"
