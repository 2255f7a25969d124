"""A change that has begun says by which mark its file is recognized, and a digest the path of its file."""

from alembic import op
from sqlalchemy import Column, String, Text

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("changes_begun", Column("mark", String(64)))
    op.add_column("digests", Column("path", Text))
