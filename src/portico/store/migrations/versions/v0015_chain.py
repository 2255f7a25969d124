"""Rows of the journal are chained, and the chains signed. Code of revision 0014 would write rows that are in no chain."""

from alembic import op
from sqlalchemy import BigInteger, Column, LargeBinary, String, Text

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("journal", Column("chain", String(32)))
    op.add_column("journal", Column("position", BigInteger))
    op.add_column("journal", Column("previous", LargeBinary(32)))
    op.add_column("journal", Column("hash", LargeBinary(32)))
    op.create_table(
        "journal_proofs",
        Column("name", String(32), primary_key=True),
        Column("at", BigInteger, nullable=False),
        Column("signed", Text, nullable=False),
    )
    op.execute("UPDATE cluster SET value = '0015' WHERE name = 'oldest-code'")
