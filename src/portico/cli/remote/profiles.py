"""Sign-ins that are kept: one private file for each, with the tokens in it or in the system's key ring."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from portico.cli.exits import UsageMistake
from portico.cli.home import write_private
from portico.cli.remote import keyring
from portico.client.session import Tokens
from portico.errors import PorticoError

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


class ProfileUnusable(PorticoError):
    code = "profile-unusable"


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    url: str
    user: str
    ca: str | None = None
    key_ring: bool = False
    """Whether the tokens are in the key ring."""
    tokens: Tokens | None = field(default=None, repr=False)
    """Those that are not in the key ring."""


def folder(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where the platform keeps a user's configuration, ours below it."""
    if platform == "win32" and (roaming := environment.get("APPDATA")):
        return Path(roaming, "portico", "profiles")
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "portico" / "profiles"
    # An XDG folder that is not absolute is to be ignored, as its specification says.
    config = environment.get("XDG_CONFIG_HOME", "")
    base = Path(config) if config.startswith("/") else Path.home() / ".config"
    return base / "portico" / "profiles"


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageMistake(
            f"{name!r} cannot name a profile: up to 64 letters, digits, '.', '_' and '-', no dot in front."
        )
    return name


def names() -> list[str]:
    try:
        return sorted(file.stem for file in folder().iterdir() if _NAME.fullmatch(file.stem))
    except OSError:
        return []


def find(name: str) -> Profile | None:
    file = _file(name)
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        tokens = kept.get("tokens")
        return Profile(
            name,
            str(kept["url"]),
            str(kept["user"]),
            kept.get("ca"),
            bool(kept.get("key_ring")),
            Tokens(**{**tokens, "rights": tuple(tokens["rights"])}) if tokens else None,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise ProfileUnusable(f"The profile {file} cannot be read: {reason}; sign in again.") from None


def keep(profile: Profile) -> None:
    file = _file(profile.name)
    kept = {key: value for key, value in asdict(profile).items() if key != "name"}
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, json.dumps(kept, indent=2) + "\n")
    except OSError as error:
        raise ProfileUnusable(f"The profile {file} cannot be written: {error.strerror}.") from None


class Store:
    """Where the client keeps the tokens of a profile; several commands may use it at the same time."""

    def __init__(self, profile: Profile, *, prefer_key_ring: bool = False) -> None:
        """A new sign-in prefers the key ring, if there is one; later ones stay where the tokens are."""
        self._profile = profile
        self._prefer = prefer_key_ring

    def load(self) -> Tokens | None:
        try:
            kept = find(self._profile.name)
        except ProfileUnusable:
            if self._prefer:
                return None  # the new sign-in mends it
            raise
        if kept is None or kept.url != self._profile.url:
            return None
        return _from_text(keyring.load(kept.name)) if kept.key_ring else kept.tokens

    def save(self, tokens: Tokens | None) -> None:
        profile = self._profile
        if tokens is None:
            keyring.forget(profile.name)
            keep(replace(profile, key_ring=False, tokens=None))
            return
        ring = (self._prefer or profile.key_ring) and keyring.save(profile.name, json.dumps(asdict(tokens)))
        keep(replace(profile, key_ring=ring, tokens=None if ring else tokens))


def _from_text(text: str | None) -> Tokens | None:
    try:
        kept = json.loads(text or "null")
        return Tokens(**{**kept, "rights": tuple(kept["rights"])}) if kept else None
    except (ValueError, TypeError, KeyError):
        return None


def _file(name: str) -> Path:
    return folder() / f"{check_name(name)}.json"
