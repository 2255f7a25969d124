"""What both clients are made of."""

import os
import ssl
from typing import Self

from portico.client.profiles import Store, chosen, named
from portico.client.session import Credentials, Memory, Session, Tokens, TokenStore
from portico.client.wire import Origin

LocalPath = str | os.PathLike[str]


class Base:
    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        tokens: TokenStore | Tokens | None = None,
        ca: str | ssl.SSLContext | None = None,
        connections: int = 8,
        timeout: float = 30.0,
        attempts: int = 6,
    ) -> None:
        """Nothing is sent yet: the sign-in comes with the first request.

        Client id and secret are asked of the gateway if they are not given. `tokens` are those of an earlier sign-in, or
        a place where they are kept. `ca` is the file of a certificate to trust, for a gateway with its own. `timeout` is
        how many seconds the other side may be silent, `attempts` how often a request is tried, and `connections` how
        many are used at once.
        """
        store = Memory(tokens) if tokens is None or isinstance(tokens, Tokens) else tokens
        credentials = Credentials(username, password, client_id, client_secret)
        self._session = Session(credentials, store, attempts=attempts)
        self._limit = connections
        self._open(Origin.of(url, ca), timeout)

    @classmethod
    def of_profile(
        cls, name: str | None = None, *, connections: int = 8, timeout: float = 30.0, attempts: int = 6
    ) -> Self:
        """The gateway, and the user, of a sign-in by `portico login`; `ProfileUnusable` if there is none.

        Without a name it is the profile that `PORTICO_PROFILE` names, or `default`. Renewed tokens are kept there.
        """
        profile = named(name or chosen())
        return cls(
            profile.url,
            tokens=Store(profile),
            ca=profile.ca,
            connections=connections,
            timeout=timeout,
            attempts=attempts,
        )

    def _open(self, origin: Origin, timeout: float) -> None:
        raise NotImplementedError
