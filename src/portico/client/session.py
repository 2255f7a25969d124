"""Who is signed in, and requests in that name: tokens are got, renewed and sent along here, and failures outlived."""

import json
import random
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode

from portico.client.errors import (
    ClientError,
    ConnectionFailed,
    NotAGateway,
    NotSignedIn,
    SignInFailed,
    Temporary,
    TooManyRequests,
    Unavailable,
    problem,
)
from portico.client.steps import Alone, Answer, Ask, Pause, Piece, Steps, ask, work

_LOGIN = "/backend/login"
_MARGIN = 30.0
"""Tokens are renewed so many seconds before they end."""
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a sign-in gives."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """Seconds since 1970; None if that is not known."""
    rights: tuple[str, ...] = ()


class TokenStore(Protocol):
    """Keeps tokens between programs; several may share one."""

    def load(self) -> Tokens | None: ...

    def save(self, tokens: Tokens | None) -> None: ...


class Memory:
    """A store that ends with its client."""

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


def is_unheard(error: Temporary) -> bool:
    """Whether the gateway cannot have begun with the request that failed."""
    if isinstance(error, ConnectionFailed):
        return not error.sent
    # A proxy that says 502 or 504 has handed the request on, and does not know what became of it.
    return isinstance(error, TooManyRequests | Unavailable) and error.status not in (502, 504)


class Patience:
    """Counts failures in a row, and waits a little longer after each."""

    def __init__(self, session: "Session", attempts: int) -> None:
        self._session = session
        self._attempts = attempts
        self._failures = 0

    def after(self, error: Temporary) -> Steps[None]:
        """Wait before the next attempt; the error, if there is to be none."""
        self._failures += 1
        asked = error.retry_after or 0.0
        # A sign-in within a request has been repeated by itself: once more for the request would be attempts squared.
        error.final = (
            error.final
            or self._failures >= self._attempts
            or asked > _LONGEST_PAUSE
            or (isinstance(error, ConnectionFailed) and error.opening and not self._session.met)
        )
        if error.final:
            raise error
        # Many clients that failed together must not come back together.
        own = min(0.25 * 2 ** (self._failures - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311
        yield Pause(max(asked, own))

    def renew(self) -> None:
        """Something was achieved since the last failure."""
        self._failures = 0


class Session:
    def __init__(self, credentials: Credentials, store: TokenStore, *, attempts: int) -> None:
        self._credentials = credentials
        self._store = store
        self._attempts = attempts
        self.tokens = store.load()
        self.met = False
        """Whether the gateway has ever answered. Where nobody has, an address that nobody listens at is a wrong one, and
        not a gateway that is being restarted."""

    def patience(self) -> Patience:
        return Patience(self, self._attempts)

    def request(self, request: Ask) -> Steps[Answer]:
        """The answer to a request in the user's name that may be repeated; the problem, if it is one."""
        patience = self.patience()
        while True:
            try:
                return (yield from self.signed(request))
            except Temporary as error:
                yield from patience.after(error)

    def signed(self, request: Ask) -> Steps[Answer]:
        """One attempt, with a token that is renewed if it is refused."""
        token = yield from self._token()
        try:
            return (yield from self._answered(_with_token(request, token)))
        except NotSignedIn:
            if request.body is not None and not request.body.replayable:
                raise
        yield Alone(self._renew(token))
        assert self.tokens is not None
        return (yield from self._answered(_with_token(request, self.tokens.access_token)))

    def use(self, username: str | None, password: str | None) -> None:
        self._credentials.username = username or self._credentials.username
        self._credentials.password = password or self._credentials.password

    def login(self) -> Steps[Tokens]:
        """Sign in with the password, whatever tokens there are."""
        yield Alone(self._with_password())
        assert self.tokens is not None
        return self.tokens

    def logout(self) -> Steps[None]:
        """End the tokens, at the gateway and here."""
        if self.tokens is not None:
            try:
                yield from self.request(Ask("POST", "/backend/logout"))
            except NotSignedIn:
                pass
            yield from self._keep(None)

    def _token(self) -> Steps[str]:
        tokens = self.tokens
        if tokens is None or (tokens.expires_at or 1e12) - _MARGIN < time.time():
            yield Alone(self._renew(tokens.access_token if tokens else None))
            tokens = self.tokens
        assert tokens is not None
        return tokens.access_token

    def _renew(self, stale: str | None) -> Steps[None]:
        """New tokens in place of the stale one, unless another thread or program was faster."""
        if self.tokens and self.tokens.access_token != stale:
            return
        kept = yield from work(self._store.load)
        if kept and kept.access_token != stale:
            self.tokens = kept
            return
        if kept and kept.refresh_token:
            try:
                form = {"grant_type": "refresh_token", "refresh_token": kept.refresh_token}
                yield from self._grant(form)
                return
            except SignInFailed:
                if self._credentials.password is None:
                    yield from self._keep(None)
                    raise
        yield from self._with_password()

    def _with_password(self) -> Steps[None]:
        known = self._credentials
        if known.username is None or known.password is None:
            raise NotSignedIn("You are not signed in; log in with a user name and a password.")
        form = {"grant_type": "password", "username": known.username, "password": known.password}
        yield from self._grant(form)

    def _grant(self, form: dict[str, str]) -> Steps[None]:
        client = yield from self._client()
        headers = {
            "Authorization": f"Basic {b64encode(client.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        request = Ask("POST", _LOGIN, headers, body=Text(urlencode(form).encode()))
        body = (yield from self._unsigned(request)).json()
        try:
            tokens = Tokens(
                body["access_token"],
                body.get("refresh_token"),
                time.time() + body["expires_in"] if "expires_in" in body else None,
                tuple(body.get("scope", "").split()),
            )
        except (KeyError, TypeError, AttributeError):
            raise NotAGateway("The answer to the sign-in holds no token.") from None
        yield from self._keep(tokens)

    def _client(self) -> Steps[str]:
        """`id:secret`; not confidential, so that the gateway tells them to every browser, and to us."""
        known = self._credentials
        if known.client_id is None or known.client_secret is None:
            script = (yield from self._unsigned(Ask("GET", "/config.js"))).content.decode("utf-8", "replace")
            found = dict(re.findall(r'(clientId|clientSecret) = ("(?:[^"\\]|\\.)*")', script))
            try:
                known.client_id = json.loads(found["clientId"])
                known.client_secret = json.loads(found["clientSecret"])
            except (KeyError, ValueError):
                raise NotAGateway("The gateway does not tell its client id; give id and secret.") from None
        return f"{known.client_id}:{known.client_secret}"

    def _keep(self, tokens: Tokens | None) -> Steps[None]:
        self.tokens = tokens
        yield from work(lambda: self._store.save(tokens))

    def _answered(self, request: Ask) -> Steps[Answer]:
        answer = yield from ask(request)
        self.met = True
        if 200 <= answer.status < 300:
            return answer
        raise refusal(answer)

    def _unsigned(self, request: Ask) -> Steps[Answer]:
        patience = self.patience()
        while True:
            try:
                return (yield from self._answered(request))
            except Temporary as error:
                yield from patience.after(error)


@dataclass(frozen=True, slots=True)
class Text:
    """A small body."""

    content: bytes
    replayable = True
    slow = False

    @property
    def length(self) -> int:
        return len(self.content)

    def __iter__(self) -> Iterator[Piece]:
        yield self.content


def _with_token(request: Ask, token: str) -> Ask:
    request.headers["Authorization"] = f"Bearer {token}"
    return request


def refusal(answer: Answer) -> ClientError:
    try:
        body = answer.json()
    except NotAGateway:
        body = None
    return problem(answer.status, answer.headers, body)
