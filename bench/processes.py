"""Processes under measurement: started, watched through /proc, and ended."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parent.parent
"""The checkout; its helpers are started from here as `python -m bench.…`."""

_TICK = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 30.0
_WORK_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a server used from one moment to another."""

    cpu: float
    """Seconds, of all its processes."""
    peak: float
    """MiB resident at most, of its largest process."""
    growth: float
    """MiB by which that process grew since the start of the measurement."""


class Process:
    """A server on a port of the loopback address."""

    running: ClassVar[list["Process"]] = []
    patience: ClassVar[float] = 8.0
    """How long it may take to stop by itself, in seconds."""

    def __init__(
        self, name: str, command: Sequence[str], port: int, *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.port = port
        self.log = log
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
            )
        self._cpu = 0.0
        self._before = 0.0
        Process.running.append(self)
        self._wait_until_up()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Stop it and its children, first with SIGTERM, then with SIGKILL."""
        if self in Process.running:
            Process.running.remove(self)
        tree = self.tree()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(self.patience)
            except subprocess.TimeoutExpired:
                for pid in tree:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._process.wait()

    @classmethod
    def stop_all(cls) -> None:
        """Whatever a failed measurement has left running."""
        for process in list(cls.running):
            process.stop()

    def mark(self) -> None:
        """Start a measurement: reset the memory peak and the CPU time."""
        for pid in self.tree():
            try:
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            except OSError:
                pass  # it has just ended, or the kernel has no such thing: the peak is then that since its start
        self._cpu = self._cpu_seconds()
        self._before = self.memory("VmRSS")

    def usage(self) -> Usage:
        """What was used since `mark`."""
        peak = self.memory("VmHWM")
        return Usage(self._cpu_seconds() - self._cpu, peak, max(0.0, peak - self._before))

    def memory(self, field: str = "VmRSS") -> float:
        """MiB of the largest of its processes: what they share by fork would else be counted twice."""
        return max((_memory(pid, field) for pid in self.tree()), default=0.0)

    def proportional(self) -> float:
        """MiB of all its processes, where a page that several processes share counts for a part in each (PSS)."""
        return sum(_proportional(pid) for pid in self.tree())

    def tree(self) -> list[int]:
        """The process and its descendants."""
        return list(_tree(self._process.pid))

    def _cpu_seconds(self) -> float:
        return sum(_cpu(pid) for pid in self.tree())

    def _wait_until_up(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.005)
        self.stop()
        raise RuntimeError(f"{self.name} did not start; it said:\n{self.log.read_text(errors='replace')[-2000:]}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `work` from a process of its own, so that it neither disturbs ours nor is disturbed by it."""
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    result: Any = RuntimeError(f"{work.__name__} took more than {_WORK_SECONDS:.0f} s")
    try:
        if ours.poll(_WORK_SECONDS):
            result = ours.recv()
    except EOFError:
        result = RuntimeError(f"{work.__name__} ended without a result")
    finally:
        process.kill()  # it has nothing more to say
        process.join()
    if isinstance(result, BaseException):
        raise result
    return result


def metered(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """The result of `work` from a process of its own, and the processor time that this took: the load generator's."""
    result: tuple[Any, float] = apart(_metered, work, *arguments)
    return result


def _metered(work: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    before = time.process_time()
    result = work(*arguments)
    return result, time.process_time() - before


def _report(pipe: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        pipe.send(work(*arguments))
    except BaseException as error:  # it is raised again on the other side
        pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        children = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in tasks]
    except OSError:
        return
    for child in " ".join(children).split():
        yield from _tree(int(child))


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICK  # its own, and that of children that have ended


def _memory(pid: int, field: str) -> float:
    return _mebibytes(Path(f"/proc/{pid}/status"), field)


def _proportional(pid: int) -> float:
    return _mebibytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def _mebibytes(file: Path, field: str) -> float:
    try:
        status = file.read_text()
    except OSError:
        return 0.0  # it has just ended
    for line in status.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0
