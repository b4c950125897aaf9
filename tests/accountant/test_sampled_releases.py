"""Samplers other than Poisson: exhaustive searches for worse data sets, and other sources."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.engines.pld.grid.noise import GaussianNoise, LaplaceNoise
from privplan.accountant.engines.pld.pairs.allocation import (
    lower_ratio_pair,
    mean_ratio,
    opposed_ratio_pair,
    upper_ratio_pair,
)
from privplan.accountant.engines.pld.pairs.ratio_sums import COARSE_POINTS, MEAN_ZONE_POINTS
from privplan.accountant.engines.pld.pairs.registry import pairs
from privplan.accountant.engines.pld.pairs.scores import maximum_pair, score_pair
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.errors import InvalidInput, Unsupported

from ..cases import for_each
from .sampling import RELATIONS, epsilon, hockey_stick


def random_sampler(rng):
    noise = float(np.exp(rng.uniform(-1.0, 2.0)))
    release = ev.Gaussian(noise) if rng.random() < 0.6 else ev.Laplace(noise)
    population = int(np.exp(rng.uniform(1.0, 9.0))) + 2
    batch = int(rng.integers(1, population))
    kind = rng.integers(4)
    if kind == 0:
        return ev.FixedSize(batch, population, release)
    if kind == 1:
        return ev.TruncatedPoisson(
            float(np.exp(rng.uniform(-5.0, 0.0))), batch, population, release
        )
    steps = int(np.exp(rng.uniform(0.0, 6.0))) + 1
    if kind == 2:
        return ev.RandomAllocation(steps, int(rng.integers(1, min(steps, 9) + 1)), release)
    return ev.ShuffledBatches(steps, release)


@pytest.mark.quick(9)
@for_each("seed", range(18))
def test_the_ends_are_ordered_and_below_what_another_engine_proves(seed):
    rng = np.random.default_rng(seed)
    event = ev.Repeat(int(rng.integers(1, 30)), random_sampler(rng))
    target = float(10 ** -rng.uniform(1.0, 9.0))
    relation = RELATIONS[seed % 3]
    found = epsilon(event, target, relation)
    assert 0.0 <= found.lower <= found.upper
    rdp = account(event, delta=target, neighbours=relation, engine="rdp").epsilon
    assert found.lower <= rdp.upper


@for_each(
    ("event", "relation"),
    [
        (ev.FixedSize(10**18 - 1, 10**18, ev.Gaussian(1.0)), "add-remove"),
        (ev.FixedSize(1, 10**18, ev.Gaussian(1e-3)), "zero-out"),
        (ev.FixedSize(1, 2, ev.Gaussian(1e12)), "replace-one"),
        (ev.FixedSize(1, 2, ev.Laplace(1e-4)), "add-remove"),
        (ev.FixedSize(1, 2, ev.Laplace(1e-4)), "replace-one"),
        pytest.param(
            ev.TruncatedPoisson(1e-12, 1, 10**18, ev.Gaussian(1.0)),
            "replace-one",
            marks=pytest.mark.slow,
        ),
        (ev.TruncatedPoisson(1.0, 10**17, 10**18, ev.Laplace(3.0)), "zero-out"),
        (ev.RandomAllocation(10**9, 3, ev.Gaussian(1e7)), "replace-one"),
        (ev.RandomAllocation(10**9, 3, ev.Gaussian(1e7)), "add-remove"),
        (ev.RandomAllocation(2, 1, ev.Gaussian(0.21)), "zero-out"),
    ],
)
def test_extreme_settings_are_bounded_or_refused(event, relation):
    found = account(event, delta=1e-12, neighbours=relation).epsilon
    assert 0.0 <= found.lower <= found.upper


REPLACE = "replace-one"


@for_each(
    ("event", "relation", "error", "words"),
    [
        (ev.FixedSize(1, 9, ev.Poisson(0.5, ev.Gaussian(1.0))), REPLACE, Unsupported, "of `poi"),
        (ev.FixedSize(3, 9, ev.Shuffle(4, ev.Laplace(1.0))), REPLACE, InvalidInput, "4 users"),
        (ev.FixedSize(4, 9, ev.Shuffle(4, ev.Laplace(1.0))), "add-remove", Unsupported, "add-rem"),
        (ev.TruncatedPoisson(0.5, 2, 9, ev.Pure(1.0)), REPLACE, Unsupported, "replace-one"),
        (
            ev.RandomAllocation(9, 2, ev.FixedSize(2, 5, ev.Pure(1.0))),
            "zero-out",
            Unsupported,
            "no m",
        ),
    ],
)
def test_what_has_no_proof_is_refused(event, relation, error, words):
    with pytest.raises(error, match=words) as refusal:
        epsilon(event, 1e-5, relation)
    assert refusal.value.next_step


@for_each(
    ("event", "relation"),
    [
        (ev.FixedSize(5, 50, ev.Gaussian(1.0)), "add-remove"),
        (ev.FixedSize(5, 50, ev.Laplace(1.0)), "zero-out"),
        (ev.TruncatedPoisson(0.1, 9, 50, ev.Gaussian(1.0)), "add-remove"),
        (ev.TruncatedPoisson(0.1, 9, 50, ev.Laplace(1.0)), "zero-out"),
        (ev.RandomAllocation(50, 5, ev.Gaussian(1.0)), "replace-one"),
        (ev.ShuffledBatches(50, ev.Gaussian(1.0)), "zero-out"),
        (ev.ShuffledBatches(50, ev.Gaussian(1.0)), "add-remove"),
    ],
)
def test_renyi_curves_lie_above_those_of_the_pairs(event, relation):
    """E_Q[(P/Q)^a] of the attained pair, in bins (which only lower it), for integer orders."""
    mechanism = pairs(event, relation)
    pair = mechanism.lower_pair
    masses = [np.empty((2, 0))]
    if pair.continuous is not None:
        masses.append(
            np.stack(
                pair.continuous.log_masses(np.linspace(*pair.continuous.loss_range(1e-20), 4001))
            )
        )
    if pair.atoms is not None:
        masses.append(np.stack((pair.atoms.log_p, pair.atoms.log_q)))
    log_p, log_q = np.concatenate(masses, axis=1)
    kept = np.isfinite(log_p) & np.isfinite(log_q)
    orders = np.array([1.5, 2.0, 4.0, 8.0])
    bound = curve(event, relation).at(orders)
    for p, q in ((log_p[kept], log_q[kept]), (log_q[kept], log_p[kept])):
        for order, most in zip(orders, bound, strict=True):
            moment = np.exp(order * p + (1.0 - order) * q).sum()
            assert math.log(moment) / (order - 1.0) <= most + 1e-9


@for_each("sigma", [0.5, 1.0, 8.0])
def test_the_opposed_pair_of_one_step_is_the_whole_replacement(sigma):
    pair = opposed_ratio_pair(mean_ratio(GaussianNoise(sigma), 1))
    for eps in (0.0, 0.5, 2.0, 6.0):
        mu = 2.0 / sigma
        exact = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
        for found in (pair, pair.reverse()):
            assert hockey_stick(found, math.exp(eps)) >= exact * (1 - 1e-12)
            assert hockey_stick(found, math.exp(eps)) <= exact * (1 + 1e-3) + 1e-12


@for_each(
    "noise",
    [
        pytest.param(GaussianNoise(0.3), marks=pytest.mark.slow),
        GaussianNoise(3.0),
        LaplaceNoise(0.4),
    ],
)
@for_each("steps", [1, 2, 3, 37, 5000])
@for_each("points", [MEAN_ZONE_POINTS, COARSE_POINTS])
def test_mean_ratios_keep_their_mass_and_enclose_the_truth(noise, steps, points):
    law = mean_ratio(noise, steps, points)
    ratios, plain, with_unit = law.ratios_and_masses()
    for mass in (plain.sum(), (plain * ratios).sum(), with_unit.sum()):
        assert mass == pytest.approx(1.0, abs=law.rounding + 1e-12)
    upper, lower = upper_ratio_pair(law), lower_ratio_pair(law)
    for order in np.exp(np.linspace(-6.0, 6.0, 25)):
        assert hockey_stick(lower, order) <= hockey_stick(upper, order) * (1 + 1e-11)
        back = hockey_stick(lower.reverse(), order), hockey_stick(upper.reverse(), order)
        assert back[0] <= back[1] * (1 + 1e-11)
    assert law.lost_p < 1e-31
    assert law.lost_q < 1e-31
    if steps == 1 and isinstance(noise, GaussianNoise):
        mu, eps = 1.0 / noise.scale, 1.0
        exact = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
        assert hockey_stick(lower, math.e) <= exact <= hockey_stick(upper, math.e)


@for_each("noise", [GaussianNoise(0.8), LaplaceNoise(0.4)])
@for_each("steps", [2, 40])
def test_fewer_points_show_less_and_never_more_than_is_true(noise, steps):
    fine = mean_ratio(noise, steps)
    coarse = lower_ratio_pair(mean_ratio(noise, steps, COARSE_POINTS))
    for order in np.exp(np.linspace(-3.0, 3.0, 13)):
        shown, bound = hockey_stick(coarse, order), hockey_stick(upper_ratio_pair(fine), order)
        assert shown <= bound * (1 + 1e-9)
        assert shown >= 0.98 * hockey_stick(lower_ratio_pair(fine), order) - 1e-6


def test_the_sum_of_scores_and_the_largest_sum_are_attained():
    """Against one step seen in full: both are post-processings of it, and show most of it."""
    noise = GaussianNoise(1.0)
    exact = norm.cdf(0.5 - 1.0) - math.e * norm.cdf(-0.5 - 1.0)
    for pair in (
        score_pair(noise, 1, 1, (1.0, 0.0)),
        maximum_pair(noise, ((1.0, 1),), ((0.0, 1),)),
    ):
        assert 0.999 * exact <= hockey_stick(pair, math.e) <= exact * (1 + 1e-9)
