"""Authenticated requests: signs in, renews tokens and retries."""

import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from portico.client.auth.backoff import Backoff
from portico.client.auth.tokens import Credentials, Tokens, TokenStore
from portico.client.errors import NotAGateway, NotSignedIn, SignInFailed
from portico.client.http.effects import Exclusive, Operation, Piece, Request, Response, blocking, send
from portico.client.http.problems import problem

_LOGIN = "/backend/login"
_EXPIRY_MARGIN = 30.0
"""How long before they expire tokens are renewed, in seconds."""


class AuthSession:
    def __init__(self, credentials: Credentials, store: TokenStore, *, attempts: int) -> None:
        self._credentials = credentials
        self._store = store
        self._attempts = attempts
        self.tokens = store.load()
        self.reached = False
        """Whether the gateway has ever responded. Until then, a refused connection means a wrong address rather than a
        gateway that restarts."""
        self.retrying: Callable[[], None] | None = None
        """Called, from any thread, when a retry has failed and another one follows."""

    def backoff(self) -> Backoff:
        return Backoff(self._attempts, lambda: self.reached, self.retrying)

    def request(self, request: Request) -> Operation[Response]:
        """Send an authenticated request, with retries."""
        return self.backoff().retried(lambda: self.request_once(request))

    def request_once(self, request: Request) -> Operation[Response]:
        """Send an authenticated request once; the token is renewed if the gateway rejects it."""
        token = yield from self._token()
        try:
            return (yield from self._checked(request, token))
        except NotSignedIn:
            if (request.body is not None and not request.body.replayable) or self._has_key:
                raise
        yield Exclusive(self._renew(token))
        assert self.tokens is not None
        return (yield from self._checked(request, self.tokens.access_token))

    def login(self, username: str | None, password: str | None) -> Operation[Tokens]:
        """Sign in with the password, even if there are tokens."""
        self._credentials.username = username or self._credentials.username
        self._credentials.password = password or self._credentials.password
        yield Exclusive(self._with_password())
        assert self.tokens is not None
        return self.tokens

    def logout(self) -> Operation[None]:
        """Revoke the tokens and remove them from the store."""
        if self._has_key:
            yield from self.save(None)  # other programs may use the key
        elif self.tokens is not None:
            try:
                yield from self.request(Request("POST", "/backend/logout"))
            except NotSignedIn:
                pass
            yield from self.save(None)

    @property
    def _has_key(self) -> bool:
        return self.tokens is not None and self.tokens.is_key

    def _token(self) -> Operation[str]:
        tokens = self.tokens
        if tokens is None or (tokens.expires_at or 1e12) - _EXPIRY_MARGIN < time.time():
            yield Exclusive(self._renew(tokens.access_token if tokens else None))
            tokens = self.tokens
        assert tokens is not None
        return tokens.access_token

    def _renew(self, stale: str | None) -> Operation[None]:
        """Replace a stale token, unless another thread or program already did."""
        if self.tokens and self.tokens.access_token != stale:
            return
        stored = yield from blocking(self._store.load)
        if stored and stored.access_token != stale:
            self.tokens = stored
            return
        if stored and stored.refresh_token:
            try:
                form = {"grant_type": "refresh_token", "refresh_token": stored.refresh_token}
                yield from self._grant(form)
                return
            except SignInFailed:
                if self._credentials.password is None:
                    yield from self.save(None)
                    raise
        yield from self._with_password()

    def _with_password(self) -> Operation[None]:
        known = self._credentials
        if known.username is None or known.password is None:
            raise NotSignedIn("You aren't signed in; sign in with a user name and password.")
        form = {"grant_type": "password", "username": known.username, "password": known.password}
        yield from self._grant(form)

    def _grant(self, form: dict[str, str]) -> Operation[None]:
        client = yield from self._client()
        headers = {
            "Authorization": f"Basic {b64encode(client.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = Request("POST", _LOGIN, headers, body=BytesBody(urlencode(form).encode()))
        body = (yield from self.unauthenticated(request)).json()
        try:
            tokens = Tokens(
                body["access_token"],
                body.get("refresh_token"),
                time.time() + body["expires_in"] if "expires_in" in body else None,
                tuple(body.get("scope", "").split()),
            )
        except (KeyError, TypeError, AttributeError):
            raise NotAGateway("The sign-in response contains no token.") from None
        yield from self.save(tokens)

    def _client(self) -> Operation[str]:
        """`id:secret`. They are not confidential: the gateway sends them to every browser."""
        known = self._credentials
        if known.client_id is None or known.client_secret is None:
            script = (yield from self.unauthenticated(Request("GET", "/config.js"))).content.decode("utf-8", "replace")
            found = dict(re.findall(r'(clientId|clientSecret) = ("(?:[^"\\]|\\.)*")', script))
            try:
                known.client_id = json.loads(found["clientId"])
                known.client_secret = json.loads(found["clientSecret"])
            except (KeyError, ValueError):
                raise NotAGateway(
                    "The gateway doesn't publish its client id; pass client_id and client_secret."
                ) from None
        return f"{known.client_id}:{known.client_secret}"

    def save(self, tokens: Tokens | None) -> Operation[None]:
        self.tokens = tokens
        yield from blocking(lambda: self._store.save(tokens))

    def _checked(self, request: Request, token: str | None = None) -> Operation[Response]:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        response = yield from send(request)
        self.reached = True
        if 200 <= response.status < 300:
            return response
        try:
            body = response.json()
        except NotAGateway:
            body = None
        raise problem(response.status, response.headers, body)

    def unauthenticated(self, request: Request) -> Operation[Response]:
        return self.backoff().retried(lambda: self._checked(request))


@dataclass(frozen=True, slots=True)
class BytesBody:
    content: bytes
    replayable = True
    blocking = False

    @property
    def length(self) -> int:
        return len(self.content)

    def __iter__(self) -> Iterator[Piece]:
        yield self.content


def json_request(method: str, target: str, body: Any) -> Request:
    return Request(method, target, {"Content-Type": "application/json"}, BytesBody(json.dumps(body).encode()))
