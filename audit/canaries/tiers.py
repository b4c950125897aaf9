"""The tiers claim and robust: two tests of a rehearsal, never combined into one number.

claim     is what ran the claimed mechanism, or one with less noise?  Tight, under the assumption
          that it is of the claimed family and treats canaries alike.
robust    the same, for a mechanism that may treat canaries as differently, and make them depend
          on each other, as it likes.  It is far from tight: half of the truth, or a little more.

Both make their tests at two levels (`audit.measurement`): at the strict one the claim is
contradicted, at the other one alone the result is unusual.  The number is the larger lower bound of
the two, and its confidence is 1 - alpha.  So whatever is above the claim is unusual at least.
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
from ..measurement import ANY_MECHANISM, Curve, Levels, Measurement, Verdict, levels_of, one_in
from ..statistics import (
    FamilyResult,
    claim_only,
    family_test,
    mahloujifar,
    roc,
    steinke,
    trade_off,
)
from .rehearsal import CanaryRehearsal
from .selection import Choice, choose_test, correct_guesses, expected_accuracy, guess_count

ASSUMES_FAMILY: Final = (
    "the mechanism is of the claimed family, with all of its noise multiplied by one factor",
    "it treats canaries alike, and independently of one another",
)

ASSUMES_COINS: Final = "fair and independent coins; canaries may depend on each other in any way"

ASSUMES_CURVE: Final = (
    "the value: what ran keeps the trade-off curve of the claim with its noise multiplied by some "
    "factor; it may be any mechanism that does, and a claim whose own curve is refuted is refuted "
    "for every mechanism"
)

ASSUMES_NOTHING: Final = (
    "the epsilon of any mechanism: nothing else; if what ran is (epsilon, delta)-private for the "
    "unit, its epsilon is at least that"
)

AGAINST_CURVE: Final = "right guesses in one run, against the claim's curve"
AGAINST_ANY: Final = "right guesses in one run, against any mechanism"

MAY_BE_CHANCE: Final = " That may be chance."

MAX_UNITS_NEEDED: Final = 10**9

MIN_CANARIES_ROBUST: Final = 40
"""Canaries of a robust bound, at least: of fewer, not even right guesses would show much."""


def claim_tier(
    rehearsal: CanaryRehearsal, *, delta: float | None = None, alpha: float = 0.05, seed: int = 0
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
        choose_test(rehearsal, alpha=level / 2.0, rng=np.random.default_rng([seed, 1]))
        for level in (levels.rest, levels.strict)
    ]
    # Two tests share a level (Bonferroni), whatever their scores have in common.
    share = 1.0 if choices[0] is None else 0.5  # by how many there are, not by what was seen
    require_enough(rehearsal, event, share * levels.rest)
    usual = _tests(rehearsal, event, at, share * levels.rest, choices[0])
    strict = _tests(rehearsal, event, at, share * levels.strict, choices[1])
    verdict = _verdict(
        any(_above(test.result, claimed) for test in strict),
        any(_above(test.result, claimed) for test in usual),
    )
    best = max((*usual, *strict), key=lambda test: (test.result.rejected, test.result.epsilon))
    result, counts = best.result, best.result.counts
    assert counts is not None  # of every test that has a threshold
    few = _too_few(rehearsal, event, share * levels.strict, levels.strict)
    return Measurement(
        tier="claim",
        what="the claimed mechanism, against canaries",
        value=result.epsilon,
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
        proves=_of_the_claim(result, verdict),
        assumes=(*ASSUMES_FAMILY, *few, *rehearsal.note),
        sample={
            **_size(rehearsal),
            "tested": counts.negatives + counts.positives,
            "false alarms": counts.false_alarms,
            "misses": counts.misses,
            "statistic": best.statistic,
            "group": best.group,
            "noise factor": "none rejected" if result.factor is None else result.factor,
        },
        curves={
            **_curves(rehearsal),
            "claimed": tuple(trade_off(event, rehearsal.neighbours).curve()),
        },
    )


@dataclass(frozen=True)
class _Test:
    """One test of the claim: its result, its statistic and its group."""

    result: FamilyResult
    statistic: str
    group: str


def _tests(
    rehearsal: CanaryRehearsal, event: ev.Event, delta: float, each: float, choice: Choice | None
) -> tuple[_Test, ...]:
    """Return the tests of the claim, which err with probability at most `each`."""
    scores, coins, relation = rehearsal.scores, rehearsal.coins, rehearsal.neighbours
    ranked = _Test(claim_only(scores, coins, event, relation, delta, alpha=each), "ratio", "all")
    if choice is None:
        return (ranked,)
    split = family_test(choice.counts, event, relation, delta, each)
    return ranked, _Test(split, choice.statistic, choice.where)


def _above(result: FamilyResult, claimed: float | None) -> bool:
    """Return whether the claim is rejected: its mechanism, or the number that is stated of it.

    They are one, but for a method as published, whose paper's number its noise may not give.
    """
    return result.rejected or (claimed is not None and result.epsilon > claimed)


def _verdict(strict: bool, usual: bool) -> Verdict:
    return "contradicted" if strict else "unusual" if usual else "not-contradicted"


def robust_tier(
    rehearsal: CanaryRehearsal, *, delta: float | None = None, alpha: float = 0.05
) -> Measurement:
    """Return how much of epsilon right guesses show, however canaries depend on each other.

    Two bounds, at half each of what the strict level leaves of alpha.  The value is that of the
    claim's trade-off curve (Mahloujifar): the epsilon of the claim with as much noise as is still
    refuted.  Beside it, in `sample`, stands what holds of any mechanism (Steinke), which is less;
    it is the value where the claim's noise cannot be scaled, or no engine bounds the scaled claim's
    epsilon from below.  The strict level is all the curve's,
    for it sees more; or Steinke's where there is none.  The numbers of guesses are fixed by claim
    and level.  Where nothing is claimed, half of the units are guessed, and the value is Steinke's
    at alpha.  Raises `InvalidInput` for too few canaries.
    """
    at = rehearsal.delta if delta is None else validate.open_probability(delta=delta)
    validate.open_probability(alpha=alpha)
    if rehearsal.canaries < MIN_CANARIES_ROBUST:
        raise InvalidInput(
            f"{rehearsal.canaries} canaries are too few to guess about.",
            "Guesses that are all right would show little.",
            f"Give {MIN_CANARIES_ROBUST} canaries or more.",
        )
    levels, claimed = levels_of("robust", alpha), _claimed(rehearsal, at)
    if rehearsal.event is None:
        guesses = _guess_without_claim(rehearsal, at, alpha)
    else:
        guesses = _guess_claim(rehearsal, at, levels, claimed)
    return Measurement(
        tier="robust",
        what=guesses.what,
        value=guesses.value,
        kind="lower-bound",
        claimed=claimed,
        contradicted=guesses.verdict == "contradicted",
        unusual=guesses.verdict == "unusual",
        level=levels.strict,
        confidence=1.0 - alpha,
        delta=at,
        unit=rehearsal.unit,
        neighbours=rehearsal.neighbours,
        observer=rehearsal.observer,
        proves=_by_verdict(guesses.proves, guesses.verdict),
        assumes=(*guesses.assumes, *rehearsal.note),
        sample={**_size(rehearsal), **guesses.sample},
        curves=_curves(rehearsal),
    )


@dataclass(frozen=True)
class _GuessResult:
    """A lower bound from guesses, and its verdict on the claim."""

    what: str
    value: float
    verdict: Verdict
    proves: str
    assumes: tuple[str, ...]
    sample: Mapping[str, float | int | str]


def _guess_without_claim(rehearsal: CanaryRehearsal, delta: float, alpha: float) -> _GuessResult:
    """Return Steinke's bound from half of the units, where nothing is claimed."""
    units, scores, guesses = rehearsal.canaries, rehearsal.scores, rehearsal.canaries // 2
    middle = np.quantile(scores, (0.1, 0.9)).mean()  # between those in and those out
    right = correct_guesses(scores - middle, rehearsal.coins, guesses)
    value = steinke(units, guesses, right, delta=delta, alpha=alpha)
    sample: dict[str, float | int | str] = {"guesses": guesses, "right": right}
    return _GuessResult(
        AGAINST_ANY,
        value,
        "not-contradicted",
        _of_any(value),
        (ASSUMES_COINS, ASSUMES_NOTHING),
        sample,
    )


def _guess_claim(
    rehearsal: CanaryRehearsal, delta: float, levels: Levels, claimed: float | None
) -> _GuessResult:
    """Return the bounds from guesses of a claim, and the verdict at both levels."""
    guess_test = _GuessTest(rehearsal, delta, expected_accuracy(rehearsal))
    # alpha = strict + rest; the rest is shared by the mechanism-free bound and the curve's.
    half = levels.rest / 2.0
    mechanism_free, any_sample = guess_test.against_any(half)
    above = claimed is not None and mechanism_free > claimed
    try:
        usual, usual_sample = guess_test.against_curve(half)
        strict, strict_sample = guess_test.against_curve(levels.strict)
    except Unsupported:  # more of its noise need not protect more: there are no curves to refute
        least, sample = guess_test.against_any(levels.strict)
        verdict = _verdict(claimed is not None and least > claimed, above)
        best = (mechanism_free, any_sample) if mechanism_free >= least else (least, sample)
        return _GuessResult(
            AGAINST_ANY,
            best[0],
            verdict,
            _of_any(best[0]),
            (ASSUMES_COINS, ASSUMES_NOTHING),
            best[1],
        )
    result, sample = max(
        ((usual, usual_sample), (strict, strict_sample)),
        key=lambda test: (test[0].rejected, test[0].epsilon),
    )
    verdict = _verdict(_above(strict, claimed), above or _above(usual, claimed))
    proves = _of_any(mechanism_free)
    if result.factor is not None and result.epsilon > 0.0:
        proves = (
            f"No mechanism with the claim's trade-off curve for {rounding.up(result.factor)} times "
            f"the noise guesses so well; that curve has epsilon {rounding.down(result.epsilon)} or "
            f"more. {proves}"
        )
    return _GuessResult(
        what=AGAINST_CURVE,
        value=result.epsilon or mechanism_free,
        verdict=verdict,
        proves=proves,
        assumes=(ASSUMES_COINS, ASSUMES_CURVE, ASSUMES_NOTHING),
        sample={**sample, ANY_MECHANISM: mechanism_free},
    )


@dataclass(frozen=True)
class _GuessTest:
    """Tests by guesses about a rehearsal; claim and level fix the number of guesses."""

    rehearsal: CanaryRehearsal
    delta: float
    expected: FloatArray

    def against_any(self, level: float) -> tuple[float, Mapping[str, float | int | str]]:
        """Return the bound of any mechanism, and the guesses that gave it."""
        units = self.rehearsal.canaries

        def bound(guesses: int, right: int) -> float:
            return steinke(units, guesses, right, delta=self.delta, alpha=level)

        guesses = guess_count(self.rehearsal, self.expected, bound)
        right = correct_guesses(self.rehearsal.scores, self.rehearsal.coins, guesses)
        return bound(guesses, right), {"guesses": guesses, "right": right}

    def against_curve(self, level: float) -> tuple[FamilyResult, Mapping[str, float | int | str]]:
        """Return the bound of the claim's curve; raise `Unsupported` where there is none."""
        rehearsal = self.rehearsal
        assert rehearsal.event is not None
        event = rehearsal.event

        def bound(guesses: int, right: int) -> FamilyResult:
            return mahloujifar(
                rehearsal.canaries, guesses, right, event, rehearsal.neighbours, self.delta, level
            )

        guesses = guess_count(rehearsal, self.expected, lambda *both: bound(*both).epsilon)
        right = correct_guesses(rehearsal.scores, rehearsal.coins, guesses)
        return bound(guesses, right), {"guesses": guesses, "right": right}


def _of_any(epsilon: float) -> str:
    return f"Whatever ran, its epsilon is at least {rounding.down(epsilon)}."


def require_enough(rehearsal: CanaryRehearsal, event: ev.Event, alpha: float) -> None:
    """Raise `InvalidInput` where not even a perfect attack could contradict the claim.

    It makes no error on n units of either coin; then the rates are at most u = 1 - (alpha/2)^(1/n),
    and the claim is contradicted where u < f(u).
    """
    needed = _needed(event, rehearsal.neighbours, alpha)
    into = int(rehearsal.coins.sum())
    if needed >= MAX_UNITS_NEEDED:
        raise InvalidInput(
            "No number of canaries is enough for this claim.",
            "It allows an attack with hardly an error; none that could be counted contradicts it.",
            "Ask for the tier robust, which gives a bound all the same.",
        )
    if _smaller_side(rehearsal) < needed:
        raise InvalidInput(
            f"{rehearsal.canaries} canaries, {into} of them in, are too few for this claim.",
            "Not even an attack without any error could contradict it.",
            f"Give {_canaries(needed)} canaries or more.",
        )


def _too_few(
    rehearsal: CanaryRehearsal, event: ev.Event, alpha: float, strict: float
) -> tuple[str, ...]:
    """Return what must be known where the strict level contradicts nothing, whatever is seen."""
    needed = _needed(event, rehearsal.neighbours, alpha)
    if _smaller_side(rehearsal) >= needed:
        return ()
    enough = (
        f"{_canaries(needed):,} canaries could"
        if needed < MAX_UNITS_NEEDED
        else "no number of them can"
    )
    return (
        f"{rehearsal.canaries:,} canaries contradict nothing at {one_in(strict)}, whatever they "
        f"show: {enough}",
    )


def _needed(event: ev.Event, neighbours: str, alpha: float) -> int:
    """Return how many units of either coin a perfect attack needs to contradict the claim."""
    curve, needed = trade_off(event, neighbours), 1
    while needed < MAX_UNITS_NEEDED:
        # Clopper-Pearson's upper limit of 0 errors in n, at alpha / 2: 1 - (alpha / 2)^(1 / n).
        u = -math.expm1(math.log(alpha / 2.0) / needed)
        if u < float(np.asarray(curve(u))):
            break
        needed = math.ceil(needed * 1.1)
    return needed


def _smaller_side(rehearsal: CanaryRehearsal) -> int:
    into = int(rehearsal.coins.sum())
    return min(into, rehearsal.canaries - into)


def _canaries(needed: int) -> int:
    """Return how many canaries have `needed` of either coin with high probability."""
    # Mean n / 2 and deviation sqrt(n) / 2 of a fair coin: about four deviations of room.
    return 2 * needed + 6 * math.isqrt(needed) + 6


def _claimed(rehearsal: CanaryRehearsal, delta: float) -> float | None:
    """Return the epsilon that is claimed at this delta."""
    if rehearsal.event is None or delta == rehearsal.delta:
        return rehearsal.claimed
    return account(rehearsal.event, delta=delta, neighbours=rehearsal.neighbours).epsilon.upper


def _of_the_claim(result: FamilyResult, verdict: Verdict) -> str:
    if result.factor is None:
        return "Nothing: no mechanism of the claimed family is ruled out."
    factor = rounding.up(result.factor)
    if verdict != "not-contradicted" and not result.rejected:  # as published
        return (
            f"What ran shows epsilon {rounding.down(result.epsilon)} or more, above the number "
            f"that is claimed.{MAY_BE_CHANCE if verdict == 'unusual' else ''}"
        )
    if verdict == "contradicted":
        return (
            f"What ran is not the claimed mechanism: even with {factor} times the claimed noise it "
            "would show less of a unit."
        )
    if verdict == "unusual":
        return (
            f"With {factor} times the claimed noise a mechanism seldom shows so much of a unit."
            f"{MAY_BE_CHANCE}"
        )
    return (
        f"With {factor} times the claimed noise the mechanism would show less of a unit than was "
        "seen; that it has the claimed noise is not contradicted."
    )


def _by_verdict(proves: str, verdict: Verdict) -> str:
    """Return what guesses prove, with what it means that it is above the claim by chance."""
    if verdict != "unusual":
        return proves
    return f"{proves}{MAY_BE_CHANCE}"


def _size(rehearsal: CanaryRehearsal) -> dict[str, float | int | str]:
    into = int(rehearsal.coins.sum())
    return {"canaries": rehearsal.canaries, "in": into, "rounds": rehearsal.rounds}


def _curves(rehearsal: CanaryRehearsal) -> dict[str, Curve]:
    """Return measured rates at many thresholds: for plots, and without confidence."""
    points = roc(rehearsal.scores, rehearsal.coins).curve()
    return {
        "roc": tuple(points),
        "trade-off": tuple((alarms, 1.0 - hits) for alarms, hits in points),
    }
