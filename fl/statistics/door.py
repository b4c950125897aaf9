"""What is asked of rows and labels before anything is spent; nothing here shows a value of them.

A complaint names the field, its range, and the position of the first entry beyond it.  Which labels
occur, and how often, is no reason to complain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput, with_article
from ...accountant.mechanisms.gram_rows import give_back
from .public_terms import PublicTerms

_BLOCK: Final = 2**13
"""Rows that are looked at together, so that a mapped file is never in memory as a whole."""


@dataclass(frozen=True, eq=False, repr=False)
class HeldRows:
    """Rows that passed the door: as they were given, labels as codes or as numbers in [-1, 1].

    `silo` (n,) says who holds each row, None where there is one holder; `unit` (n,) names the unit
    of each row, None where it is the row itself.
    """

    features: Any
    labels: IntArray | FloatArray | None
    silo: IntArray | None
    unit: IntArray | None

    def silos(self, count: int) -> Iterator[tuple[Any, IntArray | FloatArray | None, Any]]:
        """Yield features, labels and units of each silo, in order."""
        if self.silo is None:
            yield self.features, self.labels, self.unit
            return
        for silo in range(count):
            rows = np.flatnonzero(self.silo == silo)
            yield (
                self.features[rows],
                None if self.labels is None else self.labels[rows],
                None if self.unit is None else self.unit[rows],
            )


def admitted(
    terms: PublicTerms, features: Any, labels: Any, silo: Any = None, user: Any = None
) -> HeldRows:
    """Return what was given, checked; features are not copied.  Raises `InvalidInput`."""
    table = _table(features)
    count = int(table.shape[0])
    _refuse_not_finite(table)
    silos = _silos(silo, count, terms.silos)
    codes = _labels(terms, labels, count)
    return HeldRows(table, codes, silos, _units(user, count, terms))


def _units(user: Any, count: int, terms: PublicTerms) -> IntArray | None:
    """Return which unit each row is of, where rows of one unit are counted."""
    if terms.unit == "user":
        if user is None:
            raise _needed("user", "Noise protects users, so each row must name its own.")
        return _users(user, count)
    if user is not None:
        raise InvalidInput(
            f"`user` has no use where the unit is {with_article(terms.unit)}.",
            next_step="Give `rows_per_user` to protect users, or leave `user` out.",
        )
    return np.zeros(count, np.int64) if terms.unit == "silo" else None


def _table(features: Any) -> Any:
    """Return a table of real numbers (n, p): an array as it is, a sparse matrix by rows."""
    table = features
    try:
        if not hasattr(features, "tocsr"):
            table = np.asanyarray(features)
            if table.dtype.kind in "OSU":
                table = table.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        table = np.empty(0)
    shape = table.shape
    if len(shape) != 2 or table.dtype.kind not in "fiub" or not shape[1] or _masked(table):
        raise InvalidInput(
            "`X` must be a table of real numbers, with a row for each record.",
            "Rows are clipped and multiplied as numbers.",
            "Give an array of shape (records, features), with at least one feature.",
        )
    return table.tocsr() if hasattr(table, "tocsr") else table


def _masked(values: Any) -> bool:
    """Return whether entries are masked: what is below the mask was not meant to be read."""
    return bool(np.ma.is_masked(values))


def _refuse_not_finite(table: Any) -> None:
    if hasattr(table, "indptr"):
        wrong = np.flatnonzero(~np.isfinite(table.data))
        if len(wrong):
            raise _not_finite(int(np.searchsorted(table.indptr, wrong[0], side="right")) - 1)
        return
    if table.dtype.kind != "f":
        return
    for first in range(0, len(table), _BLOCK):
        block = np.asarray(table[first : first + _BLOCK])
        # The sum of finite numbers may overflow, so only then is each looked at.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(block.sum())
        give_back(block)
        if finite:
            continue
        wrong = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(wrong):
            raise _not_finite(first + int(wrong[0]))


def _not_finite(row: int) -> InvalidInput:
    return InvalidInput(
        f"`X` must hold finite numbers; row {row} holds NaN, or inf.",
        "Such a row has no norm to be clipped to.",
        "Leave such rows out, or fill them in by a rule that looks at one row at a time.",
    )


def _labels(terms: PublicTerms, labels: Any, count: int) -> IntArray | FloatArray | None:
    if not terms.classes:
        if labels is not None:
            raise InvalidInput(
                "`y` is given, and neither `classes` nor `label_range`.",
                "What labels there can be is public, and never taken from the data.",
                "Give `classes` or a `label_range`, or leave `y` out.",
            )
        return None
    if labels is None:
        raise _needed("y", "The sums X^T Y are part of the release.")
    column = _column(labels, "y", count)
    return _codes(column, terms) if terms.labels else _scaled(column, terms)


def _codes(column: Any, terms: PublicTerms) -> IntArray:
    """Return the code of each label, 0 to c - 1."""
    values, places = np.unique(column, return_inverse=True)
    numbers = {label: code for code, label in enumerate(terms.labels)}
    codes = np.array([numbers.get(value, -1) for value in values.tolist()], np.int64)[places]
    _refuse_beyond(codes < 0, "one of the classes that are stated")
    return np.asarray(codes, np.int64)


def _scaled(column: Any, terms: PublicTerms) -> FloatArray:
    """Return numbers of the label range as numbers in [-1, 1]."""
    assert terms.label_range is not None
    low, high = terms.label_range
    try:
        if column.dtype.kind not in "fiubSU":
            raise TypeError
        numbers = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        numbers = np.full(len(column), np.nan)
    # Also true of what is no number.
    _refuse_beyond(~((numbers >= low) & (numbers <= high)), f"a number from {low:g} to {high:g}")
    return np.clip((numbers - low) / (high - low) * 2.0 - 1.0, -1.0, 1.0)


def _refuse_beyond(wrong: BoolArray, allowed: str) -> None:
    if wrong.any():
        raise InvalidInput(
            f"Each label in `y` must be {allowed}; that of row {int(wrong.argmax())} is not.",
            "The sensitivity holds for these labels alone.",
            "Correct the labels, or state all that there can be before looking at the data.",
        )


def _silos(silo: Any, count: int, silos: int) -> IntArray | None:
    if silo is None:
        if silos > 1:
            raise _needed("silo", f"There are {silos} silos, and each row lies at one of them.")
        return None
    column = np.asarray(_column(silo, "silo", count))
    whole = column.dtype.kind in "iu"
    if not whole or (count and not 0 <= column.min() <= column.max() < silos):
        raise InvalidInput(
            f"`silo` must hold integers from 0 to {silos - 1}.",
            f"There are {silos} silos, which is public.",
            "Number the silos from 0, and give `silos`.",
        )
    return column.astype(np.int64)


def _column(values: Any, name: str, count: int) -> Any:
    """Return an array (n,) of n values, objects as texts or numbers."""
    column = _of_one_column(values, name, count)
    return _plain(column) if column.dtype.kind == "O" else column


def _of_one_column(values: Any, name: str, count: int, dtype: Any = None) -> Any:
    """Return an array (n,) of n values; a table of one column is one."""
    try:
        column = np.asarray(values, dtype)
    except (TypeError, ValueError, OverflowError):
        column = np.empty((0, 0))
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.shape != (count,) or _masked(values):
        raise InvalidInput(
            f"`{name}` must have one value for each row of `X`.",
            next_step=f"Give `{name}` of shape (records,).",
        )
    return column


def _users(values: Any, count: int) -> IntArray:
    """Return the number of each row's user, (n,): equal where, and only where, names are equal.

    Of two users with one number, the rows of one would push out those of the other, and a user who
    comes would move the sum twice as far.  So a missing name is refused, and none is converted.
    """
    column = _of_one_column(values, "user", count, None if hasattr(values, "dtype") else object)
    kind = column.dtype.kind
    try:
        if kind == "O":
            numbers = {name: code for code, name in enumerate(dict.fromkeys(column.tolist()))}
            missing = any(name is None or bool(name != name) for name in numbers)
            codes = np.fromiter(map(numbers.__getitem__, column.tolist()), np.int64, count)
        else:
            missing = bool(kind not in "iubfSUmM" or (column != column).any())
            codes = np.unique(column, return_inverse=True)[1].astype(np.int64)
    except (TypeError, ValueError):
        missing = True
    if missing:
        raise InvalidInput(
            "`user` must name the user of each row; a name is missing, or cannot be compared.",
            "Rows without a name would count as those of one user.",
            "Give each row a text or a number that its user alone has.",
        )
    return codes


def _plain(column: Any) -> Any:
    """Return an array of objects as texts or numbers, where all are of one kind."""
    whole = (bool, np.bool_, int, np.integer)
    kinds: Any = ((str, np.str_), (whole, np.int64), ((*whole, float), np.float64))
    for kind, dtype in kinds:
        if all(isinstance(value, kind) for value in column):
            try:
                return column.astype(dtype)
            except OverflowError:
                continue
    return np.full(len(column), np.nan)


def _needed(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"`{name}` is missing.", why, f"Give `{name}`, a value for each row.")
