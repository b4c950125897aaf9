"""NVFlare's budgets of its sparse vector filter: meta of a DXO, as JSON.

`SVTPrivacy` puts two tables into a DXO's meta; they are looked for anywhere within four levels.

- `svt_privacy_budget`, of one call: {"accountant": "pure_dp_sum", "scope", "delta": 0, "round",
  "epsilon_total", "epsilon_threshold", "epsilon_query", "epsilon_release", "n_upload",
  "acceptance_passes", "has_scalar_passthrough", "note"}
- `svt_privacy_accountant`, of all calls until then: {"accountant", "scope", "delta",
  "epsilon_total", "calls", "latest_round", "note"}

The claim is `epsilon_total` of the latest sum, or of the one call where no sum is there.  The
event is made of what each call drew its noise with: threshold, query and release.  It rests on
the filter's statement that each of these parts is pure.

Versions: NVFlare 2.9, accountant `pure_dp_sum`; others are refused.
Source: nvflare, filter `SVTPrivacy`, read 2026.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.events import Compose, Event, NoGuarantee, Pure, Repeat
from ..description.printed_number import PrintedNumber
from ..description.run_description import Reading
from .content import (
    checked_field,
    exact,
    field_of,
    json_of,
    known_fields,
    read_facts,
    table_of,
    word_of,
)

FORMAT: Final = "NVFlare budget of the sparse vector filter"
BUDGET: Final = "svt_privacy_budget"
SUM: Final = "svt_privacy_accountant"
DEPTH: Final = 4
"""Levels below the top of the JSON that are searched."""

PARTS: Final = ("epsilon_threshold", "epsilon_query", "epsilon_release")
SHARED: Final = ("accountant", "scope", "delta", "epsilon_total", "note")
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    BUDGET: (
        *SHARED,
        *PARTS,
        "round",
        "n_upload",
        "acceptance_passes",
        "has_scalar_passthrough",
    ),
    SUM: (*SHARED, "calls", "latest_round"),
}

ALWAYS: Final = (
    "The budget covers what one client's filter sent, as a whole: it says nothing of the unit, or "
    "of how much one record moves an update.",
    "That each part is pure rests on the filter's word; its values are clipped only after they "
    "were divided by the number of local steps.",
    "The filter looks at whole passes before it counts, so more answers than n_upload may lie "
    "above the threshold; the proof of the sparse vector technique stops at n_upload.",
)


def recognises(content: bytes, name: str) -> bool:
    """Return whether a JSON content holds such a budget within the levels that are searched."""
    del name
    return any(True for _ in _tables(json_of(content)))


def read(content: bytes, name: str) -> Reading:
    """Return the claim, and the event of the calls that the file shows."""
    budgets: list[Mapping[str, Any]] = []
    sums: list[Mapping[str, Any]] = []
    for where, key, value in _tables(json_of(content)):
        table = table_of(value, where)
        _check(table, where, FIELDS[key])
        (budgets if key == BUDGET else sums).append(table)
    _check_one_client(budgets, sums)
    calls = [_call(table, f"{BUDGET}[{index}]") for index, table in enumerate(budgets)]
    latest = max(sums, key=_count, default=None)
    event, doubts = _event(calls, latest)
    claim = _claim(calls, budgets, latest)
    if any(table.get("has_scalar_passthrough") for table in budgets) or any(
        table.get("note") for table in sums
    ):
        doubts.append(
            "Scalar parameters passed the filter without noise (has_scalar_passthrough); the "
            "budget leaves them out."
        )
        unprotected = NoGuarantee("scalar parameters are sent without noise")
        event = Compose((event, unprotected)) if event else unprotected
    if any("acceptance_passes" in table for table in budgets):
        doubts.append(
            "acceptance_passes is information from before the noise: whoever reads the meta "
            "learns more than the budget covers."
        )
    values: dict[str, object] = {
        "claim.epsilon": claim,
        "claim.delta": 0.0,
        "claim.library": "nvflare",
        "claim.accountant": "pure_dp_sum",
        "noise.family": "pure",
    }
    return Reading(name, FORMAT, read_facts(name, values), (*ALWAYS, *doubts), event)


def _tables(value: object, where: str = "", depth: int = 0) -> Iterator[tuple[str, str, object]]:
    """Yield the tables with their paths and keys; nothing is looked for inside of them."""
    if depth > DEPTH:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            path = f"{where}.{key:.40}" if where else f"{key:.40}"
            if key in FIELDS:
                yield path, key, item
            else:
                yield from _tables(item, path, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _tables(item, f"{where}[{index}]", depth + 1)


def _check(table: Mapping[str, Any], where: str, fields: tuple[str, ...]) -> None:
    known_fields(table, fields, where, "NVFlare's budget")
    word_of(field_of(table, "accountant", where), {"pure_dp_sum": True}, f"{where}.accountant")
    delta = checked_field(validate.probability, table, "delta", where)
    if delta != 0:
        raise InvalidInput(
            f"`{where}.delta` is {delta:g}, and `pure_dp_sum` is a sum of pure guarantees.",
            "A delta above 0 contradicts the accountant that the file names.",
            "Check that nobody edited the file.",
        )


def _check_one_client(budgets: list[Mapping[str, Any]], sums: list[Mapping[str, Any]]) -> None:
    for tables, field in ((budgets, "round"), (sums, "calls")):
        values = [table[field] for table in tables if table.get(field) is not None]
        if len(set(map(repr, values))) < len(values):
            raise InvalidInput(
                f"Two budgets in the file have the same `{field}`.",
                "They are of different clients, or one is there twice; their sum would be the "
                "budget of nobody.",
                "Give one file for each client.",
            )


def _call(table: Mapping[str, Any], where: str) -> Event:
    parts = [validate.positive(**{f"{where}.{part}": table.get(part)}) for part in PARTS]
    total = validate.positive(**{f"{where}.epsilon_total": table.get("epsilon_total")})
    if not math.isclose(sum(parts), total, rel_tol=1e-9):
        raise InvalidInput(
            f"`{where}` has the parts {', '.join(f'{part:g}' for part in parts)}, and "
            f"`epsilon_total` is {total:g}.",
            "The total of a call is the sum of its three parts.",
            "Check that nobody edited the file.",
        )
    if not isinstance(table.get("has_scalar_passthrough", False), bool):
        raise InvalidInput(
            f"`{where}.has_scalar_passthrough` must be true or false.",
            "It says whether parameters were sent without noise.",
            "Check that nobody edited the file.",
        )
    return Compose(tuple(Pure(part) for part in parts))


def _count(table: Mapping[str, Any]) -> int:
    return validate.count(**{f"{SUM}.calls": table.get("calls")})


def _event(calls: list[Event], latest: Mapping[str, Any] | None) -> tuple[Event | None, list[str]]:
    """Return the event of all calls, and what is doubtful about it."""
    if latest is None:
        shown = Compose(tuple(calls)) if len(calls) > 1 else calls[0]
        return shown, [
            "The file has no svt_privacy_accountant: calls of other rounds, if there were any, "
            "are not in the claim."
        ]
    count = _count(latest)
    if len(calls) == count:
        return Compose(tuple(calls)), []
    total = exact(**{f"{SUM}.epsilon_total": latest.get("epsilon_total")}).value
    each = _total(calls[0]) if len(calls) == 1 else math.nan
    if math.isclose(each * count, total, rel_tol=1e-9):
        return Repeat(count, calls[0]), [
            f"One of {count:,} calls is in the file; the others are taken for equal, since "
            "the sum fits."
        ]
    return None, [
        f"The sum is over {count:,} calls, and the file shows {len(calls):,}: what the others "
        "drew their noise with is not known."
    ]


def _total(call: Event) -> float:
    assert isinstance(call, Compose)
    return sum(part.epsilon for part in call.events if isinstance(part, Pure))


def _claim(
    calls: list[Event], budgets: list[Mapping[str, Any]], latest: Mapping[str, Any] | None
) -> PrintedNumber | None:
    if latest is not None:
        total = latest.get("epsilon_total")
        return PrintedNumber(validate.positive(**{f"{SUM}.epsilon_total": total}))
    return exact(epsilon_total=budgets[0]["epsilon_total"]) if len(calls) == 1 else None
