"""Clients shared by filesystems with the same options."""

import os
import threading
from weakref import WeakValueDictionary, finalize

from portico.client import Client, Tokens, TokenStore
from portico.client.auth import profiles
from portico.client.auth.profiles import ProfileTokenStore
from portico.filesystem.options import Options


class SharedClient:
    """A client that is closed when the last filesystem that uses it is gone."""

    def __init__(self, options: Options) -> None:
        self.process = os.getpid()
        self.client = Client(
            options.url,
            username=options.username,
            password=options.password,
            client_id=options.client_id,
            client_secret=options.client_secret,
            tokens=_tokens(options),
            ca=options.ca,
            timeout=options.timeout,
            connections=options.connections,
        )
        finalize(self, self.client.close)


class Clients:
    """fsspec creates a filesystem per thread; those with the same options share one sign-in and its connections.

    A forked process gets its own clients, since two processes cannot share a connection.
    """

    def __init__(self) -> None:
        self._clients: WeakValueDictionary[tuple[int, Options], SharedClient] = WeakValueDictionary()
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=self._renew_lock)

    def get(self, options: Options) -> SharedClient:
        with self._lock:
            key = (os.getpid(), options)
            if (client := self._clients.get(key)) is None:
                client = self._clients[key] = SharedClient(options)
            return client

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it during the fork


def _tokens(options: Options) -> TokenStore | Tokens | None:
    if options.key or options.token:
        return Tokens(options.key or options.token or "")
    if options.profile and (profile := profiles.find(options.profile)) and profile.url == options.url:
        return ProfileTokenStore(profile)
    return None
