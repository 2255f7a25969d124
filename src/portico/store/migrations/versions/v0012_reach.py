"""A user's tree is a table of mounts, their own and those of groups. Code of revision 0011 needs the columns that this drops."""

import json

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Integer, String, Text, UniqueConstraint, text

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("connections", Column("origin", String(32)))
    op.create_table(
        "groups",
        Column("id", Integer, primary_key=True),
        Column("name", String(64), nullable=False),
        Column("name_key", String(256), nullable=False, unique=True),
        Column("position", Integer, nullable=False),
        Column("expires_at", BigInteger),
        Column("addresses", Text, nullable=False),
        Column("origin", String(32)),
    )
    op.create_table(
        "members",
        Column("group_id", Integer, ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True),
        Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, index=True),
    )
    op.create_table(
        "mounts",
        Column("id", Integer, primary_key=True),
        Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE")),
        Column("group_id", Integer, ForeignKey("groups.id", ondelete="CASCADE")),
        Column("path", Text, nullable=False),
        Column(
            "connection", String(64), ForeignKey("connections.name", ondelete="RESTRICT"), nullable=False, index=True
        ),
        Column("folder", Text, nullable=False),
        Column("rights", String(128), nullable=False),
        Column("origin", String(32)),
        UniqueConstraint("user_id", "path"),
        UniqueConstraint("group_id", "path"),
        CheckConstraint("(user_id IS NULL) <> (group_id IS NULL)", name="ck_mounts_owner"),
    )
    op.add_column("users", Column("reach", Text))
    op.add_column("users", Column("expires_at", BigInteger))
    op.add_column("users", Column("addresses", Text))
    op.add_column("users", Column("origin", String(32)))
    _add_mounts()
    _drop_roots()
    op.drop_index("ix_digests_stored_at", "digests")
    op.drop_column("digests", "stored_at")
    op.drop_column("digests", "last_modified")
    op.execute("UPDATE cluster SET value = '0012' WHERE name = 'oldest-code'")


def _add_mounts() -> None:
    """Each user's root becomes their mount at `/`."""
    connection = op.get_bind()
    add = text(
        "INSERT INTO mounts (user_id, path, connection, folder, rights) "
        "VALUES (:id, '/', :connection, :folder, :rights)"
    )
    change = text("UPDATE users SET reach = :reach, addresses = '' WHERE id = :id")
    for row in connection.execute(text("SELECT id, connection, root, rights FROM users ORDER BY id")).all():
        # A brace begins a placeholder; two are the brace itself.
        folder = row.root.replace("{", "{{").replace("}", "}}")
        connection.execute(add, {"id": row.id, "connection": row.connection, "folder": folder, "rights": row.rights})
        reach = {"mounts": [["/", row.connection, row.root, row.rights, None]]}
        compiled = json.dumps(reach, ensure_ascii=False, separators=(",", ":"))
        connection.execute(change, {"id": row.id, "reach": compiled})


def _drop_roots() -> None:
    connection = op.get_bind()
    counted = None
    if connection.dialect.name == "sqlite":
        counted = connection.execute(text("SELECT seq FROM sqlite_sequence WHERE name = 'users'")).scalar()
    with op.batch_alter_table("users", table_kwargs={"sqlite_autoincrement": True}) as batch:
        batch.drop_index("ix_users_connection")
        for column in ("connection", "root", "rights"):
            batch.drop_column(column)
        for column in ("reach", "addresses"):
            batch.alter_column(column, existing_type=Text(), nullable=False)
    if counted is not None:
        # The table was replaced, and the id of a deleted user must never be used again.
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = 'users'"))
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES ('users', :seq)"), {"seq": counted})
