"""How the gateway is served, as far as that can be seen without serving."""

import signal
import threading

from portico.cli.server import SignalFlag


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
