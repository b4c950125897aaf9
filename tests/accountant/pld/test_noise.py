"""Interval masses against mpmath: the error that the certificates assume is not exceeded."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from privplan.accountant.engines.pld.grid.noise import GaussianNoise, LaplaceNoise

from ...cases import for_each


def _gaussian_log_mass(a: float, b: float, scale: float) -> mp.mpf:
    low, high = mp.mpf(a) / mp.mpf(scale), mp.mpf(b) / mp.mpf(scale)
    if low + high > 0:
        low, high = -high, -low
    return mp.log(mp.ncdf(high) - mp.ncdf(low))


def _laplace_log_mass(a: float, b: float, scale: float) -> mp.mpf:
    low, high = mp.mpf(a) / mp.mpf(scale), mp.mpf(b) / mp.mpf(scale)
    if low + high > 0:
        low, high = -high, -low
    if high <= 0:
        return mp.log((mp.exp(high) - mp.exp(low)) / 2)
    return mp.log(1 - mp.exp(-high) / 2 - mp.exp(low) / 2)


@for_each(
    ("noise", "oracle"),
    [(GaussianNoise(1.0), _gaussian_log_mass), (LaplaceNoise(1.0), _laplace_log_mass)],
)
def test_masses_are_within_the_stated_relative_error(noise, oracle):
    rng = np.random.default_rng(1)
    worst = 0.0
    with mp.workdps(60):  # digits of a mass, however small, of which a narrow interval takes nine
        for _ in range(250):
            start = rng.uniform(-36, 36)
            width = 10 ** rng.uniform(-9, 1.3)
            edges = np.array([start, start + width])
            log_mass = float(noise.log_interval_masses(edges)[0])
            exact = oracle(edges[0], edges[1], 1.0)
            error = abs(mp.expm1(mp.mpf(log_mass) - exact))
            worst = max(worst, float(error / noise.mass_error(float(np.abs(edges).max()))))
    assert 0.0 < worst < 1.0


@for_each("noise", [GaussianNoise(0.7), LaplaceNoise(0.7)])
def test_masses_of_a_partition_sum_to_one_and_mirror(noise):
    edges = np.concatenate(([-np.inf], np.linspace(-9, 9, 1001), [np.inf]))
    logs = noise.log_interval_masses(edges)
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-13)
    mirrored = noise.log_interval_masses(-edges[::-1])[::-1]
    np.testing.assert_allclose(mirrored, logs, rtol=0, atol=1e-12)


@for_each("noise", [GaussianNoise(0.7), LaplaceNoise(0.7)])
def test_empty_and_endless_intervals(noise):
    edges = np.array([-np.inf, -np.inf, 2.0, 2.0, np.inf, np.inf])
    logs = noise.log_interval_masses(edges)
    assert logs[0] == logs[2] == logs[4] == -np.inf
    assert np.exp(logs[[1, 3]]).sum() == pytest.approx(1.0, abs=1e-14)


@for_each("noise", [GaussianNoise(2.0), LaplaceNoise(2.0)])
@for_each("probability", [0.4, 1e-3, 1e-12, 1e-200])
def test_radius_bounds_the_tail(noise, probability):
    radius = noise.radius(probability)
    tail = noise.log_interval_masses(np.array([radius, np.inf]))[0]
    assert tail <= np.log(probability) + 1e-12
    assert tail >= np.log(probability) - 10  # and is not absurdly far out


@for_each("noise", [GaussianNoise(0.7), LaplaceNoise(0.7)])
def test_shift_of_inverts_the_log_ratio(noise):
    x = np.linspace(0.001, 0.999, 50)
    ratio = noise.log_shift_ratio(x)
    np.testing.assert_allclose(noise.shift_of(ratio), x, atol=1e-12)
    step = np.diff(ratio) / np.diff(x)
    assert step.max() <= noise.lipschitz_bound * (1 + 1e-9)
