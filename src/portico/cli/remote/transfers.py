"""Transfers many files, while the plan runs ahead in a thread."""

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from types import FrameType, SimpleNamespace

from portico.cli.console.output import tell
from portico.cli.remote.report import Halt, ProgressBar, Report
from portico.client.entries import Entry
from portico.client.errors import AlreadyExists, Temporary, TransfersFailed
from portico.client.transfers.progress import Progress

_AHEAD = 10_000
"""How many files the plan may be ahead of the transfers."""
_SLICE = 5_000
"""After how many files errors are checked, if the command stops at the first one."""

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""By name, since not every system has them all."""


@dataclass(frozen=True, slots=True)
class Item:
    source: str
    target: str
    size: int
    entry: Entry | None = None
    """Set for a remote source."""


Send = Callable[[Iterator[Item], Progress], None]
"""Makes the transfers; raises `TransfersFailed` at the end."""


def transfer(
    plan: Iterator[Item], send: Send, report: Report, options: SimpleNamespace, resumable: Callable[[], bool]
) -> None:
    """Make the transfers of a plan, with a progress bar; with --dry-run, print them. Failures go to the report.

    `resumable` tells whether the next run can go on with a file of this one.
    """
    if options.dry_run:
        _print_plan(plan, report, as_json=options.as_json)
        return
    ahead = _Lookahead(plan, report)
    try:
        with _signals_handled(ahead), ProgressBar(report):
            while not ahead.ended and (report.goes_on or not report.failures):
                items = ahead if report.goes_on else islice(ahead, _SLICE)
                try:
                    send(iter(items), report.progress)
                except TransfersFailed as error:
                    _note(error, report)
    except (KeyboardInterrupt, Temporary):
        if resumable():
            report.note(f"A large file was partly {report.done_word}. Run the command again to resume it.")
        raise


def _print_plan(plan: Iterator[Item], report: Report, *, as_json: bool) -> None:
    up = report.done_word == "uploaded"
    source, target = ("source", "path") if up else ("path", "target")  # as a transfer names them
    with suppress(Halt):
        for item in plan:
            report.plan(item.size)
            facts = {source: item.source, target: item.target, "size": item.size, "dryRun": True}
            tell(f"{'upload' if up else 'download'} {item.source} to {item.target}", facts, as_json=as_json)


def _note(error: TransfersFailed, report: Report) -> None:
    """Record failures. With --no-clobber, files that exist by now are skipped, not failed."""
    there = [path for path, failure in error.failures.items() if isinstance(failure, AlreadyExists)]
    kept = there if report.no_clobber else []
    failures = {path: failure for path, failure in error.failures.items() if path not in kept}
    report.begun -= len(error.failures)
    report.skipped += len(kept)
    report.failures.update(failures)


class _Lookahead(Iterator[Item]):
    """Runs a plan in a thread. An error of the plan is raised in place of its next item."""

    def __init__(self, plan: Iterator[Item], report: Report) -> None:
        self._plan = plan
        self._report = report
        self._queue: queue.Queue[Item | None] = queue.Queue(_AHEAD)
        self.stopped = threading.Event()
        self._error: BaseException | None = None
        self.ended = False
        threading.Thread(target=self._run, daemon=True).start()

    def __next__(self) -> Item:
        while not self.ended and not self.stopped.is_set():
            try:
                item = self._queue.get(timeout=0.2)
            except queue.Empty:
                continue
            if item is not None:
                self._report.begun += 1
                return item
            self.ended = True
            if self._error:
                raise self._error
        raise StopIteration

    def _run(self) -> None:
        try:
            for item in self._plan:
                self._report.plan(item.size)
                if not self._put(item):
                    return
            self._report.whole = True
        except Halt:
            pass
        except BaseException as error:
            self._error = error
        self._put(None)

    def _put(self, item: Item | None) -> bool:
        """Wait for room in the queue; return whether to continue."""
        while not self.stopped.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False


@contextmanager
def _signals_handled(ahead: _Lookahead) -> Iterator[None]:
    """Handle all signals that end the command alike: stop the threads and clean up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        ahead.stopped.set()
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)] if here else []
    # Ignored signals stay ignored, as nohup expects.
    heard = [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    former = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        ahead.stopped.set()
        for number, handler in former.items():
            signal.signal(number, handler)
