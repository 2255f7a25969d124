"""How much a rewind has left alone: of a user's own, only the first ones are listed."""

from alembic import op
from sqlalchemy import BigInteger, Column

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rewinds", Column("left_alone", BigInteger, nullable=False, server_default="0"))
