"""Tokens and where they are stored."""

from dataclasses import dataclass, field
from typing import Protocol

_KEY_LENGTH = 39


@dataclass(frozen=True, slots=True)
class Tokens:
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Unix time; None if unknown."""
    rights: tuple[str, ...] = ()

    @property
    def is_key(self) -> bool:
        """Whether this is an API key: it is not renewed, and signing out does not end it."""
        return self.access_token.startswith("pk_") and len(self.access_token) == _KEY_LENGTH


class TokenStore(Protocol):
    """Stores tokens between runs. Several programs may share a store."""

    def load(self) -> Tokens | None: ...

    def save(self, tokens: Tokens | None) -> None: ...


class MemoryTokenStore:
    def __init__(self, tokens: Tokens | None = None) -> None:
        self._tokens = tokens

    def load(self) -> Tokens | None:
        return self._tokens

    def save(self, tokens: Tokens | None) -> None:
        self._tokens = tokens


@dataclass(slots=True)
class Credentials:
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
