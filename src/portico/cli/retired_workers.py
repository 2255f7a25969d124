"""Workers that were replaced and still finish their requests."""

import os
import time
from multiprocessing.process import BaseProcess

from portico.cli.worker import RETIRE_SIGNAL

RETIREMENT_SECONDS = 3600.0
"""How long a request that was running at a reload may continue, in the worker that was replaced."""


class RetiredWorkers:
    def __init__(self) -> None:
        self._ends: dict[BaseProcess, float] = {}
        """Each worker, and when it is killed."""

    def retire(self, worker: BaseProcess) -> None:
        """Let a worker finish its requests, and take no new ones."""
        if worker.pid and worker.is_alive():
            os.kill(worker.pid, RETIRE_SIGNAL)
            self._ends[worker] = time.monotonic() + RETIREMENT_SECONDS

    def tend(self) -> None:
        """Forget those that have ended, and kill those that take too long."""
        for worker, end in list(self._ends.items()):
            if not worker.is_alive():
                del self._ends[worker]
            elif time.monotonic() > end:
                worker.kill()

    def terminate(self) -> None:
        for worker in self._ends:
            worker.terminate()

    def join(self, until: float) -> None:
        """Wait for all of them, and kill those that are still running at that time."""
        for worker in self._ends:
            worker.join(max(0.0, until - time.monotonic()))
            worker.kill()
            worker.join()
        self._ends.clear()
