"""The tables of releases, and statements like those that their code sends, as text: a shallow clone has no old code to run.

The tables are compared with the old migrations by a test. The statements are written by hand, not recorded.
"""

from typing import Any

_TABLES_AFTER_0002 = (
    *("api_keys", "invitations", "jobs"),
    *("audit_lines", "cluster", "digests", "idempotency_keys", "leases", "trash", "uploads"),
    *("guest_tickets", "guest_downloads", "guests", "share_accesses", "share_links"),
)
_COLUMNS_AFTER_0002 = {
    "connections": ("volume_id",),
    "families": ("created_at", "used_at", "device", "address"),
    "tickets": ("place", "is_folder"),
}
BACK_TO_0002 = (
    *(f"DROP TABLE {table}" for table in _TABLES_AFTER_0002),
    *(
        f"ALTER TABLE {table} DROP COLUMN {column}"
        for table, columns in _COLUMNS_AFTER_0002.items()
        for column in columns
    ),
    "UPDATE alembic_version SET version_num = '0002'",
)
"""Statements that make the newest schema that of revision 0002."""

REVISION_0002 = {
    "sqlite": """
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
CREATE TABLE connections (name VARCHAR(64) NOT NULL, kind VARCHAR(32) NOT NULL, options TEXT NOT NULL, secrets BLOB,
  revision BIGINT NOT NULL, PRIMARY KEY (name));
CREATE TABLE users (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR(64) NOT NULL, name_key VARCHAR(256) NOT NULL,
  password_hash VARCHAR(256) NOT NULL, connection VARCHAR(64) NOT NULL, root TEXT NOT NULL, rights VARCHAR(128) NOT NULL,
  disabled BOOLEAN NOT NULL, created_at BIGINT NOT NULL, password_changed_at BIGINT NOT NULL, UNIQUE (name_key),
  FOREIGN KEY(connection) REFERENCES connections (name) ON DELETE RESTRICT);
CREATE TABLE families (id VARCHAR(32) NOT NULL, user_id INTEGER NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE);
CREATE TABLE access_tokens (digest BLOB NOT NULL, family VARCHAR(32) NOT NULL, expires_at BIGINT NOT NULL,
  PRIMARY KEY (digest), FOREIGN KEY(family) REFERENCES families (id) ON DELETE CASCADE);
CREATE TABLE refresh_tokens (digest BLOB NOT NULL, family VARCHAR(32) NOT NULL, expires_at BIGINT NOT NULL,
  replaced_at BIGINT, PRIMARY KEY (digest), FOREIGN KEY(family) REFERENCES families (id) ON DELETE CASCADE);
CREATE TABLE tickets (digest BLOB NOT NULL, token BLOB NOT NULL, path TEXT NOT NULL, expires_at BIGINT NOT NULL,
  PRIMARY KEY (digest), FOREIGN KEY(token) REFERENCES access_tokens (digest) ON DELETE CASCADE);
CREATE TABLE attempts (digest BLOB NOT NULL, failures INTEGER NOT NULL, since BIGINT NOT NULL, succeeded_at BIGINT,
  name_digest BLOB, admitted_at BIGINT, PRIMARY KEY (digest));
""",
    "postgresql": """
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
CREATE TABLE connections (name VARCHAR(64) NOT NULL, kind VARCHAR(32) NOT NULL, options TEXT NOT NULL, secrets BYTEA,
  revision BIGINT NOT NULL, PRIMARY KEY (name));
CREATE TABLE users (id SERIAL NOT NULL, name VARCHAR(64) NOT NULL, name_key VARCHAR(256) NOT NULL,
  password_hash VARCHAR(256) NOT NULL, connection VARCHAR(64) NOT NULL, root TEXT NOT NULL, rights VARCHAR(128) NOT NULL,
  disabled BOOLEAN NOT NULL, created_at BIGINT NOT NULL, password_changed_at BIGINT NOT NULL, PRIMARY KEY (id),
  UNIQUE (name_key), FOREIGN KEY(connection) REFERENCES connections (name) ON DELETE RESTRICT);
CREATE TABLE families (id VARCHAR(32) NOT NULL, user_id INTEGER NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE);
CREATE TABLE access_tokens (digest BYTEA NOT NULL, family VARCHAR(32) NOT NULL, expires_at BIGINT NOT NULL,
  PRIMARY KEY (digest), FOREIGN KEY(family) REFERENCES families (id) ON DELETE CASCADE);
CREATE TABLE refresh_tokens (digest BYTEA NOT NULL, family VARCHAR(32) NOT NULL, expires_at BIGINT NOT NULL,
  replaced_at BIGINT, PRIMARY KEY (digest), FOREIGN KEY(family) REFERENCES families (id) ON DELETE CASCADE);
CREATE TABLE tickets (digest BYTEA NOT NULL, token BYTEA NOT NULL, path TEXT NOT NULL, expires_at BIGINT NOT NULL,
  PRIMARY KEY (digest), FOREIGN KEY(token) REFERENCES access_tokens (digest) ON DELETE CASCADE);
CREATE TABLE attempts (digest BYTEA NOT NULL, failures INTEGER NOT NULL, since BIGINT NOT NULL, succeeded_at BIGINT,
  name_digest BYTEA, admitted_at BIGINT, PRIMARY KEY (digest));
""",
}
"""The tables of the last release, in each database."""

INDEXES_0002 = """
INSERT INTO alembic_version VALUES ('0002');
CREATE INDEX ix_users_connection ON users (connection);
CREATE INDEX ix_families_user_id ON families (user_id);
CREATE INDEX ix_families_expires_at ON families (expires_at);
CREATE INDEX ix_access_tokens_family ON access_tokens (family);
CREATE INDEX ix_access_tokens_expires_at ON access_tokens (expires_at);
CREATE INDEX ix_refresh_tokens_family ON refresh_tokens (family);
CREATE INDEX ix_refresh_tokens_expires_at ON refresh_tokens (expires_at);
CREATE INDEX ix_tickets_token ON tickets (token);
CREATE INDEX ix_tickets_expires_at ON tickets (expires_at);
CREATE INDEX ix_attempts_since ON attempts (since);
CREATE INDEX ix_attempts_name_digest ON attempts (name_digest);
"""

ROWS_0002: dict[str, list[dict[str, Any]]] = {
    "connections": [
        {"name": "cloud", "kind": "s3", "options": '{"bucket": "b"}', "secrets": b"\x01sealed\x00", "revision": 7},
        {"name": "local", "kind": "local", "options": '{"folder": "files"}', "secrets": None, "revision": 8},
    ],
    "users": [
        {
            "id": 3, "name": "Zoë", "name_key": "zoë", "password_hash": "$argon2id$", "connection": "local", "root": "/zoë",
            "rights": "list,download", "disabled": False, "created_at": 1_700_000_000_000,
            "password_changed_at": 1_700_000_000_001,
        },
        {
            "id": 9, "name": "bob", "name_key": "bob", "password_hash": "$argon2id$", "connection": "cloud", "root": "/",
            "rights": "", "disabled": True, "created_at": 1, "password_changed_at": 2,
        },
    ],
    "families": [{"id": "f1", "user_id": 3, "expires_at": 4_000_000_000_000}],
    "access_tokens": [{"digest": b"a" * 32, "family": "f1", "expires_at": 4_000_000_000_000}],
    "refresh_tokens": [
        {"digest": b"r" * 32, "family": "f1", "expires_at": 4_000_000_000_000, "replaced_at": None}
    ],
    "tickets": [{"digest": b"t" * 32, "token": b"a" * 32, "path": "/x", "expires_at": 4_000_000_000_000}],
    "attempts": [
        {"digest": b"d" * 32, "failures": 2, "since": 5, "succeeded_at": None, "name_digest": b"n", "admitted_at": 6}
    ],
}  # fmt: skip

STATEMENTS_0002 = (
    "INSERT INTO connections (name, kind, options, secrets, revision) VALUES ('c', 'local', '{}', NULL, 1)",
    "UPDATE connections SET options = '{}', secrets = NULL, revision = 2 WHERE connections.name = 'c'",
    (
        "SELECT connections.name, connections.kind, connections.options, connections.secrets, connections.revision "
        "FROM connections ORDER BY connections.name"
    ),
    (
        "INSERT INTO users (name, name_key, password_hash, connection, root, rights, disabled, created_at, password_changed_at) "
        "VALUES ('new', 'new', 'h', 'c', '/', 'list', FALSE, 1, 1)"
    ),
    "UPDATE users SET password_hash = 'h2', password_changed_at = 2, disabled = TRUE WHERE users.name_key = 'new'",
    "INSERT INTO families (id, user_id, expires_at) SELECT 'f2', users.id, 5 FROM users WHERE users.name_key = 'new'",
    "INSERT INTO access_tokens (digest, family, expires_at) SELECT name_digest, 'f2', 5 FROM attempts",
    "INSERT INTO refresh_tokens (digest, family, expires_at, replaced_at) SELECT name_digest, 'f2', 5, NULL FROM attempts",
    "INSERT INTO tickets (digest, token, path, expires_at) SELECT name_digest, name_digest, '/p', 5 FROM attempts",
    (
        "SELECT access_tokens.family, access_tokens.expires_at, users.id, users.name, users.rights, users.root, "
        "users.connection, users.disabled FROM access_tokens JOIN families ON families.id = access_tokens.family "
        "JOIN users ON users.id = families.user_id"
    ),
    (
        "INSERT INTO attempts (digest, failures, since, succeeded_at, name_digest, admitted_at) "
        "SELECT digest, 1, 9, NULL, name_digest, NULL FROM attempts WHERE TRUE ON CONFLICT (digest) DO UPDATE "
        "SET failures = attempts.failures + 1, since = 9"
    ),
    "DELETE FROM families WHERE families.expires_at <= 5",
    "DELETE FROM users WHERE users.name_key = 'new'",
    "DELETE FROM connections WHERE connections.name = 'c'",
    "SELECT version_num FROM alembic_version",
)
"""Written by hand after the code of revision 0002: they add, change, read and remove rows; every table is written to."""
