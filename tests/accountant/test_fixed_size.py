"""Samples of fixed size: no data set is worse than the curve, and the ends are reached."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.compose.directions import participation
from privplan.accountant.engines.pld.pairs.registry import pairs
from privplan.accountant.errors import Unsupported

from ..cases import for_each
from .sampling import ORDERS, RELATIONS, curve_of, density, epsilon, hockey_sticks, neighbours_of


@for_each("relation", RELATIONS)
@for_each("release", [ev.Gaussian(0.7), ev.Laplace(1.5)])
@for_each(("size", "population"), [(1, 3), (2, 4)])
def test_no_small_data_set_is_worse_than_the_fixed_size_curve(release, size, population, relation):
    """All values on a grid: the curve is attained at every order, and never exceeded."""
    pair = pairs(ev.FixedSize(size, population, release), relation).pair
    bound, back = curve_of(pair), curve_of(pair.reverse())
    grid = (-1.0, 0.0, 1.0) if population == 4 else (-1.0, -0.5, 0.0, 1.0)
    x = np.linspace(-16.0, 16.0, 3201)
    worst, worst_back = np.zeros(ORDERS.size), np.zeros(ORDERS.size)
    seen = {}

    def output(values):
        key = tuple(sorted(values))
        if key not in seen:
            sums = np.array([sum(chosen) for chosen in itertools.combinations(key, size)])
            seen[key] = density(release, x, sums)
        return seen[key]

    for values in itertools.product(grid, repeat=population):
        for other in neighbours_of(values, relation, grid):
            p, q = output(values), output(other)
            worst = np.maximum(worst, hockey_sticks(p, q, 0.01))
            worst_back = np.maximum(worst_back, hockey_sticks(q, p, 0.01))
    error = 4e-5 if isinstance(release, ev.Gaussian) else 4e-4  # of the sums over x
    assert (worst <= bound + error).all()
    assert (worst_back <= back + error).all()
    assert worst == pytest.approx(bound, abs=2 * error)
    assert worst_back == pytest.approx(back, abs=2 * error)


@for_each("relation", RELATIONS)
def test_no_vectors_are_worse_than_the_fixed_size_curve(relation):
    rng = np.random.default_rng(1)
    pair = pairs(ev.FixedSize(1, 3, ev.Gaussian(0.8)), relation).pair
    bound = np.maximum(curve_of(pair), 1.0 - ORDERS)
    axis = np.linspace(-4.5, 4.5, 61)
    plane = np.stack(np.meshgrid(axis, axis), axis=-1)

    def output(values):
        squares = ((plane[..., None, :] - np.array(values)) ** 2).sum(axis=-1)
        return np.exp(-squares / (2 * 0.64)).mean(axis=-1) / (2 * math.pi * 0.64)

    for _ in range(60):
        values = rng.normal(size=(4, 2))
        values /= np.maximum(np.linalg.norm(values, axis=1), rng.choice([0.0, 1.0]))[:, None]
        unit, other, *others = values.tolist()
        replaced = {"add-remove": [], "zero-out": [[0.0, 0.0]], "replace-one": [other]}[relation]
        p, q = output([unit, *others]), output([*replaced, *others])
        assert (hockey_sticks(p, q, 0.15**2) <= bound + 2e-3).all()


@for_each(
    ("event", "target", "lower", "upper"),
    [
        (ev.Repeat(1000, ev.FixedSize(1, 100, ev.Gaussian(1.0))), 1e-5, 13.359, 14.821),
        (ev.Repeat(200, ev.FixedSize(5, 100, ev.Gaussian(4.0))), 1e-5, 1.560, 1.737),
    ],
)
def test_fixed_size_under_replace_one_reaches_the_known_ends(event, target, lower, upper):
    found = epsilon(event, target, "replace-one")
    assert lower <= found.lower <= found.upper <= upper
    assert found.upper / found.lower == pytest.approx(upper / lower, rel=2e-3)


def test_fixed_size_under_add_remove_is_poisson_sampling_of_two_steps():
    fixed = epsilon(ev.Repeat(300, ev.FixedSize(2, 100, ev.Gaussian(2.0))), 1e-6)
    poisson = epsilon(ev.Repeat(300, ev.Poisson(0.02, ev.Gaussian(1.0))), 1e-6)
    assert fixed.lower == pytest.approx(poisson.lower, rel=1e-6)
    assert fixed.upper == pytest.approx(poisson.upper, rel=1e-6)
    assert fixed.gap < 1e-3 * fixed.upper


def composed_by_google(pair, rounds, width=2e-3):
    """A pessimistic composition of a pair, in bins of its loss, by dp_accounting."""
    low, high = pair.continuous.loss_range(1e-14)
    log_p, log_q = pair.continuous.log_masses(np.arange(low, high, width / 4))
    if pair.atoms is not None:
        log_p = np.concatenate((log_p, pair.atoms.log_p))
        log_q = np.concatenate((log_q, pair.atoms.log_q))
    kept = np.isfinite(log_p) & np.isfinite(log_q)
    p, q = log_p[kept], log_q[kept]
    index = np.ceil((p - q) / width).astype(int)
    law: dict[int, float] = {}
    for i, mass in zip(index.tolist(), np.exp(p).tolist(), strict=True):
        law[i] = law.get(i, 0.0) + mass
    pmf = google.pld_pmf.create_pmf(law, width, 0.0, True)
    return google.PrivacyLossDistribution(pmf).self_compose(rounds)


@for_each("relation", ["replace-one", "zero-out"])
def test_fixed_size_composes_as_dp_accounting_says(relation):
    event = ev.FixedSize(3, 100, ev.Gaussian(1.2))
    mechanism = pairs(event, relation)
    found = epsilon(ev.Repeat(60, event), 1e-5, relation)
    above = composed_by_google(mechanism.pair, 60).get_epsilon_for_delta(1e-5)
    below = composed_by_google(mechanism.lower_pair, 60).get_epsilon_for_delta(1e-5)
    # Theirs are rounded up by at most a bin a round, in the mean by half of one.
    assert found.upper <= above <= found.upper + 0.07
    assert found.lower <= below <= found.lower + 0.07


@for_each("relation", RELATIONS)
@for_each(
    "release",
    [
        ev.DiscreteGaussian(1.5, 2),
        ev.DiscreteLaplace(2.0, 1),
        ev.RandomizedResponse(0.7, 4),
        ev.Pure(0.5),
        ev.Exponential(0.5),
        ev.Approximate(0.3, 1e-7),
    ],
)
def test_other_releases_are_sampled_too(release, relation):
    found = epsilon(ev.Repeat(20, ev.FixedSize(3, 60, release)), 1e-6, relation)
    whole = epsilon(ev.Repeat(20, ev.Group(2, release)), 1e-6, relation)
    assert 0.0 <= found.lower <= found.upper < whole.upper
    assert (found.lower > 0.0) == isinstance(release, (ev.DiscreteGaussian, ev.DiscreteLaplace))


def test_integer_sums_of_small_data_sets_stay_below_the_fixed_size_curve():
    release = ev.DiscreteLaplace(1.0, 1)
    x = np.arange(-40, 41)
    noise = {c: math.tanh(0.5) * np.exp(-np.abs(x - c)) for c in range(-2, 3)}
    for relation in RELATIONS:
        bound = curve_of(pairs(ev.FixedSize(1, 3, release), relation).pair)
        worst = np.zeros(ORDERS.size)
        for values in itertools.product((-1, 0, 1), repeat=3):
            for other in neighbours_of(values, relation, (-1, 0, 1)):
                p = np.mean([noise[int(v)] for v in values], axis=0)
                q = np.mean([noise[int(v)] for v in other], axis=0)
                worst = np.maximum(worst, hockey_sticks(p, q, 1.0))
        assert (worst <= bound + 1e-12).all()
        if relation != "zero-out":  # where the bound of replace-one stands in
            assert worst == pytest.approx(bound, abs=1e-9)


def test_a_sample_of_everybody_is_the_release_itself():
    event = ev.Repeat(3, ev.FixedSize(7, 7, ev.Gaussian(2.0)))
    plain = ev.Repeat(3, ev.Gaussian(2.0))
    for relation in ("replace-one", "zero-out"):
        assert epsilon(event, 1e-5, relation) == epsilon(plain, 1e-5, relation)
    for engine in (None, "pld", "rdp"):
        with pytest.raises(Unsupported, match="cannot be drawn from 7 units of which one is gone"):
            account(event, delta=1e-5, engine=engine)


@for_each(
    "bare",
    [ev.Pure(1.0), ev.Local(1.0), ev.Exponential(1.0), ev.Approximate(1.0, 1e-6)],
    ids=lambda event: event.type,
)
@for_each("engine", [None, "pld", "rdp", "google"])
def test_a_sampled_bare_number_needs_the_unit_present_or_absent(bare, engine):
    # Who is in the sample may be seen by a mechanism that only hides values: with one unit, drawn
    # at rate q, and binary randomized response on "it is there and not 0".
    for relation in ("zero-out", "replace-one"):
        for event in (ev.Poisson(0.1, bare), ev.TruncatedPoisson(0.1, 2, 9, bare)):
            with pytest.raises(Unsupported):
                account(event, delta=1e-3, neighbours=relation, engine=engine)


def test_a_group_is_drawn_more_often_than_each_of_its_members_by_itself():
    (leaf,) = Composition.of(ev.Group(3, ev.FixedSize(50, 100, ev.Gaussian(1.0))))
    none = math.comb(97, 50) / math.comb(100, 50)
    assert participation([leaf]) >= 1.0 - none
