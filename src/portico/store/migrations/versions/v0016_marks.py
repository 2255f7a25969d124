"""A change that has begun says by which mark its file is recognized."""

from alembic import op
from sqlalchemy import Column, String

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("changes_begun", Column("mark", String(64)))
