"""Connection options of a filesystem: from its arguments, a profile or the environment."""

import secrets
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from hashlib import blake2b
from typing import Any, Self

from portico.client import ProfileUnusable
from portico.client.auth import profiles
from portico.client.auth.profiles import Profile, same_address

_KEY = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Options:
    url: str
    """Empty if it is not given."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    ca: str | None = None
    timeout: float = 30.0
    connections: int = 8
    profile: str | None = None
    """The profile whose tokens are used; they stay in its store."""
    key: str | None = field(default=None, repr=False)

    @property
    def has_credentials(self) -> bool:
        return bool(self.key or self.token or self.username or self.password)

    def completed(self, environment: Mapping[str, str]) -> Self:
        """With what is missing from the given profile or else the environment, then from the default profile.

        User name and password of the environment are sent only to the gateway in the environment, and a profile's tokens
        only to that profile's gateway.
        """
        if self.profile:
            environment = {}
        known = environment.get("PORTICO_URL")
        with_profile = self.profile or not (self.url and self.has_credentials)
        saved = _profile(self.profile, environment) if with_profile else None
        if self.profile and saved and self.url and not same_address(self.url, saved.url):
            raise ValueError(f"Profile {self.profile} is for {saved.url}, not for {self.url}.")
        if not (url := self.url or known or (saved.url if saved else "")):
            raise ValueError(
                "No gateway given; pass storage_options={'gateway': 'https://…'}, set PORTICO_URL, or sign in with "
                "'portico login'."
            )
        found = replace(self, url=url, profile=None)
        if not self.has_credentials and (known is None or same_address(known, url)):
            names = ("key", "token", "username", "password")
            values: dict[str, Any] = {name: environment.get(f"PORTICO_{name.upper()}") for name in names}
            found = replace(found, **values)
        if saved and same_address(saved.url, url):
            name = None if found.has_credentials else saved.name
            found = replace(found, url=saved.url, ca=found.ca or saved.ca, profile=name)
        return found

    def digest(self) -> str:
        """Identifies the options within this process, without revealing them."""
        return blake2b(repr(astuple(self)).encode(), key=_KEY, digest_size=16).hexdigest()


def _profile(name: str | None, environment: Mapping[str, str]) -> Profile | None:
    try:
        return profiles.get(name) if name else profiles.find(profiles.default_name(environment))
    except ProfileUnusable as error:
        raise ValueError(error.detail) from error
