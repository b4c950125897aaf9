"""Two answers that a rehearsal gives, and never one number of both.

claim     is what ran the claimed mechanism, or one with less noise?  Tight, and it believes that
          the mechanism is of the claimed family and treats canaries alike.
robust    the same, for a mechanism that may treat canaries as differently, and make them depend
          on each other, as it likes.  It is far from tight: half of the truth, or a little more.

Both make their tests at two levels (`audit.levels`): at the strict one the claim is contradicted,
at the other one alone the result is unusual.  The number is the larger lower bound of the two, and
its confidence is 1 - alpha.  So whatever is above the claim is unusual at least.
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
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, Unsupported
from ..levels import Levels, levels_of, one_in
from ..measurement import ANY_MECHANISM, Curve, Measurement, Verdict
from ..statistics import (
    FamilyResult,
    claim_only,
    family_test,
    mahloujifar,
    roc,
    steinke,
    trade_off,
)
from .choosing import Choice, chosen
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

CHANCE: Final = " That may be chance."

_MOST: Final = 10**9

FEWEST: Final = 40
"""Canaries of a robust bound, at least: of fewer, not even right guesses would show much."""


def claim_tier(
    rehearsal: Rehearsal, *, delta: float | None = None, alpha: float = 0.05, seed: int = 0
) -> Measurement:
    """Return whether the rehearsal contradicts the claim, and the epsilon that it demonstrates.

    Two tests at half of each level: the ranking by the claim's likelihood ratio, with as many false
    alarms as suit the claim and the level best, on all units; and the statistic, the group and the
    threshold that did best on 30% of the units, on the rest.  The strongest is reported; with too
    few units to split there is the first alone, at the whole level.  `seed` decides the split.
    Raises `InvalidInput` where nothing is claimed, and for too few canaries.
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
    levels, claimed = levels_of("claim", alpha), _claimed(rehearsal, at)
    choices = [
        chosen(rehearsal, alpha=level / 2.0, rng=np.random.default_rng([seed, 1]))
        for level in (levels.rest, levels.strict)
    ]
    share = 1.0 if choices[0] is None else 0.5  # by how many there are, not by what was seen
    require_enough(rehearsal, event, share * levels.rest)
    usual = _tests(rehearsal, event, at, share * levels.rest, choices[0])
    strict = _tests(rehearsal, event, at, share * levels.strict, choices[1])
    verdict = _verdict(
        any(_above(one.found, claimed) for one in strict),
        any(_above(one.found, claimed) for one in usual),
    )
    best = max((*usual, *strict), key=lambda one: (one.found.rejected, one.found.epsilon))
    found, counts = best.found, best.found.counts
    assert counts is not None  # of every test that has a threshold
    few = _too_few(rehearsal, event, share * levels.strict, levels.strict)
    return Measurement(
        tier="claim",
        what="the claimed mechanism, against canaries",
        value=found.epsilon,
        kind="lower-bound",
        claimed=claimed,
        contradicted=verdict == "contradicted",
        unusual=verdict == "unusual",
        level=levels.strict,
        confidence=1.0 - alpha,
        delta=at,
        unit=rehearsal.unit,
        neighbours=rehearsal.neighbours,
        observer=rehearsal.observer,
        proves=_of_the_claim(found, verdict),
        assumes=(*FAMILY, *few, *rehearsal.note),
        sample={
            **_size(rehearsal),
            "tested": counts.negatives + counts.positives,
            "false alarms": counts.false_alarms,
            "misses": counts.misses,
            "statistic": best.statistic,
            "group": best.group,
            "noise factor": "none rejected" if found.factor is None else found.factor,
        },
        curves={
            **_curves(rehearsal),
            "claimed": tuple(trade_off(event, rehearsal.neighbours).curve()),
        },
    )


@dataclass(frozen=True)
class _Test:
    """One test of the claim: what it found, with which statistic, in which group."""

    found: FamilyResult
    statistic: str
    group: str


def _tests(
    rehearsal: Rehearsal, event: ev.Event, delta: float, each: float, choice: Choice | None
) -> tuple[_Test, ...]:
    """Return the tests of the claim, which err with probability at most `each`."""
    scores, coins, relation = rehearsal.scores, rehearsal.coins, rehearsal.neighbours
    ranked = _Test(claim_only(scores, coins, event, relation, delta, alpha=each), "ratio", "all")
    if choice is None:
        return (ranked,)
    split = family_test(choice.counts, event, relation, delta, each)
    return ranked, _Test(split, choice.statistic, choice.where)


def _above(found: FamilyResult, claimed: float | None) -> bool:
    """Return whether the claim is rejected: its mechanism, or the number that is stated of it.

    They are one, but for a method as published, whose paper's number its noise may not give.
    """
    return found.rejected or (claimed is not None and found.epsilon > claimed)


def _verdict(strict: bool, usual: bool) -> Verdict:
    return "contradicted" if strict else "unusual" if usual else "not-contradicted"


def robust_tier(
    rehearsal: Rehearsal, *, delta: float | None = None, alpha: float = 0.05
) -> Measurement:
    """Return how much of epsilon right guesses show, however canaries depend on each other.

    Two bounds, at half each of what the strict level leaves of alpha.  The value is that of the
    claim's trade-off curve (Mahloujifar): the epsilon of the claim with as much noise as is still
    refuted.  Beside it, in `sample`, stands what holds of any mechanism (Steinke), which is less;
    it is the value where the claim's noise cannot be scaled.  The strict level is all the curve's,
    for it sees more; or Steinke's where there is none.  The numbers of guesses are fixed by claim
    and level.  Where nothing is claimed, half of the units are guessed, and the value is Steinke's
    at alpha.  Raises `InvalidInput` for too few canaries.
    """
    at = rehearsal.delta if delta is None else validate.open_probability(delta=delta)
    validate.open_probability(alpha=alpha)
    if rehearsal.canaries < FEWEST:
        raise InvalidInput(
            f"{rehearsal.canaries} canaries are too few to guess about.",
            "Guesses that are all right would show little.",
            f"Give {FEWEST} canaries or more.",
        )
    levels, claimed = levels_of("robust", alpha), _claimed(rehearsal, at)
    if rehearsal.event is None:
        found = _unclaimed(rehearsal, at, alpha)
    else:
        found = _guessed(rehearsal, at, levels, claimed)
    return Measurement(
        tier="robust",
        what=found.what,
        value=found.value,
        kind="lower-bound",
        claimed=claimed,
        contradicted=found.verdict == "contradicted",
        unusual=found.verdict == "unusual",
        level=levels.strict,
        confidence=1.0 - alpha,
        delta=at,
        unit=rehearsal.unit,
        neighbours=rehearsal.neighbours,
        observer=rehearsal.observer,
        proves=_by_verdict(found.proves, found.verdict),
        assumes=(*found.assumes, *rehearsal.note),
        sample={**_size(rehearsal), **found.sample},
        curves=_curves(rehearsal),
    )


@dataclass(frozen=True)
class _Guessed:
    """What guesses show: the number that is reported, and what it says of the claim."""

    what: str
    value: float
    verdict: Verdict
    proves: str
    assumes: tuple[str, ...]
    sample: Mapping[str, float | int | str]


def _unclaimed(rehearsal: Rehearsal, delta: float, alpha: float) -> _Guessed:
    """Return what guesses show where nothing is claimed."""
    units, scores, guesses = rehearsal.canaries, rehearsal.scores, rehearsal.canaries // 2
    middle = np.quantile(scores, (0.1, 0.9)).mean()  # between those in and those out
    right = right_of(scores - middle, rehearsal.coins, guesses)
    value = steinke(units, guesses, right, delta=delta, alpha=alpha)
    sample: dict[str, float | int | str] = {"guesses": guesses, "right": right}
    return _Guessed(OF_ANY, value, "not-contradicted", _of_any(value), (COINS, ANY), sample)


def _guessed(rehearsal: Rehearsal, delta: float, levels: Levels, claimed: float | None) -> _Guessed:
    """Return what guesses show of a claim, at both levels."""
    guessing = _Guessing(rehearsal, delta, expected_right(rehearsal))
    half = levels.rest / 2.0
    anyway, any_sample = guessing.of_any(half)
    above = claimed is not None and anyway > claimed
    try:
        usual, usual_sample = guessing.of_curve(half)
        strict, strict_sample = guessing.of_curve(levels.strict)
    except Unsupported:  # more of its noise need not protect more: there are no curves to refute
        least, sample = guessing.of_any(levels.strict)
        verdict = _verdict(claimed is not None and least > claimed, above)
        best = (anyway, any_sample) if anyway >= least else (least, sample)
        return _Guessed(OF_ANY, best[0], verdict, _of_any(best[0]), (COINS, ANY), best[1])
    found, sample = max(
        ((usual, usual_sample), (strict, strict_sample)),
        key=lambda one: (one[0].rejected, one[0].epsilon),
    )
    verdict = _verdict(_above(strict, claimed), above or _above(usual, claimed))
    proves = _of_any(anyway)
    if found.factor is not None:
        proves = (
            f"No mechanism with the claim's trade-off curve for {rounding.up(found.factor)} times "
            f"the noise guesses so well; that curve has epsilon {rounding.down(found.epsilon)} or "
            f"more. {proves}"
        )
    return _Guessed(
        what=OF_CURVE,
        value=found.epsilon,
        verdict=verdict,
        proves=proves,
        assumes=(COINS, CURVE, ANY),
        sample={**sample, ANY_MECHANISM: anyway},
    )


@dataclass(frozen=True)
class _Guessing:
    """Guesses about a rehearsal; how many, the claim and the level decide."""

    rehearsal: Rehearsal
    delta: float
    expected: FloatArray

    def of_any(self, level: float) -> tuple[float, Mapping[str, float | int | str]]:
        """Return the bound of any mechanism, and the guesses that gave it."""
        units = self.rehearsal.canaries

        def bound(guesses: int, right: int) -> float:
            return steinke(units, guesses, right, delta=self.delta, alpha=level)

        guesses = guesses_for(self.rehearsal, self.expected, bound)
        right = right_of(self.rehearsal.scores, self.rehearsal.coins, guesses)
        return bound(guesses, right), {"guesses": guesses, "right": right}

    def of_curve(self, level: float) -> tuple[FamilyResult, Mapping[str, float | int | str]]:
        """Return the bound of the claim's curve; raise `Unsupported` where there is none."""
        own = self.rehearsal
        assert own.event is not None
        event = own.event

        def bound(guesses: int, right: int) -> FamilyResult:
            return mahloujifar(
                own.canaries, guesses, right, event, own.neighbours, self.delta, level
            )

        guesses = guesses_for(own, self.expected, lambda *both: bound(*both).epsilon)
        right = right_of(own.scores, own.coins, guesses)
        return bound(guesses, right), {"guesses": guesses, "right": right}


def _of_any(epsilon: float) -> str:
    return f"Whatever ran, its epsilon is at least {rounding.down(epsilon)}."


def require_enough(rehearsal: Rehearsal, event: ev.Event, alpha: float) -> None:
    """Raise `InvalidInput` where not even a perfect attack could contradict the claim.

    It makes no error on n units of either coin; then the rates are at most u = 1 - (alpha/2)^(1/n),
    and the claim is contradicted where u < f(u).
    """
    needed = _needed(event, rehearsal.neighbours, alpha)
    into = int(rehearsal.coins.sum())
    if needed >= _MOST:
        raise InvalidInput(
            "No number of canaries is enough for this claim.",
            "It allows an attack with hardly an error; none that could be counted contradicts it.",
            "Ask for the tier robust, which gives a bound all the same.",
        )
    if _fewest(rehearsal) < needed:
        raise InvalidInput(
            f"{rehearsal.canaries} canaries, {into} of them in, are too few for this claim.",
            "Not even an attack without any error could contradict it.",
            f"Give {_canaries(needed)} canaries or more.",
        )


def _too_few(rehearsal: Rehearsal, event: ev.Event, alpha: float, strict: float) -> tuple[str, ...]:
    """Return what must be known where the strict level contradicts nothing, whatever is seen."""
    needed = _needed(event, rehearsal.neighbours, alpha)
    if _fewest(rehearsal) >= needed:
        return ()
    enough = f"{_canaries(needed):,} canaries could" if needed < _MOST else "no number of them can"
    return (
        f"{rehearsal.canaries:,} canaries contradict nothing at {one_in(strict)}, whatever they "
        f"show: {enough}",
    )


def _needed(event: ev.Event, neighbours: str, alpha: float) -> int:
    """Return how many units of either coin a perfect attack needs to contradict the claim."""
    curve, needed = trade_off(event, neighbours), 1
    while needed < _MOST:
        u = -math.expm1(math.log(alpha / 2.0) / needed)
        if u < float(np.asarray(curve(u))):
            break
        needed = math.ceil(needed * 1.1)
    return needed


def _fewest(rehearsal: Rehearsal) -> int:
    into = int(rehearsal.coins.sum())
    return min(into, rehearsal.canaries - into)


def _canaries(needed: int) -> int:
    """Return how many canaries have so many of either coin, nearly always."""
    return 2 * needed + 6 * math.isqrt(needed) + 6


def _claimed(rehearsal: Rehearsal, delta: float) -> float | None:
    """Return the epsilon that is claimed at this delta."""
    if rehearsal.event is None or delta == rehearsal.delta:
        return rehearsal.claimed
    return account(rehearsal.event, delta=delta, neighbours=rehearsal.neighbours).epsilon.upper


def _of_the_claim(found: FamilyResult, verdict: Verdict) -> str:
    if found.factor is None:
        return "Nothing: no mechanism of the claimed family is ruled out."
    factor = rounding.up(found.factor)
    if verdict != "not-contradicted" and not found.rejected:  # as published
        return (
            f"What ran shows epsilon {rounding.down(found.epsilon)} or more, above the number that "
            f"is claimed.{CHANCE if verdict == 'unusual' else ''}"
        )
    if verdict == "contradicted":
        return (
            f"What ran is not the claimed mechanism: even with {factor} times the claimed noise it "
            "would show less of a unit."
        )
    if verdict == "unusual":
        return (
            f"With {factor} times the claimed noise a mechanism seldom shows so much of a unit."
            f"{CHANCE}"
        )
    return (
        f"With {factor} times the claimed noise the mechanism would show less of a unit than was "
        "seen; that it has the claimed noise is not contradicted."
    )


def _by_verdict(proves: str, verdict: Verdict) -> str:
    """Return what guesses prove, with what it means that it is above the claim by chance."""
    if verdict != "unusual":
        return proves
    return f"{proves}{CHANCE}"


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
