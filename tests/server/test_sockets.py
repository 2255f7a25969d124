import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from portico.runtime.processes import borrowed_socket
from portico.server import worker


def test_a_borrowed_socket_is_the_same_and_its_owner_keeps_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with borrowed_socket(ours.fileno()) as borrowed:
            borrowed.sendall(b"hello")
        assert theirs.recv(5) == b"hello"
        ours.sendall(b"again")
        assert theirs.recv(5) == b"again"


_TAKE = "import fcntl, sys; fcntl.%s(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_the_locks_of_files_are_left_alone(tmp_path: Path, kind: str) -> None:
    """A second descriptor that stays open keeps the lock of `flock`; one that is closed releases that of `lockf`."""
    path = tmp_path / "locked"
    path.touch()

    def is_free() -> bool:
        return subprocess.run([sys.executable, "-c", _TAKE % kind, path], stderr=subprocess.DEVNULL).returncode == 0

    with path.open("r+b") as file:
        getattr(fcntl, kind)(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="non-socket"), borrowed_socket(file.fileno()):
            pass
        assert not is_free()
    assert is_free()


@pytest.mark.skipif(sys.platform != "linux", reason="the option is Linux's")
def test_a_worker_looks_for_its_listening_socket_without_a_trace(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, (tmp_path / "file").open("wb"):
        before = os.listdir("/proc/self/fd")
        worker._time_out_unread_responses()
        assert os.listdir("/proc/self/fd") == before
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == worker.UNREAD_TIMEOUT_MS
