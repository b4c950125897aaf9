"""Two answers that a rehearsal gives, and never one number of both.

claim     is what ran the claimed mechanism, or one with less noise?  Tight, and it believes that
          the mechanism is of the claimed family and treats canaries alike.
robust    the same, for a mechanism that may treat canaries as differently, and make them depend
          on each other, as it likes.  It is far from tight: half of the truth, or a little more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant import rounding, validate
from ...accountant.account import account
from ...accountant.errors import InvalidInput, Unsupported
from ..measurement import ANY_MECHANISM, Curve, Measurement
from ..statistics import (
    FamilyResult,
    claim_only,
    family_test,
    mahloujifar,
    roc,
    steinke,
    trade_off,
)
from .choosing import chosen
from .guessing import expected_right, guesses_for, right_of
from .rehearsal import Rehearsal

FAMILY: Final = (
    "the mechanism is of the claimed family, with all of its noise multiplied by one factor",
    "it treats canaries alike, and independently of one another",
)

COINS: Final = "fair and independent coins; canaries may depend on each other in any way"

CURVE: Final = (
    "the value: what ran keeps the trade-off curve of the claim with its noise multiplied by some "
    "factor; it may be any mechanism that does, and a claim whose own curve is refuted is refuted "
    "for every mechanism"
)

ANY: Final = (
    "the epsilon of any mechanism: nothing else; if what ran is (epsilon, delta)-private for the "
    "unit, its epsilon is at least that"
)

OF_CURVE: Final = "right guesses in one run, against the claim's curve"
OF_ANY: Final = "right guesses in one run, against any mechanism"

_MOST: Final = 10**9

FEWEST: Final = 40
"""Canaries of a robust bound, at least: of fewer, not even right guesses would show much."""


def claim_tier(
    rehearsal: Rehearsal, *, delta: float | None = None, alpha: float = 0.05, seed: int = 0
) -> Measurement:
    """Return whether the rehearsal contradicts the claim, and the epsilon that it demonstrates.

    Two tests at alpha / 2 each: the ranking by the claim's likelihood ratio, with as many false
    alarms as suit the claim best, on all units; and the statistic, the group and the threshold
    that did best on 30% of the units, on the rest.  The stronger is reported; with too few units
    to split there is the first alone, at alpha.  `seed` decides the split.  Raises `InvalidInput`
    where nothing is claimed, and for too few canaries.
    """
    validate.count_from(0, seed=seed)
    event = rehearsal.event
    if event is None:
        raise InvalidInput(
            f"Nothing is claimed of {rehearsal.system} for the observer {rehearsal.observer!r}.",
            "There is no mechanism to compare it with.",
            "Ask for the tier robust, which needs no claim.",
        )
    at = rehearsal.delta if delta is None else validate.open_probability(delta=delta)
    validate.open_probability(alpha=alpha)
    choice = chosen(rehearsal, alpha=alpha / 2.0, rng=np.random.default_rng([seed, 1]))
    level = alpha if choice is None else alpha / 2.0  # by how many there are, not by what was seen
    require_enough(rehearsal, event, level)
    scores, coins, relation = rehearsal.scores, rehearsal.coins, rehearsal.neighbours
    tests = [(claim_only(scores, coins, event, relation, at, alpha=level), "ratio", "all")]
    if choice is not None:
        found = family_test(choice.counts, event, relation, at, level)
        tests.append((found, choice.statistic, choice.where))
    best, statistic, group = max(tests, key=lambda one: (one[0].rejected, one[0].epsilon))
    counts = best.counts
    assert counts is not None  # of every test that has a threshold
    return Measurement(
        tier="claim",
        what="the claimed mechanism, against canaries",
        value=best.epsilon,
        kind="lower-bound",
        claimed=_claimed(rehearsal, at),
        contradicted=any(one.rejected for one, _, _ in tests),
        confidence=1.0 - alpha,
        delta=at,
        unit=rehearsal.unit,
        neighbours=relation,
        observer=rehearsal.observer,
        proves=_of_the_claim(best),
        assumes=(*FAMILY, *rehearsal.note),
        sample={
            **_size(rehearsal),
            "tested": counts.negatives + counts.positives,
            "false alarms": counts.false_alarms,
            "misses": counts.misses,
            "statistic": statistic,
            "group": group,
            "noise factor": "none rejected" if best.factor is None else best.factor,
        },
        curves={**_curves(rehearsal), "claimed": tuple(trade_off(event, relation).curve())},
    )


def robust_tier(
    rehearsal: Rehearsal, *, delta: float | None = None, alpha: float = 0.05
) -> Measurement:
    """Return how much of epsilon right guesses show, however canaries depend on each other.

    Two bounds at alpha / 2 each.  The value is that of the claim's trade-off curve (Mahloujifar):
    the epsilon of the claim with as much noise as is still refuted.  Beside it, in `sample`, stands
    what holds of any mechanism (Steinke), which is less; it is the value where the claim's noise
    cannot be scaled.  The numbers of guesses are fixed by the claim.  Where nothing is claimed,
    half of the units are guessed, and the value is Steinke's at alpha.  Raises `InvalidInput` for
    too few canaries.
    """
    at = rehearsal.delta if delta is None else validate.open_probability(delta=delta)
    validate.open_probability(alpha=alpha)
    if rehearsal.canaries < FEWEST:
        raise InvalidInput(
            f"{rehearsal.canaries} canaries are too few to guess about.",
            "Guesses that are all right would show little.",
            f"Give {FEWEST} canaries or more.",
        )
    found = _guessed(rehearsal, at, alpha)
    claimed = _claimed(rehearsal, at)
    return Measurement(
        tier="robust",
        what=found.what,
        value=found.value,
        kind="lower-bound",
        claimed=claimed,
        contradicted=found.refuted or (claimed is not None and found.anyway > claimed),
        confidence=1.0 - alpha,
        delta=at,
        unit=rehearsal.unit,
        neighbours=rehearsal.neighbours,
        observer=rehearsal.observer,
        proves=found.proves,
        assumes=(*found.assumes, *rehearsal.note),
        sample={**_size(rehearsal), **found.sample},
        curves=_curves(rehearsal),
    )


@dataclass(frozen=True)
class _Guessed:
    """What guesses show: `value` is reported, `anyway` holds of any mechanism."""

    what: str
    value: float
    anyway: float
    refuted: bool
    proves: str
    assumes: tuple[str, ...]
    sample: Mapping[str, float | int | str]


def _guessed(rehearsal: Rehearsal, delta: float, alpha: float) -> _Guessed:
    event, units, coins = rehearsal.event, rehearsal.canaries, rehearsal.coins
    if event is None:
        scores, guesses = rehearsal.scores, units // 2
        middle = np.quantile(scores, (0.1, 0.9)).mean()  # between those in and those out
        right = right_of(scores - middle, coins, guesses)
        value = steinke(units, guesses, right, delta=delta, alpha=alpha)
        sample: dict[str, float | int | str] = {"guesses": guesses, "right": right}
        return _Guessed(OF_ANY, value, value, False, _of_any(value), (COINS, ANY), sample)
    half, expected, scores = alpha / 2.0, expected_right(rehearsal), rehearsal.scores

    def any_bound(guesses: int, right: int) -> float:
        return steinke(units, guesses, right, delta=delta, alpha=half)

    def curve(guesses: int, right: int) -> FamilyResult:
        return mahloujifar(units, guesses, right, event, rehearsal.neighbours, delta, half)

    few = guesses_for(rehearsal, expected, any_bound)
    right = right_of(scores, coins, few)
    anyway = any_bound(few, right)
    try:
        guesses = guesses_for(rehearsal, expected, lambda *both: curve(*both).epsilon)
    except Unsupported:  # more of its noise need not protect more: there are no curves to refute
        sample = {"guesses": few, "right": right}
        return _Guessed(OF_ANY, anyway, anyway, False, _of_any(anyway), (COINS, ANY), sample)
    right = right_of(scores, coins, guesses)
    found = curve(guesses, right)
    sample = {"guesses": guesses, "right": right, ANY_MECHANISM: anyway}
    proves = _of_any(anyway)
    if found.factor is not None:
        proves = (
            f"No mechanism with the claim's trade-off curve for {rounding.up(found.factor)} times "
            f"the noise guesses so well; that curve has epsilon {rounding.down(found.epsilon)} or "
            f"more. {proves}"
        )
    assumes = (COINS, CURVE, ANY)
    return _Guessed(OF_CURVE, found.epsilon, anyway, found.rejected, proves, assumes, sample)


def _of_any(epsilon: float) -> str:
    return f"Whatever ran, its epsilon is at least {rounding.down(epsilon)}."


def require_enough(rehearsal: Rehearsal, event: ev.Event, alpha: float) -> None:
    """Raise `InvalidInput` where not even a perfect attack could contradict the claim.

    It makes no error on n units of either coin; then the rates are at most u = 1 - (alpha/2)^(1/n),
    and the claim is contradicted where u < f(u).
    """
    curve = trade_off(event, rehearsal.neighbours)
    needed = 1
    while needed < _MOST:
        u = -math.expm1(math.log(alpha / 2.0) / needed)
        if u < float(np.asarray(curve(u))):
            break
        needed = math.ceil(needed * 1.1)
    into = int(rehearsal.coins.sum())
    fewest = min(into, rehearsal.canaries - into)
    if needed >= _MOST:
        raise InvalidInput(
            "No number of canaries is enough for this claim.",
            "It allows an attack with hardly an error; none that could be counted contradicts it.",
            "Ask for the tier robust, which gives a bound all the same.",
        )
    if fewest < needed:
        raise InvalidInput(
            f"{rehearsal.canaries} canaries, {into} of them in, are too few for this claim.",
            "Not even an attack without any error could contradict it.",
            f"Give {2 * needed + 6 * math.isqrt(needed) + 6} canaries or more.",
        )


def _claimed(rehearsal: Rehearsal, delta: float) -> float | None:
    """Return the epsilon that is claimed at this delta."""
    if rehearsal.event is None or delta == rehearsal.delta:
        return rehearsal.claimed
    return account(rehearsal.event, delta=delta, neighbours=rehearsal.neighbours).epsilon.upper


def _of_the_claim(found: FamilyResult) -> str:
    if found.factor is None:
        return "Nothing: no mechanism of the claimed family is ruled out."
    if found.rejected:
        return (
            "What ran is not the claimed mechanism: even with "
            f"{rounding.up(found.factor)} times the claimed noise it would show less of a unit."
        )
    return (
        f"With {rounding.up(found.factor)} times the claimed noise the mechanism would show less "
        "of a unit than was seen; that it has the claimed noise is not contradicted."
    )


def _size(rehearsal: Rehearsal) -> dict[str, float | int | str]:
    into = int(rehearsal.coins.sum())
    return {"canaries": rehearsal.canaries, "in": into, "rounds": rehearsal.rounds}


def _curves(rehearsal: Rehearsal) -> dict[str, Curve]:
    """Return measured rates at many thresholds: for plots, and without confidence."""
    found = roc(rehearsal.scores, rehearsal.coins).curve()
    return {
        "roc": tuple(found),
        "trade-off": tuple((alarms, 1.0 - hits) for alarms, hits in found),
    }
