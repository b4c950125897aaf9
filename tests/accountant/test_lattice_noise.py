"""The smallest discrete Gaussian noise, beside an enumeration on a fine grid of noise."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from privplan import account, calibrate
from privplan import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.ask.engine import PldEngine
from privplan.accountant.errors import TargetUnreachable

from ..cases import for_each
from ..sweeps import sweep

NEAR = 1e-4
"""Relative distance to the smallest noise that calibration promises."""


def masses(sigma, around, bound, z):
    """Return the noise around an integer, shape (sigmas, outcomes)."""
    weights = np.exp(-0.5 * ((z - around) / sigma[:, None]) ** 2)
    weights = np.where(np.abs(z - around) <= bound, weights, 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def exact_delta(sigma, shift, epsilon, *, rate=1.0, replaced=False, bound=math.inf):
    """Return delta at each sigma, by enumeration of all outcomes of both orders of the data."""
    sigma = np.atleast_1d(np.asarray(sigma, dtype=float))
    reach = math.ceil(min(14.0 * sigma.max(), bound)) + 2 * shift + 24
    z = np.arange(-reach, reach + 1, dtype=float)
    absent = masses(sigma, 0, bound, z)
    here = rate * masses(sigma, shift, bound, z) + (1.0 - rate) * absent
    there = absent
    if replaced:
        there = rate * masses(sigma, -shift, bound, z) + (1.0 - rate) * absent
    grown = math.exp(epsilon)
    both = [np.maximum(p - grown * q, 0.0).sum(axis=1) for p, q in ((here, there), (there, here))]
    return np.maximum(*both)


def grid_below(value, shift, epsilon):
    """Return noise below a value: evenly in logs, and where a loss of whole data passes epsilon."""
    even = np.geomspace(0.02, value * (1.0 - NEAR), 6000)
    steps = np.arange(shift // 2 + 1, shift // 2 + 400)
    passing = np.sqrt((steps - 0.5 * shift) * shift / epsilon)
    near = np.concatenate([passing * (1.0 + off) for off in (-1e-5, -1e-9, 1e-9, 1e-5)])
    return np.concatenate([even, near[near < value * (1.0 - NEAR)]])


def none_serves(value, shift, epsilon, delta, **settings):
    """Return whether no noise of the grid below a value has a delta that low."""
    return all(
        (exact_delta(part, shift, epsilon, **settings) > delta).all()
        for part in np.array_split(np.sort(grid_below(value, shift, epsilon)), 60)
    )


ISLANDS = [
    (1, 15.924079825403071, 5.203351777310937e-05, 0.177197),
    (1, 2.662770328432929, 0.0026763750017335507, 0.967514),
    (2, 4.361478785729335, 0.0028707897634328416, 0.676938),
    (2, 5.330993349115635, 6.928746111423138e-07, 0.918574),
    (1, 2.3523496993241344, 3.420894010087659e-10, 2.482480),
    (1, 2.66, 1e-4, 1.299702),
    (1, 2.66, 1e-6, 1.678395),
    (1, 3.0, 1e-8, 1.779009),
    (1, 15.3661, 8.5468e-4, 0.180381),
    (1, 12.0865, 7.9077e-6, 0.203392),
    (1, 3.0, 0.1, 0.403908),
    (1, 200.0, 1e-5, 0.05),
]
"""Sensitivity, epsilon, delta and the smallest noise, a narrow interval in most of them."""


@for_each(("sensitivity", "epsilon", "delta", "smallest"), ISLANDS)
def test_a_narrow_interval_of_noise_is_hit(sensitivity, epsilon, delta, smallest):
    result = calibrate(lambda s: ev.DiscreteGaussian(s, sensitivity), epsilon=epsilon, delta=delta)
    assert result.value == pytest.approx(smallest, rel=NEAR)
    sigma = result.value * sensitivity
    assert exact_delta(sigma, sensitivity, epsilon)[0] <= delta
    assert none_serves(sigma, sensitivity, epsilon, delta)
    assert account(result.event, delta=delta).epsilon.upper <= epsilon
    assert account(result.event, epsilon=epsilon).delta.upper <= delta
    assert result.gap <= NEAR * epsilon


def random_cases(count):
    """Return random releases and targets."""
    rng = np.random.default_rng(20261128)
    cases = []
    while len(cases) < count:
        rate = 1.0 if rng.random() < 0.6 else float(rng.uniform(0.05, 1.0))
        delta = float(np.exp(rng.uniform(math.log(1e-10), math.log(0.2))))
        epsilon = float(np.exp(rng.uniform(math.log(0.5), math.log(16.0))))
        bound = int(rng.integers(2, 30)) if rng.random() < 0.2 else None
        relation = "replace-one" if rng.random() < 0.4 else "add-remove"
        case = int(rng.integers(1, 4)), epsilon, delta, rate, relation, bound
        if delta < 0.5 * rate:
            cases.append(case)
    return cases


@for_each(
    ("sensitivity", "epsilon", "delta", "rate", "relation", "bound"),
    sweep(random_cases(80), quick=8),
)
def test_no_noise_on_a_fine_grid_below_serves(sensitivity, epsilon, delta, rate, relation, bound):
    def at(s):
        noise = (
            ev.DiscreteGaussian(s, sensitivity)
            if bound is None
            else ev.TruncatedDiscreteGaussian(s, sensitivity, bound)
        )
        return noise if rate == 1.0 else ev.Poisson(rate, noise)

    replaced = relation == "replace-one"
    shift = sensitivity * (2 if replaced and rate == 1.0 else 1)
    settings = {
        "rate": rate,
        "replaced": replaced and rate < 1.0,
        "bound": math.inf if bound is None else bound,
    }
    try:
        result = calibrate(at, epsilon=epsilon, delta=delta, neighbours=relation)
    except TargetUnreachable:
        assert bound is not None
        assert none_serves(8.0 * bound, shift, epsilon, delta, **settings)
        return
    sigma = result.value * sensitivity
    assert exact_delta(sigma, shift, epsilon, **settings)[0] <= delta * (1.0 + 1e-9)
    assert none_serves(sigma, shift, epsilon, delta, **settings)


def random_sums(count):
    """Return random counts, sensitivities and targets."""
    rng = np.random.default_rng(7)
    return [
        (
            int(rng.integers(2, 7)),
            int(rng.integers(1, 3)),
            float(np.exp(rng.uniform(math.log(2.0), math.log(20.0)))),
            float(np.exp(rng.uniform(math.log(1e-9), math.log(0.1)))),
        )
        for _ in range(count)
    ]


SUMS = [(2, 1, 8.0, 1e-4), (5, 1, 12.0, 1e-5), *random_sums(14)]


@for_each(("count", "sensitivity", "epsilon", "delta"), sweep(SUMS, quick=2))
def test_several_releases_are_summed(count, sensitivity, epsilon, delta):
    def exact(sigma):
        z = np.arange(-200, 201, dtype=float)
        noise = masses(np.array([sigma]), 0, math.inf, z)[0]
        summed = noise
        for _ in range(count - 1):
            summed = np.convolve(summed, noise)
        shift = count * sensitivity
        padded = np.concatenate([np.zeros(shift), summed]), np.append(summed, np.zeros(shift))
        return float(np.maximum(padded[0] - math.exp(epsilon) * padded[1], 0.0).sum())

    result = calibrate(
        lambda s: ev.Repeat(count, ev.DiscreteGaussian(s, sensitivity)),
        epsilon=epsilon,
        delta=delta,
    )
    sigma = result.value * sensitivity
    assert exact(sigma) <= delta
    assert min(map(exact, np.geomspace(0.05, sigma * (1.0 - 2e-4), 2000))) > delta


SAMPLED = [(0.9, 8.0, 1e-5), (0.7, 4.0, 1e-3), (0.95, 6.0, 1e-2)]


@for_each(("rate", "epsilon", "delta"), sweep(SAMPLED, quick=1))
def test_two_sampled_rounds_are_scanned(rate, epsilon, delta):
    def exact(sigma):
        z = np.arange(-40, 42, dtype=float)
        absent = masses(np.array([sigma]), 0, math.inf, z)[0]
        drawn = rate * masses(np.array([sigma]), 1, math.inf, z)[0] + (1.0 - rate) * absent
        ps, qs, grown = np.outer(drawn, drawn), np.outer(absent, absent), math.exp(epsilon)
        return max(np.maximum(ps - grown * qs, 0.0).sum(), np.maximum(qs - grown * ps, 0.0).sum())

    result = calibrate(
        lambda s: ev.Repeat(2, ev.Poisson(rate, ev.DiscreteGaussian(s, 1))),
        epsilon=epsilon,
        delta=delta,
    )
    assert exact(result.value) <= delta
    below = np.geomspace(0.2 * result.value, 0.999 * result.value, 700)
    assert min(map(exact, below)) > delta


@for_each(
    ("event", "epsilon"),
    [
        (ev.DiscreteGaussian(0.2036, 1), 12.0865),
        (ev.DiscreteGaussian(1.0, 3), 4.0),
        (ev.DiscreteGaussian(2.0, 1), 9.0),
        (ev.Poisson(0.3, ev.DiscreteGaussian(0.5, 1)), 2.0),
    ],
)
def test_delta_of_one_release_keeps_its_digits(event, epsilon):
    inner, rate = (event.event, event.rate) if isinstance(event, ev.Poisson) else (event, 1.0)
    with mpmath.workdps(60):
        sigma = mpmath.mpf(inner.noise_multiplier * inner.sensitivity)
        z = range(-150, 151)
        weights = {each: mpmath.exp(-((each / sigma) ** 2) / 2) for each in z}
        total, grown = mpmath.fsum(weights.values()), mpmath.exp(epsilon)
        absent = {each: weights[each] / total for each in z}
        moved = {
            each: mpmath.mpf(rate) * absent.get(each - inner.sensitivity, 0)
            + (1 - mpmath.mpf(rate)) * absent[each]
            for each in z
        }
        exact = max(
            mpmath.fsum(max(moved[each] - grown * absent[each], 0) for each in z),
            mpmath.fsum(max(absent[each] - grown * moved[each], 0) for each in z),
        )
        bounds = PldEngine().delta(Composition.of(event), epsilon, "add-remove").bounds
        assert bounds.lower <= exact <= bounds.upper
        assert bounds.upper - bounds.lower <= 1e-10 * exact
