"""Files of events, and of curves: bounds on delta by epsilon and on R by order.

A curve that `privplan account --curve` wrote has the header `kind,x,lower,upper,neighbours`, one
row for each point: `privacy-profile` (x is epsilon, the bounds are on delta) or `renyi` (x is an
order, the bounds are on R, in nats).  A Renyi curve from elsewhere has the header `order,value`,
or other names of the two, such as `alpha,epsilon`; columns may be parted by semicolons or tabs, and
lines that begin with # are comments.  Either is read as an event of the type `renyi`.
"""

from __future__ import annotations

import csv
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from ...accountant.neighbours import NEIGHBOURS
from ...accountant.regular_file import first_bytes, first_bytes_given

if TYPE_CHECKING:
    from ...accountant.events import Event


MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Most bytes that are read as an event."""

EVENT_EXAMPLE: Final = (
    """echo '{"type": "gaussian", "noise_multiplier": 1}' | privplan account - --delta 1e-5"""
)


def read_event(source: str) -> Event:
    """Return the event in the file `source`, or on standard input if it is `-`.

    Raises `InvalidInput`, which names the source, for whatever cannot be read as an event.
    """
    from ...accountant.events import from_json

    name = "Standard input" if source == "-" else f"The file {source!r}"
    try:
        content = _read_stream() if source == "-" else first_bytes_given(source, MAX_EVENT_BYTES)
    except IsADirectoryError:
        is_run = (Path(source) / "log.jsonl").is_file()
        raise InvalidInput(
            f"{source!r} is a directory.",
            "An event is one JSON file." if not is_run else "It is what a run left, and no event.",
            f"privplan audit budget {shlex.quote(source)}"
            if is_run
            else "Name the file in it that is meant.",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"{name} cannot be read: {reason}.",
            "An event is read from a JSON file, or from standard input if it is `-`.",
            f"Check the path, or try: {EVENT_EXAMPLE}",
        ) from None
    if len(content) > MAX_EVENT_BYTES:
        raise InvalidInput(
            f"{name} is larger than {MAX_EVENT_BYTES // 1024**2} MiB.",
            "An event is a short description, not the data.",
            "Write equal steps as one `repeat`.",
        )
    try:
        # Some editors put a byte order mark in front of UTF-8.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name} is not UTF-8 text (byte {error.start}).",
            "An event is JSON, and JSON is UTF-8.",
            "Save the file as UTF-8.",
        ) from None
    if not text.strip():
        raise InvalidInput(
            f"{name} is empty.", "There is no event to account for.", f"Try: {EVENT_EXAMPLE}"
        )
    try:
        return from_json(text)
    except InvalidInput as error:
        raise InvalidInput(
            f"{name}: {error.what}", error.why, _next_step(source, text, error.next_step)
        ) from None


def _next_step(source: str, text: str, step: str) -> str:
    """Return what to do next about a text that is no event."""
    # Whoever misspells an event's field has a type in it; everything else is another kind of file.
    if '"type"' in text:
        return step or f"Try: {EVENT_EXAMPLE}"
    named = shlex.quote(source)
    return f"For another library's file, or a description of a run: privplan check {named}"


def names_event(word: str) -> bool:
    """Return whether `word` is a path (it exists or ends in .json or .csv) or `-`."""
    if word == "-" or word.lower().endswith((".json", ".csv")):
        return True
    try:
        return Path(word).exists()
    except (OSError, ValueError):
        return False


def _read_stream() -> bytes:
    if sys.stdin is None:
        return b""
    return sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)


CURVE_HEADER: Final = ("kind", "x", "lower", "upper", "neighbours")
LISTED_HEADER: Final = ("order", "value")
ORDER_NAMES: Final = ("order", "orders", "alpha", "alphas")
VALUE_NAMES: Final = ("value", "values", "rdp", "rdps", "renyi", "divergence", "epsilon", "eps")
"""What a curve from elsewhere may call its columns: R at an order is its epsilon there."""

SEPARATORS: Final = ",;\t"
PROFILE_KIND: Final = "privacy-profile"
RENYI_KIND: Final = "renyi"

MAX_CURVE_BYTES: Final = 8 * 1024 * 1024
"""Most bytes that are read as a curve."""

CURVE_EXAMPLE: Final = "privplan account EVENT.json --delta 1e-5 --curve curve.csv"


def names_curve(source: str) -> bool:
    """Return whether a source of an event is a file of a curve, by its name."""
    return source.lower().endswith(".csv")


def read_curve(source: str, neighbours: str) -> Event:
    """Return the Renyi curve in the file `source` as an event, for the relation it holds for.

    Raises `InvalidInput` for what cannot be read, is no curve, or is one of another relation.
    """
    from ...accountant.events import Renyi

    lines = _lines(source)
    (_, first), *rows = lines
    header = tuple(field.strip().lower() for field in first)
    columns = _listed_columns(header)
    if header == CURVE_HEADER or columns is not None:
        _refuse_more_columns(source, len(header), rows)
    if header == CURVE_HEADER:
        points = _written_points(source, rows, neighbours)
    elif columns is not None:
        order, value = columns
        points = [
            (_number(source, line, row, order), _number(source, line, row, value))
            for line, row in rows
        ]
    else:
        raise _refusal(
            source,
            "its first line names no columns of a curve",
            f"A curve begins with {','.join(LISTED_HEADER)!r} or {','.join(CURVE_HEADER)!r}.",
            f"Make the first line {','.join(LISTED_HEADER)}"
            + (", above the numbers." if _are_numbers(first) else ", and keep these two columns."),
        )
    finite = [(order, value) for order, value in points if value < math.inf]
    if not finite:
        raise _refusal(source, "no order has a finite value", "Nothing would be known of it.")
    try:
        return Renyi(tuple(order for order, _ in finite), tuple(value for _, value in finite))
    except InvalidInput as error:
        raise InvalidInput(
            f"The file {source!r}: {error.what}", error.why, error.next_step
        ) from None


def require_replaceable(path: Path) -> bool:
    """Return whether an earlier curve is in the way; raise `InvalidInput` for anything else."""
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(
            f"{path} cannot be written: it is a folder, or its folder does not exist.",
            "A curve is one file.",
            CURVE_EXAMPLE,
        )
    exists = path.exists() or path.is_symlink()
    if exists and not _holds_curve(path):
        raise InvalidInput(
            f"{path} is there, and is no curve.",
            "It is not written over: what is in it would be lost.",
            "Give another file.",
        )
    if not names_curve(str(path)):
        raise InvalidInput(
            f"{path} cannot be written: a curve is a file whose name ends with .csv.",
            "By that name it is known for a curve where it is read.",
            CURVE_EXAMPLE,
        )
    return exists


def _holds_curve(path: Path) -> bool:
    first = ",".join(CURVE_HEADER).encode()
    return (
        path.is_file()
        and not path.is_symlink()
        and first_bytes(str(path), len(first)).startswith(first)
    )


def read_released(source: str, neighbours: str) -> Event:
    """Return the event in a file: a Renyi curve where it is a .csv file, else JSON."""
    return read_curve(source, neighbours) if names_curve(source) else read_event(source)


_Line = tuple[int, list[str]]
"""The number of a line in its file, and its fields."""


def _lines(source: str) -> list[_Line]:
    try:
        content = first_bytes_given(source, MAX_CURVE_BYTES)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise _refusal(source, f"it cannot be read: {reason}", "A curve is a CSV file.") from None
    if len(content) > MAX_CURVE_BYTES:
        raise _refusal(source, f"it is larger than {MAX_CURVE_BYTES // 1024**2} MiB", "")
    # A comment becomes an empty line, so that lines keep their numbers.
    kept = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    opening = next((line for line in kept if line.strip()), "")
    separator = next((mark for mark in opening if mark in SEPARATORS), ",")
    reader = csv.reader(kept, strict=True, delimiter=separator)
    try:
        lines = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise _refusal(source, f"it is no CSV file ({error})", "") from None
    if len(lines) < 2:
        raise _refusal(source, "it has no rows", "A curve has one row for each order.")
    return lines


def _listed_columns(header: Sequence[str]) -> tuple[int, int] | None:
    """Return in which of two columns the orders and the values are; None for another header."""
    for order, value in ((0, 1), (1, 0)):
        if len(header) == 2 and header[order] in ORDER_NAMES and header[value] in VALUE_NAMES:
            return order, value
    return None


def _are_numbers(fields: Sequence[str]) -> bool:
    try:
        [float(field) for field in fields]
    except ValueError:
        return False
    return True


def _refuse_more_columns(source: str, columns: int, rows: Sequence[_Line]) -> None:
    """Raise `InvalidInput` for a row with a field that the header does not name."""
    for number, row in rows:
        if len(row) > columns:
            raise _refusal(
                source,
                f"line {number} has {len(row)} columns, and the header names {columns}",
                "A decimal comma makes two fields of one number.",
                "Write numbers with a decimal point, and no other columns.",
            )


def _written_points(
    source: str, rows: Sequence[_Line], neighbours: str
) -> list[tuple[float, float]]:
    points = []
    relations: dict[str, int] = {}
    for number, row in rows:
        if row[0] != RENYI_KIND:
            continue
        points.append((_number(source, number, row, 1), _number(source, number, row, 3)))
        if _number(source, number, row, 2) > points[-1][1]:
            raise _refusal(
                source,
                f"line {number} has a lower end above its upper end",
                "One of them is wrong, so neither is taken.",
            )
        held = row[4] if len(row) >= len(CURVE_HEADER) else "nothing"
        relations.setdefault(held, number)
    for held, number in relations.items():
        if held != neighbours:
            # Only a file that holds for one known relation can be asked about with it.
            usable = held in NEIGHBOURS and len(relations) == 1
            raise _refusal(
                source,
                f"line {number} holds for {held}, and {neighbours} was asked",
                "A divergence between other neighbours may be larger.",
                f"Ask with --neighbours {held}."
                if usable
                else f"Give a file whose rows all hold for {neighbours}.",
            )
    return points


def _number(source: str, line: int, row: Sequence[str], column: int) -> float:
    try:
        # Python reads 1_0 as 10, and nobody else does.
        number = math.nan if "_" in row[column] else float(row[column])
    except (IndexError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise _refusal(
            source,
            f"line {line}, column {column + 1} is no number",
            "",
            "Write numbers with a decimal point." if "," in ";".join(row) else "",
        )
    return number


def _refusal(source: str, reason: str, why: str, step: str = "") -> InvalidInput:
    return InvalidInput(
        f"The file {source!r} is no Renyi curve: {reason}.",
        why or "A Renyi curve has an order and a value, 0 or above, in each row.",
        step or f"Write one with: {CURVE_EXAMPLE}",
    )
