"""Certified tail sums: never below the exact expectation, and close to it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from privplan.accountant.amplification import sums
from privplan.accountant.amplification.spectrum import NODE_CUTOFF_EXPONENT, Lattice
from privplan.accountant.amplification.sums import log_chernoff_excess, log_expected_excess

from ..cases import for_each


def exact_log(values: list[float], masses: list[float], count: int) -> float:
    """Return log E[(sum)+] by listing all multinomial counts, with mpmath."""
    with mpmath.workdps(40):
        v, p = [mpmath.mpf(x) for x in values], [mpmath.mpf(x) for x in masses]

        def listed(position: int, left: int, weight: mpmath.mpf, total: mpmath.mpf) -> mpmath.mpf:
            if position == len(v) - 1:
                total += left * v[position]
                return weight * p[position] ** left / mpmath.factorial(left) * max(total, 0)
            return mpmath.fsum(
                listed(
                    position + 1,
                    left - k,
                    weight * p[position] ** k / mpmath.factorial(k),
                    total + k * v[position],
                )
                for k in range(left + 1)
            )

        whole = mpmath.factorial(count) * listed(0, count, mpmath.mpf(1), mpmath.mpf(0))
        return float(mpmath.log(whole)) if whole > 0 else -math.inf


def binomial_log(low: float, high: float, p: float, count: int) -> float:
    """Return log E[(low (n - K) + high K)+] for K ~ Bin(n, p), summed in logarithms."""
    k = np.arange(count + 1.0)
    total = low * (count - k) + high * k
    kept = total > 0.0
    log_choose = np.array(
        [math.lgamma(count + 1) - math.lgamma(j + 1) - math.lgamma(count - j + 1) for j in k[kept]]
    )
    logs = log_choose + k[kept] * math.log(p) + (count - k[kept]) * math.log1p(-p)
    return float(np.logaddexp.reduce(logs + np.log(total[kept])))


@for_each("count", [1, 2, 3, 8, 17, 100, 1000, 10_000, 100_000])
@for_each(("p", "low"), [(0.5, -1.0), (0.3, -1.0), (0.1, -0.31), (0.01, -0.05)])
def test_two_values_are_bounded_closely_from_above(count: int, p: float, low: float) -> None:
    exact = binomial_log(low, 1.0, p, count)
    result = log_expected_excess(np.array([low, 1.0]), np.log([1.0 - p, p]), count)
    # lgamma at 1e5 is good to a few 1e-10 only.
    assert exact - 1e-9 <= result <= exact + 5e-4


def test_random_laws_are_bounded_from_above_and_mostly_closely() -> None:
    rng = np.random.default_rng(20261)
    distances = []
    for _ in range(60):
        size, count = int(rng.integers(2, 5)), int(rng.integers(1, 9))
        scale = 10.0 ** rng.uniform(-3, 3)
        values = scale * (rng.normal(size=size) - rng.uniform())
        values = np.round(8.0 * values / scale) / 8.0 if rng.uniform() < 0.3 else values
        masses = np.maximum(rng.dirichlet(np.ones(size) * 10.0 ** rng.uniform(-1.5, 1.0)), 1e-12)
        exact = exact_log(list(values), list(masses), count)
        result = log_expected_excess(values, np.log(masses), count)
        if exact == -math.inf:
            continue
        assert result >= exact
        distances.append(result - exact)
    assert len(distances) > 40
    assert np.quantile(distances, 0.9) < 1e-4


@for_each("count", [10**3, 10**5, 10**7, 10**9])
def test_a_long_fair_walk_is_that_of_its_closed_form(count: int) -> None:
    # E[S+] = n C(n, n/2) / 2^(n+1) for n even.
    with mpmath.workdps(40):
        n = mpmath.mpf(count)
        exact = float(
            mpmath.log(n / 2)
            - n * mpmath.log(2)
            + mpmath.loggamma(n + 1)
            - 2 * mpmath.loggamma(n / 2 + 1)
        )
    result = log_expected_excess(np.array([-1.0, 1.0]), np.log([0.5, 0.5]), count)
    assert exact <= result <= exact + 1e-3


@for_each(("low", "log_delta"), [(-0.05, -40.0), (-0.08, -75.0), (-0.2, -270.0)])
def test_far_tails_keep_their_digits(low: float, log_delta: float) -> None:
    exact = binomial_log(low, 1.0, 0.01, 1000)
    assert exact < log_delta
    result = log_expected_excess(np.array([low, 1.0]), np.log([0.99, 0.01]), 1000)
    assert exact - 1e-10 <= result <= exact + 1e-3


def test_many_values_do_not_lose_to_the_lattice() -> None:
    # A normal law in 2,001 pieces: the sum of n is nearly normal, of variance n (1 + width^2 / 12).
    edges = np.linspace(-8.0, 8.0, 2002)
    middles = 0.5 * (edges[:-1] + edges[1:])
    masses = np.exp(-0.5 * middles**2)
    masses /= masses.sum()
    shift, count = 0.02, 90_000
    result = log_expected_excess(middles - shift, np.log(masses), count)
    s = math.sqrt(count * float((masses * middles**2).sum()))
    z = mpmath.mpf(shift * count / s)
    exact = float(mpmath.log(s * (mpmath.npdf(z) - z * mpmath.ncdf(-z))))
    assert exact <= result <= exact + 1e-3


@for_each("count", [30_000, 1_000_000])
def test_few_nodes_and_all_nodes_agree(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    log_masses = np.log(rng.dirichlet(np.ones(300)))
    values = rng.normal(size=300)
    values -= float((np.exp(log_masses) * values).sum()) + 5.0 / math.sqrt(count)
    few = log_expected_excess(values, log_masses, count)
    monkeypatch.setattr(sums, "MAX_WHOLE_PERIOD_POINTS", 1 << 60)
    every = log_expected_excess(values, log_masses, count)
    assert few == pytest.approx(every, abs=1e-3)
    assert few != every


def test_what_few_nodes_leave_out_is_below_the_bound_on_it() -> None:
    rng = np.random.default_rng(11)
    for values, count in (
        (rng.normal(size=200) - 0.1, 20_000),
        (np.array([1.7, -1.75, 0.0]), 20_000),
        (np.array([5.0, -1.0, -1.01, 0.0]), 5_000),
    ):
        log_masses = np.log(rng.dirichlet(np.ones(values.size)))
        law = sums._Law(values, log_masses, count)
        tilt = law.centring_tilt()
        lattice = Lattice.of(
            values, log_masses, count, tilt, float(np.ptp(values)) / 500.0, 300_000
        )
        centred = lattice.indices - lattice.centre
        first = int(centred.min())
        dense = np.bincount(centred - first, lattice.weights)
        kept = lattice._relevant_nodes(dense)
        left_out = np.setdiff1d(np.arange(lattice.points // 2 + 1), kept)
        whole = np.abs(np.fft.rfft(dense, lattice.points))
        assert 0 < kept.size < 0.5 * lattice.points
        assert count * math.log(float(whole[left_out].max())) < 5.0 - NODE_CUTOFF_EXPONENT


def test_values_may_be_scaled_and_split() -> None:
    values, log_masses = np.array([-1.3, 0.2, 2.0]), np.log([0.5, 0.3, 0.2])
    alone = log_expected_excess(values, log_masses, 12)
    scaled = log_expected_excess(1e-9 * values, log_masses, 12)
    assert scaled == pytest.approx(alone + math.log(1e-9), abs=1e-4)
    halves = np.concatenate((log_masses, log_masses)) - math.log(2.0)
    split = log_expected_excess(np.concatenate((values, values)), halves, 12)
    assert split == pytest.approx(alone, abs=1e-6)


def test_more_mass_and_larger_values_never_give_less() -> None:
    values, log_masses = np.array([-1.0, 0.4, 1.5]), np.log([0.6, 0.3, 0.1])
    base = log_expected_excess(values, log_masses, 40)
    assert log_expected_excess(values * (1.0 + 1e-3 * np.sign(values)), log_masses, 40) > base
    assert log_expected_excess(values, log_masses + 1e-6, 40) >= base + 39e-6
    allowed = log_expected_excess(values, log_masses, 40, mass_error=1e-6)
    assert allowed == pytest.approx(base + 40e-6, abs=1e-9)


def test_the_order_and_absent_values_do_not_matter() -> None:
    values, log_masses = (
        np.array([2.0, -1.0, 0.5]),
        np.array([math.log(0.2), math.log(0.8), -math.inf]),
    )
    result = log_expected_excess(values, log_masses, 5)
    assert result == pytest.approx(log_expected_excess(values[[1, 0]], log_masses[[1, 0]], 5))


def test_where_nothing_is_positive_the_expectation_is_zero() -> None:
    assert log_expected_excess(np.array([-1.0, 0.0]), np.log([0.5, 0.5]), 9) == -math.inf
    assert log_chernoff_excess(np.array([-1.0, 0.0]), np.log([0.5, 0.5]), 9) == -math.inf


@for_each("values", [[1e200, -1.0], [math.inf, -1.0], [1.0, -math.inf], [1.0, -1e200]])
def test_values_beyond_arithmetic_give_no_bound(values: list[float]) -> None:
    assert log_expected_excess(np.array(values), np.log([0.5, 0.5]), 3) == math.inf


def test_the_chernoff_bound_is_looser() -> None:
    values, log_masses = np.array([-1.0, 0.4, 1.5]), np.log([0.8, 0.15, 0.05])
    for count in (1, 10, 1000):
        exact = log_expected_excess(values, log_masses, count)
        assert exact < log_chernoff_excess(values, log_masses, count)


@for_each("accuracy", [1e-5, 1e-3, 1e-1])
def test_a_coarse_lattice_is_still_a_bound(accuracy: float) -> None:
    exact = exact_log([-1.0, 0.37, 1.9], [0.7, 0.2, 0.1], 12)
    for points in (1 << 9, 1 << 12, 1 << 18):
        result = log_expected_excess(
            np.array([-1.0, 0.37, 1.9]),
            np.log([0.7, 0.2, 0.1]),
            12,
            accuracy=accuracy,
            max_points=points,
        )
        assert result >= exact


def test_a_sum_of_constants_is_bounded() -> None:
    result = log_expected_excess(np.ones(2), np.log([0.5, 0.5]), 2000)
    assert math.log(2000.0) <= result < math.log(2000.0) + 1e-6
