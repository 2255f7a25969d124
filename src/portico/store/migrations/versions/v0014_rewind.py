"""Indexes for searches of the journal, and rewinds. Code of revision 0013 would show what the trash only holds."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, String, Text, text

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_RARE = ("key", "link", "session")
_EVERYWHERE = ("at", "user", "address", "action", "outcome")


def upgrade() -> None:
    op.drop_index("ix_journal_at", "journal")
    op.drop_index("ix_journal_user", "journal")
    for name in _RARE:
        there = text(f'"{name}" IS NOT NULL')
        op.create_index(f"ix_journal_{name}", "journal", [name, "number"], postgresql_where=there, sqlite_where=there)
    for name in _EVERYWHERE:
        op.create_index(f"ix_journal_{name}", "journal", [name, "number"])
    for connection, place in (("connection", "place"), ("to_connection", "target")):
        there = text(f'"{place}" IS NOT NULL')
        op.create_index(
            f"ix_journal_{place}",
            "journal",
            [connection, place, "number"],
            postgresql_where=there,
            sqlite_where=there,
            postgresql_ops={place: "text_pattern_ops"},
        )
    op.create_table(
        "rewinds",
        Column("id", String(32), primary_key=True),
        Column("request", Text, nullable=False),
        Column("state", String(16), nullable=False, index=True),
        Column("plan", Text, nullable=False),
        Column("done", BigInteger, nullable=False),
        Column("report", Text, nullable=False),
        Column("cancel_wanted", Boolean, nullable=False),
        Column("started_at", BigInteger, nullable=False, index=True),
        Column("ended_at", BigInteger),
    )
    op.execute("UPDATE cluster SET value = '0014' WHERE name = 'oldest-code'")
