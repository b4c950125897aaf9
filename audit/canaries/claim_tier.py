"""The tier claim: is what ran the claimed mechanism, or one with less noise?

It is tight, under the assumption that the mechanism is of the claimed family and treats canaries
alike.  `robust_tier` is the other test of a rehearsal, without it; the two are never combined into
one number.

Both make their tests at two levels (`audit.measurement`): at the strict one the claim is
contradicted, at the other one alone the result is unusual.  The number is the larger lower bound of
the two, and its confidence is 1 - alpha.  So whatever is above the claim is unusual at least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant import rounding, validate
from ...accountant.account import account
from ...accountant.errors import InvalidInput
from ..measurement import Curve, Measurement, Verdict, levels_of, one_in
from ..statistics import (
    FamilyResult,
    claim_only,
    family_test,
    roc,
    trade_off,
)
from .rehearsal import CanaryRehearsal
from .selection import Choice, choose_test

ASSUMES_FAMILY: Final = (
    "the mechanism is of the claimed family, with all of its noise multiplied by one factor",
    "it treats canaries alike, and independently of one another",
)

ASSUMES_COINS: Final = "fair and independent coins; canaries may depend on each other in any way"


MAY_BE_CHANCE: Final = " That may be chance."

MAX_UNITS_NEEDED: Final = 10**9


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
    levels, claimed = levels_of("claim", alpha), claimed_of(rehearsal, at)
    choices = [
        choose_test(rehearsal, alpha=level / 2.0, rng=np.random.default_rng([seed, 1]))
        for level in (levels.rest, levels.strict)
    ]
    # Two tests share a level (Bonferroni), whatever their scores have in common.
    share = 1.0 if choices[0] is None else 0.5  # by how many there are, not by what was seen
    require_enough(rehearsal, event, share * levels.rest)
    usual = _tests(rehearsal, event, at, share * levels.rest, choices[0])
    strict = _tests(rehearsal, event, at, share * levels.strict, choices[1])
    verdict = verdict_of(
        any(is_above(test.result, claimed) for test in strict),
        any(is_above(test.result, claimed) for test in usual),
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
            **size_of(rehearsal),
            "tested": counts.negatives + counts.positives,
            "false alarms": counts.false_alarms,
            "misses": counts.misses,
            "statistic": best.statistic,
            "group": best.group,
            "noise factor": "none rejected" if result.factor is None else result.factor,
        },
        curves={
            **curves_of(rehearsal),
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


def is_above(result: FamilyResult, claimed: float | None) -> bool:
    """Return whether the claim is rejected: its mechanism, or the number that is stated of it.

    They are one, but for a method as published, whose paper's number its noise may not give.
    """
    return result.rejected or (claimed is not None and result.epsilon > claimed)


def verdict_of(strict: bool, usual: bool) -> Verdict:
    return "contradicted" if strict else "unusual" if usual else "not-contradicted"


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


def claimed_of(rehearsal: CanaryRehearsal, delta: float) -> float | None:
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


def by_verdict(proves: str, verdict: Verdict) -> str:
    """Return what guesses prove, with what it means that it is above the claim by chance."""
    if verdict != "unusual":
        return proves
    return f"{proves}{MAY_BE_CHANCE}"


def size_of(rehearsal: CanaryRehearsal) -> dict[str, float | int | str]:
    into = int(rehearsal.coins.sum())
    return {"canaries": rehearsal.canaries, "in": into, "rounds": rehearsal.rounds}


def curves_of(rehearsal: CanaryRehearsal) -> dict[str, Curve]:
    """Return measured rates at many thresholds: for plots, and without confidence."""
    points = roc(rehearsal.scores, rehearsal.coins).curve()
    return {
        "roc": tuple(points),
        "trade-off": tuple((alarms, 1.0 - hits) for alarms, hits in points),
    }
