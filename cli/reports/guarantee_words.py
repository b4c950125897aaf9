"""Guarantees in words and in JSON: what is proven, how closely, by which engine and which steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, Literal

from ...accountant import rounding
from ...fl.observers.words import phrase as whom
from ..terminal.output import paragraph, table
from .assumption_words import change
from .event_words import phrase

if TYPE_CHECKING:
    from ...accountant.bound_routes import Route
    from ...accountant.calibration_aims import Calibration
    from ...accountant.events import Event
    from ...accountant.guarantee import Bounds, Guarantee

PROVEN_FOR: Final = ("neighbours", "engine", "unit", "observer")
"""What a guarantee says of its numbers, as JSON names it."""

Quantity = Literal["epsilon", "delta"]
"""Which of the two numbers a person asked for; the other one was given."""

_ENGINE_NAMES: Final[Mapping[str, str]] = {
    "rdp": "RDP",
    "pld": "PLD",
    "gdp": "GDP",
    "blanket": "the privacy blanket",
    "pure": "largest losses",
    "google": "Google's dp_accounting",
    "microsoft": "Microsoft's prv_accountant",
}


def engine(name: str) -> str:
    """Return how a person calls an engine."""
    return _ENGINE_NAMES.get(name, name)


def facts(found: object, *names: str) -> dict[str, object]:
    """Return fields of a result as JSON has them: bounds with their two ends, unrounded.

    >>> from ...accountant.guarantee import Bounds
    >>> facts(Bounds(1.0, 2.5), "lower", "gap")
    {'lower': 1.0, 'gap': 1.5}
    """
    from ...accountant.guarantee import Bounds

    values = {name: getattr(found, name) for name in names}
    return {
        name: ends(value) if isinstance(value, Bounds) else value for name, value in values.items()
    }


def ends(bounds: Bounds) -> dict[str, float]:
    """Return the JSON of two ends, unrounded."""
    return {"lower": bounds.lower, "upper": bounds.upper}


def guarantee_json(guarantee: Guarantee, quantity: Quantity) -> dict[str, object]:
    """Return the JSON result of `account`.

    `epsilon` always has two ends; `delta` is a number, unless it is what was asked for.
    """
    return {
        "epsilon": ends(guarantee.epsilon),
        "delta": ends(guarantee.delta) if quantity == "delta" else guarantee.delta.upper,
        **facts(guarantee, *PROVEN_FOR, "lower_of_class"),
        "derivation": [asdict(step) for step in guarantee.derivation],
    }


def calibration_json(calibration: Calibration, delta: float) -> dict[str, object]:
    """Return the JSON of the least noise that meets an epsilon at a delta, of whatever release."""
    proven = calibration.guarantee
    return {
        "noise_multiplier": calibration.value,
        "epsilon": ends(proven.epsilon),
        "delta": delta,
        "gap": calibration.gap,
        "event": calibration.event.to_json(),
        **facts(proven, *PROVEN_FOR),
    }


def guarantee_rows(guarantee: Guarantee, quantity: Quantity) -> list[tuple[str, str]]:
    """Return the lines that say what is proven, how closely, and for whom."""
    changed = change(guarantee.neighbours, guarantee.unit)
    if quantity == "epsilon":
        bounds, at = guarantee.epsilon, f"at delta {rounding.as_given(guarantee.delta.upper)}"
    else:
        bounds, at = guarantee.delta, f"at epsilon {rounding.as_given(guarantee.epsilon.upper)}"
    # An infinite epsilon or a delta of 1 permits everything, so nothing is proven.
    empty = math.isinf(bounds.upper) or (quantity == "delta" and bounds.upper >= 1.0)
    if empty:
        rows = [("proves", f"nothing {at}: {quantity} is {rounding.up(bounds.upper)}")]
    else:
        rows = [("proves", f"{quantity} {rounding.up(bounds.upper)} {at}, {changed}")]
    if bounds.lower > 0.0:
        least = f"{quantity} {rounding.down(bounds.lower)}"
        if math.isinf(bounds.lower):
            least = f"no finite {quantity}"
        rows.append(("at least", f"{least}, {least_of(guarantee.lower_of_class)}"))
    return rows


def least_of(of_class: bool) -> str:
    """Return what a lower end is of, in words.

    >>> least_of(False), least_of(True)
    ('by any accounting', 'for the worst mechanism with this number')
    """
    return "for the worst mechanism with this number" if of_class else "by any accounting"


def least_words(lower: float, *, of_class: bool = False) -> str:
    """Return a lower end in words.

    >>> least_words(1.25), least_words(math.inf)
    ('at least 1.250, by any accounting', 'no finite number holds, by any accounting')
    """
    least = f"at least {rounding.down(lower)}"
    if math.isinf(lower):
        least = "no finite number holds"
    return f"{least}, {least_of(of_class)}"


def guarantee_text(guarantee: Guarantee, quantity: Quantity, event: Event) -> str:
    """Return what a guarantee says, for a person."""
    return table(
        [
            *guarantee_rows(guarantee, quantity),
            ("by", engine(guarantee.engine)),
            ("against", whom(guarantee.observer)),
            ("for", phrase(event)),
        ]
    )


def derivation_text(guarantee: Guarantee) -> str:
    """Return the steps of a derivation, numbered, each with its source and conditions."""
    lines: list[str] = []
    for number, step in enumerate(guarantee.derivation, start=1):
        lines.append(paragraph(f"{number:>2}. ", f"{step.stage}: {step.statement}"))
        if step.source:
            lines.append(paragraph("    source:  ", step.source))
        lines += [paragraph("    given:   ", condition) for condition in step.conditions]
    return "\n".join(lines)


def routes_json(routes: tuple[Route, ...]) -> list[dict[str, object]]:
    """Return the JSON of every way to a number; `epsilon` is null where a way is refused."""
    return [
        {
            "name": route.name,
            "epsilon": None if route.bounds is None else ends(route.bounds),
            "source": route.source,
            "refused": route.refused or None,
        }
        for route in routes
    ]


def routes_text(routes: tuple[Route, ...]) -> str:
    """Return every way to a number, with its source, or with the reason where it is refused."""
    width = max(len(route.name) for route in routes)
    lines = []
    for route in routes:
        number = "-" if route.bounds is None else rounding.up(route.bounds.upper)
        label = f"{route.name:<{width}}  {number:<9} "
        lines.append(paragraph(label, route.refused if route.bounds is None else route.source))
    return "\n".join(lines)
