"""The same columns in all tables whose rows one process owns at a time. Code of revision 0010 uses the former ones."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE leases RENAME COLUMN expires_at TO owned_until")
    for table in ("leases", "uploads"):
        op.drop_column(table, "fence")
    op.execute("UPDATE cluster SET value = '0011' WHERE name = 'oldest-code'")
