"""Known devices: proof that a browser has signed in as a user before.

The proof admits nobody. It decides under which count a password is tried: what strangers fail at is not held against
a device that the user has signed in from. Nothing is stored for it, and it ends with the password, because the hash of
the password is a part of what is signed.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from hashlib import sha256
from typing import Final

from portico.accounts import moments

LIFETIME: Final = timedelta(days=90)
MOST: Final = 4
"""Users of one browser whose proofs are kept; of more, the one that signed in longest ago is forgotten."""

_NONCE, _EXPIRY, _TAG = 16, 8, 24
_PROOF = re.compile(r"[A-Za-z0-9_-]{64}")
_LONGEST = MOST * 65
_SEPARATOR = "."


class Devices:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def known(self, presented: str, user_id: int, password_hash: str) -> bytes | None:
        """What tells this device from others, if one of the presented proofs is of this user and this password."""
        for proof in _proofs(presented):
            if (nonce := self._nonce(proof, user_id, password_hash)) is not None:
                return nonce
        return None

    def renewed(self, presented: str, user_id: int, password_hash: str) -> str:
        """What the device is to present from now on: a new proof for this user, and those it has for others."""
        others = [one for one in _proofs(presented) if self._nonce(one, user_id, password_hash) is None]
        return _SEPARATOR.join([self._issue(user_id, password_hash), *others][:MOST])

    def _issue(self, user_id: int, password_hash: str) -> str:
        expires_at = moments.now() + LIFETIME // timedelta(milliseconds=1)
        signed = expires_at.to_bytes(_EXPIRY) + secrets.token_bytes(_NONCE)
        return urlsafe_b64encode(signed + self._tag(signed, user_id, password_hash)).decode()

    def _nonce(self, proof: str, user_id: int, password_hash: str) -> bytes | None:
        raw = urlsafe_b64decode(proof)
        signed, tag = raw[:-_TAG], raw[-_TAG:]
        if not hmac.compare_digest(tag, self._tag(signed, user_id, password_hash)):
            return None
        return signed[_EXPIRY:] if int.from_bytes(signed[:_EXPIRY]) > moments.now() else None

    def _tag(self, signed: bytes, user_id: int, password_hash: str) -> bytes:
        message = signed + user_id.to_bytes(8) + password_hash.encode()
        return hmac.digest(self._key, message, sha256)[:_TAG]


def _proofs(presented: str) -> list[str]:
    if len(presented) > _LONGEST:
        return []
    return [proof for proof in presented.split(_SEPARATOR) if _PROOF.fullmatch(proof)]
