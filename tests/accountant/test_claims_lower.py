"""The exact tests on concrete data: never above the truth, and close to it."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from privplan.accountant.claims.flame_lower import (
    SCORE_STEPS,
    count_epsilon,
    laplace_stays,
    response_stays,
    tuple_epsilon,
)

from ..cases import for_each


def hockey_stick_epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    """Return the epsilon of two laws at `delta`, by halving."""
    low, high = 0.0, 60.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        exceeds = np.maximum(p - math.exp(middle) * q, 0.0).sum() > delta
        low, high = (middle, high) if exceeds else (low, middle)
    return high


@for_each(("stays", "own", "messages"), [(0.8, 3, 12), (0.61, 10, 40), (0.9, 1, 5)])
def test_a_count_never_shows_more_than_the_two_laws(stays: float, own: int, messages: int) -> None:
    """The whole law of the count, term by term."""
    others = binom.pmf(np.arange(messages - own + 1), messages - own, 0.5)
    laws = [
        np.convolve(binom.pmf(np.arange(own + 1), own, chance), others)
        for chance in (stays, 1.0 - stays)
    ]
    delta = 1e-3
    exact = hockey_stick_epsilon(*laws, delta)
    best = 0.0  # of the thresholds, which is what the test may use
    for threshold in range(messages + 1):
        p, q = laws[0][threshold:].sum() - delta, laws[1][threshold:].sum()
        best = max(best, math.log(p / q) if p > 0 else 0.0)
    found = count_epsilon(stays, own, messages, delta)
    assert found <= best <= exact
    assert found == pytest.approx(best, rel=1e-5)


@for_each(
    ("messages", "own", "deviations"),
    [(7_850_000, 7850, 3.0), (78_500_000_000, 785, 4.5), (52_281, 157, -2.0)],
)
def test_the_tails_of_large_binomials(messages: int, own: int, deviations: float) -> None:
    """Against a sum from the largest term down, whose first term is exact in 50 digits."""
    others = messages - own
    threshold = int(0.5 * others + deviations * math.sqrt(0.25 * others))
    with mpmath.workdps(50):
        first = mpmath.exp(
            mpmath.loggamma(others + 1)
            - mpmath.loggamma(threshold + 2)
            - mpmath.loggamma(others - threshold)
            - others * mpmath.log(2)
        )
    steps = min(others - threshold - 1, int(14 * math.sqrt(0.25 * others)))
    k = threshold + 1.0 + np.arange(1, steps)
    exact = float(first) * (1.0 + np.cumprod((others - k + 1.0) / k).sum())
    assert binom.sf(threshold, others, 0.5) == pytest.approx(exact, rel=1e-8)
    mass = binom.pmf(threshold + 1, others, 0.5)
    assert mass == pytest.approx(float(first), rel=1e-8)


@for_each(
    ("stays", "own", "messages", "delta", "expected"),
    [
        (laplace_stays(0.01), 7850, 7850 * 1000, 5.011872e-6, "0.0900"),
        (laplace_stays(0.5), 157, 7850 * 333, 5.011872e-6, "0.1435"),
        (laplace_stays(0.5), 157, 157 * 333, 5.011872e-6, "1.198"),
        (laplace_stays(0.5), 157, 157 * 1000, 5.011872e-6, "0.658"),
        (laplace_stays(0.5), 785, 7850 * 666, 5.011872e-6, "0.563"),
        (laplace_stays(0.5), 785, 785 * 666, 5.011872e-6, "1.984"),
        (response_stays(0.8), 1515, 75_755 * 1666, 8.533614e-7, "0.411"),
        (response_stays(0.8), 1515, 1515 * 1666, 8.533614e-7, "3.423"),
        (response_stays(1.0), 785, 78_500_000_000, 1e-6, "0.00776"),
        (laplace_stays(0.5), 157, 78_500_000, 1e-6, "0.0258"),
    ],
)
def test_what_counts_show_about_flame(
    stays: float, own: int, messages: int, delta: float, expected: str
) -> None:
    """Rounded down.  Source: measured before this program was written, by other code."""
    decimals = len(expected.split(".")[1])
    found = count_epsilon(stays, own, messages, delta)
    assert f"{math.floor(found * 10**decimals) / 10**decimals:.{decimals}f}" == expected


def test_a_count_shows_nothing_where_messages_are_noise() -> None:
    assert count_epsilon(0.5, 10, 1000, 1e-6) == 0.0
    assert count_epsilon(laplace_stays(1e-9), 10, 1000, 1e-6) == 0.0


def test_one_message_in_a_tuple_by_closed_forms() -> None:
    """k = 1: the score is one message's, and a threshold on it one on the message."""
    local, tuples, delta = 2.0, 50, 1e-3
    cuts = 0.5 + (np.arange(1, 2 * SCORE_STEPS + 1) - 0.5) / (4 * SCORE_STEPS)

    def above(cut: float, centre: float) -> float:
        tail = 0.5 * math.exp(-local * abs(cut - centre))
        return tail if cut >= centre else 1.0 - tail

    best = max(
        math.log((above(cut, 1.0) - delta) / ((tuples - 1) * above(cut, 0.5) + above(cut, 0.0)))
        for cut in cuts
        if above(cut, 1.0) > delta
    )
    found = tuple_epsilon(local, 1, tuples, delta)
    assert found == pytest.approx(max(best, 0.0), abs=1e-6)


def test_two_messages_in_a_tuple_by_listing_scores() -> None:
    local, delta, tuples = 3.0, 1e-4, 4
    inner = [0.5 + (j - 0.5) / (4 * SCORE_STEPS) for j in range(1, 2 * SCORE_STEPS + 1)]
    cuts = [-math.inf, *inner, math.inf]

    def masses(centre: float) -> list[float]:
        def below(cut: float) -> float:
            if cut < centre:
                return 0.5 * math.exp(-local * (centre - cut))
            return 1.0 - 0.5 * math.exp(-local * (cut - centre))

        return [below(high) - below(low) for low, high in itertools.pairwise(cuts)]

    # The chances that a sum of two scores reaches each threshold.
    reached = {}
    for centre in (0.0, 0.5, 1.0):
        reached[centre] = np.cumsum(np.convolve(masses(centre), masses(centre))[::-1])[::-1]
    p, q = reached[1.0] - delta, (tuples - 1) * reached[0.5] + reached[0.0]
    best = max(0.0, float(np.log(p[p > 0] / q[p > 0]).max()))
    assert tuple_epsilon(local, 2, tuples, delta) == pytest.approx(best, rel=1e-5)


def test_whole_tuples_of_flame() -> None:
    """7.13 at least, where the paper says 0.24; more tuples hide better."""
    found = tuple_epsilon(0.5, 157, 16_650, 5.011872e-6)
    assert 7.13 <= found <= 7.14
    assert found > tuple_epsilon(0.5, 157, 166_500, 5.011872e-6) > 0.0
