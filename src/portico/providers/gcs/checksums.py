"""The checksum of an upload or a download, which Google verifies.

CRC32C if its C implementation is installed (7 GB/s, measured), otherwise MD5 (0.5 GB/s), but never CRC32C in Python.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable

import google_crc32c

from portico.providers.gcs.responses import ObjectResource

FAST = google_crc32c.implementation == "c"


class Checksum:
    def __init__(self) -> None:
        self.known = True
        """Whether it includes all bytes from the first one on."""
        self._crc = 0
        self._md5 = None if FAST else hashlib.md5(usedforsecurity=False)

    @classmethod
    def restored(cls, state: str) -> "Checksum":
        checksum = cls()
        if state and FAST:
            checksum._crc = int(state, 16)
        else:
            checksum.known = False
        return checksum

    @property
    def state(self) -> str:
        """All that `restored` needs, unless it is empty: then the checksum cannot be restored."""
        return f"{self._crc:x}" if FAST and self.known else ""

    def add(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            if self._md5 is None:
                self._crc = google_crc32c.extend(self._crc, chunk)
            else:
                self._md5.update(chunk)

    @property
    def text(self) -> str:
        digest = self._crc.to_bytes(4, "big") if self._md5 is None else self._md5.digest()
        return b64encode(digest).decode()

    @property
    def metadata(self) -> dict[str, str]:
        """The field of an object's metadata."""
        return {"crc32c" if self._md5 is None else "md5Hash": self.text}

    @property
    def header(self) -> dict[str, str]:
        if not self.known:
            return {}
        return {"X-Goog-Hash": f"{'crc32c' if self._md5 is None else 'md5'}={self.text}"}

    def matches(self, stored: ObjectResource) -> bool:
        """Whether the stored object has this checksum, if the response names one."""
        theirs = stored.crc32c if self._md5 is None else stored.md5_hash
        return theirs is None or not self.known or theirs == self.text

    def matches_header(self, hashes: str) -> bool:
        """Whether the header of a download has this checksum, if it names one."""
        name = "crc32c=" if self._md5 is None else "md5="
        found = [item.strip().removeprefix(name) for item in hashes.split(",") if item.strip().startswith(name)]
        return all(theirs == self.text for theirs in found)
