"""Canaries of runs with correlated noise: what is measured, of sound ones and of broken ones.

50 rounds of 10 cohorts, 10 bands, one block, epsilon claimed 1, 4 and 8; one call at 95% confidence
with seed 1, `claim` by the ranked test alone.  Aware is the score that knows C, white the sum of a
unit's noisy rounds, which is best where rounds have noise of their own.

    canaries    claim aware (white)                       robust aware (white)
       5,000    .42 (.14)    3.26 (2.18)    7.30 (5.09)    .47 (.30)    2.50 (1.56)    5.01 (3.23)
      20,000    .79 (.49)    3.90 (2.72)    7.58 (5.37)    .53 (.33)    2.80 (1.75)    5.51 (4.48)
      50,000    .83 (.61)    3.81 (2.71)    7.70 (5.46)    .67 (.48)    2.64 (1.77)    5.35 (3.79)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_triangular, toeplitz
from scipy.optimize import brentq
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.arrays import FloatArray
from privplan.accountant.mechanisms import BandedGaussian, gaussian
from privplan.accountant.plan.banded_strategy import banded_coefficients
from privplan.audit.canaries import CanaryRehearsal, claim_tier, rehearse, robust_tier
from privplan.audit.canaries.rehearsal import likelihood_ratios
from privplan.audit.canaries.selection import SIMULATED_UNITS, expected_accuracy
from privplan.audit.statistics import claim_only, scaled
from privplan.fl.settings.schema import Settings
from privplan.fl.uldp.correlated import RunningBlock, Schedule

from ..cases import for_each
from ..fl.test_uldp_banded_canaries import banded
from .broken import broken, draw, patched

SHORT = banded(noise_multiplier=1.803)
"""Two blocks, each a turn of four cohorts, with three bands: epsilon 4.0."""

LONG = banded(50, 10, 10, 1, noise_multiplier=3.2326)
"""One block of five turns of ten cohorts, with ten bands: epsilon 4.0."""


# --- the score ------------------------------------------------------------------------------------


def white_rounds(found: CanaryRehearsal, bands: int, cohorts: int) -> FloatArray:
    """Return a unit's noisy sums y = C^-1 v in the turns of one block: (turns, m)."""
    rounds = len(found.observations)
    column = [*banded_coefficients(bands), *[0.0] * (rounds - bands)]
    strategy = toeplitz(column, np.zeros(rounds))
    # Rows have the sign of their turn taken out, which alternates.
    signs = np.where(np.arange(rounds) // cohorts % 2, -1.0, 1.0)[:, None]
    solved = signs * solve_triangular(strategy, signs * found.observations, lower=True)
    return np.asarray(solved[::cohorts])


@for_each("opposite", [False, True])
@for_each("rate", [1.0, 0.3])
def test_rows_that_are_moved_alike_are_a_pattern_of_ones(opposite: bool, rate: float) -> None:
    rows = np.random.default_rng(1).standard_normal((5, 40))
    alike = likelihood_ratios(rows, 0.7, rate, opposite=opposite)
    as_pattern = likelihood_ratios(rows, 0.7, rate, opposite=opposite, pattern=np.ones(5))
    assert as_pattern == pytest.approx(alike, rel=1e-12)
    # A row that is moved twice as far, beside one that is not moved.
    uneven = likelihood_ratios(rows[:2], 0.7, rate, opposite=opposite, pattern=np.array([2.0, 0.0]))
    twice = likelihood_ratios(rows[:1], 1.4, rate, opposite=opposite)
    assert uneven == pytest.approx(twice, rel=1e-12)


def test_without_a_claim_rows_are_weighted_by_the_pattern() -> None:
    rows = np.random.default_rng(1).standard_normal((2, 10))
    scores = likelihood_ratios(rows, 0.0, 1.0, pattern=np.array([1.0, 0.5]))
    assert scores == pytest.approx(rows[0] + rows[1] / 2.0)


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("guesses", [100, 1000, 30_000])
def test_as_many_guesses_are_expected_to_be_right_as_the_score_allows(
    neighbours: str, guesses: int
) -> None:
    """Of a score that is N(+-m, 2 m): m = mu^2 / 2, or 2 mu^2 of units that are replaced."""
    noise = 2.0 if neighbours == "add-remove" else 4.0
    found = rehearse(banded(noise_multiplier=noise, neighbours=neighbours), canaries=20, seed=1)
    assert found.pattern is not None
    assert (found.pattern == 0.0).any()  # bands are fewer than cohorts
    mean = found.shift**2 * float(found.pattern @ found.pattern)
    mean *= 2.0 if found.opposite else 0.5
    spread = np.sqrt(2.0 * mean)
    # The surest are at or beyond the threshold, which is a quantile of the size of the score.
    share = guesses / SIMULATED_UNITS
    threshold = brentq(lambda at: _beyond(at, mean, spread) - share, 0.0, mean + 9.0 * spread)
    expected = norm.sf(threshold, mean, spread) / share
    deviation = np.sqrt(expected * (1.0 - expected) / guesses)
    assert expected < 0.99
    assert expected_accuracy(found)[guesses - 1] == pytest.approx(expected, abs=5.0 * deviation)


def _beyond(threshold: float, mean: float, spread: float) -> float:
    """Return how likely a score of either coin is so far from 0: of both it is the same."""
    right, wrong = norm.sf(threshold, mean, spread), norm.cdf(-threshold, mean, spread)
    return float(right + wrong)


def test_rows_that_move_nothing_change_no_guess() -> None:
    found = rehearse(SHORT, canaries=20, seed=1)
    assert found.pattern is not None
    moved = found.pattern > 0.0
    without = replace(found, pattern=found.pattern[moved], observations=found.observations[moved])
    assert (expected_accuracy(found) == expected_accuracy(without)).all()


def test_the_family_of_a_block_is_its_noise_times_a_factor() -> None:
    block = rehearse(SHORT, canaries=4, seed=1).event
    assert isinstance(block, ev.Repeat)
    assert isinstance(block.event, ev.MatrixGaussian)
    more = replace(block.event, noise_multiplier=2.0 * block.event.noise_multiplier)
    assert scaled(block, 2.0) == ev.Repeat(2, more)


def test_a_score_that_knows_the_strategy_shows_more_than_a_white_one() -> None:
    """Of the same run: by Cauchy and Schwarz |C x| |C^-T x| = 1.46 times the separation."""
    found = rehearse(LONG, canaries=5000, seed=1)
    assert found.event is not None
    assert found.pattern is not None
    rounds = white_rounds(found, 10, 10)
    shown = [
        claim_only(scores, found.coins, found.event, "add-remove", 1e-5, alpha=0.05).epsilon
        for scores in (found.scores, rounds.sum(axis=0))
    ]
    print(f"claimed 4.0; claim {shown[0]:.2f}, white {shown[1]:.2f}")
    assert shown[0] > 1.3 * shown[1]
    bound = robust_tier(found)
    assert bound.verdict == "not-contradicted"
    assert 2.0 < bound.value < 4.0  # by white scores 1.6
    # What a white score takes for noise 1 is more: its errors are not those that it expects.
    spread = (rounds - found.shift * found.coins).std()
    inverse = np.linalg.inv(toeplitz([*banded_coefficients(10), *[0.0] * 40], np.zeros(50)))
    expected = np.sqrt(np.square(inverse[::10]).sum(axis=1).mean())
    assert expected > 1.1
    assert spread == pytest.approx(expected, abs=5 * expected / np.sqrt(2 * rounds.size))


# --- sound runs -----------------------------------------------------------------------------------

SOUND: dict[str, tuple[Settings, dict[str, Any]]] = {
    "two blocks": (SHORT, {}),
    "one block": (banded(12, 3, 3, 1, noise_multiplier=2.0), {}),
    "cut short": (SHORT, {"rounds": 6}),
    "replaced, before a server": (
        banded(noise_multiplier=4.0, neighbours="replace-one", training={"weighting": "records"}),
        {"observer": "server"},
    ),
    "before a silo": (SHORT, {"observer": "silo"}),
}


@pytest.mark.quick(2)
@for_each("name", SOUND)
def test_a_sound_run_is_rarely_above_its_claim(name: str) -> None:
    """A number errs once in 20 at most, a contradiction once in 2,500; the seeds are fixed."""
    own, more = SOUND[name]
    for seed in range(2):
        claim = claim_tier(rehearse(own, canaries=400, seed=seed, **more))
        assert not claim.contradicted
        assert claim.value <= (claim.claimed or 0.0) or claim.unusual


@pytest.mark.slow
@for_each("own", [SHORT, LONG], ids=["short", "long"])
def test_many_canaries_show_nearly_all_that_is_claimed(own: Settings) -> None:
    found = rehearse(own, canaries=50_000, seed=1)
    measured = claim_tier(found)
    assert measured.claimed is not None
    assert 0.9 * measured.claimed < measured.value <= measured.claimed
    assert robust_tier(found).value > 0.6 * measured.claimed


# --- broken ones ----------------------------------------------------------------------------------


def no_noise_left() -> AbstractContextManager[None]:
    """Noise is drawn, and forgotten."""

    def forgotten(*drawn: Any) -> Any:
        return 0 * draw(*drawn)

    return patched((gaussian, "discrete_gaussian", forgotten))


def everybody_in_every_round() -> AbstractContextManager[None]:
    """Nobody waits for the turn of a cohort."""

    def joining(_: Schedule, __: int, names: Any) -> Any:
        return np.ones(len(names), bool)

    return patched((Schedule, "joining", joining))


def other_coefficients() -> AbstractContextManager[None]:
    """Terms of the last rounds count in full, and not as C says."""

    def row(_: BandedGaussian, totals: Any) -> Any:
        return 256 * sum(totals)

    return patched((BandedGaussian, "row", row))


def noise_of_the_first_block() -> AbstractContextManager[None]:
    """A block begins with the noise of the one before it, as a run would that goes on with it."""
    kept: dict[Any, list[Any]] = {}

    def again(stream: Any, *drawn: Any) -> Any:
        noise = kept.setdefault(stream.id, [])
        noise.append(draw(stream, *drawn))
        return noise[(len(noise) - 1) % 4]

    return patched((gaussian, "discrete_gaussian", again))


BROKEN: dict[str, tuple[Callable[[], AbstractContextManager[None]], int]] = {
    "half of the noise": (lambda: broken("half-noise"), 1000),
    "no noise left": (no_noise_left, 300),
    "no clipping": (lambda: broken("no-clipping"), 300),
    "the same noise each round": (lambda: broken("same-noise"), 300),
    "noise of the first block": (noise_of_the_first_block, 300),
    "weights missing": (lambda: broken("no-weights"), 500),
    "noise over silos": (lambda: broken("noise-over-silos"), 2000),
    "one silo's noise": (lambda: broken("one-silos-noise"), 2000),
    "everybody in every round": (everybody_in_every_round, 2000),
    "other coefficients": (other_coefficients, 20_000),
}
"""Faults, and by how many canaries each of five seeds contradicts the claim."""


@for_each("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@for_each("name", BROKEN)
def test_what_is_broken_is_contradicted(name: str, seed: int) -> None:
    fault, canaries = BROKEN[name]
    with fault():
        found = rehearse(SHORT, canaries=canaries, seed=seed)
    measured = claim_tier(found, seed=seed)
    assert measured.contradicted
    assert measured.claimed is not None
    assert measured.value > measured.claimed


def test_a_block_that_is_paid_as_single_rounds_is_contradicted() -> None:
    """As if five rounds had noise of their own: epsilon 2.87, where 4.0 is true."""
    found = rehearse(LONG, canaries=20_000, seed=1)
    apart = ev.Repeat(5, ev.Gaussian(3.2326))
    claimed = account(apart, delta=1e-5).epsilon.upper
    measured = claim_tier(replace(found, event=apart, claimed=claimed))
    assert claimed < 2.88
    assert measured.contradicted
    assert measured.value > claimed


@pytest.mark.slow
def test_half_of_the_noise_is_contradicted_by_guesses_alone() -> None:
    with broken("half-noise"):
        found = rehearse(SHORT, canaries=40_000, seed=1)
    measured = robust_tier(found)
    assert measured.contradicted
    assert measured.value > (measured.claimed or 0.0)


def test_fresh_noise_where_correlated_is_declared_shows_less() -> None:
    """Rounds by themselves, x_t + z_t: no row holds a term twice, so it is no fault of privacy.

    Canaries cannot accuse it, as nothing is above the claim; the residual tier does, which makes
    rows again.
    """
    solved = RunningBlock.solved

    def alone(_: BandedGaussian, totals: Any) -> Any:
        return 256 * totals[0]

    def unsolved(
        block: RunningBlock, mechanism: BandedGaussian, received: FloatArray
    ) -> FloatArray:
        solved(block, mechanism, received)
        return received

    with patched((BandedGaussian, "row", alone), (RunningBlock, "solved", unsolved)):
        found = rehearse(LONG, canaries=5000, seed=1)
    measured = claim_tier(found)
    apart = account(ev.Repeat(5, ev.Gaussian(3.2326)), delta=1e-5).epsilon.upper
    assert measured.verdict == "not-contradicted"
    assert measured.value < apart < (measured.claimed or 0.0)
