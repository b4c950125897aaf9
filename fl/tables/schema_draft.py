"""A draft of a schema: the names of columns, and what a file says of their types beforehand.

Kinds of columns of text files and all ranges stay open, since looking them up in private records
would be a release.  From a file that is declared public they may be filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ...accountant.toml_source import toml_text
from .array_file import ArrayFile
from .arrow_file import ArrowColumns
from .batches import arrow
from .cell_features import Numbers, numbers_of, texts_of
from .row_reading import opened
from .schema import LARGEST_END, TextFormat

MOST_CATEGORIES: Final = 50
"""A column of a public file with more different words than that is ignored in a draft."""

_UNQUOTED: Final = re.compile(r"[A-Za-z0-9_-]+")

_HEAD: Final = """\
# The schema of a table: what is public of every column, as whoever designed the study knows it.
# Looking at private records to fill it in would be a release that nothing pays for.
# kind      number ordinal category boolean array ignored
# range     of a number or an array, such as [0, 110]: what is outside is clipped
# values    of ordinal and category, such as ["f", "m"]: anything else is "other"
# gap       what a missing value counts as; gap_indicator = true adds a feature for it
# source    who says so
# Leave out the columns of the user, the label and the silo: the configuration names them.
# privplan explain tables says more.

[label]
# kind = "binary"           # binary classes number survival
# values = ["no", "yes"]
"""


@dataclass(frozen=True)
class DraftColumn:
    """A column of a draft; `kind` is None where it is open, and so are range and values."""

    name: str
    kind: str | None = None
    range: tuple[float, float] | None = None
    values: tuple[str, ...] | None = None
    source: str | None = None
    shape: tuple[int, ...] | None = None

    def text(self) -> str:
        """Return the table of the column; open keys stand there as comments."""
        name = self.name if _UNQUOTED.fullmatch(self.name) else toml_text(self.name)
        lines = [f"[columns.{name}]"]
        lines.append(f'kind = "{self.kind}"' if self.kind else '# kind = "number"')
        if self.shape is not None:
            lines.append(f"shape = [{', '.join(map(str, self.shape))}]")
        if self.range is not None:
            lines.append(f"range = [{self.range[0]!r}, {self.range[1]!r}]")
        elif self.kind in (None, "number", "array"):
            lines.append("# range = [0, 110]")
        if self.values is not None:
            lines.append(f"values = [{', '.join(map(toml_text, self.values))}]")
        elif self.kind in ("category", "ordinal"):
            lines.append('# values = ["f", "m"]')
        if self.source is not None:
            lines.append(f"source = {toml_text(self.source)}")
        return "\n".join(lines) + "\n"


def draft_of(
    files: Sequence[Path], format: TextFormat, *, public: Path | None = None, source: str = ""
) -> str:
    """Return a draft of the schema of some files, as TOML, in the order of their columns.

    Of each only the header or the footer is read.  `public` is a file whose records are published,
    as `source` says: kinds, ranges and values that are open are taken from it.  Raises
    `InvalidInput` for a file that cannot be read.
    """
    declared: dict[str, DraftColumn] = {}
    for path in files:
        for column in _declared(path, format):
            if declared.setdefault(column.name, column) != column:
                declared[column.name] = DraftColumn(column.name)  # two files say two things of it
    known = {} if public is None else _published(public, format, source)
    columns = [known.get(name, column) for name, column in declared.items()]
    return "\n".join([_HEAD, *(column.text() for column in columns)])


def _declared(path: Path, format: TextFormat) -> Iterator[DraftColumn]:
    """Yield the columns of a file, each with the kind that its footer declares, or with none."""
    file = opened(path, format)
    if isinstance(file, ArrayFile):
        for name in file.names:
            shape, header = file.shape_of(name), file.arrays.get(name)
            if header is None or not header.holds_numbers:  # a text, or what is not read
                yield DraftColumn(name)
                continue
            said = "array" if shape else "boolean" if header.dtype.kind == "b" else "number"
            yield DraftColumn(name, said, shape=shape or None)
        return
    if not isinstance(file, ArrowColumns):
        yield from map(DraftColumn, file.names)
        return
    types = arrow().types
    for name in file.names:
        kind = file.schema.field(name).type
        if types.is_boolean(kind):
            yield DraftColumn(name, "boolean")
        elif types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            yield DraftColumn(name, "number")
        else:
            yield DraftColumn(name)


def _published(path: Path, format: TextFormat, source: str) -> Mapping[str, DraftColumn]:
    """Return what a public file says of its columns."""
    file = opened(path, format)
    names = [name for name in file.names if file.is_flat(name)]
    batches = list(file.batches(columns=tuple(names))) if names else []
    columns = {}
    for name in names:
        cells = [batch.columns[name] for batch in batches]
        numbers = [numbers_of(part, format) for part in cells]
        words = {word for part in cells for word in texts_of(part)} - {"", *format.gaps}
        columns[name] = _column(name, numbers, words, source)
    return columns


def _column(name: str, numbers: list[Numbers], words: set[str], source: str) -> DraftColumn:
    values = np.concatenate([part.values for part in numbers] or [np.empty(0)])
    there = values[np.isfinite(values)]
    if not words:
        return DraftColumn(name, "ignored", source=source)
    if words <= {"true", "false"}:
        return DraftColumn(name, "boolean", source=source)
    within = len(there) >= len(words) and np.abs(there).max() <= LARGEST_END
    if within and there.min() < there.max():
        ends = float(there.min()), float(there.max())
        return DraftColumn(name, "number", range=ends, source=source)
    if len(words) > MOST_CATEGORIES:
        return DraftColumn(name, "ignored", source=source)
    return DraftColumn(name, "category", values=tuple(sorted(words)), source=source)
