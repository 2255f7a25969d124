"""Connects a command to its gateway, with a profile or the environment."""

import os
from contextlib import closing
from types import SimpleNamespace
from typing import Any

from portico.cli.console.exits import UsageMistake
from portico.cli.console.terminal import notice
from portico.cli.remote.transfer_record import TransferRecord
from portico.client.auth.profiles import ProfileTokenStore, check_name, default_name, find, normalize, same_address
from portico.client.auth.session import AuthSession
from portico.client.auth.tokens import Tokens
from portico.client.client import Client
from portico.client.errors import NotSignedIn, ProfileUnusable
from portico.client.http.effects import Operation, Request, T


class EnvironmentTokenRefused(NotSignedIn):
    """The gateway rejected the token or key in the environment, which cannot be renewed."""


class Gateway(Client):
    variable = ""
    """PORTICO_TOKEN or PORTICO_KEY, if the token comes from there."""
    url = ""
    profile: str | None = None
    """The name of the profile that the address comes from."""
    user: str | None = None

    @property
    def session(self) -> AuthSession:
        return self._session

    def run(self, operation: Operation[T]) -> T:
        """Run an operation that is not a method of the client."""
        return self._run(operation)

    @property
    def has_unfinished_uploads(self) -> bool:
        """Whether the next run can go on with files of this one."""
        return bool(self._resumable.unfinished)

    def announce_retries(self, *, quiet: bool) -> None:
        """Say once that the gateway is not available, when a retry has failed."""
        said = quiet

        def say() -> None:
            nonlocal said
            if not said:
                said = True
                notice("The gateway isn't available; trying again.")

        self._session.retrying = say

    def record(self) -> closing[TransferRecord]:
        if self.user is None:
            facts: object = self.whoami()
            self.user = str(facts.get("username")) if isinstance(facts, dict) else ""
        return closing(TransferRecord(self.url, self.user))

    def _run(self, operation: Operation[T]) -> T:
        try:
            return super()._run(operation)
        except NotSignedIn:
            if not self.variable:
                raise
            raise EnvironmentTokenRefused(
                f"The gateway rejected the credential in {self.variable}. It has expired or belongs to another gateway."
            ) from None

    def whoami(self) -> dict[str, Any]:
        facts: dict[str, Any] = self._run(self._session.request(Request("GET", "/backend/session"))).json()
        return facts


def profile_name(options: SimpleNamespace) -> str:
    try:
        return check_name(options.profile or default_name())
    except ProfileUnusable as error:
        raise UsageMistake(error.detail) from None


def connect(options: SimpleNamespace, **settings: Any) -> Gateway:
    """The gateway of the profile or of the environment.

    The option --profile overrides the environment. A profile's tokens are sent only to that profile's gateway.
    """
    profile = find(profile_name(options))
    url, (variable, token) = os.environ.get("PORTICO_URL"), _environment_token()
    if options.profile:
        url, variable, token = None, "", None
    if profile and (url is None or same_address(url, profile.url)):
        gateway = Gateway(
            profile.url,
            username=profile.user,
            tokens=Tokens(token) if token else ProfileTokenStore(profile),
            ca=profile.ca,
            **settings,
        )
        gateway.url, gateway.profile, gateway.user = profile.url, profile.name, None if token else profile.user
    elif url and token:
        gateway = Gateway(url, tokens=Tokens(token), ca=os.environ.get("PORTICO_CA") or None, **settings)
        gateway.url = normalize(url)
    elif url:
        raise UsageMistake(f"You aren't signed in at {url}; set PORTICO_KEY or PORTICO_TOKEN, or run 'portico login'.")
    else:
        name = options.profile
        where, option = (f" with the profile {name}", f" --profile {name}") if name else ("", "")
        raise UsageMistake(f"You aren't signed in{where}; sign in with 'portico login URL{option}'.")
    gateway.variable = variable
    gateway.announce_retries(quiet=getattr(options, "quiet", False))
    return gateway


def _environment_token() -> tuple[str, str | None]:
    """The variable that has a key or a token, and what it has."""
    given = [(name, value) for name in ("PORTICO_KEY", "PORTICO_TOKEN") if (value := os.environ.get(name))]
    if len(given) > 1:
        raise UsageMistake("PORTICO_KEY and PORTICO_TOKEN are both set; set only one of them.")
    for name, value in given:
        if not (value.isascii() and value.isprintable()):
            raise UsageMistake(f"{name} contains invalid characters; copy it again.")
        if name == "PORTICO_KEY" and not Tokens(value).is_key:
            raise UsageMistake("PORTICO_KEY is not an API key; copy the whole key, starting with pk_.")
        return name, value
    return "", None
