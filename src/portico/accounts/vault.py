"""The home's secret key, and the vault that encrypts provider credentials with it."""

import hmac
import json
import os
import pathlib
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Self

from portico.model.errors import PorticoError
from portico.runtime.private_files import write_private
from portico.store.encrypted_columns import Confidential, Sealed, Unsealable

VARIABLE = "PORTICO_SECRET_KEY"
FILE_VARIABLE = "PORTICO_SECRET_KEY_FILE"

_LENGTH = 32
_URL_SAFE = str.maketrans("+/", "-_")


class BadSecretKey(PorticoError):
    """The secret key is malformed, unreadable, or not the one that was used for encryption."""


class SecretKey(Confidential):
    """32 random bytes from which every key of this home is derived."""

    def __init__(self, key: bytes) -> None:
        if len(key) != _LENGTH:
            raise BadSecretKey(f"A secret key must have {_LENGTH} bytes.")
        self._key = key

    @classmethod
    def load(cls, file: pathlib.Path, environment: Mapping[str, str] = os.environ) -> Self:
        """The key from the environment, or else from `file`, which is created (0600) if it is missing. A file that the
        environment names is never created.

        Any number of processes may create the file at once: all of them return the same key.
        """
        text, named = environment.get(VARIABLE), environment.get(FILE_VARIABLE)
        if text and named:
            raise BadSecretKey(f"{FILE_VARIABLE} and {VARIABLE} are both set; set only one of them.")
        if text:
            return cls._parse(text, f"the variable {VARIABLE}")
        file = pathlib.Path(named) if named else file
        try:
            if not named and not file.exists():
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(file, cls.generate().text() + "\n", replace=False)
            text = file.read_text("ascii", "replace")
        except OSError as error:
            raise BadSecretKey(f"The secret key file {file} can't be used: {error.strerror}.") from error
        return cls._parse(text, f"the file {file}")

    @staticmethod
    def exists(file: pathlib.Path, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether `load` would find a key, and not make one."""
        try:
            return bool(environment.get(VARIABLE) or environment.get(FILE_VARIABLE)) or file.exists()
        except OSError:
            return True  # `load` says why it cannot be used

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(_LENGTH))

    @classmethod
    def _parse(cls, text: str, place: str) -> Self:
        text = text.strip().rstrip("=").translate(_URL_SAFE)
        try:
            # Python's decoder skips invalid characters; encoding again shows whether there were any.
            key = urlsafe_b64decode(text + "=")
            if len(key) == _LENGTH and urlsafe_b64encode(key).rstrip(b"=") == text.encode():
                return cls(key)
        except (NotBase64, ValueError):
            pass
        raise BadSecretKey(
            f"The secret key in {place} is not {_LENGTH} bytes in base64. Restore it from a "
            "backup, because stored credentials can't be read without it; for a new gateway, make "
            f"one with: openssl rand -base64 {_LENGTH} | tr '+/' '-_'"
        )

    def derive(self, purpose: str) -> bytes:
        """A key of 32 bytes for one purpose: HKDF with SHA-256 (RFC 5869), of which 32 bytes are one step."""
        extracted = hmac.digest(bytes(_LENGTH), self._key, "sha256")
        return hmac.digest(extracted, b"portico/" + purpose.encode() + b"\x01", "sha256")

    def fingerprint(self) -> str:
        """Tells keys apart, and says nothing else about them."""
        return self.derive("fingerprint").hex()

    def text(self) -> str:
        """The key as it is written to its file or variable."""
        return urlsafe_b64encode(self._key).decode()


class Vault(Confidential):
    """Encrypts small sets of secrets, bound to a label that says what they belong to."""

    def __init__(self, key: SecretKey | None) -> None:
        """Without a key, nothing can be sealed or opened."""
        self._key = key
        self._sealed = Sealed(key.derive("vault")) if key else None

    @property
    def fingerprint(self) -> str:
        if self._key is None:
            raise _no_key()
        return self._key.fingerprint()

    @property
    def _box(self) -> Sealed:
        if self._sealed is None:
            raise _no_key()
        return self._sealed

    def seal(self, values: dict[str, str], label: str) -> bytes:
        return self._box.seal(json.dumps(values).encode(), label)

    def open(self, sealed: bytes, label: str) -> dict[str, str]:
        """The secrets with this label; `BadSecretKey` if the key is another one or the bytes were altered."""
        try:
            plain = self._box.open(sealed, label)
        except Unsealable:
            raise BadSecretKey(
                f"The credentials of {label!r} were encrypted with another secret key; restore that key, "
                "or delete the connection and add it again."
            ) from None
        values: dict[str, str] = json.loads(plain)
        return values


def _no_key() -> BadSecretKey:
    return BadSecretKey(
        "The secret key is missing; copy this gateway's secret.key to the home folder, or set "
        f"{VARIABLE}. If the key is lost, run 'portico cluster forget' and add the connections "
        "again."
    )
