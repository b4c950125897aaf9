"""Balls in bins inside of other releases, for units of several records, and at extreme noise."""

import math

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.engines.gdp import gaussian_delta
from privplan.accountant.errors import PrivplanError
from privplan.accountant.sensitivity.matrix import sensitivity_bounds

from ..cases import for_each

HALVES = ev.ToeplitzStrategy(20, [1.0, 0.5])
BINS = ev.BallsInBins(10)
ONES = ev.ToeplitzStrategy(12, [1.0] * 12)
RELATIONS = {"add-remove": 1.0, "zero-out": 1.0, "replace-one": 2.0}


def known_epsilon(event, size, relation):
    """Return about epsilon at 1e-5 of a unit whose records are all in known bins."""
    moved = sensitivity_bounds(event.strategy, event.participation).bounds.upper
    mu = size * RELATIONS[relation] * moved / event.noise_multiplier
    low, high = 0.0, 1e3
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if gaussian_delta(mu, middle).lower > 1e-5 else (low, middle)
    return high


@for_each(
    ("noise", "size", "relation"),
    [(2.0, 2, "zero-out"), (6.0, 3, "replace-one")],
)
def test_a_unit_of_several_costs_no_more_than_in_known_bins(noise, size, relation):
    event = ev.MatrixGaussian(noise, HALVES, BINS)
    answer = pp.account(ev.Group(size, event), delta=1e-5, neighbours=relation).epsilon
    assert answer.upper <= known_epsilon(event, size, relation) * (1.0 + 1e-3)
    single = pp.account(event, delta=1e-5, neighbours=relation).epsilon
    assert answer.upper >= single.lower


def test_a_unit_of_several_may_cost_less_than_in_known_bins():
    event = ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(100, [1.0, 0.5]), ev.BallsInBins(50))
    answer = pp.account(ev.Group(2, event), delta=1e-5).epsilon
    assert answer.upper < 0.5 * known_epsilon(event, 2, "add-remove")


def test_one_that_is_replaced_by_zeros_is_replaced():
    event = ev.MatrixGaussian(0.3, ev.ToeplitzStrategy(20, [1.0, 0.5]), ev.BallsInBins(10))
    zeroed = pp.account(event, delta=1e-5, neighbours="zero-out").epsilon
    replaced = pp.account(event, delta=1e-5, neighbours="replace-one").epsilon
    assert replaced.lower >= zeroed.lower * (1.0 - 1e-3)
    assert replaced.upper >= zeroed.lower


@for_each(
    "around",
    [
        lambda run: run,
        lambda run: ev.ClientSampled(0.5, ev.Compose([ev.Gaussian(9.0), run])),
        lambda run: ev.RandomAllocation(2, 1, run),
        lambda run: ev.Group(2, run),
    ],
)
def test_what_a_run_rests_on_is_said_wherever_it_stands(around):
    event = around(ev.MatrixGaussian(9.0, HALVES, BINS))
    warnings = pp.account(event, delta=1e-5).warnings
    assert sum("It rests on this: every unit contributes in one of 10" in w for w in warnings) == 1


@pytest.mark.filterwarnings("error")
@for_each("relation", RELATIONS)
@for_each(
    ("noise", "strategy"),
    [(1e-300, ONES), (1e-160, ONES), (1e-31, ONES), (2.0, ev.ToeplitzStrategy(12, [1e50]))],
)
def test_noise_that_is_nothing_is_no_guarantee_and_no_failure(noise, strategy, relation):
    event = ev.MatrixGaussian(noise, strategy, ev.BallsInBins(4))
    answer = pp.account(event, delta=1e-5, neighbours=relation).epsilon
    assert answer.upper > 1e30
    with pytest.raises(PrivplanError, match=r"engine takes noise multipliers from"):
        pp.account(event, delta=1e-5, neighbours=relation, engine="pld")


@pytest.mark.filterwarnings("error")
@for_each("relation", RELATIONS)
@for_each(
    ("noise", "strategy"),
    [
        (1e100, ONES),
        (2.0, ev.ToeplitzStrategy(12, [1e-50])),
        (1e300, ev.ToeplitzStrategy(9, [1e-60])),
    ],
)
def test_noise_that_drowns_all_costs_nothing(noise, strategy, relation):
    for participation in (ev.BallsInBins(4), ev.SingleParticipation()):
        event = ev.MatrixGaussian(noise, strategy, participation)
        assert pp.account(event, delta=1e-5, neighbours=relation).epsilon.upper == 0.0


def test_overlaps_that_are_nothing_change_nothing():
    plain = ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(6, [1.0]), ev.BallsInBins(3))
    nearly = ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(6, [1.0, 1e-40]), ev.BallsInBins(3))
    ends, other = (pp.account(each, delta=1e-5).epsilon for each in (plain, nearly))
    assert other.upper == pytest.approx(ends.upper, rel=1e-3)
    assert math.isfinite(other.upper)


def test_a_ratio_below_all_numbers_is_refused_in_words():
    event = ev.MatrixGaussian(5e-324, ONES, ev.BallsInBins(4))
    with pytest.raises(PrivplanError, match="nothing against"):
        pp.account(event, delta=1e-5, engine="rdp")
