"""The startup banner: the address, who may sign in, and example commands."""

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
from portico.cli.administration.home import command
from portico.server.bind_address import Address, is_loopback

if TYPE_CHECKING:
    from portico.server.certificates import Certificate
    from portico.settings.settings import Settings

TITLE, FACT, WARNING, NOTE, CODE = "title", "fact", "warning", "note", "code"
_STYLES = {TITLE: "1;32", FACT: "1", WARNING: "1;33", NOTE: "2", CODE: "36"}
"""ANSI: bold green, bold, bold yellow, dim, cyan."""
_MAX_CONNECTIONS = 8
_TOKEN_FROM_JSON = r"""sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'"""  # noqa: S105
_UNKNOWN_HOST = "https://YOUR-PROXY"


@dataclass(frozen=True, slots=True)
class Startup:
    settings: "Settings"
    address: Address
    certificate: "Certificate | None"
    user: str | None = None
    password: str | None = None
    """The password, if the banner shows it."""
    password_file: Path | None = None
    """The file that holds the password otherwise."""
    storage: Sequence[tuple[str, str]] = ()
    """Each connection and the location of its files."""
    warnings: Sequence[str] = ()


def show(startup: Startup) -> None:
    lines = list(_lines(startup))
    texts = [text for _, text in lines]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        texts = ["", *(f"\x1b[{_STYLES[kind]}m{text}\x1b[0m" if kind in _STYLES else text for kind, text in lines)]
    print("\n".join(texts), flush=True)


def url(startup: Startup) -> str:
    """The public address, or else one that works on this machine, with a name from the certificate."""
    settings, certificate = startup.settings, startup.certificate
    if settings.public_url:
        return settings.public_url
    host = _local_address(startup.address)
    if certificate and host not in certificate.names:
        names = [name for name in certificate.names if "*" not in name]
        host = "localhost" if "localhost" in names else next(iter(names), host)
    scheme, usual = ("https", 443) if certificate else ("http", 80)
    port = "" if settings.port == usual else f":{settings.port}"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}{port}"


def known_url(startup: Startup) -> str:
    """The address for users; empty if it is that of a proxy, which is not known here."""
    settings = startup.settings
    return "" if settings.behind_proxy and not settings.public_url else url(startup)


def is_local(startup: Startup) -> bool:
    """Whether `url` works on this machine only, although the gateway listens on its other addresses, too."""
    host = urlsplit(url(startup)).hostname
    own = ("localhost", _local_address(startup.address))
    return startup.address.is_unspecified and not startup.settings.public_url and host in own


def _local_address(address: Address) -> str:
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    return str(address)


def _lines(startup: Startup) -> Iterator[tuple[str, str]]:
    settings, certificate = startup.settings, startup.certificate
    base = url(startup)
    yield TITLE, f"Portico {__version__} is running at {base}"
    yield "", ""
    yield FACT, f"  Page      {base}/   (sign in here to view and upload files)"
    if startup.address.is_unspecified:
        yield FACT, f"  Listens   on every address of this machine, port {settings.port}"
    yield FACT, f"  Home      {settings.home}"
    # The locations in use: after a home was copied or moved they may be outside of it.
    for name, place in startup.storage[:_MAX_CONNECTIONS]:
        yield FACT, f"  Files     {place}" + (f"   (connection {name})" if len(startup.storage) > 1 else "")
    if (more := len(startup.storage) - _MAX_CONNECTIONS) > 0:
        yield FACT, f"            and {more} more: {command(settings.home, 'connection', 'list')}"
    yield FACT, f"  API       {base}/backend/docs"
    if certificate:
        yield FACT, f"  TLS       {certificate.file} (until {certificate.expires:%Y-%m-%d})"
        yield FACT, f"  SHA-256   {certificate.fingerprint}"
    yield from _user_lines(startup)
    for warning in startup.warnings:
        yield WARNING, f"  Warning   {warning}"
    yield from _example_lines(startup)
    yield "", ""
    yield NOTE, "Stop it with Ctrl-C." if sys.stdout.isatty() else f"Stop it with: kill {os.getpid()}"


def _user_lines(startup: Startup) -> Iterable[tuple[str, str]]:
    home = startup.settings.home
    if startup.user is None and not startup.storage:
        yield NOTE, "There are no connections and no Web Users yet; add them with:"
        yield CODE, f"  {command(home, 'connection', 'add', 'NAME', '--kind', 'KIND')} …"
        yield CODE, f"  {command(home, 'user', 'add', 'USER', '--connection', 'NAME')}"
        return
    if startup.user is None:
        yield NOTE, f"There are no Web Users yet; add one with: {command(home, 'user', 'add', 'NAME')}"
        return
    yield FACT, f"  Web User  {startup.user}"
    if startup.password_file:
        yield FACT, f"  Password  in {startup.password_file}"
    elif startup.password:
        yield FACT, f"  Password  {startup.password}   (shown only once)"
    else:
        yield (FACT, f"  Password  unchanged; set a new one with: {command(home, 'user', 'password', startup.user)}")


def _example_lines(startup: Startup) -> Iterator[tuple[str, str]]:
    settings = startup.settings
    proxies, local = settings.behind_proxy, ip_address(_local_address(startup.address))
    reachable = not proxies or (is_loopback(local) and any(local in proxy for proxy in proxies))
    base = url(startup) if reachable else _UNKNOWN_HOST
    certificate = startup.certificate
    trust = f" --cacert {shlex.quote(str(certificate.file))}" if certificate and certificate.self_signed else ""
    curl = "curl -sS" + trust + _resolution(startup, base)
    client = shlex.quote(f"{settings.client_id}:{settings.client_secret}")
    user = shlex.quote(f"username={startup.user or 'NAME'}")
    folder = shlex.quote(f"{base}/backend/1.0.0/filesystem/")
    bearer = '-H "Authorization: Bearer $TOKEN"'
    yield "", ""
    yield NOTE, "To sign in, list files and upload one, run in another terminal:"
    if base == _UNKNOWN_HOST:
        yield NOTE, f"(replace {_UNKNOWN_HOST} with your proxy's address)"
    yield "", ""
    login = f"{curl} -f -u {client} -d grant_type=password --data-urlencode {user}"
    password = shlex.quote(f"password={startup.password or 'YOUR-PASSWORD'}")
    if startup.password_file:
        password = f'"password=$(cat {shlex.quote(str(startup.password_file))})"'
    login += f" --data-urlencode {password} {shlex.quote(f'{base}/backend/login')}"
    yield CODE, f"  TOKEN=$({login} | {_TOKEN_FROM_JSON})"
    yield CODE, f"  {curl} {bearer} {folder}"
    yield (CODE, f"  echo hello | {curl} -w '%{{http_code}}\\n' {bearer} -F 'data=@-;filename=hello.txt' {folder}")


def _resolution(startup: Startup, base: str) -> str:
    """Make curl resolve the certificate's name to this machine."""
    host = urlsplit(base).hostname or ""
    if base == _UNKNOWN_HOST or host in ("localhost", _local_address(startup.address)):
        return ""
    return f" --resolve {host}:{startup.settings.port}:{_local_address(startup.address)}"
