"""API keys and invitations; what a user is shown of their sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("rights", sa.String(128), nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("addresses", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("used_at", sa.BigInteger),
        sa.Column("used_from", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_api_keys_user_id", ondelete="CASCADE"),
    )
    for column in ("user_id", "expires_at"):
        op.create_index(f"ix_api_keys_{column}", "api_keys", [column])
    op.create_table(
        "invitations",
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_invitations"),
        sa.UniqueConstraint("digest", name="uq_invitations_digest"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_invitations_user_id", ondelete="CASCADE"),
    )
    op.create_index("ix_invitations_expires_at", "invitations", ["expires_at"])
    # Unknown for sessions that older code begins.
    for added in (
        sa.Column("created_at", sa.BigInteger),
        sa.Column("used_at", sa.BigInteger),
        sa.Column("device", sa.String(256)),
        sa.Column("address", sa.String(64)),
    ):
        op.add_column("families", added)
