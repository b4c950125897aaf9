"""What a run would prove to each observer, for a person and for a program; nothing is written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ..accountant import rounding
from . import describe
from .output import Report, plain, table

if TYPE_CHECKING:
    from ..fl.forecast import Change, Expected, Forecast


def is_run(path: str) -> bool:
    """Return whether a file is TOML with a table [run], as the configuration of a run is."""
    import tomllib

    try:
        with Path(path).open("rb") as file:
            return "run" in tomllib.load(file)
    except (OSError, ValueError, RecursionError):
        return False


def forecast_of(path: Path) -> Report:
    """Return the forecast of the run that a configuration describes.

    Raises as `privplan.fl.forecast.forecast`, and `InvalidInput` for a file that is none.
    """
    from ..fl.forecast import forecast
    from .run_folder import Source

    return report_of(forecast(Source.read(path).settings), path)


def report_of(found: Forecast, path: Path) -> Report:
    """Return a forecast in the three forms in which it can be printed."""
    claim = found.prepared.opening.claim
    (own,) = (one for one in found.observers if one.observer == claim.observer)
    return Report(
        result={
            "observers": [_row(one) for one in found.observers],
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
    )


def _row(one: Expected) -> dict[str, object]:
    return {
        "observer": one.observer,
        "epsilon": describe.ends(one.epsilon),
        "lowered_by": None if one.lowered_by is None else one.lowered_by.name,
        "lowered_to": None if one.lowered_by is None else one.lowered_by.epsilon,
    }


def _text(found: Forecast, path: Path) -> str:
    prepared = found.prepared
    data, claim = prepared.federation, prepared.opening.claim
    noise = "no noise"
    if found.noise_multiplier is not None:
        noise = f"noise multiplier {rounding.up(found.noise_multiplier)}"
    unit = "user (all records in all silos)" if claim.unit == "user" else claim.unit
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
    lines = [("before", "epsilon", "lowered most by")]
    lines += [
        (one.observer, _number(one.epsilon.upper), _said(one.lowered_by)) for one in found.observers
    ]
    widths = [max(len(line[place]) for line in lines) + 3 for place in (0, 1)]
    return "\n".join(
        f"{who:<{widths[0]}}{epsilon:<{widths[1]}}{change}".rstrip()
        for who, epsilon, change in lines
    )


def _number(epsilon: float) -> str:
    return rounding.up(epsilon) if math.isfinite(epsilon) else "no guarantee"


def _said(change: Change | None) -> str:
    if change is None:
        return "nothing here"
    return f"{change.name}: {rounding.up(change.epsilon)}"
