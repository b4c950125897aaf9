"""The schema of a table: what its owner says of every column, publicly and beforehand.

Nothing of a schema is ever taken from the records: a range, a list of categories or a width that
was looked up in them would be a release that nothing pays for.  So whatever a schema does not say
is refused here, at the door, and whatever a file holds besides is treated by the schema's rule.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..declarations.data_table import public_source
from ..declarations.toml_key import between, key, text

MOST_COLUMNS: Final = 10_000
"""Most columns of a schema."""

MOST_WORDS: Final = 10_000
"""Most values that a column may have a word for."""

MOST_NUMBERS: Final = 2**20
"""Most numbers of one array."""

LARGEST_END: Final = 1e38
"""Ends of a range are no farther from 0: features are numbers of single precision."""

LONGEST_LINE: Final = 64 * 1024
"""Usual limit of a line, in bytes; a longer one is a row that is left out."""

ENCODINGS: Final = ("utf-8", "ascii", "latin-1", "iso-8859-15", "cp1250", "cp1251", "cp1252")
"""Encodings of text files: of each, a byte below 128 is the ASCII character."""

GAP_WORDS: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""What usually stands where a value is missing."""


def _range(**field: object) -> tuple[float, float]:
    """Return two finite numbers, the smaller one first, whose distance a float can divide by."""
    ((name, value),) = field.items()
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise InvalidInput(
            f"`{name}` must be a list of two numbers.", next_step=f"Write {name} = [0, 110]."
        )
    low, high = (validate.finite(**{f"{name}[{index}]": end}) for index, end in enumerate(value))
    beyond = max(abs(low), abs(high)) > LARGEST_END
    if not low < high or beyond or 1.0 / (high - low) == math.inf:
        raise InvalidInput(
            f"`{name}` must begin below its end, within {LARGEST_END:g} of 0; it is "
            f"[{low:g}, {high:g}].",
            "Values are clipped to it and scaled by its width, in single precision.",
            f"Write {name} = [0, 110], for example.",
        )
    return low, high


def _shape(**field: object) -> tuple[int, ...]:
    """Return 1 to 4 counts, whose product is at most `MOST_NUMBERS`."""
    ((name, value),) = field.items()
    sizes = tuple(value) if isinstance(value, (list, tuple)) else ()
    counts = all(isinstance(size, int) and not isinstance(size, bool) for size in sizes)
    if not 1 <= len(sizes) <= 4 or not counts or min(sizes) < 1 or math.prod(sizes) > MOST_NUMBERS:
        raise InvalidInput(
            f"`{name}` must be a list of 1 to 4 counts, of {MOST_NUMBERS:,} numbers at most.",
            "Each number of an array is a feature.",
            f"Write {name} = [28, 28].",
        )
    return sizes


def _words(**field: object) -> tuple[str, ...]:
    """Return 1 to `MOST_WORDS` texts, all different."""
    ((name, value),) = field.items()
    words = tuple(value) if isinstance(value, (list, tuple)) else ()
    if not 1 <= len(words) <= MOST_WORDS or not all(isinstance(word, str) for word in words):
        raise InvalidInput(
            f"`{name}` must be a list of 1 to {MOST_WORDS:,} texts.",
            next_step=f'Write {name} = ["f", "m"].',
        )
    if any(word != word.strip() for word in words):
        raise InvalidInput(
            f"`{name}` has a text with space around it.",
            "Cells are compared without it, so none would be that.",
            "Take the space away.",
        )
    if len(set(words)) < len(words):
        raise InvalidInput(
            f"`{name}` names a value twice.", "Each has a place of its own.", "Name each once."
        )
    return words


def _delimiter(**field: object) -> str:
    """Return one ASCII character that may stand between fields."""
    ((name, value),) = field.items()
    character = value if isinstance(value, str) and len(value) == 1 and value.isascii() else "0"
    if character.isalnum() or character in '"\r\n\0.+-_':
        raise InvalidInput(
            f"`{name}` must be one ASCII character that no value is written with.",
            next_step=f'Write {name} = ";", or "\\t" for a tab.',
        )
    return character


def _gap(**field: object) -> float | str:
    """Return a finite number or a text."""
    ((_, value),) = field.items()
    return value if isinstance(value, str) else validate.finite(**field)


def _range_key() -> Any:
    return key(
        "of a number or a time: the public range, to which values are clipped",
        _range,
        default=None,
        shown="required there",
    )


def _values_key() -> Any:
    return key(
        "the words that a value may be: ordinal ones in their order, no before yes, each category "
        "or class",
        _words,
        default=None,
        shown="false and true of boolean, 0 and 1 of binary and survival; else required",
    )


def _source_key() -> Any:
    return key(
        "who says so, and where it is published; it stands in the log",
        public_source,
        default=None,
        shown="none",
    )


@dataclass(frozen=True, kw_only=True)
class Column:
    """`[columns.NAME]`: one column, and how its values become features.

    number      clipped to `range`, then scaled to [-1, 1] (`scaling`)
    ordinal     its place in `values`, scaled to [-1, 1], and 1 in a feature more for other words
    category    1 in the feature of its value, of `values` and "other"; 0 in the rest
    boolean     -1 for the first of `values`, 1 for the second
    array       each of its numbers, in the order of rows, as a number is
    ignored     no feature

    A gap (an empty cell, a word of `gaps`, or what cannot be read) is `gap`, where that is given;
    else the middle: 0 of what is scaled to [-1, 1], and "other" of a category.  `gap_indicator`
    adds a feature that is 1 where there was one.
    """

    name: str
    kind: Literal["number", "ordinal", "category", "boolean", "array", "ignored"] = key(
        "what the column holds"
    )
    shape: tuple[int, ...] | None = key(
        "array: how many numbers it has, along each axis",
        _shape,
        default=None,
        shown="required of an array",
    )
    range: tuple[float, float] | None = _range_key()
    values: tuple[str, ...] | None = _values_key()
    gap: float | str | None = key(
        "what a missing value counts as: a number of the range, or one of `values`",
        _gap,
        default=None,
        shown='the middle; of a category, "other"',
    )
    gap_indicator: bool = key("add a feature that is 1 where the value is missing", default=False)
    scaling: Literal["range", "none"] = key(
        "number: scale its range to [-1, 1], or leave the clipped number", default="range"
    )
    source: str | None = _source_key()

    @property
    def width(self) -> int:
        """How many features the column has."""
        if self.shape is not None:
            return math.prod(self.shape)
        of_kind = {"number": 1, "boolean": 1, "ordinal": 2, "ignored": 0}
        features = of_kind.get(self.kind, len(self.values or ()) + 1)
        return features + (self.gap_indicator and self.kind != "ignored")


@dataclass(frozen=True, kw_only=True)
class Label:
    """`[label]`: what is learnt.  A row whose label is none of these is left out.

    binary      the second of two `values` against the first
    classes     one of `values`
    number      clipped to `range`, scaled to [-1, 1]
    survival    time, clipped to `range`, which begins at 0; `event` names the column that says
                whether it was observed (the second of its two `values`) or censored
    """

    kind: Literal["binary", "classes", "number", "survival"] = key("what the label is")
    values: tuple[str, ...] | None = _values_key()
    range: tuple[float, float] | None = _range_key()
    event: str | None = key(
        "survival: the column that says whether the event was observed",
        text,
        default=None,
        shown="required there",
    )
    source: str | None = _source_key()

    @property
    def classes(self) -> int:
        """How many classes there are; 1 score for a number or a time."""
        return len(self.values or ()) if self.kind in ("binary", "classes") else 1


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """`[format]`: how text files are written.  Nothing of it is guessed from a file."""

    encoding: str = key(
        "encoding of text files: " + ", ".join(ENCODINGS), words=ENCODINGS, default="utf-8"
    )
    delimiter: str = key("what stands between two fields", _delimiter, default=",")
    decimal: Literal[".", ","] = key("the decimal sign", default=".")
    gaps: tuple[str, ...] = key(
        "words that stand where a value is missing",
        _words,
        default=GAP_WORDS,
        shown="an empty cell, NA, N/A, NaN, null, None",
    )
    id_case: Literal["keep", "lower"] = key(
        "whether ids of users that differ in case alone are different ids", default="keep"
    )
    longest_line: int = key(
        "most bytes of a line; a longer one is left out",
        between(64, 2**24),
        default=LONGEST_LINE,
    )


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What is public of a table: its columns in the order of their features, label and format.

    `label` is None of a matrix, which nothing is learnt from but its own directions.
    """

    columns: tuple[Column, ...]
    label: Label | None = None
    format: TextFormat = field(default_factory=TextFormat)

    @property
    def width(self) -> int:
        """How many features a record has."""
        return sum(column.width for column in self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in their order."""
        return tuple(name for column in self.columns for name in _feature_names(column))

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that every file must have, apart from those of label, user and silo."""
        return tuple(column.name for column in self.columns if column.kind != "ignored")


def _feature_names(column: Column) -> list[str]:
    if column.kind == "ignored":
        return []
    names = [column.name]
    if column.shape is not None:
        cells = itertools.product(*(range(size) for size in column.shape))
        return [f"{column.name}[{','.join(map(str, cell))}]" for cell in cells]
    if column.kind == "category":
        names = [f"{column.name}={value}" for value in (*(column.values or ()), "other")]
    if column.kind == "ordinal":
        names.append(f"{column.name}=other")
    return names + [f"{column.name} is missing"] * column.gap_indicator
