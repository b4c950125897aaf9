"""Samplers other than Poisson: exhaustive searches for worse data sets, and other sources."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from dp_accounting.pld.privacy_loss_distribution import NeighborRel
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.amplification.truncation import Cut
from privplan.accountant.composition import leaves
from privplan.accountant.engines.pld import PldEngine
from privplan.accountant.engines.pld.allocation import (
    lower_ratio_pair,
    mean_ratio,
    opposed_ratio_pair,
    upper_ratio_pair,
)
from privplan.accountant.engines.pld.batches import batch_warnings
from privplan.accountant.engines.pld.directions import participation
from privplan.accountant.engines.pld.maximum import maximum_pair
from privplan.accountant.engines.pld.noise import GaussianNoise, LaplaceNoise
from privplan.accountant.engines.pld.registry import pairs
from privplan.accountant.engines.pld.scores import score_pair
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.errors import InvalidInput, Unsupported

from ..sweeps import sweep

ENGINE = PldEngine()
RELATIONS = ("add-remove", "replace-one", "zero-out")
ORDERS = np.exp(np.array([-2.5, -1.0, -0.3, -0.05, 0.0, 0.05, 0.3, 1.0, 2.5]))


def epsilon(event, delta, neighbours="add-remove"):
    return ENGINE.epsilon(leaves(event), delta, neighbours).bounds


def delta(event, eps, neighbours="add-remove"):
    return ENGINE.delta(leaves(event), eps, neighbours).bounds


def hockey_stick(pair, order, points=20_001):
    """The hockey stick of a pair at one order, from its masses in fine bins of the loss."""
    total = 0.0
    if pair.continuous is not None:
        low, high = pair.continuous.loss_range(1e-16)
        log_p, log_q = pair.continuous.log_masses(np.linspace(low, high, points))
        total += np.maximum(np.exp(log_p) - order * np.exp(log_q), 0.0).sum()
    if pair.atoms is not None:
        p, q = np.exp(pair.atoms.log_p), np.exp(pair.atoms.log_q)
        total += np.maximum(p - order * q, 0.0).sum()
    return float(total)


def curve_of(pair):
    return np.array([hockey_stick(pair, order) for order in ORDERS])


def hockey_sticks(p, q, cell):
    """The hockey sticks of two densities on cells of equal size."""
    return np.array([np.maximum(p - order * q, 0.0).sum() * cell for order in ORDERS])


def density(event, x, centres):
    """The density at x of the release around each centre, averaged."""
    scale = event.noise_multiplier
    if isinstance(event, ev.Gaussian):
        return norm.pdf((x[:, None] - centres) / scale).mean(axis=1) / scale
    return np.exp(-np.abs(x[:, None] - centres) / scale).mean(axis=1) / (2.0 * scale)


# --- fixed size -----------------------------------------------------------------------------------


def neighbours_of(values, relation, grid):
    """Every data set next to `values` by what its first unit does."""
    others = values[1:]
    if relation == "add-remove":
        return [others]
    if relation == "zero-out":
        return [(0.0, *others)]
    return [(other, *others) for other in grid if other != values[0]]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("release", [ev.Gaussian(0.7), ev.Laplace(1.5)])
@pytest.mark.parametrize(("size", "population"), [(1, 3), (2, 3), (2, 4)])
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


@pytest.mark.parametrize("relation", RELATIONS)
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_fixed_size_composes_as_dp_accounting_says(relation):
    event = ev.FixedSize(3, 100, ev.Gaussian(1.2))
    mechanism = pairs(event, relation)
    found = epsilon(ev.Repeat(60, event), 1e-5, relation)
    above = composed_by_google(mechanism.pair, 60).get_epsilon_for_delta(1e-5)
    below = composed_by_google(mechanism.lower_pair, 60).get_epsilon_for_delta(1e-5)
    # Theirs are rounded up by at most a bin a round, in the mean by half of one.
    assert found.upper <= above <= found.upper + 0.07
    assert found.lower <= below <= found.lower + 0.07


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "bare",
    [ev.Pure(1.0), ev.Local(1.0), ev.Exponential(1.0), ev.Approximate(1.0, 1e-6)],
    ids=lambda event: event.type,
)
@pytest.mark.parametrize("engine", [None, "pld", "rdp", "google"])
def test_a_sampled_bare_number_needs_the_unit_present_or_absent(bare, engine):
    # Who is in the sample may be seen by a mechanism that only hides values: with one unit, drawn
    # at rate q, and binary randomized response on "it is there and not 0".
    for relation in ("zero-out", "replace-one"):
        for event in (ev.Poisson(0.1, bare), ev.TruncatedPoisson(0.1, 2, 9, bare)):
            with pytest.raises(Unsupported):
                account(event, delta=1e-3, neighbours=relation, engine=engine)


def test_a_group_is_drawn_more_often_than_each_of_its_members_by_itself():
    (leaf,) = leaves(ev.Group(3, ev.FixedSize(50, 100, ev.Gaussian(1.0))))
    none = math.comb(97, 50) / math.comb(100, 50)
    assert participation([leaf]) >= 1.0 - none


# --- truncated Poisson ----------------------------------------------------------------------------


@pytest.mark.parametrize(("population", "rate", "batch"), [(4, 0.5, 2), (9, 0.25, 1), (7, 0.75, 6)])
def test_the_cases_of_a_cut_are_those_of_exact_binomials(population, rate, batch):
    q = Fraction(rate)

    def mass(n, k):
        return math.comb(n, k) * q**k * (1 - q) ** (n - k)

    full = sum(mass(population - 1, k) for k in range(batch, population))
    joined = sum(
        mass(population - 1, k) * q * Fraction(batch, k + 1) for k in range(batch, population)
    )
    cut = Cut.of(population, rate, batch)
    for found, exact in (
        (cut.full, full),
        (cut.spared, 1 - full),
        (cut.rate, joined / full),
    ):
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**9))
    overall = q * (1 - full) + joined
    assert overall * (1 - Fraction(1, 10**9)) <= Fraction(cut.overall) <= overall


def test_cuts_of_huge_populations_are_bounded():
    cut = Cut.of(10**15, 0.5, 10**14)
    assert (cut.spared, cut.full) == (1.0, 1.0)
    assert cut.rate >= 0.5 * 10**14 / (0.5 * 10**15)
    rare = Cut.of(10**6, 1e-3, 3000)
    assert 0.0 < rare.full < 1e-250
    assert rare.overall == pytest.approx(1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("batch", "rate"), [(1, 0.5), (2, 0.8), (3, 0.9)])
def test_no_small_data_set_is_worse_than_the_truncated_curve(batch, rate, relation):
    release = ev.Gaussian(0.8)
    mechanism = pairs(ev.TruncatedPoisson(rate, batch, 4, release), relation)
    bound, back = curve_of(mechanism.pair), curve_of(mechanism.pair.reverse())
    x = np.linspace(-9.0, 9.0, 451)

    @cache
    def output(values):
        total = np.zeros(x.size)
        for drawn in itertools.product((0, 1), repeat=len(values)):
            chosen = [v for v, here in zip(values, drawn, strict=True) if here]
            weight = math.prod(rate if here else 1.0 - rate for here in drawn)
            kept = list(itertools.combinations(chosen, min(batch, len(chosen))))
            total += weight * density(release, x, np.array([sum(each) for each in kept]))
        return total

    grid = (-1.0, 0.0, 1.0)
    for others in itertools.combinations_with_replacement(grid, 3):
        for unit in grid:
            values = (unit, *others)
            for other in neighbours_of(values, relation, grid):
                p, q = output(values), output(other)
                assert (hockey_sticks(p, q, 0.04) <= bound + 1e-4).all()
                assert (hockey_sticks(q, p, 0.04) <= back + 1e-4).all()
    other = {"add-remove": (0.0,) * 3, "zero-out": (0.0,) * 4, "replace-one": (-1.0, 0.0, 0.0, 0.0)}
    p, q = output((1.0, 0.0, 0.0, 0.0)), output(other[relation])
    hidden = pairs(ev.Poisson(Cut.of(4, rate, batch).overall, release), relation).lower_pair
    assert curve_of(hidden) == pytest.approx(hockey_sticks(p, q, 0.04), abs=2e-4)


@pytest.mark.parametrize(("cap", "known"), [(550, 2.37), (520, 5.09)])
def test_truncated_poisson_stays_below_the_known_upper_ends(cap, known):
    """Telling full samples apart gives 4.836 and 8.07."""
    event = ev.Repeat(1000, ev.TruncatedPoisson(0.01, cap, 50_000, ev.Gaussian(1.0)))
    found = epsilon(event, 1e-5)
    poisson = epsilon(ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))), 1e-5)
    assert 0.95 * poisson.lower < found.lower
    assert poisson.upper < found.upper <= known


@pytest.mark.parametrize(
    ("relation", "theirs"),
    [("add-remove", NeighborRel.ADD_OR_REMOVE_ONE), ("replace-one", NeighborRel.REPLACE_ONE)],
)
def test_truncated_poisson_is_no_looser_than_dp_accounting(relation, theirs):
    ours = epsilon(
        ev.Repeat(50, ev.TruncatedPoisson(0.1, 14, 100, ev.Gaussian(2.0))), 1e-5, relation
    )
    pld = google.from_truncated_subsampled_gaussian_mechanism(
        dataset_size=100,
        sampling_probability=0.1,
        truncated_batch_size=14,
        noise_multiplier=2.0,
        value_discretization_interval=1e-3,
        neighboring_relation=theirs,
    ).self_compose(50)
    assert ours.upper <= pld.get_epsilon_for_delta(1e-5) * (1 + 1e-4)
    assert ours.upper >= 0.5 * pld.get_epsilon_for_delta(1e-5)


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_is_counted_as_laid_open_is_not_shown_to_be(relation):
    event = ev.TruncatedPoisson(1e-150, 1, 10, ev.Gaussian(1.0))
    assert delta(event, 0.5, relation).lower == 0.0


def test_a_sample_that_is_never_cut_is_a_poisson_sample():
    event = ev.Repeat(9, ev.TruncatedPoisson(0.1, 30, 30, ev.Gaussian(1.0)))
    assert epsilon(event, 1e-5) == epsilon(ev.Repeat(9, ev.Poisson(0.1, ev.Gaussian(1.0))), 1e-5)


def test_a_sample_that_is_always_cut_is_one_of_fixed_size():
    for relation in RELATIONS:
        full = epsilon(ev.TruncatedPoisson(1.0, 3, 30, ev.Gaussian(1.0)), 1e-3, relation)
        fixed = epsilon(ev.FixedSize(3, 30, ev.Gaussian(1.0)), 1e-3, relation)
        assert full.upper == pytest.approx(fixed.upper, rel=1e-4)


# --- random allocation ----------------------------------------------------------------------------


def ratios(sigma, points=241):
    """A grid of releases in one step: cell masses at 0, and their ratios at +1 and -1."""
    x, cell = np.linspace(-8.0, 8.0, points, retstep=True)
    z = x * sigma
    plain = norm.pdf(x) * cell
    return plain, np.exp((2 * z - 1) / (2 * sigma**2)), np.exp((-2 * z - 1) / (2 * sigma**2))


@pytest.mark.parametrize("sigma", [0.8, 1.5])
def test_one_of_two_steps_is_what_quadrature_says(sigma):
    plain, up, down = ratios(sigma, 801)
    cells = plain[:, None] * plain
    mean_up, mean_down = (up[:, None] + up) / 2, (down[:, None] + down) / 2
    event = ev.RandomAllocation(2, 1, ev.Gaussian(sigma))
    for eps in (0.1, 1.0, 2.0):
        order = math.exp(eps)
        exact = max(
            (cells * np.maximum(mean_up - order, 0.0)).sum(),
            (cells * np.maximum(1.0 - order * mean_up, 0.0)).sum(),
        )
        found = delta(event, eps)
        assert found.lower == pytest.approx(exact, rel=2e-3)
        assert found.upper == pytest.approx(exact, rel=2e-3)
        replaced = (cells * np.maximum(mean_up - order * mean_down, 0.0)).sum()
        found = delta(event, eps, "replace-one")
        assert 0.5 * replaced < found.lower <= replaced * 1.002
        assert replaced * 0.998 <= found.upper


@pytest.mark.parametrize(("steps", "chosen"), [(3, 2), (4, 2), (4, 3)])
def test_several_of_few_steps_lie_between_the_ends(steps, chosen):
    plain, up, down = ratios(1.0, 61 if steps == 3 else 33)
    sets = list(itertools.combinations(range(steps), chosen))

    def mean(values):
        grids = np.meshgrid(*[values] * steps, indexing="ij")
        return sum(math.prod(grids[j] for j in each) for each in sets) / len(sets)

    cells = math.prod(np.meshgrid(*[plain] * steps, indexing="ij"))
    p, q = mean(up), mean(down)
    event = ev.RandomAllocation(steps, chosen, ev.Gaussian(1.0))
    for eps in (0.2, 1.0):
        order = math.exp(eps)
        forward = (cells * np.maximum(p - order, 0.0)).sum()
        backward = (cells * np.maximum(1.0 - order * p, 0.0)).sum()
        found = delta(event, eps)
        assert found.lower <= max(forward, backward) * 1.01
        assert found.upper >= max(forward, backward) * 0.99
        replaced = (cells * np.maximum(p - order * q, 0.0)).sum()
        found = delta(event, eps, "replace-one")
        assert found.lower <= replaced * 1.01
        assert found.upper >= replaced * 0.99


def test_no_contribution_is_worse_in_random_allocation_not_even_an_adaptive_one():
    """Two steps; what the unit adds in the second depends on the first release."""
    rng = np.random.default_rng(3)
    sigma = 0.9
    x, cell = np.linspace(-7.0, 7.0, 281, retstep=True)
    plain = norm.pdf(x / sigma) / sigma
    cells = plain[:, None] * plain * cell**2

    def ratio(move):
        return np.exp((2 * x * move - move**2) / (2 * sigma**2))

    def mean(first, below, above):
        second = np.where(x[:, None] < 0.0, ratio(below), ratio(above))
        return (ratio(first)[:, None] + second) / 2

    for relation in RELATIONS:
        bound = curve_of(pairs(ev.RandomAllocation(2, 1, ev.Gaussian(sigma)), relation).pair)
        for _ in range(20):
            moves = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=(2, 3))
            p = cells * mean(*moves[0])
            q = cells * (mean(*moves[1]) if relation == "replace-one" else 1.0)
            assert (hockey_sticks(p, q, 1.0) <= bound + 2e-3).all()


@pytest.mark.parametrize(
    ("sigma", "steps", "chosen", "epochs", "target", "low", "high"),
    sweep(
        [
            # The lower and upper ends of PLD_accounting 2.0 (M. Shenfeld), run once.
            (1.0, 1000, 1, 1, 1e-6, 0.1686527, 0.1756865),
            (0.5, 100, 1, 1, 1e-6, 6.3826176, 6.4060876),
            (1.0, 10, 1, 1, 1e-6, 2.6317604, 2.6697767),
            (1.0, 100, 1, 10, 1e-5, 1.6644107, 1.7398247),
            (1.0, 100, 5, 1, 1e-5, 2.9579716, 3.0337133),
            (2.0, 50, 7, 1, 1e-5, 2.0798945, 2.1601512),
        ],
        quick=3,
    ),
)
def test_random_allocation_agrees_with_pld_accounting(
    sigma, steps, chosen, epochs, target, low, high
):
    event = ev.Repeat(epochs, ev.RandomAllocation(steps, chosen, ev.Gaussian(sigma)))
    found = epsilon(event, target)
    assert low <= found.upper <= high
    assert found.lower <= high
    if chosen == 1:
        assert found.gap < 2e-3 * found.upper


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("release", [ev.Gaussian(1.0), ev.Laplace(0.7)])
def test_laws_of_random_allocation(release, relation):
    def upper(steps, chosen):
        return epsilon(ev.RandomAllocation(steps, chosen, release), 1e-5, relation).upper

    once = epsilon(release, 1e-5, relation).upper
    assert upper(1, 1) == once
    assert upper(200, 1) < upper(20, 1) < upper(2, 1) < once * (1 + 5e-4)  # the engine's width
    assert upper(20, 1) < upper(20, 2) < epsilon(ev.Repeat(2, release), 1e-5, relation).upper
    assert upper(3, 3) == epsilon(ev.Repeat(3, release), 1e-5, relation).upper


def test_what_is_hidden_among_unusual_steps_gains_nothing_and_is_still_a_bound():
    for release in (ev.Gaussian(0.01), ev.Laplace(1e-3), ev.DiscreteGaussian(1.0, 1), ev.Pure(0.3)):
        found = epsilon(ev.RandomAllocation(50, 4, release), 1e-5)
        plain = epsilon(ev.Repeat(4, release), 1e-5)
        assert (found.lower, found.upper) == (0.0, pytest.approx(plain.upper, rel=1e-3))


def test_huge_numbers_of_steps_are_bounded():
    few = epsilon(ev.RandomAllocation(10**7, 1, ev.Gaussian(2.0)), 1e-6)
    many = epsilon(ev.RandomAllocation(10**15, 1, ev.Gaussian(2.0)), 1e-6)
    assert 0.0 < few.lower <= few.upper < 1e-3
    assert many.lower == 0.0
    assert many.upper == pytest.approx(few.upper)


# --- shuffled batches -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "batches", "target", "known"),
    [(0.5, 10_000, 1e-6, 10.994), (1.0, 1000, 1e-5, 2.88)],
)
def test_shuffled_batches_reach_the_known_lower_ends(sigma, batches, target, known):
    found = epsilon(ev.ShuffledBatches(batches, ev.Gaussian(sigma)), target, "zero-out")
    once = epsilon(ev.Gaussian(sigma), target, "zero-out")
    assert known <= found.lower <= found.upper == once.upper


@pytest.mark.parametrize(
    ("sigma", "eps", "printed"), sweep([(0.5, 1.953, 0.1445), (0.4, 4.0, 0.2261)], quick=1)
)
def test_shuffled_batches_fail_with_the_known_probability(sigma, eps, printed):
    """The largest of all batches is above C: the best C, from the normal distribution."""
    batches, most = 10_000, np.linspace(-1.0, 6.0, 200_001)
    rest = (batches - 1) * norm.logcdf(most / sigma)
    present, absent = (-np.expm1(rest + norm.logcdf((most - c) / sigma)) for c in (2.0, 1.0))
    exact = float((present - math.exp(eps) * absent).max())
    assert exact == pytest.approx(printed, abs=1e-4)
    found = delta(ev.ShuffledBatches(batches, ev.Gaussian(sigma)), eps, "zero-out")
    assert exact * (1.0 - 5e-4) <= found.lower <= exact * (1.0 + 1e-6)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_small_shuffled_data_sets_lie_between_the_ends(relation):
    """Two units, two batches of one: every data set is below the upper end, some at the lower."""
    sigma, grid = 0.8, (-1.0, 0.0, 1.0)
    x, cell = np.linspace(-6.0, 6.0, 201, retstep=True)

    def output(one, two):
        a, b = (norm.pdf((x - v) / sigma) / sigma for v in (one, two))
        return (a[:, None] * b + b[:, None] * a) / 2 * cell**2

    mechanism = pairs(ev.ShuffledBatches(2, ev.Gaussian(sigma)), relation)
    upper, lower = curve_of(mechanism.pair), curve_of(mechanism.lower_pair)
    worst = np.zeros(ORDERS.size)
    for unit, other in itertools.product(grid, repeat=2):
        for changed in (0.0,) if relation == "zero-out" else grid:
            p, q = output(unit, other), output(changed, other)
            for ordered in ((p, q), (q, p)):
                worst = np.maximum(worst, hockey_sticks(*ordered, 1.0))
    assert (worst <= upper + 1e-3).all()
    assert (lower <= worst + 1e-3).all()
    assert (lower > 0.3 * worst).all()


def test_shuffled_batches_compose_over_epochs():
    one = epsilon(ev.ShuffledBatches(1000, ev.Gaussian(1.0)), 1e-5, "zero-out")
    ten = epsilon(ev.Repeat(10, ev.ShuffledBatches(1000, ev.Gaussian(1.0))), 1e-5, "zero-out")
    assert one.lower < ten.lower < ten.upper
    assert ten.upper == epsilon(ev.Repeat(10, ev.Gaussian(1.0)), 1e-5, "zero-out").upper


def test_shuffled_batches_of_one_are_the_release_itself():
    found = epsilon(ev.ShuffledBatches(1, ev.Gaussian(1.0)), 1e-5, "replace-one")
    assert found == epsilon(ev.Gaussian(1.0), 1e-5, "replace-one")


def test_shuffled_batches_are_refused_under_add_remove():
    for engine in (None, "pld", "rdp"):
        with pytest.raises(Unsupported, match="zero-out or replace-one"):
            account(ev.ShuffledBatches(10, ev.Gaussian(1.0)), delta=1e-5, engine=engine)


def test_shuffled_batches_carry_the_warning_that_they_are_no_poisson_samples():
    event = ev.Repeat(1, ev.ShuffledBatches(10_000, ev.Gaussian(0.5)))
    (warning,) = batch_warnings(event, "zero-out", delta=1e-6, lower=10.99)
    assert "would be 1.953" in warning
    assert "is false: epsilon is at least 10.99" in warning
    (unproven,) = batch_warnings(event, "zero-out", epsilon=1.953)
    assert "delta would be 1.0" in unproven
    assert "is not proven" in unproven
    (bare,) = batch_warnings(
        ev.Compose([ev.ShuffledBatches(2, ev.ZCDP(1.0))]), "zero-out", delta=0.1
    )
    assert "would be" not in bare
    assert batch_warnings(ev.Repeat(3, ev.Poisson(0.1, ev.Gaussian(1.0))), "zero-out") == ()


# --- all of them ----------------------------------------------------------------------------------


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


@pytest.mark.quick(18)
@pytest.mark.parametrize("seed", range(36))
def test_the_ends_are_ordered_and_below_what_another_engine_proves(seed):
    rng = np.random.default_rng(seed)
    event = ev.Repeat(int(rng.integers(1, 30)), random_sampler(rng))
    target = float(10 ** -rng.uniform(1.0, 9.0))
    relation = RELATIONS[seed % 3]
    if isinstance(event.event, ev.ShuffledBatches) and relation == "add-remove":
        relation = "zero-out"
    found = epsilon(event, target, relation)
    assert 0.0 <= found.lower <= found.upper
    rdp = account(event, delta=target, neighbours=relation, engine="rdp").epsilon
    assert found.lower <= rdp.upper


@pytest.mark.parametrize(
    "event",
    [
        ev.FixedSize(10**18 - 1, 10**18, ev.Gaussian(1.0)),
        ev.FixedSize(1, 10**18, ev.Gaussian(1e-3)),
        ev.FixedSize(1, 2, ev.Gaussian(1e12)),
        ev.FixedSize(1, 2, ev.Laplace(1e-4)),
        pytest.param(
            ev.TruncatedPoisson(1e-12, 1, 10**18, ev.Gaussian(1.0)), marks=pytest.mark.slow
        ),
        ev.TruncatedPoisson(1.0, 10**17, 10**18, ev.Laplace(3.0)),
        ev.RandomAllocation(10**9, 3, ev.Gaussian(1e7)),
        ev.RandomAllocation(2, 1, ev.Gaussian(0.21)),
    ],
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_extreme_settings_are_bounded_or_refused(event, relation):
    found = account(event, delta=1e-12, neighbours=relation).epsilon
    assert 0.0 <= found.lower <= found.upper


@pytest.mark.parametrize(
    ("event", "relation", "error", "words"),
    [
        (
            ev.FixedSize(1, 9, ev.Poisson(0.5, ev.Gaussian(1.0))),
            "replace-one",
            Unsupported,
            "of `poi",
        ),
        (
            ev.FixedSize(3, 9, ev.Shuffle(4, ev.Laplace(1.0))),
            "replace-one",
            InvalidInput,
            "4 users",
        ),
        (
            ev.FixedSize(4, 9, ev.Shuffle(4, ev.Laplace(1.0))),
            "add-remove",
            Unsupported,
            "add-remove",
        ),
        (ev.TruncatedPoisson(0.5, 2, 9, ev.Pure(1.0)), "replace-one", Unsupported, "replace-one"),
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


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (ev.FixedSize(5, 50, ev.Gaussian(1.0)), "add-remove"),
        (ev.FixedSize(5, 50, ev.Laplace(1.0)), "zero-out"),
        (ev.TruncatedPoisson(0.1, 9, 50, ev.Gaussian(1.0)), "add-remove"),
        (ev.TruncatedPoisson(0.1, 9, 50, ev.Laplace(1.0)), "zero-out"),
        (ev.RandomAllocation(50, 5, ev.Gaussian(1.0)), "replace-one"),
        (ev.ShuffledBatches(50, ev.Gaussian(1.0)), "zero-out"),
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


@pytest.mark.parametrize("sigma", [0.5, 1.0, 8.0])
def test_the_opposed_pair_of_one_step_is_the_whole_replacement(sigma):
    pair = opposed_ratio_pair(mean_ratio(GaussianNoise(sigma), 1))
    for eps in (0.0, 0.5, 2.0, 6.0):
        mu = 2.0 / sigma
        exact = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
        for found in (pair, pair.reverse()):
            assert hockey_stick(found, math.exp(eps)) >= exact * (1 - 1e-12)
            assert hockey_stick(found, math.exp(eps)) <= exact * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(GaussianNoise(0.3), marks=pytest.mark.slow),
        GaussianNoise(3.0),
        LaplaceNoise(0.4),
    ],
)
@pytest.mark.parametrize("steps", [1, 2, 3, 37, 5000])
def test_mean_ratios_keep_their_mass_and_enclose_the_truth(noise, steps):
    law = mean_ratio(noise, steps)
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


def test_the_sum_of_scores_and_the_largest_sum_are_attained():
    """Against one step seen in full: both are post-processings of it, and show most of it."""
    noise = GaussianNoise(1.0)
    exact = norm.cdf(0.5 - 1.0) - math.e * norm.cdf(-0.5 - 1.0)
    for pair in (
        score_pair(noise, 1, 1, (1.0, 0.0)),
        maximum_pair(noise, ((1.0, 1),), ((0.0, 1),)),
    ):
        assert 0.999 * exact <= hockey_stick(pair, math.e) <= exact * (1 + 1e-9)
