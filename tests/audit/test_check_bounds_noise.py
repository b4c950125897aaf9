"""What is proven of other noise, units and relations, against values that are known otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account

from ..cases import for_each
from .small_runs import FULL, NO_RATE, at_least, at_most, lower, proof, run, says, upper


def test_the_deviation_of_laplace_noise_is_not_its_scale() -> None:
    noise = {"noise.family": "laplace", "noise.std": 1.0, "noise.clip": 1.0, "claim.delta": 0}
    left_out = ("sampling.rate", "noise.noise_multiplier")
    result = run({**FULL, **noise, "claim.epsilon": 1.2}, left_out)
    assert lower(result) == pytest.approx(math.sqrt(2.0))
    assert result.verdict == "false"
    pure = run({**FULL, **noise, "noise.family": "pure"}, left_out)
    assert pure.proven is None


def test_an_unknown_sampler_may_be_a_rarer_one() -> None:
    facts = {"data.records": 10, "sampling.rate": 0.5, "schedule.steps": 5, "claim.epsilon": 30}
    result = run(facts, ("sampling.method",))
    with_replacement = ev.Repeat(5, ev.Group(5, ev.Poisson(0.1, ev.Gaussian(0.5))))
    assert upper(result) >= at_least(with_replacement)
    assert upper(result) >= at_least(ev.Repeat(5, ev.Gaussian(0.5)))
    assert result.verdict == "unverifiable"
    assert says(result, "rawn with replacement")


def test_no_mu_of_discrete_noise_is_known() -> None:
    """At noise 1 the total variation is that of a mu of 1.044 or more."""
    integers = np.arange(-60, 61)
    masses = np.exp(-(integers**2) / 2.0)
    masses /= masses.sum()
    variation = 0.5 * float(np.abs(masses - np.roll(masses, 1)).sum())
    needed = 2.0 * norm.ppf(0.5 * (1.0 + variation))
    noise = {"noise.family": "discrete-gaussian", "noise.clip": 1.0}
    result = run({**FULL, **noise, "claim.mu": 1.01}, NO_RATE)
    assert upper(result) >= needed > 1.01
    assert lower(result) == 0.0
    rho = run({**FULL, **noise, "claim.rho": 0.51}, NO_RATE)
    assert (lower(rho), upper(rho)) == (pytest.approx(0.5), pytest.approx(0.5))


def integer_delta(scale: float, shifts: tuple[int, ...], epsilon: float) -> float:
    """Return delta of discrete Gaussian noise on a vector that moves by `shifts`."""
    integers = np.arange(-40, 41)
    masses = np.exp(-(integers**2) / (2.0 * scale**2))
    masses /= masses.sum()
    losses, weights = np.zeros(1), np.ones(1)
    for shift in shifts:
        each = ((integers - shift) ** 2 - integers**2) / (2.0 * scale**2)
        losses = np.round(np.add.outer(losses, each).ravel(), 9)
        weights = np.multiply.outer(weights, masses).ravel()
        losses, index = np.unique(losses, return_inverse=True)
        weights = np.bincount(index, weights=weights)
    return float((weights * np.maximum(0.0, -np.expm1(epsilon - losses))).sum())


@for_each(("delta", "epsilon"), [(1e-2, 5.93), (1e-5, 9.937)])
def test_discrete_noise_on_vectors(delta: float, epsilon: float) -> None:
    assert integer_delta(1.0, (1, 1, 1, 1), epsilon) > delta
    facts = {
        **FULL,
        "noise.family": "discrete-gaussian",
        "noise.noise_multiplier": 0.5,
        "noise.clip": 2.0,
        "claim.delta": delta,
    }
    result = run(facts, NO_RATE)
    assert upper(result) >= epsilon
    assert integer_delta(1.0, (2,), lower(result)) >= delta * (1.0 - 1e-3)
    sampled = run({**facts, "sampling.method": "poisson", "sampling.rate": 0.5})
    assert upper(sampled) >= upper(result)


def test_a_silo_of_records_says_what_is_clipped() -> None:
    facts = {"claim.unit": "silo", "data.silos": 5, "sampling.batch": 100, "schedule.steps": 10}
    result = run({**facts, "claim.epsilon": 100}, NO_RATE)
    assert says(result, "A silo takes part as a whole")
    rate_alone = run({"claim.unit": "silo", "data.silos": 5}, ("data.records",))
    assert upper(rate_alone) >= at_least(ev.Repeat(100, ev.Gaussian(1.0)))


def test_batches_of_users_may_be_of_their_records() -> None:
    users = {
        "claim.unit": "user",
        "data.users": 10,
        "data.records": 20,
        "data.records_per_user": 2,
        "sampling.method": "fixed-size",
        "schedule.steps": 20,
    }
    event = ev.Group(2, ev.Repeat(20, ev.FixedSize(5, 20, ev.Gaussian(1.0))))
    proves = at_most(event)
    assert upper(proof({**users, "sampling.rate": 0.25})) >= proves


def divergence(order: float, rate: float) -> float:
    """Return the Renyi divergence of a Poisson sample with a record from one with its opposite."""
    grid = np.linspace(-30.0, 30.0 + order, 200001)
    absent = math.log1p(-rate) + norm.logpdf(grid)
    first = np.logaddexp(absent, math.log(rate) + norm.logpdf(grid, 1.0))
    second = np.logaddexp(absent, math.log(rate) + norm.logpdf(grid, -1.0))
    exponents = order * first + (1.0 - order) * second
    log_sum = float(np.logaddexp.reduce(exponents)) + math.log(grid[1] - grid[0])
    return log_sum / (order - 1.0)


@for_each("rate", [0.1, 0.5])
def test_rho_of_poisson_samples_under_replace_one(rate: float) -> None:
    """By quadrature rho is one norm's, 1/2, at these rates, and never four times as much."""
    ratios = [divergence(order, rate) / order for order in (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)]
    assert 0.4 < max(ratios) < 0.51
    facts = {
        "claim.rho": 0.6,
        "claim.neighbours": "replace-one",
        "sampling.rate": rate,
        "schedule.steps": 1,
    }
    result = run(facts)
    assert (lower(result), upper(result)) == (pytest.approx(0.5), pytest.approx(2.0))
    assert result.verdict == "unproven"
    filled = run({**facts, "sampling.method": "fixed-size"})
    assert lower(filled) == pytest.approx(2.0)


def test_a_record_that_a_loader_may_drop_is_still_told_from_zeros() -> None:
    """One pass of 3 batches that keeps 29 of 30 records, by the largest of its three sums.

    Zero-out, others at -1: with the record one sum moves by 2, with zeros by 1, and by nothing
    where the record is dropped.  The test on large sums shows at least the certified lower end.
    """
    noise, batches, kept = 0.8, 3, 29 / 30
    delta = 1e-5
    event = ev.ShuffledBatches(batches, ev.Gaussian(noise))
    whole = account(event, delta=delta / kept, neighbours="zero-out").epsilon.lower
    lower = whole + math.log(kept)
    cuts = np.linspace(-2.0, 9.0, 4001)

    def above(shift: float) -> np.ndarray:
        rest = norm.cdf(cuts / noise) ** (batches - 1)
        return kept * (1 - norm.cdf((cuts - shift) / noise) * rest) + (1 - kept) * (
            1 - norm.cdf(cuts / noise) ** batches
        )

    shown = np.max(above(2.0) - math.exp(lower) * above(1.0))
    assert shown >= delta
    assert lower > 2.0
