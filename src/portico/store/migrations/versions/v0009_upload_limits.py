"""Whose unfinished uploads and idempotency keys are limited together."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("uploads", sa.Column("link", sa.String(16)))
    op.add_column("uploads", sa.Column("address", sa.String(64)))
    op.create_index("ix_uploads_link", "uploads", ["link"])
    op.add_column("idempotency_keys", sa.Column("actor", sa.String(96)))
    op.create_index("ix_idempotency_keys_actor", "idempotency_keys", ["actor"])
