"""Profiles: saved sign-ins, each in a private file. The tokens are in that file or in the system's key ring."""

import json
import os
import re
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from portico.client.auth import keyring
from portico.client.auth.tokens import Tokens
from portico.client.errors import ProfileUnusable

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    url: str
    user: str
    ca: str | None = None
    key_ring: bool = False
    """Whether the tokens are in the system's key ring."""
    tokens: Tokens | None = field(default=None, repr=False)


def folder(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    return user_folder("APPDATA", "XDG_CONFIG_HOME", ".config", environment, platform) / "profiles"


def user_folder(windows: str, xdg: str, usual: str, environment: Mapping[str, str], platform: str) -> Path:
    """Portico's folder in the platform's place, which a variable may name; `RuntimeError` for a user without a home."""
    if platform == "win32" and (named := environment.get(windows)):
        return Path(named, "portico")
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "portico"
    # The XDG specification says to ignore relative paths.
    named = environment.get(xdg, "")
    return (Path(named) if named.startswith("/") else Path.home() / usual) / "portico"


def normalize(url: str) -> str:
    return (url if "://" in url else f"https://{url}").rstrip("/")


def same_address(url: str, other: str) -> bool:
    return normalize(url) == normalize(other)


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ProfileUnusable(
            f"{name!r} is not a valid profile name: use up to 64 letters, digits, '.', '_' and '-', with no leading dot."
        )
    return name


def default_name(environment: Mapping[str, str] = os.environ) -> str:
    return environment.get("PORTICO_PROFILE") or DEFAULT


def names() -> list[str]:
    try:
        return sorted(file.stem for file in folder().iterdir() if _NAME.fullmatch(file.stem))
    except (OSError, RuntimeError):
        return []


def find(name: str) -> Profile | None:
    try:
        file = _file(name)
    except RuntimeError:  # the user has no home folder, as in some containers
        return None
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        tokens = kept.get("tokens")
        return Profile(
            name,
            str(kept["url"]),
            str(kept["user"]),
            kept.get("ca") or None,
            bool(kept.get("key_ring")),
            Tokens(**{**tokens, "rights": tuple(tokens["rights"])}) if tokens else None,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise ProfileUnusable(f"The profile {file} can't be read: {reason}. Sign in again.") from None


def get(name: str) -> Profile:
    """Like `find`, but raises `ProfileUnusable` if there is no such profile."""
    if (profile := find(name)) is None:
        raise ProfileUnusable(f"Profile {name} not found; sign in with 'portico login URL --profile {name}'.")
    return profile


def save(profile: Profile) -> None:
    try:
        file = _file(profile.name)
    except RuntimeError:
        raise ProfileUnusable(
            "Profiles can't be saved, because there is no home folder; set XDG_CONFIG_HOME."
        ) from None
    kept = {key: value for key, value in asdict(profile).items() if key != "name"}
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(file, json.dumps(kept, indent=2) + "\n")
    except OSError as error:
        raise ProfileUnusable(f"The profile {file} can't be written: {error.strerror}.") from None


class ProfileTokenStore:
    """Stores the tokens of a profile; several programs may use it at the same time.

    If the profile has since been removed or changed to another gateway, `load` returns None and `save` does nothing.
    """

    def __init__(self, profile: Profile, *, prefer_key_ring: bool = False) -> None:
        """A new sign-in prefers the key ring; renewed tokens stay where they are."""
        self._profile = profile
        self._prefer = prefer_key_ring

    def load(self) -> Tokens | None:
        try:
            kept = self._kept()
        except ProfileUnusable:
            if self._prefer:
                return None  # the new sign-in replaces it
            raise
        if kept is None:
            return None
        return _from_ring(kept) if kept.key_ring else kept.tokens

    def save(self, tokens: Tokens | None) -> None:
        profile = self._profile if self._prefer else self._kept()
        if profile is None:
            return
        if tokens is None:
            keyring.forget(profile.name)
            save(replace(profile, key_ring=False, tokens=None))
            return
        # The file and the key ring may disagree after a crash, so the key ring stores the address too.
        text = json.dumps({"url": profile.url, **asdict(tokens)})
        ring = (self._prefer or profile.key_ring) and keyring.save(profile.name, text)
        save(replace(profile, key_ring=ring, tokens=None if ring else tokens))

    def _kept(self) -> Profile | None:
        kept = find(self._profile.name)
        return kept if kept and kept.url == self._profile.url else None


def _from_ring(profile: Profile) -> Tokens | None:
    try:
        kept = json.loads(keyring.load(profile.name) or "{}")
        if kept.pop("url") != profile.url:
            return None
        return Tokens(**{**kept, "rights": tuple(kept["rights"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _file(name: str) -> Path:
    return folder() / f"{check_name(name)}.json"


def _write_private(file: Path, text: str) -> None:
    """Replace a file atomically by one that only its owner can read."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)
