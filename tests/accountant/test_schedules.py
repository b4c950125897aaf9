"""A sketch stands for all leaves; what is shown of many is short and says how many there are."""

from __future__ import annotations

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.schedules import MAX_LEAVES_SHOWN, SKETCH_LEAVES, shown, sketched


def _leaves(count):
    return Composition(
        Leaf(ev.Poisson(0.01, ev.Gaussian(1.0 + i / 100)), 1 + i % 3) for i in range(count)
    )


def test_few_leaves_are_their_own_sketch():
    few = _leaves(SKETCH_LEAVES)
    assert sketched(few) == tuple(few)


def test_a_sketch_keeps_the_counts_and_every_kind():
    many = Composition([*_leaves(1000), Leaf(ev.Laplace(3.0), 7)])
    sketch = sketched(many)
    assert len(sketch) == SKETCH_LEAVES + 1
    assert sum(leaf.count for leaf in sketch) == sum(leaf.count for leaf in many)
    assert Leaf(ev.Laplace(3.0), 7) in sketch
    assert {leaf.event for leaf in sketch} <= {leaf.event for leaf in many}


def test_what_is_shown_of_many_is_the_most_telling_one_and_their_ranges():
    many = _leaves(1000)
    kept, said = shown(many)
    assert kept == (many[0],)
    (step,) = said
    assert "1,000 different releases" in step.statement
    assert "noise multipliers 1 to 10.99" in step.statement
    assert "sampling rates 0.01 to 0.01" in step.statement


def test_few_leaves_are_all_shown():
    few = _leaves(MAX_LEAVES_SHOWN)
    assert shown(few) == (tuple(few), ())
