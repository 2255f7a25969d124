"""Signed receipts: what was stored, for whom and when.

The key is derived from the home's secret key: equal on all nodes, and nothing has to be stored. A receipt is kept by its
owner only.
"""

import secrets
from collections.abc import Callable

import msgspec

from portico.model import timestamps
from portico.model.entries import Entry
from portico.model.paths import Path
from portico.store.signatures import Signer

TYPE = "portico-receipt"


class ReceiptClaims(msgspec.Struct, omit_defaults=True, rename="camel"):
    id: str
    path: str
    """From the user's root."""
    name: str
    size: int
    stored_at: str
    user: str
    etag: str = ""
    sha256: str = ""
    """Hexadecimal."""
    issuer: str = ""
    """The gateway's public address, if it has one."""


class Receipt(msgspec.Struct, frozen=True):
    id: str
    stored_at: str
    text: str
    """The signed receipt."""


class Receipts:
    def __init__(self, signer: Signer, now: Callable[[], int], issuer: str = "") -> None:
        """`now`: milliseconds since the epoch."""
        self._signer = signer
        self._now = now
        self._issuer = issuer

    @property
    def key_set(self) -> bytes:
        """The public key as a JWK set."""
        return self._signer.key_set

    def issue(self, user: str, path: Path, entry: Entry, sha256: bytes | None) -> Receipt:
        claims = ReceiptClaims(
            id=secrets.token_hex(16),
            path=str(path),
            name=path.name,
            size=entry.size or 0,
            stored_at=timestamps.from_epoch(self._now()),
            user=user,
            etag=entry.etag or "",
            sha256=sha256.hex() if sha256 else "",
            issuer=self._issuer,
        )
        return Receipt(claims.id, claims.stored_at, self._signer.sign(TYPE, claims))
