"""Which gateway a command talks to, and in whose name."""

import os
from argparse import Namespace
from typing import Any

from portico.cli.exits import UsageMistake
from portico.cli.remote.records import Record
from portico.client.client import Client
from portico.client.errors import NotSignedIn, ProfileUnusable
from portico.client.profiles import Store, check_name, chosen, find, normal, same_place
from portico.client.session import Session, Tokens
from portico.client.steps import Ask, Steps, T


class TokenRefused(NotSignedIn):
    """The gateway does not take the token of the environment, which no sign-in renews."""


class Gateway(Client):
    by_variable = False
    """Whether the token is that of PORTICO_TOKEN."""
    place = ""
    """The gateway's address."""
    user: str | None = None
    """Who is signed in, if the profile says so."""

    @property
    def session(self) -> Session:
        return self._session

    def run(self, steps: Steps[T]) -> T:
        """Perform what is no operation of the client's own."""
        return self._run(steps)

    def record(self) -> Record:
        """What is known of files that went to this gateway and came from it."""
        if self.user is None:
            facts: object = self.whoami()
            self.user = str(facts.get("username")) if isinstance(facts, dict) else ""
        return Record(self.place, self.user)

    def _run(self, steps: Steps[T]) -> T:
        try:
            return super()._run(steps)
        except NotSignedIn:
            if not self.by_variable:
                raise
            raise TokenRefused(
                "The gateway refused the token in PORTICO_TOKEN; it has ended, or is of another gateway."
            ) from None

    def whoami(self) -> dict[str, Any]:
        """Who is signed in, as the gateway says it."""
        facts: dict[str, Any] = self._run(self._session.request(Ask("GET", "/backend/session"))).json()
        return facts


def profile_name(options: Namespace) -> str:
    try:
        return check_name(options.profile or chosen())
    except ProfileUnusable as error:
        raise UsageMistake(error.detail) from None


def connect(options: Namespace, **settings: Any) -> Gateway:
    """The gateway of the profile, or that of the environment.

    An option beats the environment. A profile's tokens go to that profile's gateway and to no other.
    """
    profile = find(profile_name(options))
    url, token = os.environ.get("PORTICO_URL"), os.environ.get("PORTICO_TOKEN")
    if options.profile:
        url = token = None
    if token and not (token.isascii() and token.isprintable()):
        raise UsageMistake("PORTICO_TOKEN holds characters that no token has; copy it again.")
    if profile and (url is None or same_place(url, profile.url)):
        gateway = Gateway(
            profile.url, tokens=Tokens(token) if token else Store(profile), ca=profile.ca, **settings
        )
        gateway.by_variable = bool(token)
        gateway.place, gateway.user = profile.url, None if token else profile.user
        return gateway
    if url and token:
        gateway = Gateway(url, tokens=Tokens(token), ca=os.environ.get("PORTICO_CA") or None, **settings)
        gateway.by_variable = True
        gateway.place = normal(url)
        return gateway
    if url:
        raise UsageMistake(f"You are not signed in at {url}; set PORTICO_TOKEN, or use 'portico login'.")
    where = f" with the profile {options.profile}" if options.profile else ""
    raise UsageMistake(f"You are not signed in anywhere{where}; begin with 'portico login URL'.")


def describe(options: Namespace) -> tuple[str, str | None]:
    """The address that commands talk to, and the profile that it comes from."""
    profile = find(profile_name(options))
    url = None if options.profile else os.environ.get("PORTICO_URL")
    if profile and (url is None or same_place(url, profile.url)):
        return profile.url, profile.name
    return url or "", None
