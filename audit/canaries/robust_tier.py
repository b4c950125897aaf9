"""The robust tier: what right guesses show, however canaries depend on each other.

The mechanism may treat canaries as differently, and make them depend on each other, as it likes.
It is far from tight: half of the truth, or a little more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant import rounding, validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, Unsupported
from ..measurement import ANY_MECHANISM, Levels, Measurement, Verdict, levels_of
from ..statistics import (
    FamilyResult,
    mahloujifar,
    steinke,
)
from .claim_tier import (
    ASSUMES_COINS,
    by_verdict,
    claimed_of,
    curves_of,
    is_above,
    size_of,
    verdict_of,
)
from .rehearsal import CanaryRehearsal
from .selection import correct_guesses, expected_accuracy, guess_count

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


MIN_CANARIES_ROBUST: Final = 40
"""Canaries of a robust bound, at least: of fewer, not even right guesses would show much."""


def robust_tier(
    rehearsal: CanaryRehearsal, *, delta: float | None = None, alpha: float = 0.05
) -> Measurement:
    """Return how much of epsilon right guesses show, however canaries depend on each other.

    Two bounds, at half each of what the strict level leaves of alpha.  The value is that of the
    claim's trade-off curve (Mahloujifar): the epsilon of the claim with as much noise as is still
    refuted.  Next to it, in `sample`, stands what holds of any mechanism (Steinke), which is less;
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
    levels, claimed = levels_of("robust", alpha), claimed_of(rehearsal, at)
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
        proves=by_verdict(guesses.proves, guesses.verdict),
        assumes=(*guesses.assumes, *rehearsal.note),
        sample={**size_of(rehearsal), **guesses.sample},
        curves=curves_of(rehearsal),
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
        verdict = verdict_of(claimed is not None and least > claimed, above)
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
    verdict = verdict_of(is_above(strict, claimed), above or is_above(usual, claimed))
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
