"""Several nodes: what they agree on, who does what, and an audit log in the database."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cluster",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.String(256), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_cluster"),
    )
    # Code of revision 0002 uses none of the new tables.
    op.execute("INSERT INTO cluster (name, value) VALUES ('oldest-code', '0002')")
    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(96), nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "audit_lines",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("node", sa.String(64), nullable=False),
        sa.Column("user", sa.String(256)),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(64), nullable=False),
        sa.Column("line", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_lines"),
    )
    op.create_index("ix_audit_lines_at", "audit_lines", ["at"])
    op.create_index("ix_audit_lines_user", "audit_lines", ["user"])
    op.add_column("connections", sa.Column("volume_id", sa.String(128)))
