"""Parsers for the values of settings: durations, sizes, address ranges and others.

The message of its `ValueError` follows the setting's key.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

Ranges = tuple[IPv4Network | IPv6Network, ...]

_DURATION = re.compile(r"(?:[0-9]+[smhdw])+|[0-9]+")
_ZERO = "0+[smhdw]?"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MAX_DURATION = timedelta(days=3650)
_MAX_TIMEOUT = timedelta(minutes=10)
_SIZE = re.compile(r"([0-9]+) ?(?:([kmgt])(i?))?b?", re.IGNORECASE)
_SCHEMES = {
    "sqlite": "sqlite",
    "sqlite+aiosqlite": "sqlite",
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "postgresql+asyncpg": "postgresql",
    "postgresql+psycopg": "postgresql",
}
"""Of databases: older settings name a driver, which is ignored."""


def word(text: str) -> str:
    if not text or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError("must be a word without spaces")
    return text


def client_id(text: str) -> str:
    if ":" in (name := word(text)):
        raise ValueError("must not contain a colon, because HTTP Basic uses it to separate the id from the secret")
    return name


def whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,18}", text) or not lowest <= int(text) <= highest:
            raise ValueError(f"must be a whole number from {lowest} to {highest}")
        return int(text)

    return parse


def one_of(message: str, *words: str) -> Callable[[str], str]:
    """What parses one of the words, in lower case."""

    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(message)
        return text.lower()

    return parse


log_level = one_of("must be one of debug, info, warning, error", "debug", "info", "warning", "error")
upload_digest = one_of("must be asked or always", "asked", "always")
_true_or_false = one_of("must be true or false", "true", "false")


def flag(text: str) -> bool:
    return _true_or_false(text) == "true"


def folders(text: str) -> tuple[str, ...]:
    found = tuple(folder.strip() for folder in text.split(",") if folder.strip())
    for folder in found:
        if not folder.startswith("/") or re.search(r"//|[\x00-\x1f\\\\]|/\.{1,2}(?:/|$)", folder):
            raise ValueError("must be paths that begin with a slash, like /public, /outbox")
    return found


def duration(text: str) -> timedelta:
    lower = text.lower()
    if _DURATION.fullmatch(lower) and len(lower) <= 18:
        parts = re.findall("([0-9]+)([smhdw]?)", lower)
        seconds = sum(int(count) * _SECONDS[unit or "s"] for count, unit in parts)
        if 1 <= seconds <= _MAX_DURATION.total_seconds():
            return timedelta(seconds=seconds)
    raise ValueError("must be seconds or a time like 45m, 1h or 30d, from one second to ten years")


def _duration(
    message: str, *, longest: timedelta = _MAX_DURATION, zero: str | None = None
) -> Callable[[str], timedelta]:
    """What parses a duration, and as 0 what matches `zero`. The message says what it may be, whatever is wrong with it."""

    def parse(text: str) -> timedelta:
        if zero and re.fullmatch(zero, text.lower()):
            return timedelta(0)
        try:
            chosen = duration(text)
        except ValueError:
            raise ValueError(message) from None
        if chosen > longest:
            raise ValueError(message)
        return chosen

    return parse


upload_retention = _duration("must be a time like 12h or 7d, from one second to 30 days", longest=timedelta(days=30))
timeout = _duration("must be from one second to ten minutes, like 30s", longest=_MAX_TIMEOUT)
delay = _duration("must be 0, or a time of up to ten minutes like 10s", longest=_MAX_TIMEOUT, zero="0+s?")
journal_retention = _duration("must be forever, or a time like 90d", zero="forever")
trash_retention = _duration("must be 0, which turns the trash off, or a time like 30d", zero=_ZERO)
trash_hold = _duration("must be 0, which holds nothing, or a time like 7d", zero=_ZERO)
mass_changes_within = _duration("must be a time of up to a day, like 10m", longest=timedelta(days=1))
max_lifetime = _duration("must be 0, which means no limit, or a time like 30d", zero=_ZERO)


def node(text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
        raise ValueError("must be up to 64 letters, digits, dots, hyphens and underscores")
    return text


def size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if not match or len(match[1]) > 18:
        raise ValueError("must be a number of bytes or a size like 500MB or 10GiB; 0 means no limit")
    power = " kmgt".index((match[2] or " ").lower())
    return int(match[1]) * int((1024 if match[3] else 1000) ** power)


def ranges(text: str) -> Ranges:
    return tuple(_range(item) for item in text.replace(",", " ").split())


def _range(text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text, strict=False)
        first = ip_address(text.partition("/")[0])
    except ValueError:
        raise ValueError(f"contains {text!r}, which is not an address or range like 10.0.0.0/8 or fd00::/8") from None
    if network.network_address != first:
        raise ValueError(f"contains {text!r}, which is an address inside a range; the range is {network}")
    return network


def host(text: str) -> str:
    name = text.removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[0-9A-Za-z._:%-]{1,253}", name):
        raise ValueError("must be an address or a host name")
    return name


def origins(text: str) -> tuple[str, ...]:
    return tuple(_origin(item) for item in text.replace(",", " ").split())


def _origin(text: str) -> str:
    if not re.fullmatch(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", text):
        raise ValueError(
            f"contains {text!r}, which is not an origin like https://files.example.org: "
            "scheme and host in lower case, a port unless it is the default, and nothing after it"
        )
    scheme, _, host = text.partition("://")
    if host.endswith({"http": ":80", "https": ":443"}[scheme]):
        raise ValueError(f"contains {text!r}; browsers omit the default port, so omit it too")
    return text


def listener(text: str) -> tuple[str, int] | None:
    """HOST:PORT, or empty."""
    if not text:
        return None
    name, _, port = text.rpartition(":")
    try:
        return host(name), whole_number(1, 65535)(port)
    except ValueError:
        raise ValueError("must be empty, or an address and a port like 127.0.0.1:9464") from None


def audit(text: str) -> str:
    name, comma, last = text.strip().partition(",")
    name = name.strip()
    if comma and last.strip().lower() != "database":
        raise ValueError("must have only 'database' after the comma")
    if not name or "\0" in name or (comma and name.lower() in ("off", "database")):
        raise ValueError("must be off, stdout, database, or the name of a file, with or without ,database")
    words = ("off", "stdout", "database")
    return (name.lower() if name.lower() in words else name) + (",database" if comma else "")


def tls(text: str) -> str:
    files = [file.strip() for file in text.split(",")]
    if len(files) == 1 and files[0].lower() in ("off", "auto"):
        return files[0].lower()
    if len(files) != 2 or not all(files):
        raise ValueError("must be off, auto, or two files as CERTIFICATE,KEY")
    return ",".join(files)


def public_url(text: str) -> str:
    if not text:
        return ""
    parts = _http_address(text, "https://files.example.com")
    if parts.path.strip("/") or "@" in parts.netloc:
        raise ValueError("must have neither a path nor a user, like https://files.example.com")
    return f"{parts.scheme}://{parts.netloc}"


def endpoint(text: str) -> str:
    if text:
        _http_address(text, "http://127.0.0.1:4318")
    return text


def _http_address(text: str, example: str) -> SplitResult:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"must be empty, or an address like {example}")
    return parts


def database(text: str) -> str:
    if not text:
        return ""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise ValueError("must be empty, or begin with sqlite:/// or postgresql://")
    return f"{_SCHEMES[scheme]}://{rest}"
