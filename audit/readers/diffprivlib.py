"""diffprivlib's budget: the list of what a `BudgetAccountant` spent, as JSON or as printed.

- JSON: [[epsilon, delta], ...]
- JSON of the accountant: {"epsilon", "delta", "slack", "spent_budget": [[epsilon, delta], ...]},
  and optionally "total": [epsilon, delta], which is what `total()` returns
- the text that Python prints: [(0.5, 0), (1.0, 1e-05)], or
  BudgetAccountant(epsilon=5, delta=1e-05, slack=0, spent_budget=[(0.5, 0), ...])

`epsilon` and `delta` of the accountant are its limits, so only `total` is a claim.  A printed list
that is cut off by `...` is refused.  The event composes all entries.
Versions: diffprivlib 0.4 to 0.6.  Source: diffprivlib, `BudgetAccountant`, read 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.events import Approximate, Compose, Event, Pure, Repeat
from ..description.printed_number import PrintedNumber
from ..description.run_description import Reading
from .content import (
    exact,
    exact_delta,
    json_of,
    known_fields,
    list_of,
    object_of,
    read_facts,
    text_of,
)

FORMAT: Final = "diffprivlib budget"
KEYS: Final = ("epsilon", "delta", "slack", "spent_budget", "total")

_NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf|nan"
_PAIR: Final = re.compile(
    rf"\(\s*(?:np\.\w+\()?({_NUMBER})\)?\s*,\s*(?:np\.\w+\()?({_NUMBER})\)?\s*\)"
)
_LIST_START: Final = re.compile(r"\[\s*\(")
_ACCOUNTANT: Final = re.compile(r"BudgetAccountant\((.*)\)", re.DOTALL)
_LIMIT: Final = re.compile(rf"\s*(epsilon|delta|slack)\s*=\s*({_NUMBER})\s*")

ALWAYS: Final = (
    "Each entry is what a mechanism was asked to spend; that it did so, with bounds that do not "
    "come from the data, is not in the list.",
    "The list has no neighbouring relation and no unit.",
)


def recognises(content: bytes, name: str) -> bool:
    """Return whether a content is a list of pairs, an accountant with one, or either printed."""
    del name
    value = json_of(content)
    if isinstance(value, dict):
        return "spent_budget" in value
    if isinstance(value, list):
        return bool(value) and all(_is_pair(item) for item in value)
    text = (text_of(content) or "").strip()
    return bool(_LIST_START.match(text) or text.startswith("BudgetAccountant("))


def read(content: bytes, name: str) -> Reading:
    """Return the event of all entries, and `total` as the claim where it is there."""
    value = json_of(content)
    table: Mapping[str, Any] = object_of(content) or (
        {"spent_budget": value} if isinstance(value, list) else _printed(text_of(content) or "")
    )
    known_fields(table, KEYS, "", "diffprivlib's accountant")
    spent = [
        _pair(item, f"spent_budget[{index}]")
        for index, item in enumerate(list_of(table["spent_budget"], "spent_budget"))
    ]
    doubts = list(ALWAYS)
    values: dict[str, object] = {"claim.library": "diffprivlib"}
    if table.get("total") is not None:
        epsilon, delta = _pair(table["total"], "total")
        values |= {
            "claim.epsilon": PrintedNumber(epsilon),
            "claim.delta": exact_delta(**{"total, delta": delta}),
        }
    if table.get("epsilon") is not None and table["epsilon"] != float("inf"):
        limit = exact(epsilon=table["epsilon"]).value
        doubts.append(f"The epsilon {limit:g} of the accountant is its limit; it is no claim.")
    if table.get("delta") is not None:
        validate.probability(delta=table["delta"])  # 1, its default, is no limit
    slack = validate.probability(slack=table.get("slack") or 0)
    if slack:
        doubts.append(
            f"The slack {slack:g} is a part of delta that the accountant spends on composing."
        )
    return Reading(name, FORMAT, read_facts(name, values), tuple(doubts), _composed(spent))


def _composed(spent: list[tuple[float, float]]) -> Event:
    events: list[Event] = []
    for (epsilon, delta), group in groupby(spent):
        event = Approximate(epsilon, delta) if delta else Pure(epsilon)
        count = len(list(group))
        events.append(Repeat(count, event) if count > 1 else event)
    return events[0] if len(events) == 1 else Compose(tuple(events))


def _is_pair(item: object) -> bool:
    return (
        isinstance(item, list)
        and len(item) == 2
        and all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in item)
    )


def _pair(item: object, where: str) -> tuple[float, float]:
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise InvalidInput(
            f"`{where}` must be a pair (epsilon, delta); it is {item!r:.60}.",
            "diffprivlib writes pairs.",
            "Check that the file is whole.",
        )
    epsilon = validate.non_negative(**{f"{where}, epsilon": item[0]})
    return epsilon, validate.probability(**{f"{where}, delta": item[1]})


def _printed(text: str) -> dict[str, Any]:
    """Return the fields of a printed list or accountant; refuse whatever else stands there."""
    text = text.strip()
    table: dict[str, Any] = {}
    accountant = _ACCOUNTANT.fullmatch(text)
    if accountant:
        before, _, text = accountant[1].partition("spent_budget=")
        for part in filter(str.strip, before.split(",")):
            limit = _LIMIT.fullmatch(part)
            if limit is None:
                raise _unreadable(part)
            table[limit[1]] = float(limit[2])
    text = text.strip() or "[]"
    if not (text.startswith("[") and text.endswith("]")):
        raise _unreadable(text)
    pairs, end = [], 1
    for pair in _PAIR.finditer(text):
        if text[end : pair.start()].strip(" \t\r\n,"):
            raise _unreadable(text[end : pair.start()])
        pairs.append((float(pair[1]), float(pair[2])))
        end = pair.end()
    if text[end:-1].strip(" \t\r\n,"):
        raise _unreadable(text[end:-1])
    return {**table, "spent_budget": pairs}


def _unreadable(text: str) -> InvalidInput:
    return InvalidInput(
        f"The printed budget has {text.strip()!r:.60} where a pair (epsilon, delta) belongs.",
        "A list that is cut off, or anything else than numbers, would leave out what was spent.",
        "Save list(accountant.spent_budget) as JSON.",
    )
