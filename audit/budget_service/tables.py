"""The tables of the ledger.  Balances are whole numbers of any size, so they stand as texts."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

_ID: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts rows by itself only in a column that is exactly INTEGER."""

data_sets = Table(
    "data_set",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    # Of a view: the data set that is charged.  A view has no history of its own.
    Column("parent_id", ForeignKey("data_set.id")),
    Column("terms", Text, nullable=False),
    Column("cap", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("certified", Integer, nullable=False),
    Column("frozen", Text),
    Column("behind", Text),
    Column("seq", BigInteger, nullable=False),
    Column("head", Text, nullable=False),
    # Public keys that signed the history, in their order; the last one signs it now.
    Column("keys", Text, nullable=False),
)

blocks = Table(
    "block",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("data_set_id", ForeignKey("data_set.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("spent", Text, nullable=False),
    UniqueConstraint("data_set_id", "name"),
)

projects = Table(
    "project",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("data_set_id", ForeignKey("data_set.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("share", Text, nullable=False),
    UniqueConstraint("data_set_id", "name"),
)

project_blocks = Table(
    "project_block",
    metadata,
    Column("project_id", ForeignKey("project.id"), primary_key=True),
    Column("block_id", ForeignKey("block.id"), primary_key=True),
    Column("spent", Text, nullable=False),
)

claims = Table(
    "claim",
    metadata,
    Column("id", Text, primary_key=True),
    Column("data_set_id", ForeignKey("data_set.id"), nullable=False),
    Column("project_id", ForeignKey("project.id"), nullable=False),
    Column("holder", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("block_ids", Text, nullable=False),
    Column("price", Text, nullable=False),
    Column("log_head", Text),
    UniqueConstraint("holder", "key"),
)

entries = Table(
    "entry",
    metadata,
    Column("data_set_id", ForeignKey("data_set.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("line", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

tokens = Table(
    "token",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("holder", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("expires", Float, nullable=False),
    Column("revoked", Integer, nullable=False),
    Column("issued_by", Text),
)

proposals = Table(
    "proposal",
    metadata,
    Column("id", Text, primary_key=True),
    Column("data_set_id", ForeignKey("data_set.id"), nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("proposer", Text, nullable=False),
    Column("state", Text, nullable=False),
)

presented = Table(
    "presented",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("data_set_id", ForeignKey("data_set.id"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("statement", Text, nullable=False),
    Column("acknowledged", Integer, nullable=False),
    UniqueConstraint("data_set_id", "seq", "hash"),
)

daily_claims = Table(
    "daily_claim",
    metadata,
    Column("data_set_id", ForeignKey("data_set.id"), primary_key=True),
    Column("holder", Text, primary_key=True),
    # Of UTC; what was claimed on another day counts no more.
    Column("day", Text, nullable=False),
    Column("claims", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

Index("claim_by_data_set", claims.c.data_set_id, claims.c.state)
