"""Uploads that resume, idempotency keys, and digests of files."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("user_id", sa.Integer),
        sa.Column("connection", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("state", sa.LargeBinary),
        sa.Column("owner", sa.String(128)),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("owned_until", sa.BigInteger, nullable=False),
        sa.Column("wanted", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_uploads"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_uploads_user_id", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["connection"], ["connections.name"], name="fk_uploads_connection", ondelete="CASCADE"
        ),
    )
    for column in ("user_id", "connection", "expires_at"):
        op.create_index(f"ix_uploads_{column}", "uploads", [column])
    op.create_table(
        "idempotency_keys",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("request", sa.LargeBinary(32), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("owned_until", sa.BigInteger, nullable=False),
        sa.Column("response", sa.LargeBinary),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])
    op.create_table(
        "digests",
        sa.Column("location", sa.LargeBinary(32), nullable=False),
        sa.Column("connection", sa.String(64), nullable=False),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("etag", sa.String(1024), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("last_modified", sa.String(32), nullable=False),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("location", name="pk_digests"),
        sa.ForeignKeyConstraint(
            ["connection"], ["connections.name"], name="fk_digests_connection", ondelete="CASCADE"
        ),
    )
    for column in ("connection", "stored_at"):
        op.create_index(f"ix_digests_{column}", "digests", [column])
