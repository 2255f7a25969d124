"""Trash."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "trash",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("connection", sa.String(64), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("is_folder", sa.Boolean, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("reason", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("user", sa.String(256)),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trash"),
        sa.ForeignKeyConstraint(
            ["connection"], ["connections.name"], name="fk_trash_connection", ondelete="CASCADE"
        ),
    )
    for column in ("connection", "expires_at"):
        op.create_index(f"ix_trash_{column}", "trash", [column])
