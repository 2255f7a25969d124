"""Share links, their guests, and what these did."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "share_links",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("connection", sa.String(64), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("is_folder", sa.Boolean, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("password_hash", sa.String(256)),
        sa.Column("title", sa.String(256), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("types", sa.Text, nullable=False),
        sa.Column("ask_name", sa.Boolean, nullable=False),
        sa.Column("folder_per_sender", sa.Boolean, nullable=False),
        sa.Column("max_downloads", sa.BigInteger),
        sa.Column("downloads", sa.BigInteger, nullable=False),
        sa.Column("max_uploads", sa.BigInteger),
        sa.Column("uploads", sa.BigInteger, nullable=False),
        sa.Column("max_bytes", sa.BigInteger),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_share_links"),
        sa.UniqueConstraint("digest", name="uq_share_links_digest"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_share_links_user_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["connection"], ["connections.name"], name="fk_share_links_connection", ondelete="CASCADE"
        ),
    )
    for column in ("user_id", "connection", "expires_at", "ended_at"):
        op.create_index(f"ix_share_links_{column}", "share_links", [column])
    op.create_table(
        "guests",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("link", sa.String(16), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("folder", sa.String(256)),
        sa.Column("folder_key", sa.String(512)),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_guests"),
        sa.UniqueConstraint("link", "folder_key", name="uq_guests_link"),
        sa.ForeignKeyConstraint(["link"], ["share_links.id"], name="fk_guests_link", ondelete="CASCADE"),
    )
    op.create_index("ix_guests_expires_at", "guests", ["expires_at"])
    op.create_table(
        "guest_tickets",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("guest", sa.LargeBinary(32), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_guest_tickets"),
        sa.ForeignKeyConstraint(
            ["guest"], ["guests.digest"], name="fk_guest_tickets_guest", ondelete="CASCADE"
        ),
    )
    for column in ("guest", "expires_at"):
        op.create_index(f"ix_guest_tickets_{column}", "guest_tickets", [column])
    op.create_table(
        "guest_downloads",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("guest", sa.LargeBinary(32), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_guest_downloads"),
        sa.ForeignKeyConstraint(
            ["guest"], ["guests.digest"], name="fk_guest_downloads_guest", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_guest_downloads_guest", "guest_downloads", ["guest"])
    op.create_table(
        "share_accesses",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("link", sa.String(16), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_share_accesses"),
        sa.ForeignKeyConstraint(
            ["link"], ["share_links.id"], name="fk_share_accesses_link", ondelete="CASCADE"
        ),
    )
    for column in ("link", "at"):
        op.create_index(f"ix_share_accesses_{column}", "share_accesses", [column])
