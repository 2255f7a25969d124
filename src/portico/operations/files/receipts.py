"""Signed receipts: what was stored, for whom and when, as a compact JWS (RFC 7515) with Ed25519 (RFC 8037).

The key is derived from the home's secret key: equal on all nodes, and nothing has to be stored. A receipt is kept by its
owner only.
"""

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cached_property

import msgspec

from portico.model import timestamps
from portico.model.entries import Entry
from portico.model.paths import Path

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


class _Signer:
    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = {"crv": "Ed25519", "kty": "OKP", "x": _encoded(self._key.public_key().public_bytes_raw())}
        # The thumbprint of RFC 7638: of these members, in this order, without spaces.
        key_id = _encoded(hashlib.sha256(msgspec.json.encode(public)).digest())
        self.key_set = msgspec.json.encode({"keys": [{**public, "kid": key_id, "alg": "EdDSA", "use": "sig"}]})
        self._header = _encoded(msgspec.json.encode({"alg": "EdDSA", "kid": key_id, "typ": TYPE}))

    def signed(self, claims: ReceiptClaims) -> str:
        content = f"{self._header}.{_encoded(msgspec.json.encode(claims))}"
        return f"{content}.{_encoded(self._key.sign(content.encode()))}"


class Receipts:
    def __init__(self, seed: bytes, now: Callable[[], int], issuer: str = "") -> None:
        """`now`: milliseconds since the epoch."""
        self._seed = seed
        self._now = now
        self._issuer = issuer

    @cached_property
    def _signer(self) -> _Signer:
        """Made for the first receipt: most gateways issue none, and its library is slow to import and large."""
        return _Signer(self._seed)

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
        return Receipt(claims.id, claims.stored_at, self._signer.signed(claims))


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
