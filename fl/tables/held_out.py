"""A table in two: the rows that are trained on, and those of users who are held out."""

from __future__ import annotations

from typing import cast

import numpy as np

from ...accountant.arrays import IntArray
from ..data.held_out import HeldOutRows, held_out
from ..data.row_contents import row_contents
from .table import TableRows


def parted(
    table: TableRows, *, share: float, seed: int, named: bool
) -> tuple[TableRows, HeldOutRows]:
    """Return the rows that are trained on, and those on which the model is measured.

    With `named` a column says whose a row is, and all rows of a user are on one side, in every silo
    alike; without, a row is by itself, and what it holds decides.  Raises `InvalidInput` unless
    0 < `share` < 1.
    """
    names = table.user if named else row_contents(table.features, table.labels)
    out = held_out(names, share, seed)
    return table.only(~out), _held_out_rows(table.only(out))


def _held_out_rows(table: TableRows) -> HeldOutRows:
    # A user's place among these is used for nothing but to add up its own rows.
    names, user = np.unique(table.user, return_inverse=True)
    # The rules let nobody be held out where labels are no classes.
    labels = np.zeros(len(user), np.int64) if table.labels is None else table.labels
    return HeldOutRows(
        table.features,
        cast(IntArray, labels),
        user.reshape(-1),
        table.silo,
        len(names),
        len(table.silos),
        names,
    )
