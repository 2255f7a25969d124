"""The server's certificate: the administrator's own, or a self-signed one that is made and renewed."""

import os
import socket
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from portico.model.errors import PorticoError

LIFETIME = timedelta(days=397)  # browsers refuse longer lifetimes
RENEWAL = timedelta(days=30)
_CLOCK_SKEW = timedelta(hours=1)
_MAX_BYTES = 2**20
"""What is read of a file: a chain of certificates has some kilobytes."""


class CertificateUnusable(PorticoError, code="certificate-unusable"): ...


@dataclass(frozen=True, slots=True)
class Certificate:
    file: Path
    key: Path
    fingerprint: str
    """SHA-256, as `AB:CD:…`."""
    names: tuple[str, ...]
    expires: datetime
    self_signed: bool
    pem: tuple[bytes, bytes] = field(repr=False)
    """The content of the two files, as it was checked."""


def self_signed(folder: Path, address: str, now: datetime | None = None, *, running: bool = False) -> Certificate:
    """The certificate of this home; a new one if it is missing or expires soon.

    At a start also if it lacks a name: while the server is `running`, clients trust its fingerprint.
    """
    now = now or datetime.now(UTC)
    file, key = folder / "certificate.pem", folder / "key.pem"
    names = _own_names(address)
    with suppress(CertificateUnusable):
        present = provided(file, key, now + RENEWAL)
        if running or set(names) <= set(present.names):
            return present
    folder.mkdir(mode=0o700, exist_ok=True)
    _make(file, key, names, now)
    return provided(file, key, now)


def provided(file: Path, key: Path, now: datetime | None = None) -> Certificate:
    """Load a certificate and its key from two PEM files; raises `CertificateUnusable`."""
    now = now or datetime.now(UTC)
    pem = _read(file, "certificate"), _read(key, "key")
    try:
        certificate = x509.load_pem_x509_certificates(pem[0])[0]
    except ValueError:
        raise CertificateUnusable(f"The file {file} does not contain a certificate in PEM format.") from None
    if certificate.public_key() != _load_key(key, pem[1]).public_key():
        raise CertificateUnusable(
            f"The key in {key} does not match the certificate in {file}; the server's own certificate must come first in that file."
        )
    if now >= certificate.not_valid_after_utc:
        raise CertificateUnusable(
            f"The certificate in {file} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; renew it."
        )
    if now < certificate.not_valid_before_utc:
        raise CertificateUnusable(
            f"The certificate in {file} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; check this machine's clock."
        )
    return Certificate(
        file,
        key,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
        names=_names(certificate),
        expires=certificate.not_valid_after_utc,
        self_signed=certificate.issuer == certificate.subject,
        pem=pem,
    )


def _read(file: Path, what: str) -> bytes:
    try:
        # The supervisor reads it while it runs: it must not wait for the writer of a FIFO.
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise CertificateUnusable(f"The {what} file {file} can't be read: it is not a regular file.")
            return stream.read(_MAX_BYTES)
    except FileNotFoundError:
        raise CertificateUnusable(f"The {what} file {file} does not exist.") from None
    except OSError as error:
        raise CertificateUnusable(f"The {what} file {file} can't be read ({error.strerror}).") from None


def _load_key(file: Path, pem: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise CertificateUnusable(f"The key in {file} is encrypted; store it without a passphrase.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateUnusable(f"The file {file} does not contain a private key in PEM format.") from None


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *map(str, addresses))


def _own_names(address: str) -> tuple[str, ...]:
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname().lower()]
    names += _own_addresses() if ip_address(address).is_unspecified else [address]
    return tuple(dict.fromkeys(name for name in names if _general_name(name)))


def _own_addresses() -> list[str]:
    """The addresses by which other machines reach this one, as far as it knows them."""
    addresses = []
    for family, outside in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((outside, 9))  # sends nothing, only chooses the route
            addresses.append(str(probe.getsockname()[0]))
    return addresses


def _general_name(name: str) -> x509.GeneralName | None:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(name))
    with suppress(ValueError):  # not ASCII
        return x509.DNSName(name) if name else None
    return None


def _make(file: Path, key_file: Path, names: Iterable[str], now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Portico")])
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)  # digital signature only
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now - _CLOCK_SKEW + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([found for name in names if (found := _general_name(name))]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(usage, True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    from portico.runtime.private_files import write_private

    # The key first: a kill in between leaves a pair that does not match, which the next start replaces.
    write_private(key_file, encoded.decode())
    write_private(file, certificate.public_bytes(serialization.Encoding.PEM).decode())
    os.chmod(file, 0o644)  # public anyway


class ServedCertificate:
    """The pair that was checked last.

    Workers read a copy of it in memory: one that starts while the files are being replaced, or after they were damaged,
    serves the same pair as the others.
    """

    def __init__(self, certificate: Certificate, load: Callable[[], Certificate]) -> None:
        """`load` returns what the files contain now; raises `CertificateUnusable`."""
        self._load = load
        self._problem = ""
        self._descriptors: list[int] = []
        self._pem = certificate.pem
        self.file, self.key = self._copied(certificate)

    def renew(self) -> bool:
        """Look at the files. Whether there is another pair to serve; a pair that cannot be used is reported, once."""
        try:
            certificate = self._load()
        except CertificateUnusable as error:
            if error.detail != self._problem:
                _report(f"{error.detail}\nThe certificate that was loaded before stays in effect.")
            self._problem = error.detail
            return False
        self._problem = ""
        if certificate.pem == self._pem:
            return False
        self._pem = certificate.pem
        self.file, self.key = self._copied(certificate)
        _report(
            f"There is a new certificate in {certificate.file}, valid until {certificate.expires:%Y-%m-%d}. "
            "New connections will use it."
        )
        return True

    def _copied(self, certificate: Certificate) -> tuple[Path, Path]:
        if sys.platform != "linux":
            return certificate.file, certificate.key
        earlier, self._descriptors = self._descriptors, [_in_memory(pem) for pem in certificate.pem]
        for descriptor in earlier:
            os.close(descriptor)
        file, key = (Path(f"/proc/{os.getpid()}/fd/{descriptor}") for descriptor in self._descriptors)
        return file, key


def _in_memory(content: bytes) -> int:
    """The descriptor of an unnamed file."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as writer:
        writer.write(content)
    return descriptor


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
