"""Users, connections, tokens, tickets and sign-in attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "connections",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("secrets", sa.LargeBinary),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("name_key", sa.String(256), nullable=False, unique=True),
        sa.Column("password_hash", sa.String(256), nullable=False),
        sa.Column(
            "connection",
            sa.String(64),
            sa.ForeignKey("connections.name", ondelete="RESTRICT"),
            nullable=False,
        ),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("rights", sa.String(128), nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("password_changed_at", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "families",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("user_id", sa.Integer, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    for table in ("access_tokens", "refresh_tokens"):
        op.create_table(
            table,
            sa.Column("digest", sa.LargeBinary(32), primary_key=True),
            sa.Column(
                "family", sa.String(32), sa.ForeignKey("families.id", ondelete="CASCADE"), nullable=False
            ),
            sa.Column("expires_at", sa.BigInteger, nullable=False),
            *([sa.Column("replaced_at", sa.BigInteger)] if table == "refresh_tokens" else []),
        )
    op.create_table(
        "tickets",
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column(
            "token",
            sa.LargeBinary(32),
            sa.ForeignKey("access_tokens.digest", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "attempts",
        sa.Column("digest", sa.LargeBinary(32), primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("succeeded_at", sa.BigInteger),
    )
    for table, column in (
        ("users", "connection"),
        ("families", "user_id"),
        ("families", "expires_at"),
        ("access_tokens", "family"),
        ("access_tokens", "expires_at"),
        ("refresh_tokens", "family"),
        ("refresh_tokens", "expires_at"),
        ("tickets", "token"),
        ("tickets", "expires_at"),
        ("attempts", "since"),
    ):
        op.create_index(f"ix_{table}_{column}", table, [column])
