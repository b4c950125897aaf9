"""A silo that one noise draw may have more than once is not counted once: truths in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

import privplan as pp

from ..cases import for_each

NOISE, DELTA = 0.7, 1e-5
SILOS: dict[str, Any] = {
    "claim": {"delta": DELTA, "unit": "silo", "neighbours": "zero-out"},
    "noise": {"noise_multiplier": NOISE},
    "data": {"silos": 10},
}
AGAIN = {"sampling": {"rate": 1.0, "sampled": "users"}, "schedule": {"steps": 3}}
HALVES = {
    "sampling": {"method": "shuffled", "rate": 0.5, "sampled": "users"},
    "schedule": {"steps": 6, "accumulation": 3},
}


def epsilon_of(mu: float) -> float:
    """Return the epsilon of a Gaussian of shift `mu`, at DELTA."""

    def excess(epsilon: float) -> float:
        far = norm.cdf(mu / 2.0 - epsilon / mu)
        return float(far - math.exp(epsilon + norm.logcdf(-mu / 2.0 - epsilon / mu)) - DELTA)

    return float(brentq(excess, 0.0, mu * mu + 10.0 * mu))


def epsilon_of_sums(draws: int, chance: float, steps: int) -> float:
    """Return an epsilon that is lost at least where a silo is in `draws` of each step by chance.

    The sum of all outputs moves by a binomial number, and is a post-processing: of the events that
    it is large, the one with the largest log((P - delta) / Q).
    """
    times, std = np.arange(draws * steps + 1), math.sqrt(steps) * NOISE
    cuts = np.linspace(0.0, draws * steps, 401)
    moved = norm.sf(cuts[:, None], times, std) @ binom.pmf(times, draws * steps, chance)
    kept = moved > DELTA
    return float((np.log(moved[kept] - DELTA) - norm.logsf(cuts[kept], 0.0, std)).max())


def described(*parts: dict[str, Any], **sampling: str) -> Any:
    run: dict[str, dict[str, Any]] = {}
    for part in (SILOS, *parts, {"sampling": sampling}):
        for table, facts in part.items():
            run[table] = {**run.get(table, {}), **facts}
    return run


# With replacement, each of ten draws of a step has a silo by a tenth.
# One heavy silo fills each of three batches of ten; a pair of draws of three halves has each silo
# once and twice, so that sums of three pairs move by 3 each, under noise of sqrt(2) deviations.
CASES = (
    (described(AGAIN, method="weighted"), epsilon_of(10.0 * math.sqrt(3.0) / NOISE)),
    (described(AGAIN, method="with-replacement"), epsilon_of_sums(10, 0.1, 3)),
    (described(HALVES), epsilon_of(3.0 * math.sqrt(3.0) / (math.sqrt(2.0) * NOISE))),
)


@for_each("case", CASES)
def test_the_upper_end_is_not_below_a_run_that_has_a_silo_more_than_once(
    case: tuple[dict[str, Any], float],
) -> None:
    run, truth = case
    result = pp.check(run, claimed=truth - 0.5)
    assert result.proven is not None
    assert result.proven.upper >= truth
    assert result.verdict != "holds"


def test_drawn_records_of_a_silo_that_is_clipped_as_a_whole_count_once() -> None:
    run = described(AGAIN, method="with-replacement", sampled="records")
    truth = epsilon_of(math.sqrt(3.0) / NOISE)
    assert pp.check(run).proven.upper == pytest.approx(truth, rel=1e-3)
