"""Whether the process behind a name still runs."""

import os
import subprocess
import sys

from portico.runtime import processes
from portico.runtime.processes import ProcessState


def test_what_a_name_says_about_its_process() -> None:
    mine = processes.name_of(os.getpid())
    assert processes.state_of(f"{mine}-0123") is ProcessState.RUNNING
    machine, process, started = mine.split("-")
    # Process ids are used again.
    assert processes.state_of(f"{machine}-{process}-{int(started) + 1}-0123") is ProcessState.ENDED
    for unknown in (f"0{machine}-{process}-{started}-0123", "0123" * 8, "", "--", f"{machine}-{'9' * 40}-1-0"):
        assert processes.state_of(unknown) is ProcessState.UNKNOWN
    assert processes.state_of(f"{machine}-{1}-0-0123") is ProcessState.ENDED


def test_a_process_that_was_killed_has_ended_before_anybody_waits_for_it() -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        name = processes.name_of.__wrapped__(process.pid)
        assert processes.state_of(name) is ProcessState.RUNNING
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert processes.state_of(name) is ProcessState.ENDED
    assert processes.state_of(name) is ProcessState.ENDED
