"""Gram matrices with label sums: a search for neighbours that are worse than the bounds."""

from __future__ import annotations

import itertools

import pytest

from privplan.accountant.sensitivity.gram import GramBound

from ..cases import for_each
from ..sweeps import sweep
from .grams import climbed

SHAPES = [(2, 3, 2), (1, 1, 1), (2, 1, 1), (3, 2, 1), (2, 10, 1), (3, 0, 1), (3, 0, 3), (2, 2, 4)]
"""Dimension, classes and rows of a unit."""

WEIGHTS = (0.1, 0.5, 1.41, 2.0, 30.0)


@for_each(("d", "classes", "rows"), sweep(SHAPES, quick=3))
def test_no_worse_neighbours_are_found(d: int, classes: int, rows: int) -> None:
    """Both norms and relations; where one row is all of a unit the climb comes near the bound."""
    weights = WEIGHTS if classes else (1.0,)
    for weight, trace in itertools.product(weights, (1.0, 3.0)):
        bound = GramBound(dimension=d, classes=classes, label_weight=weight, rows=rows, trace=trace)
        for relation in ("add-remove", "replace-one"):
            replaced = relation == "replace-one"
            worst = climbed(bound, 2, replaced=replaced, units=30, steps=60)
            limit = bound.l2(relation)
            tight = not replaced or (rows == 1 and (d > 1 or weight**2 > 2 * trace))
            assert (0.98 if tight else 0.65) * limit <= worst <= limit * (1 + 1e-12)
            worst = climbed(bound, 1, replaced=replaced, units=30, steps=60)
            limit = bound.l1(relation)
            assert (0.45 if replaced else 0.94) * limit <= worst <= limit * (1 + 1e-12)


@for_each(("d", "classes", "rows"), sweep([(2, 3, 1), (2, 2, 3), (3, 10, 2), (1, 3, 1)], quick=2))
def test_no_worse_neighbours_are_found_with_a_matrix_for_each_class(
    d: int, classes: int, rows: int
) -> None:
    for weight in WEIGHTS[::2]:
        bound = GramBound(
            dimension=d, classes=classes, label_weight=weight, rows=rows, by_class=True
        )
        for relation, norm in itertools.product(("add-remove", "replace-one"), (1, 2)):
            replaced = relation == "replace-one"
            limit = bound.l2(relation) if norm == 2 else bound.l1(relation)
            worst = climbed(bound, norm, replaced=replaced, units=30, steps=60)
            assert 0.7 * limit <= worst <= limit * (1 + 1e-12)


@pytest.mark.slow
@for_each("seed", range(3))
def test_a_longer_search_stays_below_the_bounds(seed: int) -> None:
    """More starts and steps for the cases in which the formulas meet."""
    for classes, weight, by_class in ((3, 1.73, False), (1, 1.41, False), (3, 0.6, True)):
        for rows in (1, 2, 5):
            bound = GramBound(
                dimension=3, classes=classes, label_weight=weight, rows=rows, by_class=by_class
            )
            worst = climbed(bound, 2, replaced=True, units=200, steps=300, seed=seed)
            limit = bound.l2("replace-one")
            assert 0.8 * limit <= worst <= limit * (1 + 1e-12)
