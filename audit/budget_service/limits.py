"""Shares of the cap for projects and analysts: limits, and no guarantees, as these may collude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import sqlalchemy as sa

from .balances import Vector, loaded, stored, zero
from .books import Books
from .database import locked_row
from .names import name_of
from .tables import project_blocks, projects


def project_of(books: Books, name: str) -> tuple[int, Fraction] | None:
    """Return the id of a project and its share, locked; None where nobody claimed for it yet."""
    name_of(project=name)
    condition = (projects.c.data_set_id == books.id) & (projects.c.name == name)
    row = locked_row(books.connection, projects, condition)
    return None if row is None else (row.id, Fraction(row.share))


def new_project(books: Books, name: str) -> tuple[int, Fraction]:
    """Return the id and the share of a project that nobody limited: it has all."""
    values = {"data_set_id": books.id, "name": name, "share": "1"}
    key = books.connection.execute(projects.insert(), values).inserted_primary_key
    assert key is not None
    return int(key[0]), Fraction(1)


def analyst_row(holder: str) -> str:
    """Return under which name the spending of an analyst stands; no project can have it."""
    return f"analyst:{holder}"


def analyst_of(books: Books, holder: str) -> dict[int, Fraction]:
    """Return the row and the share of an analyst, locked; nothing where nobody limited it."""
    condition = (projects.c.data_set_id == books.id) & (projects.c.name == analyst_row(holder))
    row = locked_row(books.connection, projects, condition)
    return {} if row is None else {row.id: Fraction(row.share)}


def limited_spending(books: Books, project: int, names: Sequence[str]) -> dict[str, Vector]:
    """Return what a project or an analyst has spent in blocks, zero where it spent nothing."""
    connection = books.connection
    by_id = {books.ids[name]: name for name in names}
    asked = sa.select(project_blocks.c.block_id, project_blocks.c.spent).where(
        project_blocks.c.project_id == project
    )
    spent = dict.fromkeys(names, zero(books.terms.size))
    for number, units in connection.execute(asked):
        if number in by_id:
            spent[by_id[number]] = loaded(units)
    return spent


def put_limited(books: Books, project: int, changed: Mapping[str, Vector]) -> None:
    """Write what a project or an analyst has spent in blocks."""
    connection = books.connection
    update = (
        project_blocks.update()
        .where(
            project_blocks.c.project_id == project,
            project_blocks.c.block_id == sa.bindparam("block"),
        )
        .values(spent=sa.bindparam("units"))
    )
    known = sa.select(project_blocks.c.block_id).where(project_blocks.c.project_id == project)
    have = set(connection.execute(known).scalars())
    rows = [{"block": books.ids[name], "units": stored(units)} for name, units in changed.items()]
    old = [row for row in rows if row["block"] in have]
    new = [row for row in rows if row["block"] not in have]
    if old:
        connection.execute(update, old)
    if new:
        connection.execute(
            project_blocks.insert(),
            [
                {"project_id": project, "block_id": row["block"], "spent": row["units"]}
                for row in new
            ],
        )
