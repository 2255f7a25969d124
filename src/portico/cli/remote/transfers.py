"""Many files on their way: what is to be done is found out a little ahead of doing it."""

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import FrameType

from portico.cli.remote.bars import Bar
from portico.cli.remote.tallies import Halt, Tally
from portico.client.entries import Entry
from portico.client.errors import AlreadyExists, TransfersFailed
from portico.client.progress import Progress

_AHEAD = 10_000
"""How many files may be found before they are transferred."""
_SLICE = 5_000
"""How many files are handed over before errors are looked at, where one of them is to be the end."""

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""By their names, as not every system has them all."""


@dataclass(frozen=True, slots=True)
class Item:
    """One transfer that is to be made."""

    source: str
    target: str
    size: int
    entry: Entry | None = None
    """Of a source at the gateway."""


Send = Callable[[Iterator[Item], Progress], None]
"""Makes the transfers; `TransfersFailed` in the end."""


def transfer(plan: Iterator[Item], send: Send, tally: Tally) -> None:
    """Transfer what a plan finds, with a bar; what fails is noted in the tally."""
    ahead = _Lookahead(plan, tally)
    with _ending(ahead), Bar(tally):
        while not (ahead.ended or tally.halted):
            items = ahead if tally.goes_on else islice(ahead, _SLICE)
            try:
                send(iter(items), tally.progress)
            except TransfersFailed as error:
                _note(error, tally)


def _note(error: TransfersFailed, tally: Tally) -> None:
    """Those that were there all at once are no failures of a command that does not replace anything."""
    there = [path for path, failure in error.failures.items() if isinstance(failure, AlreadyExists)]
    kept = there if tally.no_clobber else []
    failures = {path: failure for path, failure in error.failures.items() if path not in kept}
    tally.begun -= len(error.failures)
    tally.skipped += len(kept)
    tally.failures.update(failures)


class _Lookahead(Iterator[Item]):
    """Runs a plan in a thread of its own. An error of the plan comes where its next item would."""

    def __init__(self, plan: Iterator[Item], tally: Tally) -> None:
        self._plan = plan
        self._tally = tally
        self._queue: queue.Queue[Item | None] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self.ended = False
        threading.Thread(target=self._run, daemon=True).start()

    def __next__(self) -> Item:
        while not self.ended and not self._stopped.is_set():
            try:
                item = self._queue.get(timeout=0.2)
            except queue.Empty:
                continue
            if item is not None:
                self._tally.begun += 1
                return item
            self.ended = True
            if self._error:
                raise self._error
        raise StopIteration

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        try:
            for item in self._plan:
                self._tally.plan(item.size)
                if not self._put(item):
                    return
            self._tally.whole = True
        except Halt:
            pass
        except BaseException as error:
            self._error = error
        self._put(None)

    def _put(self, item: Item | None) -> bool:
        """Wait for room; whether there is any use in going on."""
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False


@contextmanager
def _ending(ahead: _Lookahead) -> Iterator[None]:
    """Let every way of being told to stop be the same: threads are called off, and nothing is left half."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        ahead.stop()
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)] if here else []
    # What is ignored stays so: that is how nohup keeps a command alive.
    heard = [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    former = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        ahead.stop()
        for number, handler in former.items():
            signal.signal(number, handler)
