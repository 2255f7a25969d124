"""Counted sign-ins know their user, so that they can be cleared, and when one was last let through."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("name_digest", sa.LargeBinary(32)))
    op.add_column("attempts", sa.Column("admitted_at", sa.BigInteger))
    op.create_index("ix_attempts_name_digest", "attempts", ["name_digest"])
