"""All tables, as the versions before 0.1.0 left them."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, LargeBinary, String, Text, UniqueConstraint

revision = "0010"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "connections",
        Column("name", String(64), primary_key=True),
        Column("kind", String(32), nullable=False),
        Column("options", Text, nullable=False),
        Column("secrets", LargeBinary),
        Column("revision", BigInteger, nullable=False),
        Column("volume_id", String(128)),
    )
    op.create_table(
        "users",
        Column("id", Integer, primary_key=True),
        Column("name", String(64), nullable=False),
        Column("name_key", String(256), nullable=False, unique=True),
        Column("password_hash", String(256), nullable=False),
        Column(
            "connection", String(64), ForeignKey("connections.name", ondelete="RESTRICT"), nullable=False, index=True
        ),
        Column("root", Text, nullable=False),
        Column("rights", String(128), nullable=False),
        Column("disabled", Boolean, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("password_changed_at", BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "families",
        Column("id", String(32), primary_key=True),
        Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("created_at", BigInteger),
        Column("used_at", BigInteger),
        Column("device", String(256)),
        Column("address", String(64)),
    )
    op.create_table(
        "access_tokens",
        Column("digest", LargeBinary(32), primary_key=True),
        Column("family", String(32), ForeignKey("families.id", ondelete="CASCADE"), nullable=False, index=True),
        Column("expires_at", BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "refresh_tokens",
        Column("digest", LargeBinary(32), primary_key=True),
        Column("family", String(32), ForeignKey("families.id", ondelete="CASCADE"), nullable=False, index=True),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("replaced_at", BigInteger),
    )
    op.create_table(
        "tickets",
        Column("digest", LargeBinary(32), primary_key=True),
        Column(
            "token", LargeBinary(32), ForeignKey("access_tokens.digest", ondelete="CASCADE"), nullable=False, index=True
        ),
        Column("path", Text, nullable=False),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("place", Text),
        Column("is_folder", Boolean),
    )
    op.create_table(
        "api_keys",
        Column("id", String(32), primary_key=True),
        Column("digest", LargeBinary(32), nullable=False, unique=True),
        Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
        Column("name", String(64), nullable=False),
        Column("rights", String(128), nullable=False),
        Column("folder", Text, nullable=False),
        Column("addresses", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, index=True),
        Column("used_at", BigInteger),
        Column("used_from", String(64)),
    )
    op.create_table(
        "invitations",
        Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
        Column("digest", LargeBinary(32), nullable=False, unique=True),
        Column("expires_at", BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "attempts",
        Column("digest", LargeBinary(32), primary_key=True),
        Column("failures", Integer, nullable=False),
        Column("since", BigInteger, nullable=False, index=True),
        Column("succeeded_at", BigInteger),
        Column("name_digest", LargeBinary(32), index=True),
        Column("admitted_at", BigInteger),
    )
    op.create_table(
        "cluster", Column("name", String(64), primary_key=True), Column("value", String(256), nullable=False)
    )
    op.create_table(
        "leases",
        Column("name", String(64), primary_key=True),
        Column("owner", String(96), nullable=False),
        Column("fence", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
    )
    op.create_table(
        "audit_lines",
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("at", BigInteger, nullable=False, index=True),
        Column("node", String(64), nullable=False),
        Column("user", String(256), index=True),
        Column("action", String(32), nullable=False),
        Column("outcome", String(64), nullable=False),
        Column("line", Text, nullable=False),
    )
    op.create_table(
        "uploads",
        Column("id", String(32), primary_key=True),
        Column("user_id", Integer, ForeignKey("users.id", ondelete="SET NULL"), index=True),
        Column(
            "connection", String(64), ForeignKey("connections.name", ondelete="CASCADE"), nullable=False, index=True
        ),
        Column("kind", String(16), nullable=False),
        Column("status", String(16), nullable=False),
        Column("path", Text, nullable=False),
        Column("size", BigInteger),
        Column("offset", BigInteger, nullable=False),
        Column("details", Text, nullable=False),
        Column("state", LargeBinary),
        Column("owner", String(128)),
        Column("fence", BigInteger, nullable=False),
        Column("owned_until", BigInteger, nullable=False),
        Column("wanted", Boolean, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("link", String(16), index=True),
        Column("address", String(64)),
    )
    op.create_table(
        "idempotency_keys",
        Column("digest", LargeBinary(32), primary_key=True),
        Column("request", LargeBinary(32), nullable=False),
        Column("owner", String(128), nullable=False),
        Column("owned_until", BigInteger, nullable=False),
        Column("response", LargeBinary),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("scope", Text),
        Column("actor", String(96), index=True),
    )
    op.create_table(
        "digests",
        Column("location", LargeBinary(32), primary_key=True),
        Column(
            "connection", String(64), ForeignKey("connections.name", ondelete="CASCADE"), nullable=False, index=True
        ),
        Column("sha256", LargeBinary(32), nullable=False),
        Column("etag", String(1024), nullable=False),
        Column("size", BigInteger, nullable=False),
        Column("last_modified", String(32), nullable=False),
        Column("stored_at", BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "jobs",
        Column("id", String(32), primary_key=True),
        Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
        Column("namespace", String(128), nullable=False, index=True),
        Column("kind", String(16), nullable=False),
        Column("state", String(16), nullable=False),
        Column("source", Text, nullable=False),
        Column("target", Text),
        Column("entries", BigInteger, nullable=False),
        Column("bytes", BigInteger, nullable=False),
        Column("total", BigInteger),
        Column("outcome", Text),
        Column("request_id", String(64), nullable=False),
        Column("owner", String(128), nullable=False),
        Column("owned_until", BigInteger, nullable=False),
        Column("cancel_wanted", Boolean, nullable=False),
        Column("started_at", BigInteger, nullable=False, index=True),
        Column("ended_at", BigInteger),
    )
    op.create_table(
        "share_links",
        Column("id", String(16), primary_key=True),
        Column("user_id", Integer, ForeignKey("users.id", ondelete="CASCADE"), nullable=False, index=True),
        Column(
            "connection", String(64), ForeignKey("connections.name", ondelete="CASCADE"), nullable=False, index=True
        ),
        Column("digest", LargeBinary(32), nullable=False, unique=True),
        Column("path", Text, nullable=False),
        Column("is_folder", Boolean, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("password_hash", String(256)),
        Column("title", String(256), nullable=False),
        Column("note", Text, nullable=False),
        Column("types", Text, nullable=False),
        Column("ask_name", Boolean, nullable=False),
        Column("folder_per_sender", Boolean, nullable=False),
        Column("max_downloads", BigInteger),
        Column("downloads", BigInteger, nullable=False),
        Column("max_uploads", BigInteger),
        Column("uploads", BigInteger, nullable=False),
        Column("max_bytes", BigInteger),
        Column("bytes", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, index=True),
        Column("ended_at", BigInteger, index=True),
        Column("trashed", String(32), index=True),
    )
    op.create_table(
        "guests",
        Column("digest", LargeBinary(32), primary_key=True),
        Column("link", String(16), ForeignKey("share_links.id", ondelete="CASCADE"), nullable=False),
        Column("name", String(128), nullable=False),
        Column("address", String(64), nullable=False),
        Column("folder", String(256)),
        Column("folder_key", String(512)),
        Column("expires_at", BigInteger, nullable=False, index=True),
        UniqueConstraint("link", "folder_key"),
    )
    op.create_table(
        "guest_tickets",
        Column("digest", LargeBinary(32), primary_key=True),
        Column("guest", LargeBinary(32), ForeignKey("guests.digest", ondelete="CASCADE"), nullable=False, index=True),
        Column("path", Text, nullable=False),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("place", Text),
        Column("is_folder", Boolean),
    )
    op.create_table(
        "guest_downloads",
        Column("digest", LargeBinary(32), primary_key=True),
        Column("guest", LargeBinary(32), ForeignKey("guests.digest", ondelete="CASCADE"), nullable=False, index=True),
        Column("at", BigInteger, nullable=False),
    )
    op.create_table(
        "share_accesses",
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("link", String(16), ForeignKey("share_links.id", ondelete="CASCADE"), nullable=False, index=True),
        Column("at", BigInteger, nullable=False, index=True),
        Column("name", String(128), nullable=False),
        Column("address", String(64), nullable=False),
        Column("action", String(16), nullable=False),
        Column("path", Text, nullable=False),
        Column("bytes", BigInteger),
    )
    op.create_table(
        "trash",
        Column("id", String(32), primary_key=True),
        Column(
            "connection", String(64), ForeignKey("connections.name", ondelete="CASCADE"), nullable=False, index=True
        ),
        Column("path", Text, nullable=False),
        Column("is_folder", Boolean, nullable=False),
        Column("size", BigInteger),
        Column("reason", String(16), nullable=False),
        Column("status", String(16), nullable=False),
        Column("user", String(256)),
        Column("deleted_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False, index=True),
    )
    op.execute("INSERT INTO cluster (name, value) VALUES ('oldest-code', '0010')")
