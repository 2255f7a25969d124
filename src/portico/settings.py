"""All settings of the gateway: keys, defaults, parsers and descriptions.

Settings are read from `application.properties` in the home folder. The environment overrides the file, and the
command line overrides both. `security.client-id` is `PORTICO_SECURITY_CLIENT_ID` in the environment, or the content of the
file that `PORTICO_SECURITY_CLIENT_ID_FILE` names.
"""

import os
import re
import secrets
import socket
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import javaproperties
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticUndefined

from portico import setting_parsers
from portico.errors import PorticoError
from portico.setting_parsers import Ranges

PROPERTIES_FILE = "application.properties"
ENVIRONMENT_PREFIX = "PORTICO_"
NOT_SETTINGS = re.compile(
    r"PORTICO_(HOME|SECRET_KEY|SECRET_KEY_FILE|URL|TOKEN|PROFILE|LIVE_.*|SERVICE_.*|PORT|PORT_.*)"
)
"""Portico's variables that are not settings, and those that Kubernetes sets for a service called `portico`."""

_OTHERS = ("PORTICO_HOME", "PORTICO_SECRET_KEY", "PORTICO_SECRET_KEY_FILE")
_IN_FILE = "_FILE"
"""Ends the variable that names a file with the value, as container platforms provide secrets."""


_NOT_SET = "is not set"
_AND_DATABASE = ",database"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake: its file and line, if it is in a file, the key, variable or flag, and the reason."""

    file: Path | None
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else str(self.file or "")
        text = f"{self.key} {self.message}" if self.message == _NOT_SET else ""
        parts = (place, text) if text else (place, self.key, self.message)
        return ": ".join(part for part in parts if part)


class SettingsError(PorticoError):
    """The settings are invalid; `mistakes` has all of them, `detail` one line for each."""

    code = "invalid-settings"

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    home: Path

    client_id: Annotated[str, BeforeValidator(setting_parsers.client_id)] = Field(
        "",
        alias="security.client-id",
        description="The OAuth client id that the page and scripts use to sign users in. It is not a secret: the page's script contains it.",
    )
    client_secret: Annotated[str, BeforeValidator(setting_parsers.word)] = Field(
        "",
        alias="security.client-secret",
        repr=False,
        description="The OAuth client secret, as public as the client id. With several nodes, both are the same on all of them, or left out: then they are made once, and kept in the database. Users are authenticated by their own passwords.",
    )
    token_lifetime: Annotated[timedelta, BeforeValidator(setting_parsers.duration)] = Field(
        timedelta(hours=1),
        alias="security.token-lifetime",
        description="How long an access token is valid: seconds, or a time like 45m, 1h, 2d.",
    )
    refresh_lifetime: Annotated[timedelta, BeforeValidator(setting_parsers.duration)] = Field(
        timedelta(days=30),
        alias="security.refresh-lifetime",
        description="How long a refresh token is valid, and so how long a user stays signed in without a password.",
    )
    allowed_addresses: Annotated[Ranges, BeforeValidator(setting_parsers.ranges)] = Field(
        (),
        alias="security.allowed-addresses",
        description="Client addresses that may use the gateway: ranges separated by commas, like 10.0.0.0/8, 192.168.1.7. Empty: all.",
    )
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(setting_parsers.origins)] = Field(
        (),
        alias="security.cors-origins",
        description="Origins whose pages may use the API from a browser, separated by commas, like https://portal.example.org. Empty: only the gateway's own page.",
    )
    public_url: Annotated[str, BeforeValidator(setting_parsers.public_url)] = Field(
        "",
        alias="server.public-url",
        description="The address by which clients reach this gateway through a proxy or load balancer, like https://files.example.com: the start-up lines show it. The same on all nodes.",
    )
    host: Annotated[str, BeforeValidator(setting_parsers.host)] = Field(
        "127.0.0.1",
        alias="server.host",
        description="The address to listen on. Any address other than loopback needs server.tls or server.behind-proxy.",
    )
    port: Annotated[int, BeforeValidator(setting_parsers.whole_number(1, 65535))] = Field(
        8080, alias="server.port", description="The port to listen on."
    )
    tls: Annotated[str, BeforeValidator(setting_parsers.tls)] = Field(
        "off",
        alias="server.tls",
        description="off, auto (a self-signed certificate, made and renewed in the home folder), or two PEM files as CERTIFICATE,KEY. Relative paths start at the home folder.",
    )
    workers: Annotated[int, BeforeValidator(setting_parsers.whole_number(1, 256))] = Field(
        1, alias="server.workers", description="The number of worker processes; at most the number of cores."
    )
    behind_proxy: Annotated[Ranges, BeforeValidator(setting_parsers.ranges)] = Field(
        (),
        alias="server.behind-proxy",
        description="Addresses of your reverse proxies, as ranges. Only these may connect, and their X-Forwarded-For is trusted. Empty: no proxy.",
    )
    max_connections: Annotated[int, BeforeValidator(setting_parsers.whole_number(8, 65_536))] = Field(
        4096,
        alias="server.max-connections",
        description="How many connections a worker accepts at once; others wait. Each may use 128 KiB before its request is complete.",
    )
    max_connections_per_address: Annotated[int, BeforeValidator(setting_parsers.whole_number(0, 65_536))] = (
        Field(
            256,
            alias="server.max-connections-per-address",
            description="How many idle connections one client address (for IPv6, one /64 network) may have per worker; surplus ones are closed. Proxies of server.behind-proxy have no limit. 0: no limit. Linux only.",
        )
    )
    drain_delay: Annotated[timedelta, BeforeValidator(setting_parsers.delay)] = Field(
        timedelta(0),
        alias="server.drain-delay",
        description="How long the gateway goes on accepting requests after SIGTERM while /readyz says that it is not ready, so that a load balancer sends its clients elsewhere: a little more than the balancer's interval of checks. Ctrl-C and a second signal skip it.",
    )
    stop_timeout: Annotated[timedelta, BeforeValidator(setting_parsers.timeout)] = Field(
        timedelta(seconds=25),
        alias="server.stop-timeout",
        description="How long running requests may continue after the gateway has stopped accepting new ones, before they are cut off. From 1s to 10m.",
    )
    health_addresses: Annotated[Ranges, BeforeValidator(setting_parsers.ranges)] = Field(
        (),
        alias="health.addresses",
        description="Addresses of load balancers and monitors, as ranges: /healthz and /readyz answer them even if security.allowed-addresses or server.behind-proxy would not let them in, and /readyz says what is wrong. Empty: none; only requests from the machine itself learn what is wrong.",
    )
    node_name: Annotated[str, BeforeValidator(setting_parsers.node)] = Field(
        "",
        alias="node.name",
        description="The name of this node in log lines, audit lines and metrics: up to 64 letters, digits, dots, hyphens and underscores. Empty: the host name.",
    )
    database: Annotated[str, BeforeValidator(setting_parsers.database)] = Field(
        "",
        alias="database.url",
        repr=False,
        description="The database of users, tokens and connections, like postgresql://user:password@host/name?sslmode=verify-full, with the options of libpq; several hosts are possible. Empty: an SQLite file in the home folder.",
    )
    database_connections: Annotated[int, BeforeValidator(setting_parsers.whole_number(1, 1000))] = Field(
        10,
        alias="database.connections",
        description="How many connections each worker opens to PostgreSQL at most; requests wait for a free one. All nodes together need nodes × workers × this many, and a few for commands.",
    )
    database_migrate: Annotated[bool, BeforeValidator(setting_parsers.flag)] = Field(
        True,
        alias="database.migrate",
        description="true: a start or a command migrates a database of an older version. false: it refuses, and 'portico migrate' does so when the administrator decides.",
    )
    max_file_size: Annotated[int, BeforeValidator(setting_parsers.size)] = Field(
        0,
        alias="upload.max-file-size",
        description="The maximum size of an uploaded file, in bytes or like 500MB, 10GiB. 0: no limit.",
    )
    max_files: Annotated[int, BeforeValidator(setting_parsers.whole_number(1, 100_000))] = Field(
        1000, alias="upload.max-files", description="How many files one upload request may contain."
    )
    upload_lifetime: Annotated[timedelta, BeforeValidator(setting_parsers.expiry)] = Field(
        timedelta(days=7),
        alias="uploads.expire-after",
        description="How long an unfinished upload can be resumed, at most 30 days. Azure Blob Storage and Google Cloud Storage forget it after 7 days.",
    )
    upload_digest: Annotated[str, BeforeValidator(setting_parsers.upload_digest)] = Field(
        "asked",
        alias="uploads.digest",
        description="asked: the SHA-256 of an uploaded file is computed and recorded if the client asks for it with Want-Repr-Digest. always: that of every file.",
    )
    zip_max_entries: Annotated[int, BeforeValidator(setting_parsers.whole_number(1, 10_000_000))] = Field(
        1_000_000,
        alias="zip.max-entries",
        description="How many files and folders one ZIP download may contain. Each takes about 100 bytes of memory.",
    )
    zip_max_size: Annotated[int, BeforeValidator(setting_parsers.size)] = Field(
        0,
        alias="zip.max-size",
        description="How many bytes of files one ZIP download may contain, in bytes or like 500MB, 10GiB. 0: no limit.",
    )
    path_depth: Annotated[int, BeforeValidator(setting_parsers.whole_number(1, 4096))] = Field(
        100,
        alias="limits.path-depth",
        description="How many levels the path of a new file or folder may have, counted from the user's root. Deeper files can still be read and deleted. When a folder is copied or moved, only its own new path counts, not its content.",
    )
    provider_timeout: Annotated[timedelta, BeforeValidator(setting_parsers.timeout)] = Field(
        timedelta(seconds=30),
        alias="provider.timeout",
        description="How long a storage service may take to respond, including retries, before the request fails with 504; during transfers, how long it may be silent. From 1s to 10m; keep it below the timeout of a proxy in front of the gateway.",
    )
    log_level: Annotated[str, BeforeValidator(setting_parsers.log_level)] = Field(
        "info", alias="log.level", description="The log level: debug, info, warning or error."
    )
    audit_log: Annotated[str, BeforeValidator(setting_parsers.audit)] = Field(
        "audit.log",
        alias="audit.log",
        description="Where sign-ins and changes are recorded: a file (a relative path starts at the home folder), stdout, database, or off. FILE,database and stdout,database record them twice.",
    )
    audit_required: Annotated[bool, BeforeValidator(setting_parsers.flag)] = Field(
        False,
        alias="audit.required",
        description="true: refuse sign-ins and changes while the audit log cannot be written. false: continue, and report it in the log.",
    )
    audit_keep: Annotated[timedelta, BeforeValidator(setting_parsers.retention)] = Field(
        timedelta(days=90),
        alias="audit.keep",
        description="How long audit lines stay in the database, like 90d; 0: forever. Files are left to log rotation.",
    )
    metrics_address: Annotated[tuple[str, int] | None, BeforeValidator(setting_parsers.listener)] = Field(
        None,
        alias="metrics.address",
        description="Where /metrics is served for Prometheus, without a password, like 127.0.0.1:9464. Never use a public address. Empty: nowhere.",
    )

    otel_endpoint: Annotated[str, BeforeValidator(setting_parsers.endpoint)] = Field(
        "",
        alias="otel.endpoint",
        description="The OpenTelemetry collector that traces are sent to, over OTLP/HTTP, like http://127.0.0.1:4318. Needs the extra otel. Empty: OTEL_EXPORTER_OTLP_ENDPOINT if it is set, otherwise no traces.",
    )

    @property
    def properties_file(self) -> Path:
        return self.home / PROPERTIES_FILE

    def of_the_cluster(self) -> dict[str, str]:
        """The settings that must be equal on all nodes, by key."""
        return {key: str(getattr(self, name)) for name, key in _OF_THE_CLUSTER.items()}

    def with_values(self, values: Mapping[str, str]) -> "Settings":
        """These settings with other values of those in `of_the_cluster`."""
        return self.model_copy(update={name: values[key] for name, key in _OF_THE_CLUSTER.items()})

    @property
    def node(self) -> str:
        return self.node_name or socket.gethostname()[:64]

    @property
    def node_in_audit(self) -> str:
        """The node's name if audit lines need it: if it was chosen, or if nodes share a database."""
        return self.node if self.node_name or not self.database_in_home else ""

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.home / 'portico.db'}"

    @property
    def database_in_home(self) -> bool:
        """Whether the database is inside the home, and so is copied and moved with it."""
        scheme, _, file = self.database_url.partition(":///")
        return scheme.startswith("sqlite") and Path(file.partition("?")[0]).is_relative_to(self.home)

    @property
    def secret_key_file(self) -> Path:
        return self.home / "secret.key"

    @property
    def files_folder(self) -> Path:
        return self.home / "files"

    @property
    def audit_file(self) -> str | None:
        """A path, `stdout`, or None if the audit log is off or only in the database."""
        file = self.audit_log.removesuffix(_AND_DATABASE)
        if file in ("off", "database"):
            return None
        return file if file == "stdout" else str(self.home / file)

    @property
    def audit_in_database(self) -> bool:
        return self.audit_log == "database" or self.audit_log.endswith(_AND_DATABASE)

    @property
    def metrics_folder(self) -> Path:
        return self.home / "metrics"

    @property
    def tls_folder(self) -> Path:
        return self.home / "tls"

    @property
    def tls_enabled(self) -> bool:
        return self.tls != "off"

    @property
    def tls_files(self) -> tuple[Path, Path] | None:
        """The administrator's own certificate and key, if `server.tls` names them."""
        certificate, separator, key = self.tls.partition(",")
        return (self.home / certificate, self.home / key) if separator else None


KEYS: Mapping[str, str] = {field.alias: name for name, field in Settings.model_fields.items() if field.alias}
"""Each property key and the name of its field."""


_OF_THE_CLUSTER = {
    KEYS[key]: key for key in ("security.client-id", "security.client-secret", "server.public-url")
}


def variable(key: str) -> str:
    return ENVIRONMENT_PREFIX + re.sub("[.-]", "_", key).upper()


_MAY_SET_CLIENT = ("", variable("database.url"), variable("database.url") + _IN_FILE)
"""Mistakes in the whole file, or in what names the database."""
_NO_CLIENT = (
    f"neither database.url nor security.client-id is set; if this node shares a database, set {variable('database.url')}, "
    "otherwise security.client-id and security.client-secret"
)


def load(
    home: Path,
    environment: Mapping[str, str] = os.environ,
    overrides: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of this home. `SettingsError` has every mistake in the file, the environment and the command line,
    which is given as `overrides`, by key."""
    file = home / PROPERTIES_FILE
    written, mistakes = _from_file(file)
    given, more = _from_environment(environment)
    mistakes += more
    flags = {
        key: _Given(text, None, None, "--" + key.rpartition(".")[2])
        for key, text in (overrides or {}).items()
    }
    chosen = {**written, **given, **flags}
    try:
        settings = Settings.model_validate(
            {"home": home, **{key: value.text for key, value in chosen.items()}}
        )
    except ValidationError as error:
        for flaw in error.errors(include_url=False):
            key = str(flaw["loc"][0])
            place = chosen.get(key) or _Given("", file, None, key)
            mistakes.append(Mistake(place.file, place.line, place.name, str(flaw["ctx"]["error"])))
    else:
        # What cannot be read may well set what seems to be missing.
        unreadable = any(mistake.key in _MAY_SET_CLIENT for mistake in mistakes)
        if not settings.database and not unreadable:  # nodes that share a database take them from there
            missing = [key for key in generated_client() if not chosen.get(key)]
            if len(missing) == len(generated_client()):
                mistakes.append(Mistake(file, None, "", _NO_CLIENT))
            else:
                mistakes += [Mistake(file, None, key, _NOT_SET) for key in missing]
    if mistakes:
        raise SettingsError(sorted(mistakes, key=lambda mistake: mistake.line or 0))
    return settings


def generated_client() -> dict[str, str]:
    """An OAuth client id and secret, by their keys."""
    return {
        "security.client-id": "portico-" + secrets.token_urlsafe(9),
        "security.client-secret": secrets.token_urlsafe(24),
    }


def commented_file(values: Mapping[str, str]) -> str:
    """The text of an `application.properties` that sets `values`, with all other settings as comments."""
    lines = [
        "# The settings of this gateway. Changes take effect at the next start, or on SIGHUP; see docs/settings.md."
    ]
    lines += [
        "# The environment overrides this file; security.client-id is PORTICO_SECURITY_CLIENT_ID there."
    ]
    for key, name in KEYS.items():
        lines += [
            "",
            *textwrap.wrap(
                _description(name), 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
            ),
        ]
        if key in values:
            lines.append(javaproperties.join_key_value(key, values[key], separator="="))
        else:
            lines.append(f"#{key}={default_text(key)}")
    return "\n".join(lines) + "\n"


def default_text(key: str) -> str:
    """The default, as written in the file."""
    default = Settings.model_fields[KEYS[key]].get_default()
    if isinstance(default, timedelta):
        hours, seconds = divmod(default.seconds, 3600)
        return f"{default.days}d" if default.days else f"{hours}h" if hours and not seconds else f"{seconds}s"
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default in ((), None, PydanticUndefined) else str(default)


def _description(name: str) -> str:
    return Settings.model_fields[name].description or ""


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as it is written, and where."""

    text: str
    file: Path | None
    line: int | None
    name: str


def _from_file(file: Path) -> tuple[dict[str, _Given], list[Mistake]]:
    found: dict[str, _Given] = {}
    mistakes = []
    line = 1
    try:
        text = file.read_bytes().decode("utf-8-sig")
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                key = element.key
                if key not in KEYS:
                    mistakes.append(Mistake(file, line, key, _unknown(key, KEYS)))
                elif key in found:
                    mistakes.append(Mistake(file, line, key, f"is already set in line {found[key].line}"))
                else:
                    found[key] = _Given(element.value.strip(), file, line, key)
            line += len(element.source.splitlines())
    except FileNotFoundError:
        pass
    except OSError as error:
        mistakes.append(Mistake(file, None, "", f"cannot be read ({error.strerror})"))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        mistakes.append(Mistake(file, line, "", "is not valid UTF-8; save the file in that encoding"))
    except javaproperties.InvalidUEscapeError as error:
        mistakes.append(Mistake(file, line, "", f"contains {error.escape!r}; write a backslash as two"))
    return found, mistakes


def _from_environment(environment: Mapping[str, str]) -> tuple[dict[str, _Given], list[Mistake]]:
    names = {variable(key): key for key in KEYS}
    files = {name + _IN_FILE: key for name, key in names.items()}
    groups = tuple({name[: name.index("_", len(ENVIRONMENT_PREFIX)) + 1] for name in names})
    found = {
        names[name]: _Given(text.strip(), None, None, name)
        for name, text in environment.items()
        if name in names
    }
    mistakes = [
        Mistake(None, None, name, _unknown(name, [*names, *_OTHERS]))
        for name in environment
        if name.startswith(ENVIRONMENT_PREFIX) and name not in names and name not in files
        if not NOT_SETTINGS.fullmatch(name)
        if name.startswith(groups) or get_close_matches(name, [*names, *_OTHERS], n=1, cutoff=0.85)
    ]
    for name in files.keys() & {name for name, text in environment.items() if text}:
        if files[name] in found:
            other = name.removesuffix(_IN_FILE)
            mistakes.append(Mistake(None, None, name, f"is set, and so is {other}; set one of them"))
            continue
        file = Path(environment[name])
        try:
            found[files[name]] = _Given(file.read_text("utf-8").strip(), file, None, name)
        except OSError as error:
            mistakes.append(Mistake(file, None, name, f"cannot be read ({error.strerror})"))
        except UnicodeDecodeError:
            mistakes.append(Mistake(file, None, name, "is not valid UTF-8"))
    return found, mistakes


def _unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"is not a setting; did you mean {near[0]}?" if near else "is not a setting; see docs/settings.md"
