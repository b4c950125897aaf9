"""Leaves: flattening, merging, and the samples that several releases share."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.event_tree import group_sizes, unit_of

from ..cases import for_each


def test_equal_leaves_are_counted_together_in_any_nesting():
    one = ev.Poisson(0.1, ev.Gaussian(1.0))
    nested = ev.Compose([ev.Repeat(3, ev.Compose([one, one])), ev.Repeat(4, one), ev.Gaussian(2.0)])
    assert Composition.of(nested) == (Leaf(one, 10), Leaf(ev.Gaussian(2.0), 1))


def test_sampling_twice_multiplies_the_rates_and_at_rate_one_is_no_sampling():
    noise = ev.Gaussian(1.0)
    assert Composition.of(ev.Poisson(0.5, ev.Poisson(0.1, noise))) == (
        Leaf(ev.Poisson(0.05, noise), 1),
    )
    assert Composition.of(ev.Poisson(1, noise)) == (Leaf(noise, 1),)


def test_gaussians_that_share_one_sample_are_one_gaussian():
    (leaf,) = Composition.of(
        ev.Poisson(0.1, ev.Compose([ev.Repeat(3, ev.Gaussian(2.0)), ev.Gaussian(1.0)]))
    )
    assert isinstance(leaf.event, ev.Poisson)
    assert leaf.event.event.noise_multiplier == pytest.approx(1 / math.sqrt(3 / 4 + 1))


@for_each(
    "inner",
    [
        ev.Repeat(2, ev.Laplace(1.0)),
        ev.Compose([ev.Gaussian(1.0), ev.Pure(0.1)]),
        ev.Repeat(2, ev.Poisson(0.5, ev.Gaussian(1.0))),
    ],
)
def test_other_shared_samples_are_refused(inner):
    with pytest.raises(Unsupported, match="Poisson sampling of a composition that holds"):
        Composition.of(ev.Poisson(0.1, inner))


def test_a_composition_of_one_is_that_one_and_of_none_cannot_be_sampled():
    event = ev.Poisson(0.1, ev.Compose([ev.Laplace(1.0)]))
    assert Composition.of(event) == (Leaf(ev.Poisson(0.1, ev.Laplace(1.0)), 1),)
    assert Composition.of(ev.Compose([])) == ()
    with pytest.raises(Unsupported, match="empty composition"):
        Composition.of(ev.Poisson(0.1, ev.Compose([])))


def test_deep_python_nesting_is_refused():
    event: ev.Event = ev.Gaussian(1.0)
    for _ in range(70):
        event = ev.Repeat(1, event)
    with pytest.raises(InvalidInput, match="nested more than"):
        Composition.of(event)


def test_a_group_of_a_composition_is_a_composition_of_groups():
    one = ev.Poisson(0.1, ev.Gaussian(1.0))
    event = ev.Group(2, ev.Compose([ev.Group(3, ev.Repeat(4, one)), ev.Gaussian(6.0)]))
    sampled, plain = Composition.of(event)
    assert sampled == Leaf(ev.Group(6, one), 4)
    assert plain.event.noise_multiplier == pytest.approx(3.0, rel=1e-15)
    assert plain.event.noise_multiplier <= 3.0
    assert Composition.of(ev.Group(1, one)) == (Leaf(one, 1),)


@for_each(
    ("event", "grouped"),
    [
        (ev.Laplace(2.0), ev.Laplace(0.5)),
        (ev.DiscreteGaussian(2.0, 3), ev.DiscreteGaussian(0.5, 12)),
        (ev.DiscreteLaplace(2.0, 3), ev.DiscreteLaplace(0.5, 12)),
        (ev.Pure(0.5), ev.Pure(2.0)),
        (ev.Local(0.5), ev.Pure(2.0)),
        (ev.RandomizedResponse(0.5, 3), ev.Pure(2.0)),
        (ev.Exponential(0.5), ev.Exponential(2.0)),
        (ev.ZCDP(0.5), ev.ZCDP(8.0)),
        (ev.NoGuarantee("raw"), ev.NoGuarantee("raw")),
    ],
    ids=lambda event: event.type,
)
def test_what_scales_is_scaled_and_never_to_its_favour(event, grouped):
    (leaf,) = Composition.of(ev.Group(4, event))
    assert type(leaf.event) is type(grouped)
    found, exact = leaf.event.to_json(), grouped.to_json()
    for name, value in exact.items():
        if isinstance(value, float):
            assert found[name] == pytest.approx(value, rel=1e-14)
            assert (found[name] <= value) if "noise" in name else (found[name] >= value)
        else:
            assert found[name] == value


@for_each(
    ("epsilon", "delta", "size", "factor"),
    [
        (0.0, 1e-6, 7, 7.0),
        (0.5, 1e-6, 3, 1 + math.exp(0.5) + math.exp(1.0)),
        (1e-9, 1e-6, 5, 5.00000001),
        (400.0, 1e-200, 2, 1 + math.exp(400.0)),
        (31.0, 1e-40, 2, 1 + math.exp(31.0)),
        (705.0, 1e-310, 2, 1 + math.exp(705.0)),
        (710.0, 1e-4, 2, math.inf),  # e^epsilon is no number of the machine
        (1e300, 1e-300, 3, math.inf),
    ],
)
def test_delta_of_a_group_is_the_exact_sum(epsilon, delta, size, factor):
    (leaf,) = Composition.of(ev.Group(size, ev.Approximate(epsilon, delta)))
    assert leaf.event.epsilon == pytest.approx(size * epsilon, rel=1e-14)
    assert leaf.event.delta == pytest.approx(min(delta * factor, 1.0), rel=1e-9)
    assert leaf.event.delta >= min(delta * factor, 1.0) * (1.0 - 1e-15)


def test_the_best_of_a_fixed_number_of_runs_is_counted_from_above_only():
    one = ev.Poisson(0.1, ev.Gaussian(1.0))
    event = ev.Compose([ev.BestOf("fixed", 5, ev.Repeat(3, one)), one])
    assert Composition.of(event) == (Leaf(one, 15, fully_observed=False), Leaf(one, 1))
    assert Composition.of(ev.BestOf("fixed", 1, one)) == (Leaf(one, 1),)
    both = ev.Compose([ev.BestOf("fixed", 3, one), one])
    assert Composition.of(ev.BestOf("fixed", 2, both)) == (Leaf(one, 8, fully_observed=False),)
    # One Gaussian stands for all runs, from above only.
    (hidden,) = Composition.of(
        ev.Poisson(0.1, ev.Compose([ev.BestOf("fixed", 4, ev.Gaussian(1.0))]))
    )
    assert hidden == Leaf(ev.Poisson(0.1, ev.Gaussian(0.5)), 1, fully_observed=False)


def test_a_unit_is_named_by_its_records():
    grouped = ev.Repeat(3, ev.Group(8, ev.Gaussian(1.0)))
    assert unit_of(grouped) == "group of 8 records"
    assert unit_of(ev.Gaussian(1.0)) == unit_of(ev.Group(1, ev.Gaussian(1.0))) == "record"
    assert unit_of(ev.Compose([grouped, ev.Gaussian(1.0)])) == "unit"
    assert group_sizes(ev.Compose([grouped, ev.Group(2, grouped)])) == (8, 16)


def _any_event(drawn: random.Random, depth: int) -> ev.Event:
    noise = drawn.choice([0.5, 1.0, 3.0])
    mechanism = drawn.choice(
        [ev.Gaussian(noise), ev.Laplace(noise), ev.Pure(noise), ev.DiscreteGaussian(noise, 2)]
    )
    if depth == 0 or drawn.random() < 0.1:
        return mechanism
    inner = _any_event(drawn, depth - 1)
    return drawn.choice(
        [
            ev.Repeat(drawn.choice([1, 2, 5]), inner),
            ev.Compose([inner, _any_event(drawn, depth - 1)]),
            ev.Poisson(drawn.choice([0.1, 1.0]), inner),
            ev.Group(drawn.choice([1, 2]), inner),
            ev.ClientSampled(drawn.choice([0.5, 1.0]), inner),
            ev.FixedSize(5, 20, inner),
            ev.BestOf("fixed", 3, inner),
        ]
    )


def _normal_forms() -> Iterator[tuple[ev.Event, Composition]]:
    drawn = random.Random(7)
    for _ in range(600):
        event = _any_event(drawn, drawn.randrange(4))
        with contextlib.suppress(Unsupported):
            yield event, Composition.of(event)


def test_the_normal_form_of_a_normal_form_is_itself():
    found = 0
    for _, composition in _normal_forms():
        again = Composition.of(
            ev.Compose([ev.Repeat(leaf.count, leaf.chain or leaf.event) for leaf in composition])
        )
        # A leaf alone does not say that it is hidden, and a group inside of a client stays one.
        hidden = not composition.fully_observed
        if not hidden and not any(each.inside(ev.Group) for each in (composition, again)):
            assert [(leaf.event, leaf.count) for leaf in again] == [
                (leaf.event, leaf.count) for leaf in composition
            ]
            found += 1
    assert found > 300


def test_nesting_and_order_are_forgotten_and_counts_are_not():
    for event, composition in _normal_forms():
        twice = Composition.of(ev.Compose([ev.Repeat(2, event), ev.Compose([event])]))
        assert set(twice) == {replace(leaf, count=3 * leaf.count) for leaf in composition}
        assert twice.releases == 3 * composition.releases
        assert (twice.single is None) or not composition
        assert twice.fully_observed == composition.fully_observed
        assert [type(each) for each in twice.inside(ev.Event)] == [
            type(each) for each in composition.inside(ev.Event)
        ]


def test_a_composition_says_what_is_in_it():
    composition = Composition.of(
        ev.Compose([ev.Poisson(0.1, ev.Gaussian(1.0)), ev.Repeat(2, ev.Laplace(2.0))])
    )
    assert composition.releases == 3
    assert composition.inside(ev.Gaussian) == [ev.Gaussian(1.0)]
    assert composition.holds(ev.Laplace, ev.Gaussian)
    assert not composition.holds(ev.Gaussian)
    assert composition.single is None
    assert Composition.of(ev.Laplace(1.0)).single == ev.Laplace(1.0)
    assert not composition.names_class
    assert Composition.of(ev.Group(2, ev.Approximate(0.1, 1e-6))).worst()[0].worst_of_class
