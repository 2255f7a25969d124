"""`portico …` as a process that is forked from one that has imported all of it.

A new interpreter takes most of a second of CPU to import the gateway, and tests start hundreds. What a new interpreter
itself does with the command is tested in `tests/cli`.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from portico.cli.main import main

_PRELOADED = [
    "portico.server.application",
    "portico.cli.administration.accounts",
    "portico.cli.administration.banner",
    "portico.server.bind_address",
    "portico.cli.administration.connections",
    "portico.server.processes",
    "portico.client",
    "portico.providers.local",
    "portico.store.schema",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvloop",
    __name__,
]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(_PRELOADED)


class ForkedProcess:
    """What tests need of a `subprocess.Popen`. It ends with the tests, whatever they forget."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdin: str = os.devnull,
        stdout: str = os.devnull,
        stderr: str | None = None,
        env: Mapping[str, str],
    ) -> None:
        """`arguments` are those of the interpreter: `-m portico …`, or `-c` and a script. The rest are names of files;
        without `stderr` all output goes to `stdout`."""
        self.arguments = list(arguments)
        streams = (stdin, stdout, stderr)
        self._process = _context.Process(
            target=_run, args=(self.arguments, streams, dict(env), os.getcwd()), daemon=True
        )
        with _without_main_module():
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextmanager
def _without_main_module() -> Iterator[None]:
    """A child would import the program that runs the tests, which is of no use to it."""
    main_module = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main_module


def run(arguments: Sequence[str], *, stdin: str, env: Mapping[str, str]) -> str:
    """The output of a command, or a `subprocess.CalledProcessError`."""
    with tempfile.TemporaryDirectory(prefix="portico-command-") as folder:
        given, stdout, stderr = (Path(folder) / name for name in ("in", "out", "err"))
        given.write_text(stdin)
        code = ForkedProcess(arguments, stdin=str(given), stdout=str(stdout), stderr=str(stderr), env=env).wait()
        if code:
            raise subprocess.CalledProcessError(code, list(arguments), stdout.read_text(), stderr.read_text())
        return stdout.read_text()


def _run(arguments: list[str], streams: tuple[str, str, str | None], environment: dict[str, str], folder: str) -> None:
    # A daemon may have no children, and a gateway has workers.
    multiprocessing.current_process().daemon = False
    multiprocessing.set_start_method(None, force=True)  # the default, as in a new interpreter
    stdin, stdout, stderr = streams
    _open(0, stdin, os.O_RDONLY)
    _open(1, stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if stderr is None:
        os.dup2(1, 2)
    else:
        _open(2, stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    option, word, *rest = arguments
    sys.argv = [option, *rest]
    if option == "-c":
        exec(word, {"__name__": "__main__"})
    else:
        assert (option, word) == ("-m", "portico")
        main()


def _open(number: int, file: str, flags: int) -> None:
    descriptor = os.open(file, flags | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, number)
    os.close(descriptor)
