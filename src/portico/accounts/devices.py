"""Known devices: proof that a browser has signed in as a user before.

A proof grants nothing. It only decides under which key failures are counted, so that the failures of strangers do not
count against a device that the user has signed in from. Nothing is stored. A proof ends with the password, because the
password's hash is part of what is signed.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from hashlib import sha256
from typing import Final

from portico import clock

LIFETIME: Final = timedelta(days=90)
MAX_PROOFS: Final = 4
"""Users of one browser whose proofs are kept; the oldest proof is dropped first."""

_NONCE, _EXPIRY, _TAG = 16, 8, 24
_PROOF = re.compile(r"[A-Za-z0-9_-]{64}")
_MAX_LENGTH = MAX_PROOFS * 65
_SEPARATOR = "."


class Devices:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def known(self, presented: str, user_id: int, password_hash: str) -> bytes | None:
        """The id of the device, if one of the presented proofs is for this user and password."""
        for proof in _proofs(presented):
            if (nonce := self._nonce(proof, user_id, password_hash)) is not None:
                return nonce
        return None

    def renewed(self, presented: str, user_id: int, password_hash: str) -> str:
        """What the device presents from now on: a new proof for this user, and its proofs for others."""
        others = [one for one in _proofs(presented) if self._nonce(one, user_id, password_hash) is None]
        return _SEPARATOR.join([self._issue(user_id, password_hash), *others][:MAX_PROOFS])

    def _issue(self, user_id: int, password_hash: str) -> str:
        expires_at = clock.now() + clock.milliseconds(LIFETIME)
        signed = expires_at.to_bytes(_EXPIRY) + secrets.token_bytes(_NONCE)
        return urlsafe_b64encode(signed + self._tag(signed, user_id, password_hash)).decode()

    def _nonce(self, proof: str, user_id: int, password_hash: str) -> bytes | None:
        raw = urlsafe_b64decode(proof)
        signed, tag = raw[:-_TAG], raw[-_TAG:]
        if not hmac.compare_digest(tag, self._tag(signed, user_id, password_hash)):
            return None
        return signed[_EXPIRY:] if int.from_bytes(signed[:_EXPIRY]) > clock.now() else None

    def _tag(self, signed: bytes, user_id: int, password_hash: str) -> bytes:
        message = signed + user_id.to_bytes(8) + password_hash.encode()
        return hmac.digest(self._key, message, sha256)[:_TAG]


def _proofs(presented: str) -> list[str]:
    if len(presented) > _MAX_LENGTH:
        return []
    return [proof for proof in presented.split(_SEPARATOR) if _PROOF.fullmatch(proof)]
