"""Signed statements: compact JWS (RFC 7515) with Ed25519 (RFC 8037)."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import msgspec

from portico.store.encrypted_columns import Confidential

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Claims = TypeVar("Claims", bound=msgspec.Struct)


class NotSigned(Exception):
    """The statement was altered, or signed with another key."""


class Signer(Confidential):
    """The key is made for the first signature: its library is slow to import and large."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    @cached_property
    def _key(self) -> "Ed25519PrivateKey":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._seed)

    @cached_property
    def _public(self) -> dict[str, str]:
        return {"crv": "Ed25519", "kty": "OKP", "x": _encoded(self._key.public_key().public_bytes_raw())}

    @cached_property
    def _key_id(self) -> str:
        """The thumbprint of RFC 7638: of these members, in this order, without spaces."""
        return _encoded(hashlib.sha256(msgspec.json.encode(self._public)).digest())

    @property
    def key_set(self) -> bytes:
        """The public key as a JWK set."""
        return msgspec.json.encode({"keys": [{**self._public, "kid": self._key_id, "alg": "EdDSA", "use": "sig"}]})

    def sign(self, kind: str, claims: msgspec.Struct) -> str:
        """`kind`: the type in the header, so that no statement is taken for one of another kind."""
        content = f"{self._header(kind)}.{_encoded(msgspec.json.encode(claims))}"
        return f"{content}.{_encoded(self._key.sign(content.encode()))}"

    def opened(self, kind: str, text: str, claims: type[Claims]) -> Claims:
        """What a statement says. Raises `NotSigned`."""
        from cryptography.exceptions import InvalidSignature

        try:
            content, _, signature = text.rpartition(".")
            header, _, body = content.partition(".")
            if header != self._header(kind):
                raise NotSigned
            self._key.public_key().verify(_decoded(signature), content.encode())
            return msgspec.json.decode(_decoded(body), type=claims)
        except (InvalidSignature, ValueError) as error:
            raise NotSigned from error

    def _header(self, kind: str) -> str:
        return _encoded(msgspec.json.encode({"alg": "EdDSA", "kid": self._key_id, "typ": kind}))


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
