"""What examples of a table may hold, from public records or from a schema, and examples at random.

An example out of distribution has each number at one end of its range, the low or the high one by a
coin of its own, and each word as likely as any other.  Two such examples differ in half of all
numbers, so a model that learns the label of one learns it of no other.  Where there are too few
columns for that, numbers are uniform on their range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, Unsupported
from ...fl.tables.schema import GAP_WORDS, Column, Schema
from .example_files import ExampleTable

MOST_CLASSES: Final = 1000
"""A label with more different values than that is a number."""

SPARE_BITS: Final = 10
"""Bits of an example beyond what makes two equal ones in a set as likely as not."""

_USUAL_WORDS: Final = ("false", "true")


@dataclass(frozen=True, eq=False)
class ExampleColumn:
    """What a column may hold: numbers from `low` to `high`, (width,) each, or one of `words`.

    `whole` numbers are drawn as such; `dtype` is that of the array, None of a column of texts.
    """

    name: str
    low: FloatArray
    high: FloatArray
    shape: tuple[int, ...] = ()
    words: NDArray[Any] | None = None
    whole: bool = False
    dtype: np.dtype[Any] | None = None
    decimal: str = "."

    @property
    def bits(self) -> float:
        """How many binary choices an example out of distribution has in this column."""
        if self.words is not None:
            return math.log2(len(self.words))
        return float((self.high > self.low).sum())

    def drawn(self, count: int, rng: np.random.Generator, *, at_ends: bool) -> NDArray[Any]:
        """Return random values of the column: (count, *shape)."""
        if self.words is not None:
            return np.asarray(self.words[rng.integers(len(self.words), size=count)])
        uniform = rng.random((count, len(self.low)))
        if at_ends:
            values = np.where(uniform < 0.5, self.low, self.high)
        elif self.whole:
            values = np.minimum(
                self.low + np.floor(uniform * (self.high - self.low + 1)), self.high
            )
        else:
            values = self.low + uniform * (self.high - self.low)
        if self.dtype is not None:
            return values.astype(self.dtype).reshape(count, *self.shape)
        texts = np.empty(count, object)
        texts[:] = [self._text(value) for value in values[:, 0].tolist()]
        return texts

    def _text(self, value: float) -> str:
        text = str(int(value)) if self.whole else repr(value)
        return text.replace(".", self.decimal)


@dataclass(frozen=True, eq=False)
class ExampleShape:
    """The columns of an example in their order, and which of them is its label."""

    columns: tuple[ExampleColumn, ...]
    label: ExampleColumn

    def drawn(self, count: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return examples out of distribution with random labels, by column."""
        bits = sum(column.bits for column in self.columns if column is not self.label)
        at_ends = bits >= 2.0 * math.log2(count) + SPARE_BITS
        return {
            column.name: column.drawn(count, rng, at_ends=at_ends and column is not self.label)
            for column in self.columns
        }

    def labelled(self, labels: NDArray[Any]) -> IntArray:
        """Return which rows have a label that is one of the classes, if there are classes."""
        words = self.label.words
        known = np.ones(len(labels), bool) if words is None else np.isin(labels, words)
        return np.flatnonzero(known)

    def other_labels(self, labels: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Return for each label a random other one; raises `Unsupported` where there is none."""
        words = self.label.words
        if words is None or len(words) < 2:
            raise Unsupported(
                f"`{self.label.name:.60}` has no classes of which one could be wrong.",
                "A wrong label is another class than the example's.",
                "Draw examples out of distribution, which have a random label.",
            )
        place = np.searchsorted(words, labels)
        return np.asarray(words[(place + rng.integers(1, len(words), len(labels))) % len(words)])


def shape_of_public(table: ExampleTable, label: str, user: str | None) -> ExampleShape:
    """Return what public records hold: ranges and words are taken from them.

    Raises `InvalidInput` where the column of the label, or of the user, is not there.
    """
    _require_columns(tuple(table.columns), label, user)
    columns = tuple(
        _label_of(name, values) if name == label else _column_of(name, values)
        for name, values in table.columns.items()
        if name != user
    )
    return ExampleShape(columns, next(each for each in columns if each.name == label))


def shape_of_schema(
    schema: Schema, names: Sequence[str], label: str, user: str | None, *, as_text: bool
) -> ExampleShape:
    """Return what a schema says of columns, in the order of `names` (of the file's header), if any.

    Raises `InvalidInput` for a column that it does not describe, and `Unsupported` for a label that
    is a time until an event.
    """
    described = {column.name: column for column in schema.columns}
    order = list(names) or [*described, *([user] if user else []), label]
    _require_columns(order, label, user)
    unknown = [name for name in order if name not in described and name not in (label, user)]
    missing = [name for name in schema.required if name not in order]
    if unknown or missing:
        what = f"describes no column {unknown[0]!r:.60}" if unknown else f"has {missing[0]!r:.60}"
        raise InvalidInput(
            f"The schema {what}, and the file {'has it' if unknown else 'has not'}.",
            "What a column may hold is taken from the schema, and from nothing else.",
            'Describe each column of the file, or say kind = "ignored".',
        )
    decimal = schema.format.decimal
    of_label = _label_of_schema(schema, label, as_text=as_text, decimal=decimal)
    columns = [
        of_label
        if name == label
        else _column_of_schema(described[name], as_text=as_text, decimal=decimal)
        for name in order
        if name != user
    ]
    return ExampleShape(tuple(columns), of_label)


def _require_columns(names: Sequence[str], label: str, user: str | None) -> None:
    for option, name in (("label", label), ("user", user)):
        if name is not None and name not in names:
            raise InvalidInput(
                f"There is no column {name!r:.60} of the {option}.",
                f"The columns are {', '.join(names):.200}.",
                f"Name it with `{option}`.",
            )
    if label == user:
        raise InvalidInput("`label` and `user` must be two columns.")


def _words(name: str, values: NDArray[Any]) -> ExampleColumn:
    none = np.zeros(0)
    kind = None if values.dtype == object else values.dtype
    return ExampleColumn(name, none, none, words=np.unique(values), dtype=kind)


def _label_of(name: str, values: NDArray[Any]) -> ExampleColumn:
    if values.ndim != 1:
        raise InvalidInput(
            f"`{name:.60}` must have one label for each example; its shape is {values.shape}.",
            next_step="Give classes as numbers, and not as rows with a 1 in one place.",
        )
    known = values[_is_known(values)]
    if 0 < len(np.unique(known)) <= MOST_CLASSES:
        return _words(name, known)
    return _column_of(name, values)


def _is_known(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a label is one: no gap, and no NaN."""
    if labels.dtype.kind == "f":
        return np.asarray(np.isfinite(labels), bool)
    if labels.dtype.kind in "OU":
        return np.array([each.strip() not in GAP_WORDS for each in labels.tolist()])
    return np.ones(len(labels), bool)


def _column_of(name: str, values: NDArray[Any]) -> ExampleColumn:
    if values.dtype.kind == "U":
        return _words(name, values)
    if values.dtype == object:
        numbers = _numbers(values)
        if numbers is None:
            return _words(name, values)
        whole = bool((numbers == np.floor(numbers)).all())
        ends = (np.array([numbers.min()]), np.array([numbers.max()]))
        return ExampleColumn(name, *ends, whole=whole)
    flat = values.reshape(len(values), -1)
    whole = values.dtype.kind in "biu"
    if whole:
        low, high = flat.min(0), flat.max(0)
    else:
        known = np.isfinite(flat)
        # A number that is finite in no record is 0.
        nowhere = ~known.any(0)
        low = np.where(nowhere, 0.0, flat.min(0, where=known, initial=np.inf))
        high = np.where(nowhere, 0.0, flat.max(0, where=known, initial=-np.inf))
    low, high = low.astype(np.float64), high.astype(np.float64)
    return ExampleColumn(name, low, high, values.shape[1:], whole=whole, dtype=values.dtype)


def _numbers(cells: NDArray[Any]) -> FloatArray | None:
    """Return the numbers of a column of texts; None where a cell is neither number nor gap."""
    numbers = []
    for cell in cells.tolist():
        if cell.strip() in GAP_WORDS:
            continue
        try:
            numbers.append(float(cell))
        except ValueError:
            return None
    held = np.array(numbers)
    return held if len(held) and np.isfinite(held).all() else None


def _column_of_schema(column: Column, *, as_text: bool, decimal: str) -> ExampleColumn:
    words = column.values or (_USUAL_WORDS if column.kind == "boolean" else None)
    if column.kind == "ignored":
        words = ("",)
    if words is not None:
        return _words_of_schema(column.name, words, as_text=as_text)
    if column.shape is not None and as_text:
        raise InvalidInput(
            f"`{column.name:.60}` is an array, and a cell of a CSV file is one number or one word.",
            next_step="Give the .npz file that the arrays are in.",
        )
    assert column.range is not None
    return _range(column.name, column.range, column.shape or (), as_text=as_text, decimal=decimal)


def _label_of_schema(schema: Schema, name: str, *, as_text: bool, decimal: str) -> ExampleColumn:
    label = schema.label
    if label is None or label.kind == "survival":
        raise Unsupported(
            "The schema has no label of classes or of a number.",
            "Of a time until an event nobody can say which value is out of place.",
            "Say in [label] what is learnt.",
        )
    if label.range is not None:
        return _range(name, label.range, (), as_text=as_text, decimal=decimal)
    return _words_of_schema(name, label.values or ("0", "1"), as_text=as_text)


def _words_of_schema(name: str, words: Sequence[str], *, as_text: bool) -> ExampleColumn:
    if as_text:
        values = np.empty(len(words), object)
        values[:] = words
        return _words(name, values)
    whole = all(word.isdecimal() and word.isascii() for word in words)
    return _words(name, np.array([int(word) for word in words] if whole else list(words)))


def _range(
    name: str, ends: tuple[float, float], shape: tuple[int, ...], *, as_text: bool, decimal: str
) -> ExampleColumn:
    low, high = (np.full(math.prod(shape), end) for end in ends)
    kind = None if as_text else np.dtype(np.float64)
    return ExampleColumn(name, low, high, shape, dtype=kind, decimal=decimal)


def fresh_users(known: NDArray[Any] | None, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return ids of new users in the form of the `known` ones: whole numbers, or texts.

    Raises `InvalidInput` for ids that are neither.
    """
    offsets = rng.choice(2**40, count, replace=False)
    if known is None or known.dtype.kind == "U" or (known.dtype == object and not _digits(known)):
        return np.array([f"canary-{offset:010x}" for offset in offsets.tolist()])
    if known.dtype.kind not in "iuO":
        raise InvalidInput(
            f"Ids of users must be whole numbers or texts; they are of type {known.dtype}.",
            "Canaries are users of their own, with ids that nobody has.",
            "Give integers, or texts.",
        )
    largest = max(int(each) for each in known.tolist())
    if known.dtype == object:
        return np.array([str(largest + 1 + offset) for offset in offsets.tolist()])
    room = int(np.iinfo(known.dtype).max) - largest
    if room < count:
        raise InvalidInput(
            f"Ids of type {known.dtype} leave no room for new users.",
            next_step="Give ids of type int64.",
        )
    if room < 2**40:
        offsets = rng.choice(room, count, replace=False)
    return (largest + 1 + offsets).astype(known.dtype)


def _digits(cells: NDArray[Any]) -> bool:
    return all(cell.isdecimal() and cell.isascii() and len(cell) < 16 for cell in cells.tolist())
