"""The certificate that the workers serve, and its renewal while the server runs."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from portico.cli.tls import Certificate, CertificateUnusable


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
