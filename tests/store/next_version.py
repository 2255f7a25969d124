"""A made-up next version of Portico: the code of this one with one more migration."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from portico.store import schema

NEXT: Final = "9000"
_MIGRATION: Final = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{next}", "{newest}", None, None


def upgrade() -> None:
    op.add_column("users", sa.Column("nickname", sa.String(64)))
    op.create_table("nicknames", sa.Column("name", sa.String(64), primary_key=True))
"""


@contextmanager
def next_version(folder: Path) -> Iterator[None]:
    """Until the context ends, this process has the migrations of the next version."""
    migrations = folder / "next-version"
    if not migrations.exists():
        shutil.copytree(schema._MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
        added = _MIGRATION.format(next=NEXT, newest=schema.newest_revision())
        (migrations / "versions" / f"v{NEXT}_nicknames.py").write_text(added)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "_MIGRATIONS", migrations)
        schema._revisions.cache_clear()
        yield
    schema._revisions.cache_clear()


ROWS: dict[str, list[dict[str, Any]]] = {
    "connections": [
        {"name": "cloud", "kind": "s3", "options": '{"bucket": "b"}', "secrets": b"\x01sealed\x00", "revision": 7},
        {"name": "local", "kind": "local", "options": '{"folder": "files"}', "secrets": None, "revision": 8},
    ],
    "users": [
        {
            "id": 3, "name": "Zoë", "name_key": "zoë", "password_hash": "$argon2id$", "disabled": False,
            "created_at": 1_700_000_000_000, "password_changed_at": 1_700_000_000_001, "addresses": "10.0.0.0/8",
            "reach": '{"mounts":[["/","local","/zoë","list download",null],["/team","cloud","/zoë","list","team"]],'
            '"expires_at":4000000000000,"addresses":[["10.0.0.0/8"]]}', "expires_at": None, "origin": None,
        },
        {
            "id": 9, "name": "bob", "name_key": "bob", "password_hash": "$argon2id$", "disabled": True, "created_at": 1,
            "password_changed_at": 2, "addresses": "", "reach": '{"mounts":[["/","cloud","/","",null]]}',
            "expires_at": None, "origin": "apply",
        },
    ],
    "groups": [
        {
            "id": 5, "name": "Team", "name_key": "team", "position": 1, "expires_at": 4_000_000_000_000, "addresses": "",
            "origin": None,
        },
    ],
    "members": [{"group_id": 5, "user_id": 3}],
    "mounts": [
        {
            "id": 1, "user_id": 3, "group_id": None, "path": "/", "connection": "local", "folder": "/{user}",
            "rights": "list download", "origin": None,
        },
        {
            "id": 2, "user_id": 9, "group_id": None, "path": "/", "connection": "cloud", "folder": "/", "rights": "",
            "origin": "apply",
        },
        {
            "id": 4, "user_id": None, "group_id": 5, "path": "/team", "connection": "cloud", "folder": "/{user}",
            "rights": "list", "origin": None,
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
"""Rows of a database that has been used."""
