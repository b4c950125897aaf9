"""Files of ratings, and public lists of what may be rated: read line by line, and checked.

A file is MovieLens' `u.data` (user, item, rating, timestamp, with tabs between them and no header)
or a CSV file with a header.  Errors name the line and the range, and never a user or a rating.
"""

from __future__ import annotations

import csv
import io
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from .files import content, expanded, text

_HEADINGS: Final = {
    "users": ("userid", "user"),
    "films": ("movieid", "movie", "itemid", "item", "filmid", "film"),
    "ratings": ("rating",),
}
"""What the column of each may be called, in small letters and without anything between words."""

_TAB_FIELDS: Final = 4
"""Fields of a line of `u.data`; the last is when the rating was given, and is not read."""


@dataclass(frozen=True, eq=False)
class RatingLines:
    """The ratings of a file in its order.

    `users`, `films`: names, each once.  `user`, `film`: (ratings,) int64, indices into them.
    `value`: (ratings,) float32.  `line`: (ratings,) int64, where each stands, from 1.
    """

    users: tuple[str, ...]
    films: tuple[str, ...]
    user: IntArray
    film: IntArray
    value: Float32Array
    line: IntArray


def rating_lines(path: str | Path, largest: float) -> RatingLines:
    """Return the ratings of a file; each is above 0 and at most `largest`.

    Raises `InvalidInput`, with the line, for a file that is missing, is no text, or has no ratings,
    for a header that lacks a column, a line of another length, an empty name, and a rating that is
    no number or out of range.
    """
    file = expanded(path)
    lines = _lines(file)
    number, first = next(lines, (1, []))
    if not first:
        raise _empty(file)
    if len(first) == 1 and "\t" in first[0]:
        places: tuple[int, ...] = (0, 1, 2)
        fields, rest = _TAB_FIELDS, _with_tabs(first, number, lines)
    else:
        places = _places(file, first)
        fields, rest = len(first), lines
    users, films = dict[str, int](), dict[str, int]()
    user, film, line, value = array("q"), array("q"), array("q"), array("d")
    for number, row in rest:
        if len(row) != fields:
            raise InvalidInput(
                f"Line {number} of {file.name} has {_fields(len(row))}; each must have {fields}.",
                "A line that is cut off or joined with another is no rating.",
                "Fetch the file again, or repair the line.",
            )
        user_id, film_id, said = (row[field].strip() for field in places)
        if not user_id or not film_id:
            raise InvalidInput(
                f"Line {number} of {file.name} names no user or no film.",
                next_step="Repair the line, or leave it out.",
            )
        value.append(_rating(file, number, said, largest))
        user.append(users.setdefault(user_id, len(users)))
        film.append(films.setdefault(film_id, len(films)))
        line.append(number)
    if not user:
        raise _empty(file)
    return RatingLines(
        users=tuple(users),
        films=tuple(films),
        user=np.array(user, np.int64),
        film=np.array(film, np.int64),
        value=np.array(value, np.float32),
        line=np.array(line, np.int64),
    )


def listed_films(path: str | Path) -> tuple[str, ...]:
    """Return the films of a public list in its order: one a line, or the first column of a CSV.

    A first line that is a heading, such as `movieId`, is left out.  Raises `InvalidInput` for a
    file that is missing, is no text or lists nothing, and for a film that is listed twice.
    """
    file = expanded(path)
    films = dict[str, int]()
    for number, row in _lines(file, "columns"):
        name = row[0].strip() if row else ""
        if number == 1 and _plain(name) in _HEADINGS["films"]:
            continue
        if not name:
            raise InvalidInput(
                f"Line {number} of {file.name} names no film.",
                next_step="Write the name of one film on each line.",
            )
        if name in films:
            raise InvalidInput(
                f"Line {number} of {file.name} lists a film again that line {films[name]} lists.",
                "Each film is one column.",
                "Leave one of them out.",
            )
        films[name] = number
    if not films:
        raise InvalidInput(f"{file.name} lists no film.", next_step="List one film or more.")
    return tuple(films)


def _lines(file: Path, field: str = "path") -> Iterator[tuple[int, list[str]]]:
    """Yield each line's number and fields, apart by commas; empty lines at the end are no lines."""
    # `strict`, so that a quote that is never closed does not swallow the rest of the file.
    reader = csv.reader(io.StringIO(text(file, content(file, field)).rstrip("\r\n")), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error:
        raise InvalidInput(
            f"Line {reader.line_num} of {file.name} is no line of a CSV file.",
            next_step="Give a CSV file, unpacked, or MovieLens' `u.data`.",
        ) from None


def _with_tabs(
    first: list[str], number: int, rest: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    yield number, ",".join(first).split("\t")
    for line, row in rest:
        yield line, ",".join(row).split("\t")


def _places(file: Path, header: Sequence[str]) -> tuple[int, ...]:
    """Return where users, films and ratings stand; raise `InvalidInput` where one is missing."""
    plain = [_plain(name) for name in header]
    return tuple(_place(file, what, header, plain) for what in _HEADINGS)


def _place(file: Path, what: str, header: Sequence[str], plain: Sequence[str]) -> int:
    known = _HEADINGS[what]
    columns = [column for column, name in enumerate(plain) if name in known]
    if len(columns) > 1:
        raise InvalidInput(
            f"The header of {file.name} has {len(columns)} columns of {what}.",
            next_step="Keep one of them.",
        )
    if columns:
        return columns[0]
    # A line with a digit in it may be no header but somebody's rating: none of it is repeated.
    words = plain if all(name.isalpha() for name in plain) else []
    near = nearest(known[0], words)
    raise InvalidInput(
        f"The header of {file.name} has no column of {what}, such as {' or '.join(known[:2])}.",
        "Columns are known by the names in the first line.",
        f"Did you mean {header[plain.index(near)].strip()}?  Rename it."
        if near
        else "Give a CSV file, with commas between fields and a header such as "
        "userId,movieId,rating; or MovieLens' `u.data`, with tabs.",
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _rating(file: Path, number: int, said: str, largest: float) -> float:
    """Return a rating as float32 holds it, in (0, largest]; the message does not repeat it."""
    # Python reads 1_0 as 10, and no other program does.
    if _is_number(said) and "_" not in said:
        with np.errstate(over="ignore"):
            value = float(np.float32(float(said)))
        if 0.0 < value <= largest:
            return value
    raise InvalidInput(
        f"Line {number} of {file.name} has a rating that is no number above 0 and at most "
        f"{largest:g}.",
        "What is larger than the public range would count for more than it may, and 0 stands for "
        "a film that was not rated.",
        "Repair the line, or say the range of this file: `largest_rating` under [data].",
    )


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


def _empty(file: Path) -> InvalidInput:
    return InvalidInput(
        f"{file.name} holds no ratings.",
        next_step="Give a CSV file with a header, or MovieLens' `u.data`.",
    )
