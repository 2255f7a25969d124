"""One journal in place of the audit lines and of the trash's rows for content on its way. Code of revision 0012 needs both."""

import json

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text, text

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "journal",
        Column("number", BigInteger, primary_key=True, autoincrement=False),
        Column("change", String(32), unique=True),
        Column("at", BigInteger, nullable=False, index=True),
        Column("node", String(64), nullable=False),
        Column("user", String(256), index=True),
        Column("key", String(32)),
        Column("link", String(16)),
        Column("session", String(64)),
        Column("address", String(64)),
        Column("action", String(32), nullable=False),
        Column("outcome", String(64), nullable=False),
        Column("connection", String(64)),
        Column("place", Text),
        Column("to_connection", String(64)),
        Column("target", Text),
        Column("kept", String(32)),
        Column("before", Text),
        Column("after", Text),
        Column("line", Text, nullable=False),
    )
    op.create_table(
        "changes_begun",
        Column("id", String(32), primary_key=True),
        Column("owner", String(96), nullable=False, index=True),
        Column("at", BigInteger, nullable=False),
        Column("connection", String(64), nullable=False),
        Column("place", Text, nullable=False),
        Column("to_connection", String(64)),
        Column("target", Text),
        Column("before", Text),
        Column("line", Text, nullable=False),
    )
    op.execute(
        'INSERT INTO journal (number, at, node, "user", action, outcome, line) '
        'SELECT id, at, node, "user", action, outcome, line FROM audit_lines'
    )
    op.drop_table("audit_lines")
    _begin_what_was_moving()
    op.execute("UPDATE cluster SET value = '0013' WHERE name = 'oldest-code'")


def _begin_what_was_moving() -> None:
    """Processes died while they moved this into the trash: it is settled as a change that nobody carries out any more."""
    connection = op.get_bind()
    add = text(
        "INSERT INTO changes_begun (id, owner, at, connection, place, line) "
        "VALUES (:id, '', :deleted_at, :connection, :path, :line)"
    )
    moving = text("SELECT id, connection, path, reason, deleted_at FROM trash WHERE status = 'moving'")
    for row in connection.execute(moving).mappings().all():
        line = json.dumps({"action": "delete" if row["reason"] == "deleted" else "upload", "outcome": "begun"})
        values = {name: row[name] for name in ("id", "deleted_at", "connection", "path")}
        connection.execute(add, {**values, "line": line})
    connection.execute(text("DELETE FROM trash WHERE status = 'moving'"))
