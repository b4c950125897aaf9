"""The cosine estimate: against the closed form, quadrature, and a simulated mechanism."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.statistics import cosine_estimate, gdp_epsilon


def cosines_with(
    mean: float, std: float, count: int = 1000
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return numbers with exactly this mean and standard deviation."""
    spread = np.linspace(-1.0, 1.0, count)
    spread = spread / spread.std(ddof=1)
    return mean + std * spread


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_in_many_dimensions_it_is_the_gaussian_mechanism(mu: float) -> None:
    d = 10**7
    found = cosine_estimate(cosines_with(mu / math.sqrt(d), 1.0 / math.sqrt(d)), d, delta=1e-5)
    assert found.epsilon == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-4)


@pytest.mark.parametrize(("d", "mean", "std"), [(50, 0.2, 0.1), (12, 0.3, 0.2)])
def test_in_few_dimensions_it_uses_the_exact_density(d: int, mean: float, std: float) -> None:
    found = cosine_estimate(cosines_with(mean, std), d, delta=1e-3)
    m, s, e = mp.mpf(found.mean), mp.mpf(found.std), mp.exp(found.epsilon)
    with mp.workdps(25):
        whole = mp.beta(mp.mpf(1) / 2, mp.mpf(d - 1) / 2)
        cut = mp.ncdf((1 - m) / s) - mp.ncdf((-1 - m) / s)

        def null(t: mp.mpf) -> mp.mpf:
            return (1 - t * t) ** (mp.mpf(d - 3) / 2) / whole

        def fitted(t: mp.mpf) -> mp.mpf:
            return mp.npdf(t, m, s) / cut

        grid = [mp.mpf(i) / 40 for i in range(-40, 41)]
        forth = mp.quad(lambda t: max(fitted(t) - e * null(t), mp.mpf(0)), grid)
        back = mp.quad(lambda t: max(null(t) - e * fitted(t), mp.mpf(0)), grid)
    assert float(max(forth, back)) == pytest.approx(1e-3, rel=2e-2)


def test_a_larger_mean_a_narrower_law_and_a_smaller_delta_cost_more() -> None:
    d = 400

    def epsilon(mean: float, std: float, delta: float = 1e-4) -> float:
        return cosine_estimate(cosines_with(mean, std), d, delta=delta).epsilon

    assert epsilon(0.05, 0.05) < epsilon(0.1, 0.05) < epsilon(0.2, 0.05)
    assert epsilon(0.1, 0.05, 1e-2) < epsilon(0.1, 0.05, 1e-4) < epsilon(0.1, 0.05, 1e-8)
    assert epsilon(0.0, 0.02) > epsilon(0.0, 0.05)
    assert epsilon(0.0, 0.2) > epsilon(0.0, 0.05)


def test_a_simulated_release_is_estimated_within_a_factor() -> None:
    # A sum of 1,000 random directions in 10,000 dimensions, with noise of standard deviation 1 in
    # each coordinate: mu is about 1.  An estimate, so the factor is wide.
    rng = np.random.default_rng(61)
    d, canaries = 10_000, 1000
    c = rng.standard_normal((canaries, d))
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    released = c.sum(axis=0) + rng.standard_normal(d)
    g = c @ released / np.linalg.norm(released)
    found = cosine_estimate(g, d, delta=1e-5)
    assert 0.5 < found.epsilon / gdp_epsilon(1.0, 1e-5) < 2.0


@pytest.mark.parametrize(
    ("cosines", "dimension"),
    [
        ([0.1], 10),
        ([0.1, math.nan], 10),
        ([0.1, 1.5], 10),
        ([0.1, 0.1], 10),
        ([0.1, 0.2], 2),
        ([[0.1, 0.2]], 9),
    ],
)
def test_what_are_no_cosines_is_refused(cosines: object, dimension: int) -> None:
    with pytest.raises(InvalidInput):
        cosine_estimate(cosines, dimension, delta=1e-5)  # type: ignore[arg-type]
