"""Columns that are encrypted, because they may hold a secret, such as the address of an upload session."""

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final

from portico.model.errors import PorticoError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION: Final = b"\x01"
_NONCE: Final = 12


class Unsealable(PorticoError):
    """The bytes were sealed with another key or for another row, or were altered."""


class Confidential:
    """For what holds a secret: no log and no traceback shows its fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Sealed(Confidential):
    """Encrypts the values of a column with a key of its own, as `SecretKey.derive` makes it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @cached_property
    def _cipher(self) -> "AESGCM":
        # Slow to import and large, and a gateway for a local folder may never need it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)

    def seal(self, plain: bytes, label: str = "") -> bytes:
        """`label` says what the value belongs to; it can be opened only with the same one."""
        nonce = os.urandom(_NONCE)
        return _VERSION + nonce + self._cipher.encrypt(nonce, plain, label.encode())

    def open(self, sealed: bytes, label: str = "") -> bytes:
        from cryptography.exceptions import InvalidTag

        nonce, box = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            if sealed[:1] != _VERSION:
                raise InvalidTag
            return self._cipher.decrypt(nonce, box, label.encode())
        except (InvalidTag, ValueError):
            raise Unsealable(
                "A record in the database was encrypted with another secret key. Tell your administrator.",
                cause="an encrypted column can't be decrypted; restore the secret key that was used before",
            ) from None
