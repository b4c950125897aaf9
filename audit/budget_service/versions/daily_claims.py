"""The second version of the tables: what each holder claimed today."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "2"
down_revision: Final = "1"


def upgrade() -> None:
    """Make the table; a ledger of before begins the day anew."""
    op.create_table(
        "daily_claim",
        sa.Column("data_set_id", sa.BigInteger, sa.ForeignKey("data_set.id"), primary_key=True),
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("day", sa.Text, nullable=False),
        sa.Column("claims", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Refuse: an older version would not count."""
    raise NotImplementedError("a ledger is never taken back to fewer tables")
