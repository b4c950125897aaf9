"""Pmfs of many rows at once: each on its side of the exact hockey stick, and few points enough.

The oracles are closed forms of other libraries and sums over plain grids of positions.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism as dp
from scipy.special import log_ndtr

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.calibrate import calibrate
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.compose.delta_bounds import informative_lower_pmf
from privplan.accountant.engines.pld.grid import pmf_rows
from privplan.accountant.engines.pld.grid.families import MIN_FAMILY_PAIRS, families
from privplan.accountant.engines.pld.grid.loss_grid import Grid
from privplan.accountant.engines.pld.grid.pmf_rows import (
    _without_negative_masses,
    lower_pmf_rows,
    upper_pmf_rows,
)
from privplan.accountant.engines.pld.pairs.registry import pairs

from ...cases import for_each

TAIL = 1e-14
DIRECTIONS = [("add-remove", False), ("add-remove", True), ("replace-one", False)]


def _family(noise, rate, relation, reverse):
    counted_pairs = []
    for number, (s, q) in enumerate(zip(noise, rate, strict=True), 1):
        event = ev.Gaussian(s) if q == 1.0 else ev.Poisson(q, ev.Gaussian(s))
        pair = pairs(event, relation).pair
        counted_pairs.append((pair.reverse() if reverse else pair, number))
    (family,), single = families(counted_pairs)
    assert not single
    return family


@functools.cache
def _exact(scale, rate, opposite, reverse, epsilon):
    """The hockey stick, from the tails of the normal distribution."""
    if not opposite:
        kind = dp.AdjacencyType.ADD if reverse else dp.AdjacencyType.REMOVE
        loss = dp.GaussianPrivacyLoss(scale, sampling_prob=rate, adjacency_type=kind)
        return float(loss.get_delta_for_epsilon(epsilon))
    # The loss of +1 against -1 grows with the position: bisect, then subtract two tails.
    low, high = -60.0 * scale - 2.0, 60.0 * scale + 2.0

    def log_mixed(x, centre):
        apart = -((x - centre) ** 2) / (2 * scale**2) + x**2 / (2 * scale**2)
        return np.logaddexp(math.log1p(-rate), math.log(rate) + apart)

    for _ in range(200):
        x = 0.5 * (low + high)
        low, high = (x, high) if log_mixed(x, 1.0) - log_mixed(x, -1.0) <= epsilon else (low, x)

    def above(centre):
        return (1 - rate) * math.exp(log_ndtr(-low / scale)) + rate * math.exp(
            log_ndtr((centre - low) / scale)
        )

    return above(1.0) - math.exp(epsilon) * above(-1.0)


def _hockey(rows, index, epsilon):
    losses = rows.offset[index] + rows.width * rows.indices[index]
    above = losses > epsilon
    gains = -np.expm1(epsilon - losses[above])
    return rows.infinite[index] + float((rows.masses[index][above] * gains).sum())


@pytest.mark.quick(3)
@for_each(("relation", "reverse"), DIRECTIONS)
@for_each("width", [0.05, 0.006, 0.0015])
@for_each("tilt", [0.05, 3.0, 40.0])
def test_rows_lie_on_their_side_at_every_order(relation, reverse, width, tilt):
    rng = np.random.default_rng(3)
    noise = np.exp(rng.uniform(math.log(0.4), math.log(6.0), MIN_FAMILY_PAIRS))
    rate = np.exp(rng.uniform(math.log(2e-4), math.log(0.9), MIN_FAMILY_PAIRS))
    family = _family(noise, rate, relation, reverse)
    upper, beyond = upper_pmf_rows(family, width, tilt, TAIL)
    lower, rest = lower_pmf_rows(family, width, tilt, TAIL)
    assert width > 0.002 or len(rest) <= 6
    assert sum(rows.counts.size for rows in upper) + len(beyond) == MIN_FAMILY_PAIRS
    assert sum(rows.counts.size for rows in lower) + len(rest) == MIN_FAMILY_PAIRS
    for rows, above in ((upper, True), (lower, False)):
        for each, index in _placed(rows, family, beyond if above else rest):
            scale, q = family.scale[index, 0], family.rate[index, 0]
            ends = [float(math.log1p(-q)), 0.0, -float(math.log1p(-q))]
            low, high = (float(family.loss(x)[index, 0]) for x in family.reach(1e-9))
            spread = np.linspace(*sorted((low, high)), 11)
            for epsilon in (*spread, *ends, width / 3, -width / 3):
                exact = _exact(scale, q, relation == "replace-one", reverse, epsilon)
                pmfs, row = each
                slack = pmfs.slack[row] + 4e-15 * max(1.0, math.exp(epsilon))
                if above:
                    assert _hockey(pmfs, row, epsilon) >= exact - slack
                else:
                    assert _hockey(pmfs, row, epsilon) <= exact + slack


def _placed(rows, family, missing):
    """Yield each row of the pmfs with its index in the family: rows are parted by size."""
    rows_of_all = [(pmfs, row) for pmfs in rows for row in range(pmfs.counts.size)]
    known = {id(pair) for pair, _ in missing}
    kept = [i for i, (pair, _) in enumerate(family.members) if id(pair) not in known]
    assert len(rows_of_all) == len(kept)
    # Each member has a count of its own.
    order = {int(family.counts[index]): index for index in kept}
    for pmfs, row in rows_of_all:
        yield (pmfs, row), order[int(pmfs.counts[row])]


def _schedule(count, *, factor=1.0, unlike=True):
    steps = np.arange(count)
    noise = factor * np.linspace(1.6, 0.9, count)
    rate = 0.01 * (1.0 + 0.5 * np.cos(steps)) if unlike else np.full(count, 0.01)
    return ev.Compose(
        [ev.Poisson(float(q), ev.Gaussian(float(s))) for q, s in zip(rate, noise, strict=True)]
    )


@pytest.mark.quick(2)
@for_each("relation", ["add-remove", "replace-one", "zero-out"])
@for_each("count", [MIN_FAMILY_PAIRS, 70, 300])
def test_unsampled_schedules_bracket_the_closed_form(relation, count):
    event = ev.Compose([ev.Gaussian(float(s)) for s in np.geomspace(5.0, 60.0, count)])
    for question in ({"delta": 1e-6}, {"delta": 0.1}, {"epsilon": 0.5}, {"epsilon": 4.0}):
        exact = account(event, neighbours=relation, **question)
        rows = account(event, neighbours=relation, engine="pld", **question)
        name = "epsilon" if "delta" in question else "delta"
        exact, rows = getattr(exact, name), getattr(rows, name)
        assert rows.lower <= exact.upper
        assert exact.lower <= rows.upper
        assert name == "delta" or rows.gap <= 1e-3 * rows.upper


@for_each("relation", ["add-remove", "replace-one"])
def test_rows_and_single_laws_say_the_same(relation, monkeypatch):
    """The same leaves one by one, by loss_pmfs.py: both intervals hold the truth."""
    event = ev.Compose([_schedule(40), ev.Repeat(3, ev.Poisson(0.02, ev.Laplace(2.0)))])
    together = account(event, delta=1e-6, neighbours=relation, engine="pld").epsilon
    monkeypatch.setattr("privplan.accountant.engines.pld.grid.families.MIN_FAMILY_PAIRS", 10**6)
    apart = account(event, delta=1e-6, neighbours=relation, engine="pld").epsilon
    assert max(together.lower, apart.lower) <= min(together.upper, apart.upper)
    assert abs(together.upper - apart.upper) <= 5e-4 * apart.upper
    assert abs(together.lower - apart.lower) <= 5e-4 * apart.upper


@for_each(("relation", "delta"), [("replace-one", 1e-2), ("add-remove", 1e-30)])
def test_scattered_schedules_are_narrow(relation, delta):
    rng = np.random.default_rng(11)
    rates = np.exp(rng.uniform(math.log(1e-3), math.log(0.08), 120))
    noise = np.exp(rng.uniform(math.log(0.7), math.log(2.7), 120))
    counts = rng.integers(1, 5, 120)
    event = ev.Compose(
        [
            ev.Repeat(int(n), ev.Poisson(float(q), ev.Gaussian(float(s))))
            for n, q, s in zip(counts, rates, noise, strict=True)
        ]
    )
    result = account(event, delta=delta, neighbours=relation, engine="pld").epsilon
    assert 0.0 < result.gap < 1e-3 * result.upper


def test_a_common_factor_is_calibrated_and_checked_both_ways():
    result = calibrate(
        lambda factor: _schedule(40, factor=factor), epsilon=1.0, delta=1e-6, engine="pld"
    )
    assert result.gap < 2e-3
    assert account(result.event, delta=1e-6).epsilon.upper <= 1.0
    assert account(result.event, epsilon=1.0).delta.upper <= 1e-6
    assert len(result.guarantee.derivation) < 12


def test_the_second_opinion_on_a_schedule_is_as_good_as_with_every_order(monkeypatch):
    event = _schedule(150)
    scouted = account(event, delta=1e-6, engine="rdp").epsilon.upper
    monkeypatch.setattr("privplan.accountant.engines.rdp.engine._sketch", lambda *_: ())
    searched = account(event, delta=1e-6, engine="rdp").epsilon.upper
    assert abs(scouted - searched) <= 5e-4 * searched


def test_a_grid_that_is_too_wide_says_nothing_and_not_everything():
    """One coarse leaf costs its own share of the lower end, not all of it."""
    pair = pairs(ev.Poisson(1e-6, ev.Gaussian(5.0)), "add-remove").pair
    pmf = informative_lower_pmf(pair, Grid(0.2, pair.grid_atoms[0]), TAIL)
    assert pmf.masses.sum() <= 1.0
    assert _hockey_of_one(pmf, -0.3) <= 1.0 - math.exp(-0.3)
    assert _hockey_of_one(pmf, 0.0) <= 1e-6


def _hockey_of_one(pmf, epsilon):
    above = pmf.losses > epsilon
    return float((pmf.masses[above] * -np.expm1(epsilon - pmf.losses[above])).sum())


def test_what_is_negative_is_taken_from_the_points_above():
    masses = np.array([[0.2, 0.3, 0.5], [0.5, -0.1, 0.6], [0.5, 0.2, -0.1], [-0.1, -0.2, 0.5]])
    nonnegative = _without_negative_masses(masses)
    np.testing.assert_allclose(nonnegative[0], masses[0])
    np.testing.assert_allclose(nonnegative[1], [0.5, 0.0, 0.5])
    np.testing.assert_allclose(nonnegative[2], 0.0)  # nothing lies above: the row says nothing
    np.testing.assert_allclose(nonnegative[3], [0.0, 0.0, 0.2])
    losses = np.array([0.0, 1.0, 2.0])
    for before, after in zip(masses[[0, 1, 3]], nonnegative[[0, 1, 3]], strict=True):
        for epsilon in np.linspace(-2, 3, 41):
            gains = np.maximum(-np.expm1(epsilon - losses), 0.0)
            assert (after * gains).sum() <= (before * gains).sum() + 1e-15


def test_rows_that_need_too_many_points_are_treated_one_by_one(monkeypatch):
    monkeypatch.setattr(pmf_rows, "ROW_SIZES", (100, 120))
    result = account(_schedule(30), delta=1e-6).epsilon
    monkeypatch.undo()
    exact = account(_schedule(30), delta=1e-6).epsilon
    assert result.lower <= exact.upper
    assert exact.lower <= result.upper
    assert result.gap <= 1e-3 * result.upper
    assert len(Composition.of(_schedule(30))) == 30


@for_each("needed", [0.0, -1.0, 1e300, math.inf, math.nan])
def test_no_row_is_lost_whatever_number_of_points_it_needs(monkeypatch, needed):
    """A row that is left out of an upper bound would be a release that nobody counts."""
    family = _family(
        np.linspace(1.0, 2.0, MIN_FAMILY_PAIRS),
        np.full(MIN_FAMILY_PAIRS, 0.01),
        "add-remove",
        False,
    )
    cumulative_points = pmf_rows.cumulative_points

    def broken(subset, *rest):
        losses, cumulative = cumulative_points(subset, *rest)
        if subset is family:
            cumulative[3, -1] = needed
        return losses, cumulative

    monkeypatch.setattr(pmf_rows, "cumulative_points", broken)
    upper, beyond = upper_pmf_rows(family, 0.01, 3.0, TAIL)
    counts = [int(count) for rows in upper for count in rows.counts]
    counts += [count for _, count in beyond]
    assert sorted(counts) == sorted(family.counts.tolist())


def test_a_second_opinion_notices_what_stands_for_nobody():
    """A leaf that tells most, wherever it stands among many that tell little."""
    many = [ev.Gaussian(1000.0 + i) for i in range(120)]
    answers = []
    for position in (0, 2, 119):
        event = ev.Compose([*many[:position], ev.Repeat(9, ev.Gaussian(0.9)), *many[position:]])
        answers.append(account(event, delta=1e-6, engine="rdp").epsilon.upper)
    exact = account(event, delta=1e-6, engine="gdp").epsilon.upper
    assert exact < min(answers)
    assert max(answers) <= 1.1 * exact


def test_a_few_far_losses_do_not_widen_the_window():
    """Rare and large single losses: the window holds them, and not thousands of nats more."""
    event = ev.Compose([ev.Poisson(1e-4 * (1 + i), ev.Gaussian(0.6)) for i in range(40)])
    result = account(event, delta=1e-7, engine="pld").epsilon
    assert 0.0 < result.gap <= 2e-3 * result.upper
