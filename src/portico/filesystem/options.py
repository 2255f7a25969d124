"""Connection options of a filesystem: from its arguments, a profile or the environment."""

import secrets
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from hashlib import blake2b
from typing import Self

from portico.client import ProfileUnusable
from portico.client.auth import profiles
from portico.client.auth.profiles import Profile, same_address

_KEY = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Options:
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
    """The profile whose tokens are used; they stay in its store."""
    key: str | None = field(default=None, repr=False)
    """An API key."""

    @classmethod
    def of(
        cls,
        environment: Mapping[str, str],
        *,
        profile: str | None = None,
        url: str | None,
        username: str | None,
        password: str | None,
        key: str | None = None,
        token: str | None,
        client_id: str | None,
        client_secret: str | None,
        ca: str | None,
        timeout: float,
        connections: int,
    ) -> Self:
        """Arguments come first, then the given profile or else the environment, then the default profile.

        User name and password of the environment are sent only to the gateway in the environment, and a profile's tokens
        only to that profile's gateway.
        """
        if profile:
            environment = {}
        known = environment.get("PORTICO_URL")
        given = bool(key or token or username or password)
        saved = None if url and given and not profile else _profile(profile, environment)
        if profile and saved and url and not same_address(url, saved.url):
            raise ValueError(f"Profile {profile} is for {saved.url}, not for {url}.")
        if not (url := url or known or (saved.url if saved else None)):
            raise ValueError(
                "No gateway given; pass storage_options={'gateway': 'https://…'}, set PORTICO_URL, or sign in with "
                "'portico login'."
            )
        if not given and (known is None or same_address(known, url)):
            key = environment.get("PORTICO_KEY")
            token = environment.get("PORTICO_TOKEN")
            username = environment.get("PORTICO_USERNAME")
            password = environment.get("PORTICO_PASSWORD")
        name = None
        if saved and same_address(saved.url, url):
            url, ca = saved.url, ca or saved.ca
            name = None if key or token or username or password else saved.name
        return cls(url, username, password, token, client_id, client_secret, ca, timeout, connections, name, key)

    def digest(self) -> str:
        """Identifies the options within this process, without revealing them."""
        return blake2b(repr(astuple(self)).encode(), key=_KEY, digest_size=16).hexdigest()


def _profile(name: str | None, environment: Mapping[str, str]) -> Profile | None:
    try:
        return profiles.get(name) if name else profiles.find(profiles.default_name(environment))
    except ProfileUnusable as error:
        raise ValueError(error.detail) from error
