"""The folders of the bench: one in memory for content, one in the checkout for what is kept between runs."""

import os
import random
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from bench.processes import ROOT

GIB = 2**30
_SETTLE_SECONDS = 2.5
_LONG_AGO = 1_700_000_000
_MEMORY = Path("/dev/shm")


class Workspace:
    def __init__(self) -> None:
        in_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 6 * GIB
        self.place = "tmpfs" if in_memory else "disk"
        """The file system that uploads go to, the same for every server."""
        self.folder = Path(tempfile.mkdtemp(prefix="portico-bench-", dir=_MEMORY if in_memory else None))
        self.kept = ROOT / ".cache" / "bench"
        self.kept.mkdir(parents=True, exist_ok=True)
        self.certificate = self.folder / "certificate.pem"
        self.key = self.folder / "key.pem"
        self._make_certificate()

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, name: str) -> Path:
        """A new, empty folder."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        return folder

    def source(self, size: int) -> str:
        """A file of `size` random bytes, which nothing can compress."""
        file = self.folder / f"source-{size}"
        if not file.exists():
            block = random.Random(7).randbytes(2**20)
            with open(file, "wb") as stream:
                for number in range(size // len(block)):
                    stream.write(number.to_bytes(8, "big") + block[8:])
        return str(file)

    def big_folder(self, count: int) -> Path:
        """A folder of empty files that has not changed for a while, built once and kept."""
        folder = self.kept / f"files-{count}"
        mark = self.kept / f"files-{count}.built"
        if not mark.exists():
            say(f"building a folder of {count:,} files (once) …")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            descriptor = os.open(folder, os.O_RDONLY)
            for number in range(count):
                # Scattered, as names that people give are: the order of creation is not that of the listing.
                name = f"file-{number * 7919 % count:07d}.txt"
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=descriptor))
                os.utime(name, (_LONG_AGO, _LONG_AGO), dir_fd=descriptor)
            os.close(descriptor)
            mark.touch()
        wait = folder.stat().st_mtime + _SETTLE_SECONDS - time.time()
        if wait > 0:
            time.sleep(wait)
        return folder

    def _make_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = datetime.now(UTC)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, SHA256())
        )
        self.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        self.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def say(text: str) -> None:
    """Print progress to standard error; results go to standard output."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
