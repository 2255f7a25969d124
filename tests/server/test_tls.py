import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from portico.server.certificates import LIFETIME, Certificate, CertificateUnusable, provided, self_signed

NOW = datetime.now(UTC)


@pytest.fixture
def pair(tmp_path: Path) -> Certificate:
    return self_signed(tmp_path / "tls", "192.0.2.7")


def test_a_certificate_for_every_name_of_this_machine(pair: Certificate) -> None:
    assert {"localhost", "127.0.0.1", "::1", "192.0.2.7"} <= set(pair.names)
    assert pair.self_signed
    assert NOW + LIFETIME - timedelta(hours=2) < pair.expires < NOW + LIFETIME


def test_the_key_is_for_its_owner_alone(pair: Certificate) -> None:
    assert pair.key.stat().st_mode & 0o777 == 0o600
    assert pair.file.parent.stat().st_mode & 0o777 == 0o700
    assert b"PRIVATE" not in pair.file.read_bytes()


def test_the_fingerprint_is_that_of_the_certificate(pair: Certificate) -> None:
    certificate = x509.load_pem_x509_certificate(pair.file.read_bytes())
    assert pair.fingerprint.replace(":", "").lower() == certificate.fingerprint(hashes.SHA256()).hex()


def test_a_strict_client_trusts_it_and_a_server_loads_it(pair: Certificate) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.file, pair.key)
    client = ssl.create_default_context(cafile=str(pair.file))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for end in (ours, theirs):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    assert ours.getpeercert()


def test_it_is_kept_until_it_ends_soon(tmp_path: Path, pair: Certificate) -> None:
    folder = tmp_path / "tls"
    assert self_signed(folder, "192.0.2.7") == pair
    assert self_signed(folder, "192.0.2.7", NOW + LIFETIME - timedelta(days=31)) == pair
    assert self_signed(folder, "192.0.2.7", NOW + LIFETIME - timedelta(days=29)).fingerprint != pair.fingerprint


def test_a_new_address_needs_a_new_one(tmp_path: Path, pair: Certificate) -> None:
    other = self_signed(tmp_path / "tls", "192.0.2.8")
    assert "192.0.2.8" in other.names
    assert other.fingerprint != pair.fingerprint


def test_a_pair_that_does_not_fit_is_made_anew(tmp_path: Path, pair: Certificate) -> None:
    pair.key.write_bytes(self_signed(tmp_path / "other", "192.0.2.7").key.read_bytes())
    assert self_signed(tmp_path / "tls", "192.0.2.7").fingerprint != pair.fingerprint


def refusal(file: Path, key: Path, now: datetime | None = None) -> str:
    with pytest.raises(CertificateUnusable) as caught:
        provided(file, key, now)
    assert "\n" not in caught.value.detail
    return caught.value.detail


def test_own_files_that_cannot_be_used(tmp_path: Path, pair: Certificate) -> None:
    other = self_signed(tmp_path / "other", "192.0.2.7")
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    assert "does not exist" in refusal(tmp_path / "none", pair.key)
    assert "does not exist" in refusal(pair.file, tmp_path / "none")
    assert "can't be read" in refusal(tmp_path, pair.key)
    assert "not contain a certificate" in refusal(junk, pair.key)
    assert "not contain a private key" in refusal(pair.file, junk)
    assert "does not match" in refusal(pair.file, other.key)
    assert "expired on" in refusal(pair.file, pair.key, NOW + LIFETIME)
    assert "clock" in refusal(pair.file, pair.key, NOW - timedelta(days=2))


def test_a_file_that_would_block_is_refused(tmp_path: Path, pair: Certificate) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "not a regular file" in refusal(fifo, pair.key)
    assert "not a regular file" in refusal(pair.file, fifo)
    assert "not a regular file" in refusal(Path("/dev/zero"), pair.key)


def test_an_encrypted_key_is_named_as_such(tmp_path: Path, pair: Certificate) -> None:
    from cryptography.hazmat.primitives import serialization as form

    key = form.load_pem_private_key(pair.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"pass"))
    )
    assert "encrypted" in refusal(pair.file, locked)
