"""What stands around a release forgets nothing of it: neither its copies nor the pairs beside it.

The oracle for a hidden step is a test of one of two steps.  It sees (P + Q)/2 against Q, and with
x = e^eps the hockey stick of that at x is half that of P against Q at 2x - 1.  Q is the step
without the unit: under replace-one, of one that is replaced by zeros.
"""

import dataclasses
import functools
import math

import pytest

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.engines.pld.ask.engine import PldEngine
from privplan.accountant.engines.pld.compose.directions import directions_of
from privplan.accountant.engines.pld.pairs.registry import composed, from_above, pairs, repeated
from privplan.accountant.errors import PrivplanError

from ...cases import for_each

BINS = ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(12, [1.0] * 12), ev.BallsInBins(4))
KEYS = ev.ThresholdSelection("gaussian", 3.0, 12.0, 4)
GEOMETRIC = ev.TruncatedGeometricSelection(1.0, 1e-3, 4)
SHUFFLED = ev.SampledShuffle(200, 10, 2, 120, "coordinate", "oblivious", "refuse", ev.Local(1.0))
RELEASES = (
    ev.Approximate(0.5, 1e-4),
    ev.ClientSampled(0.5, ev.Gaussian(2.0)),
    ev.DiscreteGaussian(2.0, 1),
    ev.DiscreteLaplace(2.0, 1),
    ev.Exponential(0.5),
    ev.FixedSize(5, 50, ev.Gaussian(1.0)),
    ev.Gaussian(2.0),
    ev.GaussianMixture(2.0, [0.0, 1.0], [0.5, 0.5]),
    ev.Group(3, ev.Poisson(0.2, ev.Gaussian(2.0))),
    ev.Laplace(2.0),
    ev.Local(0.5),
    BINS,
    ev.MatrixGaussian(4.0, ev.ToeplitzStrategy(6, [1.0, 0.5]), ev.SingleParticipation()),
    ev.NoGuarantee("nothing is known"),
    ev.Poisson(0.2, ev.Gaussian(1.0)),
    ev.Pure(0.5),
    ev.RandomAllocation(4, 2, ev.Gaussian(2.0)),
    ev.RandomAllocation(3, 2, BINS),
    ev.RandomizedResponse(1.0, 2),
    SHUFFLED,
    ev.Shuffle(50, ev.RandomizedResponse(1.0, 2)),
    ev.ShuffledBatches(3, ev.Gaussian(2.0)),
    ev.ShuffledBatches(3, BINS),
    KEYS,
    ev.TruncatedDiscreteGaussian(2.0, 1, 40),
    GEOMETRIC,
    ev.TruncatedPoisson(0.2, 5, 20, ev.Gaussian(2.0)),
    ev.WithReplacement(3, 20, ev.Gaussian(2.0)),
)
RELATIONS = ("add-remove", "replace-one", "zero-out")
HOLDING_MORE = (BINS, KEYS, GEOMETRIC, SHUFFLED)
"""Of several pairs, or fitted to a delta."""
CASES = [
    pytest.param(event, id=event.type, marks=() if event in HOLDING_MORE else pytest.mark.slow)
    for event in RELEASES
]
SLACK = 1.0 + 1e-9


def _ends(event, neighbours, epsilon):
    return PldEngine().delta(Composition.of(event), epsilon, neighbours).bounds


def _epsilon(event, neighbours="add-remove"):
    return PldEngine().epsilon(Composition.of(event), 1e-5, neighbours).bounds


@functools.cache
def _released(event, neighbours):
    """Return an epsilon at which some of the release's delta is left, and the ends there."""
    end = PldEngine().epsilon(Composition.of(event), 1e-2, neighbours).bounds.upper
    epsilon = 0.5 * min(end, 20.0)
    return epsilon, _ends(event, neighbours, epsilon)


def _known(event, neighbours):
    try:
        return pairs(Composition.of(event)[0].event, neighbours)
    except PrivplanError:
        return None


def test_every_event_type_is_looked_at():
    assert {type(event) for event in RELEASES} == set(pairs._homes)


def test_few_of_them_are_refused_altogether():
    refused = {
        event.type for event in RELEASES if all(_known(event, each) is None for each in RELATIONS)
    }
    assert refused == set()


@for_each("neighbours", RELATIONS)
@for_each("event", CASES)
def test_a_certain_step_costs_what_the_release_costs(event, neighbours):
    if _known(event, neighbours) is None:
        pytest.skip("not known under this relation")
    certain = [
        (ev.RandomAllocation(3, 3, event), 3),
        (ev.ShuffledBatches(1, event), 1),
        (ev.ClientSampled(1.0, event), 1),
        (ev.Poisson(1.0, event), 1),
        (ev.FixedSize(7, 7, event), 1),
        (ev.TruncatedPoisson(1.0, 9, 9, event), 1),
    ]
    # Three of them, others under the next relation.
    first = (2 * RELATIONS.index(neighbours) + RELEASES.index(event)) % len(certain)
    seen = 0
    for wrapped, count in [*certain[first:], *certain[:first]]:
        if seen == 3 or _known(wrapped, neighbours) is None:
            continue
        plain = ev.Repeat(count, event)
        epsilon, theirs = _released(plain, neighbours)
        ours = _ends(wrapped, neighbours, epsilon)
        assert ours.upper * SLACK >= theirs.lower, wrapped.type
        assert ours.lower <= theirs.upper * SLACK, wrapped.type
        seen += 1
    assert seen > 0


@for_each("neighbours", RELATIONS)
@for_each("event", CASES)
def test_a_hidden_step_shows_half_of_the_release(event, neighbours):
    zeroed = "zero-out" if neighbours == "replace-one" else neighbours
    if _known(event, zeroed) is None:
        pytest.skip("not known under this relation")
    hidden = [ev.RandomAllocation(2, 1, event), ev.ShuffledBatches(2, event)]
    epsilon, _ = _released(event, zeroed)
    shown = 0.5 * _ends(event, zeroed, math.log1p(2.0 * math.expm1(epsilon))).lower
    known = [wrapped for wrapped in hidden if _known(wrapped, neighbours) is not None]
    for wrapped in known:
        ends = _ends(wrapped, neighbours, epsilon)
        assert ends.upper * SLACK >= shown, wrapped.type
        assert ends.lower <= ends.upper, wrapped.type


def test_steps_of_balls_in_bins_are_not_forgotten():
    # Without what stands beside the allocation 2, 5 and 4 steps came to 4.2, 21 and 8.2.
    assert _epsilon(ev.RandomAllocation(2, 1, BINS)).upper >= 18.57
    whole = _epsilon(ev.Repeat(5, BINS))
    assert _epsilon(ev.RandomAllocation(5, 5, BINS)).upper >= whole.lower
    assert _epsilon(ev.RandomAllocation(5, 4, BINS)).upper >= 18.57
    assert _epsilon(ev.ShuffledBatches(2, BINS)).upper >= 18.57


@for_each("wrapped", [ev.RandomAllocation(2, 1, KEYS), ev.ShuffledBatches(2, KEYS)])
def test_keys_that_are_seen_are_not_forgotten(wrapped):
    plain = _ends(KEYS, "add-remove", 20.0)
    assert _ends(wrapped, "add-remove", 20.0).upper >= 0.5 * plain.lower > 2e-4


def test_keys_that_fall_are_not_forgotten():
    event = ev.TruncatedGeometricSelection(1.0, 1e-7, 4)
    hidden = _epsilon(ev.RandomAllocation(2, 1, event), "replace-one")
    assert hidden.upper >= 0.99 * _epsilon(event, "replace-one").upper


def test_a_release_that_hides_the_unit_attains_less_than_one():
    event = ev.WithReplacement(3, 20, ev.Gaussian(2.0))
    mechanism = pairs(ev.ShuffledBatches(2, event), "zero-out")
    assert mechanism.attained == ()


@for_each("event", [BINS, KEYS, GEOMETRIC, SHUFFLED], ids=lambda event: event.type)
def test_copies_of_a_mechanism_are_those_of_all_its_pairs(event):
    neighbours = "replace-one"
    mechanism = pairs(event, neighbours)
    many = repeated(mechanism, 5)
    assert _counted(many) == [(pair, 5 * count) for pair, count in _counted(mechanism)]
    assert (many.fitted is None) == (mechanism.fitted is None)
    both = composed(mechanism, many)
    assert _counted(both) == _counted(mechanism) + _counted(many)
    above = from_above(many)
    assert _counted(above) == _counted(many)
    assert above.attained == ()
    assert above.class_pair is None
    if mechanism.fitted is not None:
        total = sum(count for _, count in _counted(mechanism.fitted(2e-7)))
        for form, factor in ((many, 5), (above, 5)):
            assert sum(count for _, count in _counted(form.fitted(1e-6))) == factor * total


def _counted(mechanism):
    return list(mechanism.dominating)


@pytest.fixture
def laid_open_beside(monkeypatch):
    """Put the pair of a unit that is laid open beside every bare release, sampled or not."""
    nothing = pairs(ev.NoGuarantee("laid open"), "add-remove").pair
    for event in (ev.Pure(1.0), ev.Poisson(0.5, ev.Pure(1.0))):
        pairs(event, "add-remove")  # so that its module is there
        plain = pairs._functions[type(event)]

        def spoiled(event, neighbours, plain=plain):
            mechanism = plain(event, neighbours)
            both = (*mechanism.dominating, (nothing, 1))
            return dataclasses.replace(mechanism, dominating=both)

        monkeypatch.setitem(pairs._functions, type(event), spoiled)


@pytest.mark.usefixtures("laid_open_beside")
@for_each("neighbours", RELATIONS)
@for_each(
    "wrapped",
    [
        ev.ClientSampled(0.5, ev.Pure(1.0)),
        ev.FixedSize(2, 4, ev.Pure(1.0)),
        ev.FixedSize(4, 4, ev.Pure(1.0)),
        ev.RandomAllocation(2, 1, ev.Pure(1.0)),
        ev.RandomAllocation(2, 2, ev.Pure(1.0)),
        ev.ShuffledBatches(1, ev.Pure(1.0)),
        ev.ShuffledBatches(2, ev.Pure(1.0)),
        ev.TruncatedPoisson(0.5, 2, 4, ev.Pure(1.0)),
        ev.TruncatedPoisson(0.5, 4, 4, ev.Pure(1.0)),
        ev.WithReplacement(2, 4, ev.Pure(1.0)),
        ev.WithReplacement(2, 1, ev.Pure(1.0)),
    ],
    ids=str,
)
def test_what_stands_beside_a_pair_counts_or_is_refused(wrapped, neighbours):
    if _known(wrapped, neighbours) is not None:
        assert _ends(wrapped, neighbours, 50.0).upper >= 0.25


def test_a_direction_holds_every_pair_of_its_leaves():
    mechanism = pairs(KEYS, "add-remove")
    direction = directions_of(Composition([Leaf(KEYS, 3)]), "add-remove", 1e-6)[0]
    counts = [count for _, count in direction.dominating]
    assert counts == [3 * copies for _, copies in mechanism.dominating]
