"""All settings of the gateway: keys, defaults, parsers and descriptions.

Settings are read from `application.properties` in the home folder. The environment overrides the file, and the
command line overrides both. `security.client-id` is `PORTICO_SECURITY_CLIENT_ID` in the environment, or the content of the
file that `PORTICO_SECURITY_CLIENT_ID_FILE` names.
"""

import os
import secrets
import socket
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import javaproperties

from portico.model.errors import PorticoError
from portico.settings import parsers
from portico.settings.parsers import Ranges
from portico.settings.sources import IN_FILE, NOT_SET, Given, Mistake, from_environment, from_file, variable

PROPERTIES_FILE = "application.properties"
_AND_DATABASE = ",database"


class SettingsError(PorticoError, code="invalid-settings"):
    """The settings are invalid; `mistakes` has all of them, `detail` one line for each."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class _Setting:
    """How a setting is written, and what it is for."""

    key: str
    parse: Callable[[str], Any]
    description: str


def _setting(key: str, parse: Callable[[str], Any], default: object, description: str, *, shown: bool = True) -> Any:
    return field(default=default, repr=shown, metadata={_Setting: _Setting(key, parse, description)})


class _InHome:
    """A file or folder in the home, as a property of the settings."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, settings: "Settings", kind: object) -> Path:
        return settings.home / self._name


@dataclass(frozen=True)
class Settings:
    home: Path

    client_id: str = _setting(
        "security.client-id",
        parsers.client_id,
        "",
        "The OAuth client id with which the page and scripts sign users in. It is not a secret: "
        "the page's script contains it.",
    )
    client_secret: str = _setting(
        "security.client-secret",
        parsers.word,
        "",
        "The OAuth client secret. It is as public as the client id; users authenticate with their "
        "own passwords. With several nodes, set both to the same values on all nodes, or leave "
        "both out: then they are generated once and stored in the database.",
        shown=False,
    )
    token_lifetime: timedelta = _setting(
        "security.token-lifetime",
        parsers.duration,
        timedelta(hours=1),
        "How long an access token is valid: seconds, or a time like 45m, 1h, 2d.",
    )
    refresh_lifetime: timedelta = _setting(
        "security.refresh-lifetime",
        parsers.duration,
        timedelta(days=30),
        "How long a refresh token is valid, and therefore how long users stay signed in without "
        "entering their password.",
    )
    allowed_addresses: Ranges = _setting(
        "security.allowed-addresses",
        parsers.ranges,
        (),
        "Client addresses that can use the gateway: ranges separated by commas, like 10.0.0.0/8, "
        "192.168.1.7. Empty: all.",
    )
    cors_origins: tuple[str, ...] = _setting(
        "security.cors-origins",
        parsers.origins,
        (),
        "Origins whose pages can use the API from a browser, separated by commas, like "
        "https://portal.example.org. Empty: only the gateway's own page.",
    )
    public_url: str = _setting(
        "server.public-url",
        parsers.public_url,
        "",
        "The URL at which clients reach this gateway through a proxy or load balancer, like "
        "https://files.example.com. The start-up message shows it, and share links and invitations "
        "start with it. Must be the same on all nodes.",
    )
    host: str = _setting(
        "server.host",
        parsers.host,
        "127.0.0.1",
        "The address to listen on. Any address other than loopback needs server.tls or server.behind-proxy.",
    )
    port: int = _setting("server.port", parsers.whole_number(1, 65535), 8080, "The port to listen on.")
    tls: str = _setting(
        "server.tls",
        parsers.tls,
        "off",
        "Whether the gateway serves HTTPS: off, auto (a self-signed certificate, created and "
        "renewed in the home folder), or two PEM files as CERTIFICATE,KEY. Relative paths start at "
        "the home folder.",
    )
    workers: int = _setting(
        "server.workers",
        parsers.whole_number(1, 256),
        1,
        "The number of worker processes; at most the number of cores.",
    )
    behind_proxy: Ranges = _setting(
        "server.behind-proxy",
        parsers.ranges,
        (),
        "Addresses of your reverse proxies, as ranges. Only these can connect, and their "
        "X-Forwarded-For is trusted. Empty: no proxy.",
    )
    max_connections: int = _setting(
        "server.max-connections",
        parsers.whole_number(8, 65_536),
        4096,
        "How many connections a worker accepts at once; others wait. Each can use 256 KiB before "
        "its request is complete.",
    )
    max_connections_per_address: int = _setting(
        "server.max-connections-per-address",
        parsers.whole_number(0, 65_536),
        256,
        "How many idle connections one client address (for IPv6, one /64 network) can have per "
        "worker. Surplus ones are closed. Proxies in server.behind-proxy have no limit. 0: no "
        "limit. Linux only.",
    )
    drain_delay: timedelta = _setting(
        "server.drain-delay",
        parsers.delay,
        timedelta(0),
        "How long the gateway keeps accepting requests after SIGTERM while /readyz reports that it "
        "is not ready, so that a load balancer sends clients elsewhere. Use a little more than the "
        "load balancer's check interval. Ctrl-C and a second signal skip the delay.",
    )
    stop_timeout: timedelta = _setting(
        "server.stop-timeout",
        parsers.timeout,
        timedelta(seconds=25),
        "How long running requests can continue after the gateway has stopped accepting new ones, "
        "before they are cut off. From 1s to 10m.",
    )
    health_allowed_addresses: Ranges = _setting(
        "health.allowed-addresses",
        parsers.ranges,
        (),
        "Addresses of load balancers and monitors, as ranges. They can use /healthz and /readyz "
        "even if security.allowed-addresses or server.behind-proxy excludes them, and /readyz "
        "tells them what is wrong. Empty: /readyz tells only the machine itself.",
    )
    node_name: str = _setting(
        "node.name",
        parsers.node,
        "",
        "This node's name in log lines, audit lines and metrics: up to 64 letters, digits, dots, "
        "hyphens and underscores. Empty: the host name.",
    )
    database: str = _setting(
        "database.url",
        parsers.database,
        "",
        "The database for users, tokens and connections, like "
        "postgresql://user:password@host/name?sslmode=verify-full. All libpq options work, "
        "including several hosts. Empty: an SQLite file in the home folder.",
        shown=False,
    )
    database_max_connections: int = _setting(
        "database.max-connections",
        parsers.whole_number(1, 1000),
        10,
        "How many connections to PostgreSQL each worker can open; requests wait for a free one. In "
        "total you need nodes × workers × this number, plus a few for commands.",
    )
    database_migrate: bool = _setting(
        "database.migrate",
        parsers.flag,
        True,
        "Whether the gateway at its start, and commands that make changes, migrate a database of an "
        "older version. false: they refuse until you run 'portico migrate'.",
    )
    max_file_size: int = _setting(
        "upload.max-file-size",
        parsers.size,
        0,
        "The maximum size of an uploaded file, in bytes or like 500MB, 10GiB. 0: no limit.",
    )
    max_files: int = _setting(
        "upload.max-files", parsers.whole_number(1, 100_000), 1000, "How many files one upload request can contain."
    )
    upload_retention: timedelta = _setting(
        "upload.unfinished-retention",
        parsers.upload_retention,
        timedelta(days=7),
        "How long an unfinished upload can be resumed, at most 30 days. Azure Blob Storage and "
        "Google Cloud Storage drop it after 7 days.",
    )
    upload_digest: str = _setting(
        "upload.digest",
        parsers.upload_digest,
        "asked",
        "When the SHA-256 of an uploaded file is computed and recorded. asked: if the client "
        "requests it with Want-Repr-Digest. always: for every file.",
    )
    zip_max_entries: int = _setting(
        "zip.max-entries",
        parsers.whole_number(1, 10_000_000),
        1_000_000,
        "How many files and folders one ZIP download can contain. Each takes 100 bytes of memory plus its name.",
    )
    zip_max_size: int = _setting(
        "zip.max-size",
        parsers.size,
        0,
        "How many bytes of files one ZIP download can contain, in bytes or like 500MB, 10GiB. 0: no limit.",
    )
    share_enabled: bool = _setting(
        "share.enabled",
        parsers.flag,
        True,
        "Whether users with the right share can create links for people without an account. false: "
        "no links can be created, and existing links don't work.",
    )
    share_max_lifetime: timedelta = _setting(
        "share.max-lifetime",
        parsers.max_lifetime,
        timedelta(0),
        "How long a share link can be valid, like 30d. Older links end. 0: no limit.",
    )
    share_require_password: bool = _setting(
        "share.require-password", parsers.flag, False, "Whether new share links must have a password."
    )
    share_paths: tuple[str, ...] = _setting(
        "share.paths",
        parsers.folders,
        (),
        "Folders that can be shared, with everything in them: paths as users see them, separated "
        "by commas, like /public, /outbox. Links to other folders don't work. Empty: all.",
    )
    shows_storage: bool = _setting(
        "page.show-storage",
        parsers.flag,
        False,
        "Whether users see which connection holds their files: in the details on the page, "
        "and in the answer to GET /backend/session.",
    )
    trash_retention: timedelta = _setting(
        "trash.retention",
        parsers.trash_retention,
        timedelta(days=30),
        "How long deleted and replaced files are kept in the trash, like 30d. Until then, they "
        "take up space in the storage. 0: no trash.",
    )
    trash_hold: timedelta = _setting(
        "trash.hold",
        parsers.trash_hold,
        timedelta(days=7),
        "How long what users remove for good is held where only an administrator can bring it back, "
        "like 7d: from the trash, or with permanent=true. 0: it is removed at once. Without a trash, nothing is held.",
    )
    thumbnails_cache_size: int = _setting(
        "thumbnails.cache-size",
        parsers.size,
        256 * 2**20,
        "How much disk space thumbnails can use in the home folder, in bytes or like 500MB, 10GiB. "
        "When it is full, the oldest are removed. 0: no thumbnails. Needs the extra thumbnails.",
    )
    max_path_depth: int = _setting(
        "path.max-depth",
        parsers.whole_number(1, 4096),
        100,
        "How many levels the path of a new file or folder can have, counted from the user's root. "
        "Deeper files can still be read and deleted. When a folder is copied or moved, only its "
        "own new path is checked, not its content.",
    )
    provider_timeout: timedelta = _setting(
        "provider.timeout",
        parsers.timeout,
        timedelta(seconds=30),
        "How long a storage service can take to respond, including retries, before the request "
        "fails with 504. During transfers: how long it can be silent. From 1s to 10m. Keep it "
        "below the timeout of any proxy in front of the gateway.",
    )
    log_level: str = _setting("log.level", parsers.log_level, "info", "The log level: debug, info, warning or error.")
    audit_log: str = _setting(
        "audit.log",
        parsers.audit,
        "audit.log",
        "Where the lines of the journal are also written, for log collectors: a file (a relative path starts at the home folder), stdout, or off. The journal in the database has them in any case.",
    )
    audit_required: bool = _setting(
        "audit.required",
        parsers.flag,
        False,
        "What happens while the audit log can't be written. true: sign-ins and changes are "
        "refused. false: they continue, and the log reports it. Changes of files always need the "
        "journal: while the database can't be written, they are refused.",
    )
    journal_retention: timedelta = _setting(
        "journal.retention",
        parsers.journal_retention,
        timedelta(days=90),
        "How long the journal is kept, like 90d, or forever. The file in audit.log is not "
        "affected; use log rotation for it.",
    )
    journal_downloads: bool = _setting(
        "journal.downloads",
        parsers.flag,
        True,
        "Whether downloads are recorded in the journal: one line for each file, user, API key or "
        "guest, and hour. Downloads never wait for these lines, and never fail without them.",
    )
    mass_changes: int = _setting(
        "mass-changes.files",
        parsers.whole_number(0, 10**9),
        1000,
        "How many files a user, an API key or the guests of a link can replace or delete within "
        "mass-changes.within before the log and the metrics report it. A deleted folder counts once. 0: it is never "
        "reported.",
    )
    mass_changes_within: timedelta = _setting(
        "mass-changes.within",
        parsers.mass_changes_within,
        timedelta(minutes=10),
        "See mass-changes.files. At most 24h.",
    )
    mass_changes_freeze: bool = _setting(
        "mass-changes.freeze",
        parsers.flag,
        False,
        "Whether the user who is reported is disabled, or the API key or link ended.",
    )
    metrics_address: tuple[str, int] | None = _setting(
        "metrics.address",
        parsers.listener,
        None,
        "The address and port at which /metrics is served for Prometheus, like 127.0.0.1:9464. It "
        "needs no password, so never use a public address. Empty: no metrics.",
    )

    otel_endpoint: str = _setting(
        "otel.endpoint",
        parsers.endpoint,
        "",
        "The OpenTelemetry collector to which traces are sent over OTLP/HTTP, like "
        "http://127.0.0.1:4318. Needs the extra otel. Empty: OTEL_EXPORTER_OTLP_ENDPOINT if it is "
        "set, otherwise no traces.",
    )

    properties_file = _InHome(PROPERTIES_FILE)
    secret_key_file = _InHome("secret.key")
    files_folder = _InHome("files")
    metrics_folder = _InHome("metrics")
    thumbnails_folder = _InHome("thumbnails")
    tls_folder = _InHome("tls")

    def client(self) -> dict[str, str]:
        return {key: getattr(self, KEYS[key]) for key in CLIENT}

    def of_the_cluster(self) -> dict[str, str]:
        """The settings that must be equal on all nodes, by key."""
        return {key: str(getattr(self, name)) for name, key in _OF_THE_CLUSTER.items()}

    def with_values(self, values: Mapping[str, str]) -> "Settings":
        """These settings with other values of those in `of_the_cluster`."""
        changes: dict[str, Any] = {name: values[key] for name, key in _OF_THE_CLUSTER.items()}
        return replace(self, **changes)

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
    def audit_file(self) -> str | None:
        """A path, `stdout`, or None if only the journal has the lines."""
        file = self.audit_log.removesuffix(_AND_DATABASE)
        if file in ("off", "database"):
            return None
        return file if file == "stdout" else str(self.home / file)

    @property
    def tls_enabled(self) -> bool:
        return self.tls != "off"

    @property
    def tls_files(self) -> tuple[Path, Path] | None:
        """The administrator's own certificate and key, if `server.tls` names them."""
        certificate, separator, key = self.tls.partition(",")
        return (self.home / certificate, self.home / key) if separator else None


_FIELDS = {each.metadata[_Setting].key: each for each in fields(Settings) if each.metadata}
KEYS: Mapping[str, str] = {key: each.name for key, each in _FIELDS.items()}
"""Each property key and the name of its field."""


CLIENT = ("security.client-id", "security.client-secret")
PUBLIC_URL = "server.public-url"
_OF_THE_CLUSTER = {KEYS[key]: key for key in (*CLIENT, PUBLIC_URL)}
_MAY_SET_CLIENT = ("", variable("database.url"), variable("database.url") + IN_FILE)
"""Mistakes in the whole file, or in what names the database."""
_NO_CLIENT = (
    "neither database.url nor security.client-id is set; if this node shares a database, set "
    f"{variable('database.url')}, otherwise set security.client-id and security.client-secret"
)


def load(
    home: Path, environment: Mapping[str, str] = os.environ, overrides: Mapping[str, str] | None = None
) -> Settings:
    """The settings of this home. `SettingsError` has every mistake in the file, the environment and the command line,
    which is given as `overrides`, by key."""
    file = home / PROPERTIES_FILE
    written, mistakes = from_file(file, KEYS)
    given, more = from_environment(environment, KEYS)
    mistakes += more
    flags = {key: Given(text, None, None, "--" + key.rpartition(".")[2]) for key, text in (overrides or {}).items()}
    chosen = {**written, **given, **flags}
    values, unusable = _parsed(chosen)
    mistakes += unusable
    settings = Settings(home, **values)
    if not unusable:
        # What cannot be read may well set what seems to be missing.
        unreadable = any(mistake.key in _MAY_SET_CLIENT for mistake in mistakes)
        if not settings.database and not unreadable:  # nodes that share a database take them from there
            missing = [key for key in CLIENT if not chosen.get(key)]
            if len(missing) == len(CLIENT):
                mistakes.append(Mistake(file, None, "", _NO_CLIENT))
            else:
                mistakes += [Mistake(file, None, key, NOT_SET) for key in missing]
    if mistakes:
        raise SettingsError(sorted(mistakes, key=lambda mistake: mistake.line or 0))
    return settings


def _parsed(chosen: Mapping[str, Given]) -> tuple[dict[str, Any], list[Mistake]]:
    """The values by the names of their fields, and what is wrong with the others."""
    values, mistakes = {}, []
    for key, each in _FIELDS.items():
        if given := chosen.get(key):
            try:
                values[each.name] = each.metadata[_Setting].parse(given.text)
            except ValueError as error:
                mistakes.append(Mistake(given.file, given.line, given.name, str(error)))
    return values, mistakes


def generated_client() -> dict[str, str]:
    """An OAuth client id and secret, by their keys."""
    return dict(zip(CLIENT, ("portico-" + secrets.token_urlsafe(9), secrets.token_urlsafe(24)), strict=True))


def commented_file(values: Mapping[str, str]) -> str:
    """The text of an `application.properties` that sets `values`, with all other settings as comments."""
    lines = [("# This gateway's settings. Changes take effect at the next start, or on SIGHUP; see docs/settings.md.")]
    lines += ["# The environment overrides this file; security.client-id is PORTICO_SECURITY_CLIENT_ID there."]
    for key in KEYS:
        lines += [
            "",
            *textwrap.wrap(description(key), 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False),
        ]
        if key in values:
            lines.append(javaproperties.join_key_value(key, values[key], separator="="))
        else:
            lines.append(f"#{key}={default_text(key)}")
    return "\n".join(lines) + "\n"


def default_text(key: str) -> str:
    default = _FIELDS[key].default
    if isinstance(default, timedelta):
        hours, seconds = divmod(default.seconds, 3600)
        return f"{default.days}d" if default.days else f"{hours}h" if hours and not seconds else f"{seconds}s"
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default in ((), None) else str(default)


def description(key: str) -> str:
    text: str = _FIELDS[key].metadata[_Setting].description
    return text
