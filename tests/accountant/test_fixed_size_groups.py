"""Groups of replaced records in batches of a fixed size: data sets enumerated, and known ends."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.stats import hypergeom, norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.engines.pld.pairs.fixed_size_groups import ReplacedGroup, replaced_records
from privplan.accountant.errors import Unsupported

from ..cases import for_each

X = np.linspace(-14.0, 14.0, 5601)


def output(values, batch, sigma):
    """Return the density of the noisy sum of a uniform batch, over all batches one by one."""
    batches = list(itertools.combinations(values, batch))
    return sum(noise_around(sum(drawn), sigma) for drawn in batches) / len(batches)


@functools.cache
def noise_around(centre, sigma):
    return norm.pdf(X, centre, sigma)


def hockey(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (X[1] - X[0]))


@for_each(("size", "batch", "population"), [(1, 2, 4), (2, 2, 4), (2, 1, 4), (2, 3, 4), (3, 2, 4)])
@for_each("sigma", [0.8, 2.0])
def test_no_small_data_set_is_worse(size, batch, population, sigma):
    group = ReplacedGroup.of(size, batch, population, sigma)
    worst = dict.fromkeys((0.0, 0.5, 1.5), 0.0)
    for others in itertools.combinations_with_replacement((-1, 0, 1), population - size):
        before, after = (
            [
                output((*unit, *others), batch, sigma)
                for unit in itertools.combinations_with_replacement(values, size)
            ]
            for values in ((-1, 0, 1), (-1, 1))
        )
        for epsilon in worst:
            shown = max(hockey(p, q, epsilon) for p in before for q in after)
            worst[epsilon] = max(worst[epsilon], shown)
    for epsilon, shown in worst.items():
        bound = group.hockey_stick(epsilon)
        assert shown <= bound + 1e-7  # the grid of this oracle is as far off
        assert bound <= 1.35 * shown + 1e-9  # some data set has most of it


@for_each("epsilon", [0.0, 0.1, 1.0, 3.0, 8.0])
@for_each(("batch", "noise"), [(10, 1.0), (300, 4.0)])
def test_one_record_is_the_exact_curve(epsilon, batch, noise):
    q, u = batch / 1000, np.linspace(-40.0, 12.0, 520_001)
    exact = norm.cdf(u) * (1.0 - q - math.exp(epsilon)) + q * norm.cdf(u + 2.0 / noise)
    bound = ReplacedGroup.of(1, batch, 1000, noise).hockey_stick(epsilon)
    assert bound == pytest.approx(float(exact.max()), rel=1e-7)


@for_each("epsilon", [0.0, 0.3, 2.0, 6.0])
def test_the_bound_lies_on_or_above_the_mixture_that_is_attained(epsilon):
    size, batch, population, noise = 4, 30, 1000, 1.5
    weights = hypergeom.pmf(np.arange(size + 1), population, size, batch)
    u = np.linspace(-40.0, 12.0, 200_001)
    mixture = sum(w * norm.cdf(u + 2.0 * j / noise) for j, w in enumerate(weights))
    attained = float((mixture - math.exp(epsilon) * norm.cdf(u)).max())
    bound = ReplacedGroup.of(size, batch, population, noise).hockey_stick(epsilon)
    assert attained * (1.0 - 1e-9) <= bound <= attained * 1.02


def test_one_round_is_known_almost_exactly():
    event = ev.Group(2, ev.FixedSize(10, 1000, ev.Gaussian(1.0)))
    found = pp.account(event, delta=1e-5, neighbours="replace-one").epsilon
    assert found.lower <= found.upper <= 1.001 * found.lower


def test_more_records_more_draws_and_less_noise_cost_more():
    base = ReplacedGroup.of(3, 20, 1000, 1.0).hockey_stick(1.0)
    assert ReplacedGroup.of(4, 20, 1000, 1.0).hockey_stick(1.0) > base
    assert ReplacedGroup.of(3, 40, 1000, 1.0).hockey_stick(1.0) > base
    assert ReplacedGroup.of(3, 20, 1000, 0.9).hockey_stick(1.0) > base


def test_account_takes_it_and_it_is_below_the_triangle_of_renyi_curves():
    event = ev.Repeat(50, ev.Group(2, ev.FixedSize(10, 1000, ev.Gaussian(1.0))))
    found = pp.account(event, delta=1e-5, neighbours="replace-one")
    renyi = pp.account(event, delta=1e-5, neighbours="replace-one", engine="rdp")
    assert found.engine == "pld"
    assert found.epsilon.upper < 0.7 * renyi.epsilon.upper
    assert 0.85 * found.epsilon.upper < found.epsilon.lower
    one = ev.Repeat(50, ev.FixedSize(10, 1000, ev.Gaussian(1.0)))
    assert found.epsilon.upper > pp.account(one, delta=1e-5, neighbours="replace-one").epsilon.lower


def test_other_noise_is_left_to_renyi_curves():
    event = ev.Group(2, ev.FixedSize(10, 1000, ev.Laplace(1.0)))
    with pytest.raises(Unsupported, match="knows Gaussian noise"):
        pp.account(event, delta=1e-5, neighbours="replace-one", engine="pld")


def test_many_epsilons_at_once_are_as_many_asked_one_by_one():
    group, epsilons = ReplacedGroup.of(7, 30, 1000, 1.5), np.linspace(0.0, 9.0, 40)
    together = group.log_deltas(epsilons)
    alone = [group.log_delta(epsilon) for epsilon in epsilons.tolist()]
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-12)


def test_the_hull_of_a_group_asks_for_many_epsilons_at_once(monkeypatch):
    asked = []
    one_by_one = ReplacedGroup.hockey_sticks

    def counted(self, epsilons):
        asked.append(epsilons.size)
        return one_by_one(self, epsilons)

    monkeypatch.setattr(ReplacedGroup, "hockey_sticks", counted)
    replaced_records.cache_clear()
    replaced_records(3, ev.FixedSize(5, 100, ev.Gaussian(3.0)))
    assert sum(asked) > 100
    assert len(asked) < 40
