"""A renewed certificate, or SIGHUP: the workers are replaced, and nobody who is connected notices."""

import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from portico.server.certificates import self_signed

from ..gateways import FILES, WAIT, Gateway, wait_until

CONTENT = os.urandom(2**20) * 16  # more than the buffers of both sides hold


def make_pair(folder: Path) -> Path:
    """A folder with a new certificate and its key."""
    self_signed(folder, "127.0.0.1")
    return folder


@pytest.fixture
def pairs(tmp_path: Path) -> list[Path]:
    return [make_pair(tmp_path / name) for name in ("first", "second")]


@pytest.fixture
def live(tmp_path: Path, pairs: list[Path]) -> Path:
    """A link to the current pair, as certbot and Kubernetes keep them."""
    link = tmp_path / "live"
    link.symlink_to(pairs[0])
    return link


@pytest.fixture
def gateway(tmp_path: Path, live: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "home", "--tls", f"{live}/certificate.pem,{live}/key.pem")
    gateway.url = gateway.url.replace("http:", "https:")
    gateway.certificate = live / "certificate.pem"
    gateway.start()
    try:
        yield gateway
    finally:
        assert gateway.process is not None
        if gateway.process.poll() is None:
            gateway.kill()


def served(gateway: Gateway) -> str:
    return ssl.get_server_certificate(("127.0.0.1", gateway.port), timeout=WAIT)


def expected(pair: Path) -> str:
    return (pair / "certificate.pem").read_text()


def renew(live: Path, pair: Path) -> None:
    draft = live.with_name("draft")
    draft.symlink_to(pair)
    os.replace(draft, live)


def test_renewed_certificate_is_served_and_a_download_goes_on(gateway: Gateway, live: Path, pairs: list[Path]) -> None:
    assert served(gateway) == expected(pairs[0])
    (gateway.files / "web" / "large").write_bytes(CONTENT)
    with gateway.signed_in() as client, client.stream("GET", f"{FILES}/large") as download:
        pieces = download.iter_raw(2**16)
        received = next(pieces)
        [worker] = gateway.workers()
        renew(live, pairs[1])
        wait_until(lambda: served(gateway) == expected(pairs[1]), "the new certificate is served")
        wait_until(lambda: not listens(worker), "the old worker takes no more connections")
        assert worker in gateway.workers()
        received += b"".join(pieces)
    assert received == CONTENT
    wait_until(lambda: worker not in gateway.workers(), "the old worker has ended")
    assert gateway.stop() == 0


def test_damaged_files_change_nothing(gateway: Gateway, live: Path, pairs: list[Path]) -> None:
    (pairs[1] / "key.pem").write_bytes((pairs[0] / "key.pem").read_bytes())  # of the other one
    renew(live, pairs[1])
    wait_until(lambda: "does not match the certificate" in gateway.output, "the mistake is reported")
    assert "The certificate that was loaded before stays in effect." in gateway.output
    assert served(gateway) == expected(pairs[0])
    [worker] = gateway.workers()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: gateway.workers() not in ([], [worker]), "the worker is replaced")
    wait_until(lambda: answers(gateway), "its successor serves")
    assert served(gateway) == expected(pairs[0])
    assert gateway.output.count("does not match the certificate") == 1


def test_a_fifo_in_place_of_the_certificate_changes_nothing(gateway: Gateway, live: Path, pairs: list[Path]) -> None:
    gateway.certificate = pairs[0] / "certificate.pem"  # the client would wait, too
    (pairs[1] / "certificate.pem").unlink()
    os.mkfifo(pairs[1] / "certificate.pem")
    renew(live, pairs[1])
    wait_until(lambda: "not a regular file" in gateway.output, "the mistake is reported")
    assert "The certificate that was loaded before stays in effect." in gateway.output
    [worker] = gateway.workers()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: gateway.workers() not in ([], [worker]), "the worker is replaced")
    wait_until(lambda: answers(gateway), "its successor serves")
    assert served(gateway) == expected(pairs[0])


def test_hangup_replaces_workers_and_a_stop_ends_all_of_them(gateway: Gateway) -> None:
    (gateway.files / "web" / "large").write_bytes(CONTENT)
    with gateway.signed_in() as client, client.stream("GET", f"{FILES}/large") as download:
        pieces = download.iter_raw(2**16)
        received = next(pieces)
        [worker] = gateway.workers()
        hang_up(gateway)
        wait_until(lambda: not listens(worker), "the old worker takes no more connections")
        assert gateway.process is not None
        gateway.process.send_signal(signal.SIGTERM)
        received += b"".join(pieces)
    assert received == CONTENT
    assert gateway.process.wait(WAIT) == 0


def test_workers_stay_if_their_successors_cannot_start(gateway: Gateway) -> None:
    workers = gateway.workers()
    (gateway.home / "secret.key").write_text("damaged")
    hang_up(gateway)
    wait_until(lambda: "The old workers keep running." in gateway.output, "the failure is reported")
    assert gateway.workers() == workers
    assert answers(gateway)


def test_changes_of_the_environment_file(tmp_path: Path) -> None:
    file = tmp_path / "environment"
    file.write_text("PORTICO_SECURITY_ALLOWED_ADDRESSES=127.0.0.1\n")
    settings = {"PORTICO_ENVIRONMENT_FILE": str(file)}
    gateway = Gateway(tmp_path / "gateway" / "home", "--workers", "1", settings=settings)
    gateway.home.parent.mkdir()
    gateway.start()
    try:
        assert gateway.answers()
        file.write_text('PORTICO_SECURITY_ALLOWED_ADDRESSES="10.0.0.0/8"\nPORTICO_SERVER_DRAIN_DELAY=1s\n')
        hang_up(gateway)
        wait_until(lambda: not gateway.answers(), "this address is refused")
        assert (
            "server.drain-delay: changes take effect at the next start. All other changes took effect now."
            in gateway.output
        )
        file.write_text("PORTICO_SECURITY_ALLOWED_ADDRESSES=nonsense\n")
        hang_up(gateway)
        wait_until(lambda: "The old settings stay in effect." in gateway.output, "the mistake is reported")
    finally:
        gateway.kill()


def hang_up(gateway: Gateway) -> None:
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGHUP)


def answers(gateway: Gateway) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", gateway.port), WAIT):
            return True
    except OSError:
        return False


def listens(worker: int) -> bool:
    """Whether the process has a listening socket."""
    listening = {
        line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    }
    links = []
    for descriptor in Path(f"/proc/{worker}/fd").iterdir():
        try:
            links.append(os.readlink(descriptor))
        except FileNotFoundError:
            continue
    return any(f"socket:[{inode}]" in links for inode in listening)
