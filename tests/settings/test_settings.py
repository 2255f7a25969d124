import socket
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from portico.settings import settings
from portico.settings.settings import KEYS, SettingsError, commented_file, default_text, load
from portico.settings.sources import variable

REQUIRED = {"security.client-id": "portico-x", "security.client-secret": "as-public"}
DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path, commented_file(REQUIRED))
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / settings.PROPERTIES_FILE).write_text(text, encoding="utf-8")


def mistakes(home: Path, text: str, environment: dict[str, str] | None = None, **flags: str) -> list[str]:
    write(home, text)
    with pytest.raises(SettingsError) as caught:
        load(home, environment or {}, {f"server.{flag}": value for flag, value in flags.items()})
    return [str(mistake).removeprefix(f"{home}/") for mistake in caught.value.mistakes]


def properties() -> str:
    return "".join(f"{key}={value}\n" for key, value in REQUIRED.items())


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_is_documented(key: str) -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert f"`{key}`" in text
    assert f"`{variable(key)}`" in text
    assert not (default := default_text(key)) or f"`{default}`" in text
    description = settings.description(key)
    assert description
    assert description in text


def test_the_commented_file_sets_what_it_is_given_and_names_the_rest(home: Path) -> None:
    text = (home / settings.PROPERTIES_FILE).read_text()
    assert all(f"\n{key}=" in text for key in REQUIRED)
    assert all(f"\n#{key}=" in text for key in KEYS if key not in REQUIRED)
    assert load(home, {}).client_id == "portico-x"


def test_the_commented_defaults_are_the_defaults(home: Path) -> None:
    before = load(home, {})
    uncommented = "".join(f"{key}={default_text(key)}\n" for key in KEYS if key not in REQUIRED)
    write(home, properties() + uncommented)
    assert load(home, {}) == before


def test_special_characters_survive_the_file(tmp_path: Path) -> None:
    write(tmp_path, commented_file({**REQUIRED, "security.client-secret": r"a=b:c\d#e!é"}))
    assert load(tmp_path, {}).client_secret == r"a=b:c\d#e!é"


def test_the_environment_beats_the_file_and_flags_beat_both(home: Path) -> None:
    write(home, properties() + "server.port=1\nserver.host=::1\nserver.workers=3\n")
    loaded = load(home, {"PORTICO_SERVER_PORT": "2", "PORTICO_SERVER_HOST": "::2"}, {"server.port": "4"})
    assert (loaded.port, loaded.host, loaded.workers) == (4, "::2", 3)


def test_values_are_read(home: Path) -> None:
    write(
        home,
        properties()
        + "security.token-lifetime=1h30m\nsecurity.refresh-lifetime=90\nupload.max-file-size=10GiB\n"
        + "security.allowed-addresses=10.0.0.0/8, 192.168.1.7 fd00::/8\nlog.level=DEBUG\nserver.host=[::1]\n",
    )
    loaded = load(home, {})
    assert loaded.token_lifetime == timedelta(minutes=90)
    assert loaded.refresh_lifetime == timedelta(seconds=90)
    assert loaded.max_file_size == 10 * 1024**3
    assert loaded.allowed_addresses == tuple(map(ip_network, ("10.0.0.0/8", "192.168.1.7/32", "fd00::/8")))
    assert (loaded.log_level, loaded.host) == ("debug", "::1")


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("500MB", 500_000_000), ("1 kib", 1024), ("7b", 7)])
def test_sizes(home: Path, text: str, size: int) -> None:
    assert load(home, {"PORTICO_UPLOAD_MAX_FILE_SIZE": text}).max_file_size == size


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.client-id", "a:b"),
        ("security.client-id", ""),
        ("security.client-secret", "two words"),
        ("security.token-lifetime", "0"),
        ("security.token-lifetime", "1y"),
        ("security.refresh-lifetime", "99999d"),
        ("security.allowed-addresses", "10.0.0.1/8"),
        ("security.allowed-addresses", "example.org"),
        ("server.host", "a b"),
        ("server.port", "0"),
        ("server.port", "65536"),
        ("server.port", "٨٠"),
        ("server.port", "-1"),
        ("server.tls", "on"),
        ("server.tls", "cert.pem,"),
        ("server.workers", "0"),
        ("server.behind-proxy", "10.0.0.0/33"),
        ("server.drain-delay", "1h"),
        ("server.stop-timeout", "0"),
        ("health.allowed-addresses", "loopback"),
        ("node.name", "two words"),
        ("node.name", "n" * 65),
        ("audit.log", "off,database"),
        ("audit.log", "audit.log,databse"),
        ("audit.log", "audit.log,"),
        ("audit.log", "database,database"),
        ("audit.log", ",database"),
        ("audit.retention", "long"),
        ("audit.retention", "0"),
        ("trash.retention", "forever"),
        ("share.max-lifetime", "forever"),
        ("database.url", "mysql://x"),
        ("upload.max-file-size", "10GG"),
        ("upload.max-files", "many"),
        ("log.level", "loud"),
        ("security.cors-origins", "*"),
        ("security.cors-origins", "null"),
        ("security.cors-origins", "https://*.example.org"),
        ("security.cors-origins", "https://a.example.org/"),
        ("security.cors-origins", "https://a.example.org, b.example.org"),
        ("security.cors-origins", "https://A.example.org"),
        ("security.cors-origins", "https://a.example.org:443"),
        ("security.cors-origins", "ftp://a.example.org"),
        ("audit.log", ""),
        ("audit.required", "yes"),
        ("metrics.address", "9464"),
        ("metrics.address", "127.0.0.1:"),
        ("metrics.address", "127.0.0.1:65536"),
        ("metrics.address", "a b:1"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(home: Path, key: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(home, {variable(key): value})
    (mistake,) = caught.value.mistakes
    assert (mistake.file, mistake.line, mistake.key) == (None, None, variable(key))


@pytest.mark.parametrize("value", ["0", "31d", "20y", "long"])
def test_a_limit_is_named_whatever_is_wrong(home: Path, value: str) -> None:
    with pytest.raises(SettingsError, match="from one second to 30 days"):
        load(home, {variable("upload.unfinished-retention"): value})


def test_every_mistake_is_named_at_once_with_its_line(home: Path) -> None:
    text = "# settings\n" + properties() + "server.prot=80\nserver.port = \\\n  80x\nlog.level=info\nlog.level=debug\n"
    assert mistakes(home, text, workers="0") == [
        "--workers: must be a whole number from 1 to 256",
        "application.properties:4: server.prot: is not a setting; did you mean server.port?",
        "application.properties:5: server.port: must be a whole number from 1 to 65535",
        "application.properties:8: log.level: is already set in line 7",
    ]


def test_what_must_be_set_is_missed(home: Path) -> None:
    (mistake,) = mistakes(home, "")
    assert "neither database.url nor security.client-id is set" in mistake
    assert "if this node shares a database, set PORTICO_DATABASE_URL" in mistake
    assert mistakes(home, "security.client-id=a") == ["application.properties: security.client-secret is not set"]


def test_a_database_url_that_cannot_be_read_is_the_only_mistake(home: Path) -> None:
    (home / settings.PROPERTIES_FILE).write_text("")
    with pytest.raises(SettingsError) as caught:
        load(home, {"PORTICO_DATABASE_URL_FILE": str(home / "missing")})
    assert [mistake.key for mistake in caught.value.mistakes] == ["PORTICO_DATABASE_URL_FILE"]


def test_an_empty_name_of_a_file_counts_as_not_set(home: Path) -> None:
    (home / settings.PROPERTIES_FILE).write_text("")
    environment = {"PORTICO_LOG_LEVEL_FILE": "", "PORTICO_DATABASE_URL": "postgresql://h/n"}
    assert load(home, {**environment, "PORTICO_DATABASE_URL_FILE": ""}).log_level == "info"


def test_a_file_that_is_no_text(home: Path) -> None:
    (home / settings.PROPERTIES_FILE).write_bytes(b"a=b\nserver.host=\xff\n")
    with pytest.raises(SettingsError) as caught:
        load(home, {})
    assert caught.value.mistakes[0].line == 2


def test_a_lone_backslash(home: Path) -> None:
    assert "write a backslash as two" in mistakes(home, properties() + "server.tls=c:\\users,k\n")[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("uploads.expire-after", "upload.unfinished-retention"),
        ("uploads.digest", "upload.digest"),
        ("trash.keep", "trash.retention"),
        ("audit.keep", "journal.retention"),
        ("audit.retention", "journal.retention"),
        ("health.addresses", "health.allowed-addresses"),
        ("database.connections", "database.max-connections"),
        ("limits.path-depth", "path.max-depth"),
    ],
)
def test_an_old_name_is_refused_with_the_new_one(home: Path, old: str, new: str) -> None:
    assert new in settings.KEYS
    (mistake,) = mistakes(home, properties() + f"{old}=1\n")
    assert mistake.endswith(f": {old}: was renamed; use {new}")
    for end in ("", "_FILE"):
        environment = {variable(old) + end: "1"}
        renamed = f"{variable(old)}{end}: was renamed; use {variable(new)}{end}"
        assert mistakes(home, properties(), environment) == [renamed]


@pytest.mark.parametrize("name", ["PORTICO_SERVER_PROT", "PORTICO_LOGLEVEL", "PORTICO_UPLOAD_ANYTHING"])
def test_a_mistyped_variable_is_found(home: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load(home, {name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        *(
            "PORTICO_HOME",
            "PORTICO_SECRET_KEY",
            "PORTICO_SECRET_KEY_FILE",
            "PORTICO_URL",
            "PORTICO_TOKEN",
            "PORTICO_PROFILE",
        ),
        *("PORTICO_LIVE_S3", "PORTICO_SERVICE_HOST", "PORTICO_PORT", "PORTICO_PORT_8080_TCP_ADDR"),
        *("PORTICO_QUITE_ELSE", "PATH"),
    ],
)
def test_other_variables_are_left_alone(home: Path, name: str) -> None:
    assert load(home, {name: "x"}).port == 8080


def test_a_variable_names_a_file_with_the_value(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "database-url"
    secret.write_text("postgresql://u:p@h/n\n")
    assert load(home, {"PORTICO_DATABASE_URL_FILE": str(secret)}).database == "postgresql://u:p@h/n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("mysql://h/n", "PORTICO_DATABASE_URL_FILE: must be empty, or begin with"),
        (None, "PORTICO_DATABASE_URL_FILE: can't be read (No such file or directory)"),
        (b"\xff", "PORTICO_DATABASE_URL_FILE: is not valid UTF-8"),
    ],
)
def test_a_mistake_in_such_a_file_names_it(
    home: Path, tmp_path: Path, content: str | bytes | None, expected: str
) -> None:
    secret = tmp_path / "database-url"
    if content is not None:
        secret.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsError) as caught:
        load(home, {"PORTICO_DATABASE_URL_FILE": str(secret)})
    assert caught.value.detail.startswith(f"{secret}: {expected}")


def test_a_value_and_a_file_at_once_are_refused(home: Path) -> None:
    with pytest.raises(SettingsError, match="PORTICO_LOG_LEVEL_FILE: is set together with PORTICO_LOG_LEVEL;"):
        load(home, {"PORTICO_LOG_LEVEL": "info", "PORTICO_LOG_LEVEL_FILE": "/run/level"})


def test_what_is_derived(home: Path) -> None:
    loaded = load(home, {"PORTICO_SERVER_TLS": "c.pem,/etc/k.pem"})
    assert loaded.tls_enabled
    assert loaded.tls_files == (home / "c.pem", Path("/etc/k.pem"))
    assert loaded.database_url == f"sqlite:///{home}/portico.db"
    assert load(home, {"PORTICO_DATABASE_URL": "postgres://u@h/n"}).database_url == "postgresql://u@h/n"
    assert load(home, {}).tls_files is None


def test_operations(home: Path) -> None:
    loaded = load(home, {})
    assert (loaded.audit_file, loaded.audit_required) == (f"{home}/audit.log", False)
    assert (loaded.metrics_address, loaded.cors_origins) == (None, ())
    write(
        home,
        properties() + "audit.log=/var/log/portico.log\naudit.required=TRUE\nmetrics.address=[::1]:9464\n"
        "security.cors-origins=https://a.example.org, http://[::1]:3000 http://localhost:3000\n",
    )
    loaded = load(home, {})
    assert (loaded.audit_file, loaded.audit_required) == ("/var/log/portico.log", True)
    assert loaded.metrics_address == ("::1", 9464)
    assert loaded.cors_origins == ("https://a.example.org", "http://[::1]:3000", "http://localhost:3000")
    assert load(home, {"PORTICO_AUDIT_LOG": "off"}).audit_file is None
    assert load(home, {"PORTICO_AUDIT_LOG": "stdout"}).audit_file == "stdout"


def test_no_secret_in_the_representation(home: Path) -> None:
    write(home, properties() + "database.url=postgresql://u:hidden@h/n\n")
    assert "hidden" not in repr(load(home, {}))
    assert "as-public" not in repr(load(home, {}))


@pytest.mark.parametrize(
    ("value", "file"),
    [
        ("off", None),
        ("stdout", "stdout"),
        ("Database", None),
        ("/var/log/audit.log, database", "/var/log/audit.log"),
        ("stdout,DATABASE", "stdout"),
    ],
)
def test_places_of_the_audit_log(home: Path, value: str, file: str | None) -> None:
    """Before there was a journal, the database was one of them."""
    assert load(home, {"PORTICO_AUDIT_LOG": value}).audit_file == file


def test_the_node_is_named_in_audit_lines_if_there_may_be_several(home: Path) -> None:
    assert (load(home, {}).node_in_audit, load(home, {}).node) == ("", socket.gethostname()[:64])
    assert load(home, {"PORTICO_NODE_NAME": "files-1"}).node_in_audit == "files-1"
    shared = load(home, {"PORTICO_DATABASE_URL": "postgresql://host/name"})
    assert shared.node_in_audit == socket.gethostname()[:64]


def test_no_delay_and_no_retention(home: Path) -> None:
    chosen = load(home, {"PORTICO_SERVER_DRAIN_DELAY": "0s", "PORTICO_JOURNAL_RETENTION": "forever"})
    assert chosen.drain_delay == chosen.journal_retention == timedelta(0)
