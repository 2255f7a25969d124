"""Indexes for pages of the trash and for what is due there, and how many steps a rewind has."""

from alembic import op
from sqlalchemy import Column, Text

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_trash_connection", "trash")
    op.drop_index("ix_trash_expires_at", "trash")
    for name in ("deleted_at", "expires_at"):
        op.create_index(f"ix_trash_{name}", "trash", ["connection", name, "id"])
    op.execute("UPDATE trash SET expires_at = 0 WHERE status = 'removing'")
    op.add_column("rewinds", Column("steps", Text, nullable=False, server_default="{}"))
