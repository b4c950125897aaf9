"""Steps within the last epoch whose value prints as a claim: a number printed in mid-epoch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from ..description.run_settings import RunSettings
from .accountants import (
    EARLIER_NAME,
    OPACUS_NAME,
    PLD_NAME,
    PRV_EXCESS,
    PRV_NAME,
    exact_bounds,
    opacus_divergences,
    opacus_value,
    slow,
)
from .matching import AcceptedRange, ChanceBudget
from .reproduction import Method, Reproduction, phases_of, scaled_noise

_MOST_STEPS_EVALUATED: Final = 4096
"""Longer epochs are looked at in so many places."""

_LOSS_SLACK: Final = 3e-4
_RANGE_SHARE: Final = 0.3
"""The part of the chance that the values of one accountant in the last epoch may take."""


def within_last_epoch(
    settings: RunSettings, accepted: AcceptedRange, budget: ChanceBudget, accountant: Method
) -> tuple[Reproduction, ...]:
    """Return the reproduction by steps within the last epoch, for one accountant.

    `accountant` is rdp, rdp-classical, pld or prv.  Where the values of the last epoch span so
    much that a random claim would often lie among them (few epochs), only the end of the epoch is
    looked at, as far as the budget allows it.
    """
    steps, delta = _last_steps(settings), settings.delta
    if steps is None or delta is None:
        return ()
    if accountant in ("rdp", "rdp-classical"):
        values = _renyi(settings, steps, delta, improved=accountant == "rdp")
        name = OPACUS_NAME if accountant == "rdp" else EARLIER_NAME
    else:
        bounds = _losses(settings, steps)
        if bounds is None:
            return ()
        values = bounds + (PRV_EXCESS if accountant == "prv" else 0.0)
        name = PRV_NAME if accountant == "prv" else PLD_NAME
    affordable = _affordable(values, accepted, budget)
    steps, values = steps[affordable:], values[affordable:]
    if not steps.size or not budget.admits(float(values[0]), float(values[-1])):
        return ()
    # What is interpolated between certified bounds is known to a few digits only.
    slack = 0.0 if accountant in ("rdp", "rdp-classical") else _LOSS_SLACK
    low, high = accepted.low * (1.0 - slack), accepted.high * (1.0 + slack)
    hits = np.flatnonzero((values >= low) & (values <= high))
    if not hits.size:
        return ()
    middle = hits[hits.size // 2]
    return (_reproduction(settings, name, accountant, float(values[middle]), steps[hits]),)


def _last_steps(settings: RunSettings) -> FloatArray | None:
    """Return the numbers of steps that end within the last epoch, or None where there are none."""
    phases, epoch = phases_of(settings), settings.steps_per_epoch
    if settings.phases or not phases or not epoch:
        return None
    last = phases[0].steps
    first = max(1, last - epoch + 1)
    if last - first < 1:
        return None
    return np.unique(np.linspace(first, last - 1, min(_MOST_STEPS_EVALUATED, last - first)).round())


def _renyi(settings: RunSettings, steps: FloatArray, delta: float, *, improved: bool) -> FloatArray:
    # A replaced unit moves a sum by two norms, which is half the noise.
    replaced = settings.neighbours == "replace-one"
    (phase,) = phases_of(scaled_noise(settings, 0.5) if replaced else settings)
    curve = opacus_divergences((replace(phase, steps=1),), settings.family)
    return opacus_value(steps[:, None] * curve, delta, improved=improved)


def _losses(settings: RunSettings, steps: FloatArray) -> FloatArray | None:
    """Return the exact values, from those at both ends and, where they cost little, the middle.

    Epsilon grows about like the root of steps; its square is interpolated.
    """
    places = [0, -1] if slow(phases_of(settings)) else [0, steps.size // 2, -1]
    known = steps[places]
    squares = []
    for count in known.tolist():
        value = _exact(settings, int(count))
        if value is None:
            return None
        squares.append(value**2)
    return np.sqrt(np.interp(steps, known, squares))


def _exact(settings: RunSettings, steps: int) -> float | None:
    (phase,) = phases_of(settings)
    relation = "replace-one" if settings.neighbours == "replace-one" else "add-remove"
    delta = settings.delta or 0.0
    shorter = (replace(phase, steps=steps),)
    bounds = exact_bounds(shorter, settings.family, delta, relation, quick=True)
    return None if bounds is None else bounds.upper


def _affordable(values: FloatArray, accepted: AcceptedRange, budget: ChanceBudget) -> int:
    """Return the first place from which on the values cost no more than their share of chance."""
    room = budget.room(_RANGE_SHARE) - accepted.relative_width
    if room <= 0.0 or values[-1] <= 0.0:
        return int(values.size)
    return int(np.searchsorted(values, values[-1] * math.exp(-room)))


def _reproduction(
    settings: RunSettings, name: str, method: Method, value: float, hits: FloatArray
) -> Reproduction:
    (phase,) = phases_of(settings)
    low, high = int(hits[0]), int(hits[-1])
    span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return Reproduction(
        name,
        value,
        replace(settings, steps=int(hits[hits.size // 2]), epochs=None),
        "fewer-steps",
        f"The number is that of {span} steps, within the last epoch, not of {phase.steps:,}.",
        method,
    )
