"""What the server says when it is up: where it is, who may sign in, and lines to paste that show it work."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from portico import __version__
from portico.cli.home import command
from portico.cli.listening import Address, is_loopback

if TYPE_CHECKING:
    from portico.cli.tls import Certificate
    from portico.settings import Settings

TITLE, FACT, WARNING, NOTE, CODE = "title", "fact", "warning", "note", "code"
_STYLES = {TITLE: "bold green", FACT: "bold", WARNING: "bold yellow", NOTE: "dim", CODE: "cyan"}
_MOST_CONNECTIONS = 8
_TOKEN_FROM_JSON = r"""sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'"""  # noqa: S105
_UNKNOWN_HOST = "https://YOUR-PROXY"


@dataclass(frozen=True, slots=True)
class Start:
    settings: "Settings"
    address: Address
    certificate: "Certificate | None"
    user: str | None = None
    password: str | None = None
    """Shown, if it is to be shown now."""
    password_file: Path | None = None
    """Where the password lies instead."""
    storage: Sequence[tuple[str, str]] = ()
    """Each connection, and where its files are."""
    warnings: Sequence[str] = ()


def show(start: Start) -> None:
    parts = [("", "")] if _is_styled() else []
    parts += _parts(start)
    if not _is_styled():
        print("\n".join(text for _, text in parts), flush=True)
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    for kind, text in parts:
        # A wrapped line could not be pasted.
        console.print(text, style=_STYLES.get(kind), soft_wrap=True)


def _is_styled() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def url(start: Start) -> str:
    """An address at which this machine itself reaches the gateway, by a name that its certificate holds."""
    settings, certificate = start.settings, start.certificate
    host = _local_address(start.address)
    if certificate and host not in certificate.names:
        names = [name for name in certificate.names if "*" not in name]
        host = "localhost" if "localhost" in names else next(iter(names), host)
    scheme, usual = ("https", 443) if certificate else ("http", 80)
    port = "" if settings.port == usual else f":{settings.port}"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}{port}"


def _local_address(address: Address) -> str:
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    return str(address)


def _parts(start: Start) -> Iterator[tuple[str, str]]:
    settings, certificate = start.settings, start.certificate
    place = url(start)
    yield TITLE, f"Portico {__version__} is running at {place}"
    yield "", ""
    yield FACT, f"  Page      {place}/   (sign in there to see and drop files)"
    if start.address.is_unspecified:
        yield FACT, f"  Listens   on every address of this machine, port {settings.port}"
    yield FACT, f"  Home      {settings.home}"
    yield from _storage_parts(start)
    yield FACT, f"  API       {place}/backend/docs"
    if certificate:
        yield FACT, f"  TLS       {certificate.file} (until {certificate.expires:%Y-%m-%d})"
        yield FACT, f"  SHA-256   {certificate.fingerprint}"
    yield from _user_parts(start)
    for warning in start.warnings:
        yield WARNING, f"  Warning   {warning}"
    yield from _example_parts(start)
    yield "", ""
    yield NOTE, "Stop it with Ctrl-C." if sys.stdout.isatty() else f"Stop it with: kill {os.getpid()}"


def _storage_parts(start: Start) -> Iterator[tuple[str, str]]:
    """What is really used, which a home that was copied or moved need not hold."""
    for name, place in start.storage[:_MOST_CONNECTIONS]:
        yield FACT, f"  Files     {place}" + (f"   (connection {name})" if len(start.storage) > 1 else "")
    if (more := len(start.storage) - _MOST_CONNECTIONS) > 0:
        yield FACT, f"            and {more} more: {command(start.settings.home, 'connection', 'list')}"


def _user_parts(start: Start) -> Iterable[tuple[str, str]]:
    home = start.settings.home
    if start.user is None:
        yield NOTE, f"There is no Web User yet; add one with: {command(home, 'user', 'add', 'NAME')}"
        return
    yield FACT, f"  Web User  {start.user}"
    if start.password_file:
        yield FACT, f"  Password  in {start.password_file}"
    elif start.password:
        yield FACT, f"  Password  {start.password}   (shown only this once)"
    else:
        yield (
            FACT,
            f"  Password  as you know it; set a new one with: {command(home, 'user', 'password', start.user)}",
        )


def _example_parts(start: Start) -> Iterator[tuple[str, str]]:
    settings = start.settings
    base = url(start) if _reachable_from_here(start) else _UNKNOWN_HOST
    curl = "curl -sS" + _trust(start.certificate) + _resolution(start, base)
    client = shlex.quote(f"{settings.client_id}:{settings.client_secret}")
    user = shlex.quote(f"username={start.user or 'NAME'}")
    folder = shlex.quote(f"{base}/backend/1.0.0/filesystem/")
    bearer = '-H "Authorization: Bearer $TOKEN"'
    yield "", ""
    yield NOTE, "Sign in, list, and upload, from another terminal:"
    if base == _UNKNOWN_HOST:
        yield NOTE, f"(with the name of your proxy in place of {_UNKNOWN_HOST})"
    yield "", ""
    login = f"{curl} -f -u {client} -d grant_type=password --data-urlencode {user}"
    login += f" --data-urlencode {_password_field(start)} {shlex.quote(f'{base}/backend/login')}"
    yield CODE, f"  TOKEN=$({login} | {_TOKEN_FROM_JSON})"
    yield CODE, f"  {curl} {bearer} {folder}"
    yield CODE, f"  echo hello | {curl} {bearer} -F 'data=@-;filename=hello.txt' {folder}"


def _password_field(start: Start) -> str:
    if start.password_file:
        return f'"password=$(cat {shlex.quote(str(start.password_file))})"'
    return shlex.quote(f"password={start.password or 'YOUR-PASSWORD'}")


def _trust(certificate: "Certificate | None") -> str:
    return (
        f" --cacert {shlex.quote(str(certificate.file))}" if certificate and certificate.self_signed else ""
    )


def _resolution(start: Start, base: str) -> str:
    """Tells curl that the certificate's name is this machine, wherever else it may point to."""
    host = urlsplit(base).hostname or ""
    if base == _UNKNOWN_HOST or host in ("localhost", _local_address(start.address)):
        return ""
    return f" --resolve {host}:{start.settings.port}:{_local_address(start.address)}"


def _reachable_from_here(start: Start) -> bool:
    proxies = start.settings.behind_proxy
    local = ip_address(_local_address(start.address))
    return not proxies or (is_loopback(local) and any(local in proxy for proxy in proxies))
