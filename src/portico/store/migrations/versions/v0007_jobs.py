"""Jobs: changes that go on after their request was answered."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("namespace", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("target", sa.Text),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("total", sa.BigInteger),
        sa.Column("outcome", sa.Text),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("owned_until", sa.BigInteger, nullable=False),
        sa.Column("cancel_wanted", sa.Boolean, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_jobs_user_id", ondelete="CASCADE"),
    )
    for column in ("user_id", "namespace", "started_at"):
        op.create_index(f"ix_jobs_{column}", "jobs", [column])
