"""Signed receipts: what was stored, for whom and when, as a compact JWS (RFC 7515) with Ed25519 (RFC 8037).

The key is derived from the home's secret key: equal on all nodes, and nothing has to be stored. A receipt is kept by its
owner only.
"""

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from portico import timestamps
from portico.entries import Entry
from portico.paths import Path

TYPE = "portico-receipt"


class ReceiptClaims(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What a receipt says."""

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


@dataclass(frozen=True, slots=True)
class Receipt:
    id: str
    stored_at: str
    text: str
    """The signed receipt."""


class Receipts:
    def __init__(self, seed: bytes, now: Callable[[], int], issuer: str = "") -> None:
        """`now`: milliseconds since the epoch."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._now = now
        self._issuer = issuer
        public = {"crv": "Ed25519", "kty": "OKP", "x": _encoded(self._key.public_key().public_bytes_raw())}
        # The thumbprint of RFC 7638: of these members, in this order, without spaces.
        key_id = _encoded(hashlib.sha256(msgspec.json.encode(public)).digest())
        self.key_set = msgspec.json.encode(
            {"keys": [{**public, "kid": key_id, "alg": "EdDSA", "use": "sig"}]}
        )
        """The public key as a JWK set."""
        self._header = _encoded(msgspec.json.encode({"alg": "EdDSA", "kid": key_id, "typ": TYPE}))

    def issue(self, user: str, path: Path, entry: Entry, sha256: bytes | None) -> Receipt:
        """A receipt for a file that was just stored."""
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
        content = f"{self._header}.{_encoded(msgspec.json.encode(claims))}"
        signature = self._key.sign(content.encode())
        return Receipt(claims.id, claims.stored_at, f"{content}.{_encoded(signature)}")


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
