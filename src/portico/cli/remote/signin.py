"""`portico login`, `logout` and `whoami`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from portico.cli.console.exits import DONE, FAILED, UsageMistake
from portico.cli.console.output import show_list, tell
from portico.cli.console.terminal import ask_hidden, at_terminal, read_standard_input, warn
from portico.cli.remote.command import exit_code, sentence
from portico.cli.remote.connect import Gateway, connect, profile_name
from portico.client.auth import profiles
from portico.client.auth.profiles import Profile, ProfileTokenStore, normalize, same_address
from portico.client.auth.tokens import Tokens
from portico.client.errors import ClientError, NotSignedIn, ProfileUnusable
from portico.client.http.origin import Origin


def login(options: SimpleNamespace) -> None:
    name = profile_name(options)
    former = before = _before(name)
    url = options.url or os.environ.get("PORTICO_URL") or (before.url if before else None)
    if not url:
        raise UsageMistake("The gateway is missing; write it like this: portico login https://files.example.com")
    url = normalize(url)
    Origin.of(url, None)  # reject an invalid address before the password prompt
    if before and not same_address(url, before.url):
        before = None
    ca = os.path.abspath(options.ca) if options.ca else (before.ca if before else None)
    _warn_of_clear_text(url)
    if options.key_stdin:
        _login_with_key(options, Profile(name, url, "", ca), former)
        return
    user = options.user or (before.user if before and options.password_stdin else None)
    profile = Profile(name, url, user or _ask_user(before), ca)
    with _replacing(former), Gateway(url, tokens=ProfileTokenStore(profile, prefer_key_ring=True), ca=ca) as gateway:
        gateway.login(profile.user, _password(options, profile))
    print(f"Signed in to {url} as {profile.user}.")


def _login_with_key(options: SimpleNamespace, profile: Profile, former: Profile | None) -> None:
    """Save an API key, once the gateway accepts it."""
    tokens = Tokens(read_standard_input())
    if not tokens.is_key:
        raise UsageMistake("This is not an API key; a key has 39 characters and starts with pk_.")
    with Gateway(profile.url, tokens=tokens, ca=profile.ca) as gateway:
        session = gateway.whoami()
    user = str(session.get("username"))
    if options.user and options.user.casefold() != user.casefold():
        raise UsageMistake(f"This is a key of {user}, not of {options.user}.")
    saved = replace(tokens, rights=tuple(session.get("rights", ())))
    with _replacing(former):
        ProfileTokenStore(replace(profile, user=user), prefer_key_ring=True).save(saved)
    print(f"Signed in to {profile.url} as {user}, with a key.")


def logout(options: SimpleNamespace) -> int:
    profile = profiles.find(profile_name(options))
    if profile is None or ProfileTokenStore(profile).load() is None:
        print("You aren't signed in.")
        return DONE
    store = ProfileTokenStore(profile)
    try:
        with Gateway(profile.url, tokens=store, ca=profile.ca, attempts=2) as gateway:
            gateway.logout()
    except ProfileUnusable:
        raise  # the token was not deleted locally
    except ClientError as error:
        if not isinstance(error, NotSignedIn):
            print(
                f"{sentence(error)} The token was deleted here, but may still be valid on the gateway.", file=sys.stderr
            )
            return exit_code(error) or FAILED
    finally:
        store.save(None)
    print(f"Signed out of {profile.url}.")
    return DONE


def whoami(options: SimpleNamespace) -> None:
    with connect(options) as gateway:
        session = gateway.whoami()
    url, profile = gateway.url, gateway.profile
    by = f" (profile {profile})" if profile and profile != profiles.DEFAULT else ""
    text = f"{session['username']} at {url}{by}, with the rights {', '.join(session['rights']) or 'to nothing'}."
    tell(text, {**session, "url": url, "profile": profile}, as_json=options.as_json)
    mounts = session.get("mounts", [])  # an older gateway does not list them
    if not options.as_json and [mount["path"] for mount in mounts] not in ([], ["/"]):
        show_list(mounts, as_json=False, empty="")


def _before(name: str) -> Profile | None:
    try:
        return profiles.find(name)
    except ProfileUnusable:
        return None  # the sign-in replaces it


@contextmanager
def _replacing(former: Profile | None) -> Iterator[None]:
    """Revoke the tokens of an earlier sign-in after a new one; errors of the revocation are ignored."""
    tokens = ProfileTokenStore(former).load() if former else None
    yield
    if former and tokens:
        # Not as a store: the profile now has the new tokens and must not change.
        settings: dict[str, Any] = {"tokens": tokens, "ca": former.ca, "attempts": 1, "timeout": 5.0}
        with suppress(ClientError), Gateway(former.url, **settings) as gateway:
            gateway.logout()


def _ask_user(before: Profile | None) -> str:
    if not at_terminal():
        raise UsageMistake("The Web User is missing; add --user NAME.")
    hint = f" [{before.user}]" if before else ""
    print(f"User name{hint}: ", end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline()
    if not typed:
        raise KeyboardInterrupt
    name = typed.strip() or (before.user if before else "")
    if not name:
        raise UsageMistake("The user name is missing; enter one.")
    return name


def _password(options: SimpleNamespace, profile: Profile) -> str:
    if options.password_stdin:
        return read_standard_input()
    if not at_terminal():
        raise UsageMistake("The password can't be prompted for without a terminal; use --password-stdin.")
    return ask_hidden(f"Password of {profile.user}: ")


def _warn_of_clear_text(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname in (None, "localhost"):
        return
    with suppress(ValueError):
        if ip_address(parts.hostname).is_loopback:
            return
    warn("without https, others on the network can read the password and the files.")
