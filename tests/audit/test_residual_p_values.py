"""p-values of the residual tier: right beside an oracle, and never too small."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from privplan.audit.residual import p_values

from ..cases import for_each
from ..chance import FALSE_ALARM


@for_each("n", [1, 8, 31, 5000, 10**7])
@for_each("sigmas", [-4.0, -1.0, 0.0, 2.0, 5.0])
def test_sums_of_squares_are_chi_squared(n: int, sigmas: float) -> None:
    squares = max(0.0, n + sigmas * (2.0 * n) ** 0.5)
    law = stats.chi2(n)
    assert p_values.chi_square(squares, n) == pytest.approx(
        min(1.0, 2.0 * min(law.cdf(squares), law.sf(squares))), rel=1e-9, abs=1e-300
    )


@for_each("n", [1, 8, 100, 5000])
def test_the_bound_on_a_distance_is_above_its_law(n: int) -> None:
    for distance in np.linspace(0.01, 1.0, 60):
        assert p_values.distance_bound(distance + p_values.GRID_DISTANCE, n) >= stats.kstwo.sf(
            distance, n
        ) * (1.0 - 1e-9)
    far = 2.0 / n**0.5  # where it counts it is near
    if far < 0.5:
        assert p_values.distance_bound(far, n) <= 2.0 * stats.kstwo.sf(far, n)


def test_an_angle_has_the_law_of_a_random_direction() -> None:
    """As the correlation of n + 1 values has, whose mean is not known: Student's t."""
    for n in (2, 9, 200):
        for cosine in (-0.9, -0.2, 1e-3, 0.4, 0.99):
            t = abs(cosine) * ((n - 1) / (1.0 - cosine * cosine)) ** 0.5
            assert p_values.cosine_p(cosine, n) == pytest.approx(
                2.0 * stats.t.sf(t, n - 1), rel=1e-8
            )
    assert p_values.cosine_p(1.0, 31) == p_values.cosine_p(-1.0, 31) == 0.0
    assert p_values.cosine_p(0.0, 31) == 1.0


def test_a_signed_angle_is_a_standard_normal_value() -> None:
    """4,000 angles, Kolmogorov-Smirnov, one false alarm in 10^6."""
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 4000, 12))
    cosines = (one * other).sum(1) / np.sqrt((one**2).sum(1) * (other**2).sum(1))
    values = [p_values.cosine_z(float(cosine), 12) for cosine in cosines]
    assert stats.kstest(values, "norm").pvalue > FALSE_ALARM
    assert p_values.cosine_z(1.0, 31) == -p_values.cosine_z(-1.0, 31) > 30.0


def test_values_together_are_as_rare_as_their_sum() -> None:
    assert p_values.summed_z([1.0, 2.0, -0.5]) == pytest.approx(2.0 * stats.norm.sf(2.5 / 3**0.5))
    assert p_values.summed_z([37.0] * 100) >= 0.0


def test_rare_hits_are_binomial() -> None:
    assert p_values.binomial_tail(0, 1000, 1e-6) == 1.0
    for count in (1, 3):
        assert p_values.binomial_tail(count, 10**6, 1e-6) == pytest.approx(
            stats.binom.sf(count - 1, 10**6, 1e-6)
        )


def test_the_chance_of_no_noise_is_that_of_the_discrete_law() -> None:
    std, grid = 3.0, 0.25
    points = np.arange(-4000, 4001) * grid
    mass = np.exp(-(points**2) / (2.0 * (std**2 + 64.0 * grid**2)))
    assert (
        mass[4000] / mass.sum()
        <= p_values.zero_probability(std, grid)
        <= 1.3 * mass[4000] / mass.sum()
    )


def test_collisions_are_counted_by_pairs() -> None:
    assert p_values.collision_bound(1e6, 2, 1e-3) == 1.0
    assert p_values.collision_bound(10.0, 2, 1e-3) == pytest.approx(1e-5)
    assert p_values.collision_bound(1e9, 1000, 1e-6) == 0.0


def test_holm_is_between_bonferroni_and_nothing() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        p = rng.random(6) ** 3
        adjusted = np.array(p_values.holm(p.tolist()))
        order = np.argsort(p)
        assert (np.diff(adjusted[order]) >= 0.0).all()
        assert (adjusted >= p).all()
        assert (adjusted <= np.minimum(1.0, 6 * p) + 1e-15).all()
        assert adjusted[order[0]] == pytest.approx(min(1.0, 6 * p.min()))


def test_noise_in_another_order_and_with_other_signs_is_counted_by_its_ways() -> None:
    """Three values on seven points: the bound is above the chance, by at most the ways of ties."""
    points = range(-3, 4)
    chance = 1.0 / len(points)
    vectors = list(itertools.product(points, repeat=3))
    alike = sum(
        sorted(map(abs, one)) == sorted(map(abs, other)) for one in vectors for other in vectors
    )
    exact = alike / len(vectors) ** 2
    assert exact <= p_values.rearranged_bound(1.0, 3, chance) <= 3.0 * exact
    assert p_values.rearranged_bound(10.0, 3, 1e-6) == pytest.approx(10 * 6 * 8 * 1e-18)
    assert p_values.rearranged_bound(1.0, 2**16, 0.4 * 2.0**-20) < 1e-300
    assert p_values.rearranged_bound(1.0, 2**16, 0.4 * 2.0**-12) == 1.0
