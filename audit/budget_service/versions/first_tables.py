"""The first version of the tables.

The tables stand here once more, as they were: a later version changes `..tables`, and never this.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "1"
down_revision: Final = None

_ID: Final = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(name: str, *, empty: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=empty)


def _id() -> sa.Column[int]:
    return sa.Column("id", _ID, primary_key=True)


def _of(name: str, table: str, *, empty: bool = False, key: bool = False) -> sa.Column[int]:
    row = sa.ForeignKey(f"{table}.id")
    return sa.Column(name, sa.BigInteger, row, nullable=empty, primary_key=key)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "data_set",
        _id(),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        _of("parent_id", "data_set", empty=True),
        _text("terms"),
        _text("cap"),
        _text("epsilon"),
        sa.Column("certified", sa.Integer, nullable=False),
        _text("frozen", empty=True),
        _text("behind", empty=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        *map(_text, ("head", "keys")),
    )
    op.create_table(
        "block",
        _id(),
        _of("data_set_id", "data_set"),
        _text("name"),
        _text("spent"),
        sa.UniqueConstraint("data_set_id", "name"),
    )
    op.create_table(
        "project",
        _id(),
        _of("data_set_id", "data_set"),
        _text("name"),
        _text("share"),
        sa.UniqueConstraint("data_set_id", "name"),
    )
    op.create_table(
        "project_block",
        _of("project_id", "project", key=True),
        _of("block_id", "block", key=True),
        _text("spent"),
    )
    op.create_table(
        "claim",
        sa.Column("id", sa.Text, primary_key=True),
        _of("data_set_id", "data_set"),
        _of("project_id", "project"),
        *map(_text, ("holder", "key", "content", "answer", "state", "block_ids", "price")),
        _text("log_head", empty=True),
        sa.UniqueConstraint("holder", "key"),
    )
    op.create_index("claim_by_data_set", "claim", ["data_set_id", "state"])
    op.create_table(
        "entry",
        _of("data_set_id", "data_set", key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        _text("line"),
        _text("hash"),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        *map(_text, ("holder", "role")),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("revoked", sa.Integer, nullable=False),
        _text("issued_by", empty=True),
    )
    op.create_table(
        "proposal",
        sa.Column("id", sa.Text, primary_key=True),
        _of("data_set_id", "data_set"),
        *map(_text, ("epsilon", "reason", "proposer", "state")),
    )
    op.create_table(
        "presented",
        _id(),
        _of("data_set_id", "data_set"),
        sa.Column("seq", sa.BigInteger, nullable=False),
        *map(_text, ("hash", "statement")),
        sa.Column("acknowledged", sa.Integer, nullable=False),
        sa.UniqueConstraint("data_set_id", "seq", "hash"),
    )


def downgrade() -> None:
    """Refuse: a ledger that forgets a table forgets what was spent."""
    raise NotImplementedError("a ledger is never taken back to no tables")
