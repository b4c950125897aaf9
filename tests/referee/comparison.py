"""What differs between two answers, field by field: numbers by value, words letter by letter."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

CLOSE: Final = 1e-9
"""Relative difference of the same number on two processors."""

SHOWN_CHARACTERS: Final = 200
"""Characters of a value that a line shows."""

Way = Literal["outwards", "inwards", "changed", "missing", "new"]
"""How an answer differs.

An upper end that rises, or a lower end that falls, moves outwards: less is proven.  An upper end
that falls, or a lower end that rises, moves inwards, which needs a proof.  Any other value has
changed, a field that was there is missing, or one that was not is new.
"""

_TOKEN: Final = re.compile(
    r"(?P<number>(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d)\.?)"
    r"(?:[eE][-+]?\d+)?(?![\w]))"
    r"|(?P<word>\w+|\n|[^\s\w])"
)
"""A number, or else a word, an end of a line, or a sign."""


@dataclass(frozen=True)
class Difference:
    """One difference: the case, the field of its answer, what is kept of it, and what it is now."""

    case: str
    field: str
    golden: object
    now: object
    way: Way

    def line(self) -> str:
        """Return the difference as one line for a person."""
        return (
            f"{self.way:<8}  {self.case}  {self.field or '(answer)'}: "
            f"{_shown(self.golden)} -> {_shown(self.now)}"
        )


def differences(case: str, golden: object, now: object) -> list[Difference]:
    """Return every difference between the answer that is kept of a case and the one of now."""
    return list(_differences(case, "", golden, now))


def tokens(text: str) -> list[str | float]:
    """Return the numbers of a text as numbers, and all else as words, signs and ends of lines.

    >>> tokens("epsilon 1,829.5 at 1e-05, round_3")
    ['epsilon', 1829.5, 'at', 1e-05, ',', 'round_3']
    """
    found: list[str | float] = []
    for match in _TOKEN.finditer(text):
        number = match["number"]
        found.append(match["word"] if number is None else float(number.replace(",", "")))
    return found


def _differences(case: str, field: str, golden: object, now: object) -> Iterator[Difference]:
    if isinstance(golden, dict) and isinstance(now, dict):
        for key in [*golden, *(key for key in now if key not in golden)]:
            inner = f"{field}.{key}" if field else str(key)
            if key not in now:
                yield Difference(case, inner, golden[key], None, "missing")
            elif key not in golden:
                yield Difference(case, inner, None, now[key], "new")
            else:
                yield from _differences(case, inner, golden[key], now[key])
    elif isinstance(golden, list) and isinstance(now, list):
        for index in range(max(len(golden), len(now))):
            inner = f"{field}[{index}]"
            if index >= len(now):
                yield Difference(case, inner, golden[index], None, "missing")
            elif index >= len(golden):
                yield Difference(case, inner, None, now[index], "new")
            else:
                yield from _differences(case, inner, golden[index], now[index])
    elif not same_value(golden, now):
        yield Difference(case, field, golden, now, _way(field, golden, now))


def same_value(golden: object, now: object) -> bool:
    """Return whether two values are the same: numbers to `CLOSE`, and so the numbers in texts."""
    if _is_number(golden) and _is_number(now):
        return _close(float(golden), float(now))  # type: ignore[arg-type]
    if isinstance(golden, str) and isinstance(now, str):
        return golden == now or _same_text(tokens(golden), tokens(now))
    return type(golden) is type(now) and golden == now


def _same_text(golden: list[str | float], now: list[str | float]) -> bool:
    return len(golden) == len(now) and all(
        _close(one, other)
        if isinstance(one, float) and isinstance(other, float)
        else type(one) is type(other) and one == other
        for one, other in zip(golden, now, strict=True)
    )


def _close(golden: float, now: float) -> bool:
    if math.isnan(golden) or math.isnan(now):
        return math.isnan(golden) and math.isnan(now)
    return golden == now or math.isclose(golden, now, rel_tol=CLOSE, abs_tol=0.0)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _way(field: str, golden: object, now: object) -> Way:
    end = field.rpartition(".")[2]
    before, after = _end(golden), _end(now)
    if end not in ("upper", "lower") or before is None or after is None:
        return "changed"
    rises = after > before
    return "outwards" if rises == (end == "upper") else "inwards"


def _end(value: object) -> float | None:
    """Return the end of an interval as a number; JSON has infinity as a text."""
    if _is_number(value):
        return float(value)  # type: ignore[arg-type]
    return {"inf": math.inf, "-inf": -math.inf}.get(value) if isinstance(value, str) else None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " ..."
