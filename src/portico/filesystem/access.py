"""Which gateway, in whose name; and the clients, which filesystems share."""

import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from hashlib import blake2b
from typing import Self
from weakref import WeakValueDictionary

from portico.client import Client, Tokens

_KEY = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Access:
    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    ca: str | None = None
    timeout: float = 30.0
    connections: int = 8

    @classmethod
    def of(
        cls,
        environment: Mapping[str, str],
        *,
        url: str | None,
        username: str | None,
        password: str | None,
        token: str | None,
        client_id: str | None,
        client_secret: str | None,
        ca: str | None,
        timeout: float,
        connections: int,
    ) -> Self:
        """What is given, and the environment for what is left out.

        Name and password of the environment go to the gateway that the environment names, and to no other.
        """
        known = environment.get("PORTICO_URL")
        if not (url := url or known):
            raise ValueError(
                "Which gateway? Give storage_options={'gateway': 'https://…'}, or set PORTICO_URL."
            )
        if not (token or username or password) and (known is None or _same(known, url)):
            token = environment.get("PORTICO_TOKEN")
            username = environment.get("PORTICO_USERNAME")
            password = environment.get("PORTICO_PASSWORD")
        return cls(url, username, password, token, client_id, client_secret, ca, timeout, connections)

    def digest(self) -> str:
        """Tells one user from another, within this process."""
        return blake2b(repr(astuple(self)).encode(), key=_KEY, digest_size=16).hexdigest()


def _whole(url: str) -> str:
    return (url if "://" in url else f"https://{url}").rstrip("/")


def _same(url: str, other: str) -> bool:
    return _whole(url) == _whole(other)


class Shared:
    """A client for as long as a filesystem uses it."""

    def __init__(self, access: Access) -> None:
        self.process = os.getpid()
        self.client = Client(
            access.url,
            username=access.username,
            password=access.password,
            client_id=access.client_id,
            client_secret=access.client_secret,
            tokens=Tokens(access.token) if access.token else None,
            ca=access.ca,
            timeout=access.timeout,
            connections=access.connections,
        )

    def __del__(self) -> None:
        if client := getattr(self, "client", None):
            client.close()


_clients: WeakValueDictionary[tuple[int, Access], Shared] = WeakValueDictionary()
_lock = threading.Lock()


def shared(access: Access) -> Shared:
    """fsspec makes a filesystem for each thread; they all sign in once, and use the same connections.

    A process that was forked off gets clients of its own: two cannot talk over one connection.
    """
    with _lock:
        key = (os.getpid(), access)
        if (client := _clients.get(key)) is None:
            client = _clients[key] = Shared(access)
        return client


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_forked)
