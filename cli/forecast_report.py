"""What a run would prove to each observer, for a person and for a program; nothing is written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ..accountant import rounding
from . import describe
from .output import Report, paragraph, plain, table
from .plan_source import LIMIT

if TYPE_CHECKING:
    from ..fl.running.forecast import Change, Forecast, ObserverForecast


def is_run(path: str) -> bool:
    """Return whether a file is TOML with a table [run], as the configuration of a run is."""
    import tomllib

    try:
        with Path(path).open("rb") as file:
            return "run" in tomllib.loads(file.read(LIMIT + 1).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False


def forecast_of(path: Path, *, accept_delta: bool = False) -> Report:
    """Return the forecast of the run that a configuration describes.

    `accept_delta`: as if the configuration accepted a delta of 1 / units or more.  Raises as
    `privplan.fl.running.forecast.forecast`, and `InvalidInput` for a file that is none.
    """
    from ..fl.running import plan_run

    return report_of(plan_run(path, accept_delta=accept_delta), path)


def report_of(found: Forecast, path: Path) -> Report:
    """Return a forecast in the three forms in which it can be printed."""
    from ..fl.running.warnings import warnings_of

    claim = found.prepared.opening.claim
    (own,) = (one for one in found.observers if one.observer == claim.observer)
    return Report(
        result={
            "observers": [_row(found, expected) for expected in found.observers],
            "noise_multiplier": found.noise_multiplier,
            "rounds": found.rounds,
            "delta": claim.delta,
            "unit": claim.unit,
            "neighbours": claim.neighbours,
            "observer": claim.observer,
            "system": found.prepared.system.name,
        },
        text=_text(found, path),
        number=rounding.bare(own.epsilon.upper),
        warnings=warnings_of(found.prepared),
    )


def _row(found: Forecast, expected: ObserverForecast) -> dict[str, object]:
    from ..fl.observers.names import observer_fields

    change = expected.lowered_by
    return {
        **observer_fields(expected.observer, found.prepared.settings.security.dropouts),
        "epsilon": describe.ends(expected.epsilon),
        "rests_on": list(expected.rests_on),
        "lowered_by": None if change is None else change.name,
        "lowered_to": None if change is None else change.epsilon,
    }


def _text(found: Forecast, path: Path) -> str:
    from ..fl.observers.words import unit_before

    prepared = found.prepared
    data, claim = prepared.federation, prepared.opening.claim
    noise = "no noise"
    if found.noise_multiplier is not None:
        noise = f"noise multiplier {rounding.up(found.noise_multiplier)}"
    unit = unit_before(claim.observer, claim.unit)
    rounds = f"{found.rounds:,} round{'s' if found.rounds != 1 else ''}"
    head = [
        (
            "plans",
            f"{prepared.system.name} on {data.name}: {rounds}, {data.users:,} users, "
            f"{data.silos:,} silos, {noise}",
        ),
        (
            "hides",
            f"{describe.change(claim.neighbours, unit)}, at delta {rounding.as_given(claim.delta)}",
        ),
    ]
    tail = [("writes", "nothing"), ("next", f"privplan run {plain(str(path))} --out DIR")]
    return "\n\n".join([table(head), _observers(found), table(tail)])


def _observers(found: Forecast) -> str:
    """Return a line for each observer, and below it who it is and what its number rests on."""
    lines = [("before", "epsilon", "lowered most by")]
    lines += [(one.observer, _number(one), _said(one.lowered_by)) for one in found.observers]
    wide, narrow = (max(len(line[place]) for line in lines) + 3 for place in (0, 1))
    text = [f"{who:<{wide}}{number:<{narrow}}{said}" for who, number, said in lines]
    below = [""] + [_below(found, expected, " " * wide) for expected in found.observers]
    return "\n".join(part for pair in zip(text, below, strict=True) for part in pair if part)


def _below(found: Forecast, expected: ObserverForecast, indent: str) -> str:
    who = paragraph(indent, _who(found, expected.observer))
    if math.isinf(expected.epsilon.upper):
        reason = describe.no_guarantee(found.prepared.plan.seen_by(expected.observer))
        return who if reason is None else f"{who}\n{paragraph(f'{indent}because ', reason)}"
    if not expected.rests_on:
        return who
    return f"{who}\n{paragraph(f'{indent}rests on: ', '; '.join(expected.rests_on))}"


def _who(forecast: Forecast, observer: str) -> str:
    """Return an observer in words, with what it sees."""
    from ..fl.observers.names import SILO_WITH_RECORDS, coalition_of
    from ..fl.observers.words import in_a_run, phrase

    prepared = forecast.prepared
    if coalition_of(observer) is not None:
        return phrase(observer, prepared.settings.security.dropouts)
    apart = SILO_WITH_RECORDS in prepared.plan.guarantees or prepared.opening.claim.group > 1
    return in_a_run(observer, prepared.opening.aggregation, told_apart=apart)


def _number(expected: ObserverForecast) -> str:
    upper = expected.epsilon.upper
    return rounding.up(upper) if math.isfinite(upper) else "no guarantee"


def _said(change: Change | None) -> str:
    if change is None:
        return "nothing here"
    return f"{change.name}: {rounding.up(change.epsilon)}"
