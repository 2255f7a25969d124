"""Which gateway, in whose name; and the clients, which filesystems share."""

import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from hashlib import blake2b
from typing import Self
from weakref import WeakValueDictionary

from portico.client import Client, ProfileUnusable, Tokens, TokenStore
from portico.client.profiles import Profile, Store, chosen, find, named, same_place

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
    profile: str | None = None
    """The sign-in of the command's whose tokens are used; they stay in its store."""

    @classmethod
    def of(
        cls,
        environment: Mapping[str, str],
        *,
        profile: str | None = None,
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
        """What is given, then the profile that is named, or else the environment, then the usual profile.

        Name and password of the environment go to the gateway that the environment names, and to no other; nor do a
        profile's tokens go to another than the profile's.
        """
        if profile:
            environment = {}
        known = environment.get("PORTICO_URL")
        given = bool(token or username or password)
        kept = None if url and given and not profile else _profile(profile, environment)
        if profile and kept and url and not same_place(url, kept.url):
            raise ValueError(f"The profile {profile} is one of {kept.url}, not of {url}.")
        if not (url := url or known or (kept.url if kept else None)):
            raise ValueError(
                "Which gateway? Give storage_options={'gateway': 'https://…'}, set PORTICO_URL, or sign in with "
                "'portico login'."
            )
        if not given and (known is None or same_place(known, url)):
            token = environment.get("PORTICO_TOKEN")
            username = environment.get("PORTICO_USERNAME")
            password = environment.get("PORTICO_PASSWORD")
        name = None
        if kept and same_place(kept.url, url):
            url, ca = kept.url, ca or kept.ca
            name = None if token or username or password else kept.name
        return cls(url, username, password, token, client_id, client_secret, ca, timeout, connections, name)

    def digest(self) -> str:
        """Tells one user from another, within this process."""
        return blake2b(repr(astuple(self)).encode(), key=_KEY, digest_size=16).hexdigest()


def _profile(name: str | None, environment: Mapping[str, str]) -> Profile | None:
    try:
        return named(name) if name else find(chosen(environment))
    except ProfileUnusable as error:
        raise ValueError(error.detail) from error


def _tokens(access: Access) -> TokenStore | Tokens | None:
    if access.token:
        return Tokens(access.token)
    if access.profile and (profile := find(access.profile)) and profile.url == access.url:
        return Store(profile)
    return None


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
            tokens=_tokens(access),
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


if hasattr(os, "register_at_fork"):  # not everywhere are there forks
    os.register_at_fork(after_in_child=_forked)
