"""The event `renyi`: a curve that is known at a few orders, used at all of them and no further."""

from __future__ import annotations

import itertools
import json
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.engines.rdp.releases import lower_hull
from privplan.accountant.errors import InvalidInput, Unsupported

from ..cases import for_each
from .rdp_answers import ADD, REPLACE, divergence


def least_chord(orders, values, order: float) -> float:
    """Return the least bound on R at `order` that two of the points, and (1, 0), give."""
    points = [(0.0, 0.0), *((a - 1.0, (a - 1.0) * v) for a, v in zip(orders, values, strict=True))]
    b, best = order - 1.0, math.inf
    for (x, f), (y, g) in itertools.combinations(points, 2):
        if x <= b <= y:
            best = min(best, f + (g - f) * (b - x) / (y - x))
    return best / b


CURVES = st.lists(
    st.tuples(st.floats(1.01, 50.0), st.floats(0.0, 20.0)),
    min_size=1,
    max_size=7,
    unique_by=lambda pair: round(pair[0], 3),
).map(sorted)


@settings(max_examples=60, deadline=None)
@given(CURVES, st.floats(1.001, 60.0))
@example([(1.5, 0.0), (2.0, 1.0)], 3.0)
def test_the_hull_is_the_least_of_all_chords(points, order: float) -> None:
    orders, values = zip(*points, strict=True)
    ours = divergence(ev.Renyi(orders, values), order)
    if 0.0 in values:  # equal distributions, at all orders
        assert ours == 0.0
    elif order > orders[-1]:
        assert ours == math.inf
    else:
        assert ours == pytest.approx(least_chord(orders, values, order), rel=1e-9, abs=1e-12)


@for_each(
    "truth", [ev.Gaussian(1.0), ev.Laplace(0.7), ev.Poisson(0.1, ev.Gaussian(0.8)), ev.Pure(2.0)]
)
def test_a_curve_known_in_part_is_above_the_truth(truth: ev.Event) -> None:
    """At listed orders equal, between them and below above it, beyond them infinite."""
    orders = np.array([1.3, 2.0, 5.0, 20.0])
    values = pp.rdp(truth, orders).upper
    known = curve(ev.Renyi(tuple(orders), tuple(values)), ADD)
    np.testing.assert_allclose(known.at(orders), values, rtol=1e-9)
    between = np.linspace(1.001, 20.0, 200)
    assert (known.at(between) >= pp.rdp(truth, between).lower).all()
    assert np.isinf(known.at(np.array([20.0001, 1e9]))).all()


def test_the_chord_between_two_orders_is_the_published_one() -> None:
    # (a-1) R(a) is 1 at a = 2 and 6 at a = 4: 3.5 half-way, so R(3) <= 1.75, less than R(4) = 2.
    assert divergence(ev.Renyi([2.0, 4.0], [1.0, 2.0]), 3.0) == pytest.approx(1.75)
    assert divergence(ev.Renyi([2.0, 4.0], [1.0, 2.0]), 1.01) == pytest.approx(1.0)


def test_values_that_fall_count_at_lower_orders() -> None:
    event = ev.Renyi([2.0, 4.0, 8.0], [3.0, 9.0, 1.0])
    for order in (1.5, 2.0, 4.0, 8.0):
        assert divergence(event, order) == pytest.approx(1.0)
    guarantee = pp.account(event, delta=1e-5)
    assert any("fall" in warning for warning in guarantee.warnings)
    rising = pp.account(ev.Renyi([2.0, 4.0], [1.0, 2.0]), delta=1e-5)
    assert not any("fall" in warning for warning in rising.warnings)


def test_a_value_of_0_is_doubted() -> None:
    warnings = pp.account(ev.Compose([ev.Renyi([2.0], [0.0])]), delta=1e-5).warnings
    assert any("rounded down" in warning for warning in warnings)


@for_each("delta", [1e-3, 1e-5, 1e-12])
def test_every_listed_order_is_tried(delta: float) -> None:
    """The best order is a corner here, which a search on a grid passes by."""
    orders = [1.9, 4.1, 7.7, 63.3]
    event = ev.Renyi(orders, [0.1, 0.15, 3.0, 30.0])
    listed = pp.from_rdp(orders, [0.1, 0.15, 3.0, 30.0], delta=delta).epsilon.upper
    assert pp.account(event, delta=delta).epsilon.upper <= listed * (1.0 + 1e-10)
    epsilon = 0.9 * listed
    deltas = pp.from_rdp(orders, [0.1, 0.15, 3.0, 30.0], epsilon=epsilon).delta.upper
    assert pp.account(event, epsilon=epsilon).delta.upper <= deltas * (1.0 + 1e-8)


def test_it_composes_with_other_curves() -> None:
    orders = tuple(np.arange(1.25, 60.0, 0.25))
    known = ev.Renyi(orders, tuple(pp.rdp(ev.Gaussian(2.0), orders).upper))
    for other in (ev.Laplace(3.0), ev.Repeat(50, ev.Poisson(0.02, ev.Gaussian(1.0)))):
        exact = pp.account(ev.Compose([ev.Gaussian(2.0), other]), delta=1e-6, engine="rdp")
        guarantee = pp.account(ev.Compose([known, other]), delta=1e-6)
        assert guarantee.engine == "rdp"
        assert exact.epsilon.upper <= guarantee.epsilon.upper <= 1.002 * exact.epsilon.upper
    with_delta = pp.account(ev.Compose([known, ev.Approximate(0.1, 1e-7)]), delta=1e-6)
    assert with_delta.epsilon.upper > pp.account(known, delta=1e-6).epsilon.upper


def test_groups_of_it_are_bounded_by_the_exact_group() -> None:
    orders = tuple(np.geomspace(1.05, 900.0, 400))
    known = ev.Renyi(orders, tuple(pp.rdp(ev.Gaussian(4.0), orders).upper))
    exact = pp.account(ev.Group(3, ev.Gaussian(4.0)), delta=1e-6).epsilon.lower
    ours = pp.account(ev.Group(3, known), delta=1e-6).epsilon.upper
    assert exact <= ours <= 1.15 * exact


def test_a_shuffled_epoch_takes_it_in_two_steps_and_one() -> None:
    """Under add-remove one batch has a record replaced: the stated values are for one that goes."""
    orders = tuple(np.geomspace(1.05, 900.0, 400))
    known = ev.Renyi(orders, tuple(pp.rdp(ev.Gaussian(4.0), orders).upper))
    exact = pp.account(ev.ShuffledBatches(9, ev.Gaussian(4.0)), delta=1e-6, engine="rdp")
    ours = pp.account(ev.ShuffledBatches(9, known), delta=1e-6)
    assert exact.epsilon.upper <= ours.epsilon.upper


@for_each("neighbours", [ADD, REPLACE, "zero-out"])
@for_each(
    "around",
    [
        *(partial(ev.Poisson, 0.1), partial(ev.FixedSize, 3, 30)),
        *(partial(ev.TruncatedPoisson, 0.1, 5, 30), partial(ev.Shuffle, 30)),
    ],
)
def test_a_sample_of_it_is_refused(around, neighbours: str) -> None:
    with pytest.raises(Unsupported):
        pp.account(around(ev.Renyi([2.0], [1.0])), delta=1e-5, neighbours=neighbours)


def test_other_engines_refuse_it() -> None:
    event = ev.Renyi([2.0, 3.0], [1.0, 1.1])
    for engine in ("pld", "gdp", "google", "microsoft"):
        with pytest.raises(Unsupported):
            pp.account(event, delta=1e-5, engine=engine)
    with pytest.raises(Unsupported, match="renyi"):
        event.to_dp_event()
    assert pp.account(event, delta=0.0).epsilon.upper == math.inf


def test_it_travels_as_json() -> None:
    event = ev.Renyi([2, 3.5], [1, 1.5])
    text = json.dumps(event.to_json())
    assert json.loads(text) == {"type": "renyi", "orders": [2.0, 3.5], "values": [1.0, 1.5]}
    assert ev.from_json(text) == event


@for_each(
    ("orders", "values", "field"),
    [
        *[(orders, [1.0, 1.0], "orders") for orders in ([2.0, 2.0], [3.0, 2.0], [1.0, 2.0])],
        ([0.5], [1.0], "orders"),
        ([2.0], [-0.1], r"values\[0\]"),
        ([2.0, math.nan], [1.0, 1.0], r"orders\[1\]"),
        ([2.0, 3.0], [1.0, math.nan], r"values\[1\]"),
        ([2.0, 3.0], [1.0], "values"),
        ([], [], "orders"),
    ],
)
def test_what_is_no_curve_is_refused(orders, values, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        ev.Renyi(orders, values)


def test_the_hull_starts_at_order_1() -> None:
    corners, moments = lower_hull([2.0, 3.0], [2.0, 0.5])
    assert corners.tolist() == [0.0, 2.0]
    assert moments.tolist() == [0.0, 1.0]


@for_each("neighbours", [ADD, REPLACE])
@for_each(
    "around",
    [
        *[partial(ev.BestOf, kind, 5.0) for kind in ("poisson", "geometric", "logarithmic")],
        *(partial(ev.BestOf, "fixed", 5.0), partial(ev.RandomAllocation, 6, 2)),
        *(partial(ev.ShuffledBatches, 6), partial(ev.Group, 2), partial(ev.Repeat, 4)),
    ],
)
def test_whatever_holds_it_proves_no_more_than_with_the_release_itself(around, neighbours) -> None:
    """A curve that is known at a few orders says less than the release that it is of."""
    release = ev.Laplace(2.0)
    orders = (1.2, 2.0, 4.0, 9.0, 30.0)
    values = pp.rdp(release, orders, neighbours=neighbours).upper
    known = ev.Renyi(orders, tuple(values))
    for question in ({"delta": 1e-4}, {"epsilon": 1.0}):
        whole = pp.account(around(release), neighbours=neighbours, engine="rdp", **question)
        part = pp.account(around(known), neighbours=neighbours, engine="rdp", **question)
        assert part.epsilon.upper >= whole.epsilon.upper * (1.0 - 1e-3)
        assert part.delta.upper >= whole.delta.upper * (1.0 - 1e-2)
        # And it is no lower than what is attained.
        tight = pp.account(around(release), neighbours=neighbours, **question)
        assert part.epsilon.upper >= tight.epsilon.lower
        assert part.delta.upper >= tight.delta.lower
