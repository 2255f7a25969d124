"""What tickets, idempotency keys and links to deleted files are bound to."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("tickets", "guest_tickets"):
        op.add_column(table, sa.Column("place", sa.Text))
        op.add_column(table, sa.Column("is_folder", sa.Boolean))
    op.add_column("idempotency_keys", sa.Column("scope", sa.Text))
    op.add_column("share_links", sa.Column("trashed", sa.String(32)))
    op.create_index("ix_share_links_trashed", "share_links", ["trashed"])
