"""Epsilon at delta 0: closed forms, enumerated data sets at extreme outputs, unbounded losses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.loss_ranges import Range, amplified, lessened, quotient
from privplan.accountant.engines.pure import PureEngine
from privplan.accountant.errors import InvalidInput, TargetUnreachable, Unsupported

from ..cases import for_each
from .sampling import RELATIONS

ADD, REPLACE, ZERO = RELATIONS
T = 0.5  # 1 / noise
LAPLACE = ev.Laplace(1.0 / T)


def at_zero(event, neighbours=ADD, **given):
    return pp.account(event, delta=0.0, neighbours=neighbours, **given).epsilon


def mean(rate, loss):
    """log(1 - q + q e^loss)."""
    return math.log(1.0 - rate + rate * math.exp(loss))


CLOSED = [
    (LAPLACE, (T, 2 * T, T)),
    (ev.Laplace(0.3), (1 / 0.3, 2 / 0.3, 1 / 0.3)),
    (ev.DiscreteLaplace(2.0, 3), (T, 2 * T, T)),
    (ev.Repeat(7, LAPLACE), (7 * T, 14 * T, 7 * T)),
    (ev.Compose([LAPLACE, ev.DiscreteLaplace(4.0, 1)]), (0.75, 1.5, 0.75)),
    (ev.Group(3, LAPLACE), (3 * T, 6 * T, 3 * T)),
    (ev.Poisson(0.2, LAPLACE), (mean(0.2, T), mean(0.2, T) - mean(0.2, -T), mean(0.2, T))),
    (
        ev.Repeat(5, ev.Group(2, ev.Poisson(0.2, LAPLACE))),
        (10 * mean(0.2, T), 10 * (mean(0.2, T) - mean(0.2, -T)), 10 * mean(0.2, T)),
    ),
    (
        ev.FixedSize(20, 100, LAPLACE),
        (mean(0.2, 2 * T), mean(0.2, 2 * T), mean(0.2, 2 * T) - mean(0.2, T)),
    ),
    (ev.RandomAllocation(10, 3, LAPLACE), (3 * T, 6 * T, 3 * T)),
]


@for_each(("event", "expected"), CLOSED, ids=lambda each: str(each)[:60])
def test_noise_has_its_closed_form_from_both_sides(event, expected):
    for relation, value in zip((ADD, REPLACE, ZERO), expected, strict=True):
        found = at_zero(event, relation)
        assert found.lower <= value * (1 + 1e-13)
        assert found.upper >= value * (1 - 1e-15)
        assert found.lower == pytest.approx(value, rel=1e-12)
        assert found.upper == pytest.approx(value, rel=1e-12)


@for_each("event", [ev.Pure(0.7), ev.Local(0.7), ev.Exponential(0.7), ev.Approximate(0.7, 0.0)])
def test_a_bare_number_is_an_upper_end(event):
    # Randomized response attains it, and its losses lie in no shorter range.
    lower = 0.0 if isinstance(event, ev.Exponential) else pytest.approx(2.1, rel=1e-14)
    for relation in RELATIONS:
        found = at_zero(ev.Repeat(3, event), relation)
        assert (found.lower, found.upper) == (lower, pytest.approx(2.1, rel=1e-14))
        assert found.lower <= found.upper
    assert at_zero(ev.Poisson(0.2, ev.Pure(0.7))).upper == pytest.approx(mean(0.2, 0.7))
    # Where two values are compared, a sample is not seen to gain.
    assert at_zero(ev.Poisson(0.2, ev.Pure(0.7)), ZERO).upper == 0.7
    assert at_zero(ev.FixedSize(20, 100, ev.Pure(0.7)), REPLACE).upper == pytest.approx(
        mean(0.2, 0.7)
    )
    assert at_zero(ev.FixedSize(20, 100, ev.Pure(0.7))).upper == pytest.approx(mean(0.2, 1.4))


def test_a_response_is_exact_where_a_value_is_replaced():
    assert at_zero(ev.RandomizedResponse(1.0, 5), REPLACE) == 1.0
    assert at_zero(ev.RandomizedResponse(1.0, 5), ADD).lower == 0.0


def test_a_shuffle_costs_what_one_message_costs():
    event = ev.Shuffle(100, ev.Laplace(4.0))
    assert at_zero(event, REPLACE).upper == pytest.approx(0.5)
    with pytest.raises(Unsupported, match="add-remove"):
        at_zero(event)


GRID = (-1.0, 0.0, 1.0)
OUTPUTS = np.array([-40.0, -1.0, -0.5, 0.0, 0.5, 1.0, 40.0])


def laplace(centres, weights):
    """Return the density at OUTPUTS^d of a mixture; `centres` has shape (mixture, d)."""
    x = np.stack(np.meshgrid(*[OUTPUTS] * centres.shape[1], indexing="ij"), axis=-1)
    distance = np.abs(x[..., None, :] - centres).sum(axis=-1)
    return (np.exp(-T * (distance - distance.min(axis=-1, keepdims=True))) @ weights) * np.exp(
        -T * distance.min(axis=-1)
    )


def largest_ratio(p, q):
    return float(np.log(np.maximum(p / q, q / p)).max())


def sums_of_samples(values, size):
    """Return the sums of all samples of a size, equally likely."""
    sums = [sum(sample) for sample in itertools.combinations(values, size)]
    return np.array(sums)[:, None], np.full(len(sums), 1.0 / len(sums))


@for_each("relation", RELATIONS)
@for_each(("population", "batch"), [(3, 1), (4, 2)])
def test_fixed_size_samples_of_every_small_data_set(relation, population, batch):
    worst = 0.0
    for values in itertools.product(GRID, repeat=population):
        unit, others = values[0], values[1:]
        p = laplace(*sums_of_samples(values, batch))
        changed = {ADD: [others], ZERO: [(0.0, *others)]}.get(
            relation, [(new, *others) for new in GRID]
        )
        for other in changed:
            if unit != 0.0 or relation != ZERO:
                q = laplace(*sums_of_samples(other, batch))
                worst = max(worst, largest_ratio(p, q))
    found = at_zero(ev.FixedSize(batch, population, LAPLACE), relation)
    assert worst <= found.upper * (1 + 1e-9)
    assert worst == pytest.approx(found.lower, rel=1e-9)


def orders(values, sizes):
    """Return the sums of batches in every order, equally likely."""
    ends = np.cumsum((0, *sizes))
    sums = [
        [sum(order[a:b]) for a, b in itertools.pairwise(ends)]
        for order in itertools.permutations(values)
    ]
    return np.array(sums), np.full(len(sums), 1.0 / len(sums))


@for_each("relation", RELATIONS)
def test_shuffled_batches_of_every_small_data_set(relation):
    worst, event = 0.0, ev.ShuffledBatches(2, LAPLACE)
    for values in itertools.product(GRID, repeat=4):
        others = values[1:]
        p = laplace(*orders(values, (2, 2)))
        if relation == ADD:
            worst = max(worst, largest_ratio(p, laplace(*orders(others, (2, 1)))))
            continue
        for new in (0.0,) if relation == ZERO else GRID:
            worst = max(worst, largest_ratio(p, laplace(*orders((new, *others), (2, 2)))))
    found = at_zero(event, relation)
    assert found.lower * (1 - 1e-9) <= worst <= found.upper * (1 + 1e-9)
    if relation == ADD:
        assert found.upper == pytest.approx(3 * T)
        assert found.lower > T
    else:
        assert found.lower == found.upper


@for_each("batches", [2, 3, 20])
@for_each("noise", [0.01, 0.5, 3.0, 100.0])
def test_the_lower_end_of_shuffled_batches_is_a_ratio(batches, noise):
    """Of P = 1/T N(e_T) + 1/T sum N(2 e_j - e_T) and N(0), at four corners of the outputs."""
    t, corners = 1.0 / noise, []
    for full, last in itertools.product((-1, 1), repeat=2):
        logs = [last * t] + [full * 2 * t - last * t] * (batches - 1)
        corners.append(abs(np.logaddexp.reduce(logs) - math.log(batches)))
    found = at_zero(ev.ShuffledBatches(batches, ev.Laplace(noise)))
    assert found.lower == pytest.approx(max(*corners, t), rel=1e-9)
    assert found.upper == pytest.approx(3 * t, rel=1e-12)


@for_each("seed", range(12))
def test_epsilon_at_delta_0_is_above_that_at_any_delta(seed):
    rng = np.random.default_rng(seed)
    release = (
        ev.Laplace(float(rng.uniform(0.5, 5.0))),
        ev.DiscreteLaplace(float(rng.uniform(0.5, 5.0)), 2),
        ev.Pure(float(rng.uniform(0.1, 2.0))),
    )[seed % 3]
    event = ev.Repeat(int(rng.integers(1, 5)), release)
    if seed % 2:
        event = ev.Repeat(2, ev.Poisson(float(rng.uniform(0.01, 0.9)), release))
    zero = at_zero(event)
    later = pp.account(event, delta=1e-9).epsilon
    assert later.lower <= zero.upper
    assert at_zero(event, engine="rdp").upper >= zero.lower
    assert at_zero(ev.Compose([event, release])).upper > zero.upper


def test_the_pair_of_the_pld_engine_has_the_same_largest_loss():
    from privplan.accountant.engines.pld.pairs.registry import pairs

    for event, relation in itertools.product(
        (LAPLACE, ev.Poisson(0.2, LAPLACE), ev.DiscreteLaplace(2.0, 3), ev.Pure(0.3)), RELATIONS
    ):
        if isinstance(event, ev.Pure) and relation != ADD:
            continue
        pair = pairs(event, relation).pair
        expected = max(pair.largest_loss, pair.reverse().largest_loss)
        assert at_zero(event, relation).upper == pytest.approx(expected, rel=1e-9)


def test_arithmetic_keeps_its_digits():
    for rate, loss in itertools.product((1e-12, 0.3, 0.999999, 1.0), (1e-9, 1.0, 50.0, 1e5)):
        import mpmath

        with mpmath.workdps(60):
            up = mpmath.log(1 - mpmath.mpf(rate) + rate * mpmath.exp(loss))
            down = -mpmath.log(1 - mpmath.mpf(rate) + rate * mpmath.exp(-mpmath.mpf(loss)))
        for found, exact in (
            (amplified(rate, Range(loss, loss)), up),
            (lessened(rate, Range(loss, loss)), down),
        ):
            assert found.lower <= exact <= found.upper
            assert found.upper - found.lower <= 1e-13 * found.upper
    assert quotient(1, 3.0).lower < 1 / 3 <= quotient(1, 3.0).upper
    assert quotient(1, 1e-320).upper == math.inf


@for_each(
    "event",
    [
        ev.Gaussian(1.0),
        ev.DiscreteGaussian(1.0, 3),
        ev.Poisson(0.1, ev.Gaussian(1.0)),
        ev.FixedSize(5, 50, ev.Gaussian(1.0)),
        ev.ShuffledBatches(5, ev.Gaussian(1.0)),
        ev.RandomAllocation(5, 1, ev.Gaussian(1.0)),
        ev.Compose([LAPLACE, ev.Gaussian(1.0)]),
    ],
)
def test_gaussian_noise_has_no_epsilon_at_delta_0(event):
    for relation in RELATIONS:
        found = pp.account(event, delta=0.0, neighbours=relation)
        assert found.epsilon == math.inf
        assert "No epsilon is proven at delta 0." in found.warnings
        assert any("have no bound" in each for each in found.warnings)


@for_each("event", [ev.ZCDP(0.1), ev.NoGuarantee("x")])
def test_a_class_without_a_largest_loss_is_not_said_to_lose_all(event):
    bounds = at_zero(event)
    assert (bounds.lower, bounds.upper) == (0.0, math.inf)
    # The worst of a class with a delta discloses a unit with probability delta.
    assert at_zero(ev.Approximate(1.0, 1e-9)).lower == math.inf


def test_engines_that_look_at_tails_have_no_answer_at_delta_0():
    for engine in ("pld", "google", "microsoft"):
        with pytest.raises(Unsupported, match="at delta 0"):
            at_zero(LAPLACE, engine=engine)
    assert at_zero(ev.Gaussian(1.0), engine="gdp").upper == math.inf
    for engine in ("pure", "rdp"):
        assert at_zero(LAPLACE, engine=engine).upper == pytest.approx(T)
    with pytest.raises(Unsupported, match="delta 0 only"):
        pp.account(LAPLACE, delta=1e-5, engine="pure")


def test_delta_is_0_from_the_largest_loss_on():
    engine = PureEngine()
    assert engine.delta(Composition.of(LAPLACE), T, ADD).bounds == 0.0
    with pytest.raises(Unsupported, match="above 0"):
        engine.delta(Composition.of(LAPLACE), 0.99 * T, ADD)


@for_each(
    "event",
    [
        ev.Poisson(0.1, ev.FixedSize(2, 9, LAPLACE)),
        ev.FixedSize(2, 9, ev.Repeat(2, LAPLACE)),
        ev.TruncatedPoisson(0.1, 2, 9, ev.Repeat(2, LAPLACE)),
        ev.RandomAllocation(4, 2, ev.Shuffle(5, LAPLACE)),
    ],
)
def test_what_is_not_known_is_refused(event):
    with pytest.raises(Unsupported) as refused:
        PureEngine().epsilon(Composition.of(event), 0.0, ADD)
    assert refused.value.next_step


@for_each("delta", [-1e-9, 1.0, math.nan, True, "0"])
def test_deltas_out_of_range(delta):
    with pytest.raises(InvalidInput, match="`delta`"):
        pp.account(LAPLACE, delta=delta)


@for_each("relation", RELATIONS)
def test_noise_for_delta_0(relation):
    found = pp.calibrate(
        lambda noise: ev.Repeat(10, ev.Laplace(noise)), epsilon=2.0, delta=0.0, neighbours=relation
    )
    moved = 2 if relation == REPLACE else 1
    assert found.value == pytest.approx(5.0 * moved, rel=1e-4)
    assert found.guarantee.epsilon.upper <= 2.0
    assert found.guarantee.engine == "pure"
    again = pp.account(found.event, delta=0.0, neighbours=relation)
    assert again.epsilon == found.guarantee.epsilon


def test_rounds_and_rates_for_delta_0():
    found = pp.calibrate(
        lambda count: ev.Repeat(count, ev.Laplace(8.0)), epsilon=1.0, delta=0.0, unknown="rounds"
    )
    assert found.value == 8
    found = pp.calibrate(
        lambda rate: ev.Poisson(rate, ev.Pure(1.0)), epsilon=0.5, delta=0.0, unknown="rate"
    )
    assert found.value == pytest.approx(math.expm1(0.5) / math.expm1(1.0), rel=1e-3)


def test_no_gaussian_noise_is_enough_for_delta_0():
    with pytest.raises(TargetUnreachable) as refused:
        pp.calibrate(ev.Gaussian, epsilon=1.0, delta=0.0)
    assert "delta 0" in refused.value.what
    assert "Laplace" in refused.value.next_step
    with pytest.raises(Unsupported, match="above 0"):
        pp.calibrate(ev.Laplace, epsilon=1.0, delta=0.0, engine="rdp")
