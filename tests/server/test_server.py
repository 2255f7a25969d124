"""How the gateway is served, as far as that can be seen without serving."""

import signal
import socket
import threading
from pathlib import Path

from portico.server.certificates import ServedCertificate, provided, self_signed
from portico.server.processes import SignalFlag, notify


def test_a_signal_that_another_thread_received_is_noticed() -> None:
    """A terminal that closes sends SIGHUP, and often SIGTERM comes with it: the kernel deals them out to threads."""
    flag, over = SignalFlag(), threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: flag.set())
    other = threading.Thread(target=over.wait)
    other.start()
    assert other.ident is not None
    sender = threading.Timer(0.3, signal.pthread_kill, (other.ident, signal.SIGUSR1))
    sender.start()
    try:
        assert flag.wait(30)
    finally:
        over.set()
        other.join()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_wait_ends() -> None:
    flag = SignalFlag()
    assert not flag.wait(0.01)
    flag.set()
    assert flag.wait()
    flag.clear()
    assert not flag.is_set()


def test_a_service_manager_is_notified(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert listener.recv(100) == b"READY=1"
    notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})
    notify("READY=1", {})


def test_a_service_manager_may_use_an_abstract_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + str(tmp_path))
        notify("STOPPING=1", {"NOTIFY_SOCKET": "@" + str(tmp_path)})
        assert listener.recv(100) == b"STOPPING=1"


def test_the_served_pair_is_a_copy(tmp_path: Path) -> None:
    first = self_signed(tmp_path / "tls", "127.0.0.1")
    other = self_signed(tmp_path / "other", "127.0.0.1")
    served = ServedCertificate(first, lambda: provided(first.file, first.key))
    assert not served.renew()
    first.file.write_bytes(b"damaged")
    assert not served.renew()
    assert provided(served.file, served.key).pem == first.pem
    first.file.write_bytes(other.pem[0])
    assert not served.renew(), "the key is still that of the first one"
    first.key.write_bytes(other.pem[1])
    assert served.renew()
    assert provided(served.file, served.key).pem == other.pem
    assert not served.renew()
