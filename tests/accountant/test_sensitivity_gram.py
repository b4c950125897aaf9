"""Gram matrices with label sums: pairs that attain the bounds, laws, rounding and refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity import wishart
from privplan.accountant.sensitivity.gram import GramBound, sensitivity

from ..cases import for_each
from .grams import released

WEIGHTS = [0.01, 0.3, 1.0, 1.4, 1.6, 5.0, 30.0]


def equal_rows(bound: GramBound, direction: list[float]) -> np.ndarray:
    """Return one unit of k equal rows that use all of the trace: (1, k, d)."""
    row = np.zeros(bound.dimension)
    row[: len(direction)] = direction
    row *= math.sqrt(float(bound.row_square)) / np.linalg.norm(row)
    return np.tile(row, (1, bound.rows, 1))


def gap(
    bound: GramBound,
    x: np.ndarray,
    other: np.ndarray,
    layout: str = "isometric",
    labels: tuple[float, float] = (1.0, 1.0),
) -> np.ndarray:
    """Return by how much two units differ, whose rows have one label each."""
    first, second = (np.full((1, bound.rows), label) for label in labels)
    return (released(bound, x, first, layout) - released(bound, other, second, layout))[0]


def label_part(bound: GramBound) -> float:
    """Return A = k a^2 y^2 / T."""
    return bound.rows * bound.label_weight**2 * float(bound.label_square) / bound.trace


@for_each("by_class", [False, True])
@for_each("weight", WEIGHTS)
@for_each("rows", [1, 2, 7])
@for_each("classes", [0, 1, 2, 3, 10])
def test_equal_rows_of_one_label_attain_the_bounds_of_a_unit_that_comes(
    classes: int, rows: int, weight: float, by_class: bool
) -> None:
    for trace, d in ((1.0, 3), (4.0, 1), (0.3, 5)):
        bound = GramBound(
            dimension=d,
            classes=classes,
            label_weight=weight,
            rows=rows,
            trace=trace,
            by_class=by_class and classes > 1,
        )
        axis, flat = equal_rows(bound, [1.0]), equal_rows(bound, [1.0] * d)
        y = np.ones((1, rows))
        for x in (axis, flat):
            size = np.linalg.norm(released(bound, x, y, "isometric")[0])
            assert size == pytest.approx(bound.l2("add-remove"), rel=1e-12)
        moved = np.abs(released(bound, flat, y, "triangle")[0]).sum()
        assert moved == pytest.approx(bound.l1("add-remove"), rel=1e-12)


@for_each("weight", WEIGHTS)
@for_each("rows", [1, 2, 7])
@for_each("classes", [0, 1, 2, 3, 10])
def test_equal_labels_at_a_negative_angle_attain_the_bound_of_a_unit_that_is_replaced(
    classes: int, rows: int, weight: float
) -> None:
    for trace in (1.0, 4.0, 0.3):
        bound = GramBound(dimension=4, classes=classes, label_weight=weight, rows=rows, trace=trace)
        cosine = -min(label_part(bound) / 2, 1.0)
        x = equal_rows(bound, [1.0])
        other = equal_rows(bound, [cosine, math.sqrt(1 - cosine**2)])
        limit = bound.l2("replace-one")
        assert np.linalg.norm(gap(bound, x, other)) == pytest.approx(limit, rel=1e-12)
        # Beside that angle it is less: the pair is a maximum.
        for angle in {cosine + 0.01, max(cosine - 0.01, -1.0)} - {cosine}:
            near = equal_rows(bound, [angle, math.sqrt(1 - angle**2)])
            assert np.linalg.norm(gap(bound, x, near)) < limit * (1 - 1e-7)


def test_opposite_rows_attain_the_bound_from_two_roots_up_in_any_dimension() -> None:
    for d in (1, 2, 5):
        for weight in (1.5, 2.0, 30.0):
            bound = GramBound(dimension=d, classes=1, label_weight=weight)
            x = equal_rows(bound, [1.0])
            limit = bound.l2("replace-one")
            assert np.linalg.norm(gap(bound, x, -x)) == pytest.approx(limit, rel=1e-12)
            assert limit == pytest.approx(2 * weight)


@for_each("rows", [1, 3])
@for_each("classes", [2, 3, 10])
def test_with_a_matrix_for_each_class_another_class_attains_the_bound(
    classes: int, rows: int
) -> None:
    for weight in (0.01, 0.1, 0.3):
        bound = GramBound(
            dimension=2, classes=classes, label_weight=weight, rows=rows, by_class=True
        )
        x = equal_rows(bound, [1.0])
        moved = float(np.linalg.norm(gap(bound, x, x, labels=(0.0, 1.0))))
        assert moved == pytest.approx(math.sqrt(2 + 2 * rows * weight**2), rel=1e-12)
        limit = bound.l2("replace-one")
        assert moved <= limit * (1 + 1e-12)
        # The parabola has its top at the end at which all labels differ.
        if rows * weight**2 * (1 - 2 / classes) / 2 <= 1 / classes:
            equal = replaced_by_equal_labels(bound)
            assert max(moved, equal) == pytest.approx(limit, rel=1e-12)
    wide = GramBound(dimension=2, classes=classes, label_weight=9.0, rows=rows, by_class=True)
    if classes > 2:
        x = equal_rows(wide, [1.0])
        moved = float(np.linalg.norm(gap(wide, x, -x)))
        assert moved == pytest.approx(wide.l2("replace-one"), rel=1e-12)


def replaced_by_equal_labels(bound: GramBound) -> float:
    cosine = -min(label_part(bound) / 2, 1.0)
    other = equal_rows(bound, [cosine, math.sqrt(1 - cosine**2)])
    return float(np.linalg.norm(gap(bound, equal_rows(bound, [1.0]), other)))


@for_each("d", [1, 2, 7])
@for_each(("classes", "rows"), [(0, 1), (1, 1), (2, 3), (10, 2)])
def test_silos_that_are_seen_one_by_one_move_no_farther(d: int, classes: int, rows: int) -> None:
    """A unit is in one silo, and comes back in another: all of both vectors changes."""
    bound = GramBound(dimension=d, classes=classes, rows=rows, label_weight=0.7, trace=1.5)
    rows_there, labels = equal_rows(bound, [1.0] * d), np.ones((1, rows))
    there = released(bound, rows_there, labels, "triangle")
    assert 2 * np.abs(there).sum() == pytest.approx(bound.l1("replace-one"), rel=1e-12)
    there = released(bound, rows_there, labels, "isometric")
    assert math.sqrt(2) * np.linalg.norm(there) <= bound.l2("replace-one") * (1 + 1e-12)
    if not classes:
        assert math.sqrt(2) * np.linalg.norm(there) == pytest.approx(bound.l2("replace-one"))


def test_two_classes_attain_the_replaced_triangles_of_both() -> None:
    bound = GramBound(dimension=6, classes=2, label_weight=1e-13, by_class=True, trace=2.5)
    flat = equal_rows(bound, [1.0] * 6)
    moved = np.abs(gap(bound, flat, flat, "triangle", (0.0, 1.0))).sum()
    assert moved == pytest.approx(bound.l1("replace-one"), rel=1e-10)


def test_known_numbers() -> None:
    ten = GramBound(dimension=65, classes=10)
    assert ten.l2("replace-one") == pytest.approx(2.0506, abs=5e-5)
    assert ten.l2("add-remove") == pytest.approx(math.sqrt(1.9))
    assert ten.l2("replace-one") > math.sqrt(2) * ten.l2("add-remove")
    # Under Laplace noise the triangle moves less than the isometric layout.
    triangle = GramBound(dimension=31)
    flat = equal_rows(triangle, [1.0] * 31)
    isometric = np.abs(released(triangle, flat, np.ones((1, 1)), "isometric")).sum()
    assert triangle.l1("add-remove") == 16.0
    assert isometric == pytest.approx(22.2, abs=0.05)
    # A user of k rows; the silo of as many rows of norm 1.
    user = GramBound(dimension=9, classes=2, rows=8)
    assert user.l2("add-remove") == pytest.approx(math.sqrt(5))
    assert user.l2("replace-one") == pytest.approx(4.0)  # the bounds by part: sqrt(2 + 16)
    silo = GramBound(dimension=9, classes=2, rows=8, trace=8.0)
    assert silo.l2("add-remove") == pytest.approx(8 * math.sqrt(1.5))


@for_each("d", [1, 2, 50])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_without_labels_it_is_the_sensitivity_of_the_matrix_alone(d: int, neighbours: str) -> None:
    alone = wishart.gaussian_sensitivity(1.0, neighbours, dimension=max(d, 2))
    assert GramBound(dimension=d).l2(neighbours) == alone.l2  # d = 1: in one of two silos


BOUNDS = st.builds(
    GramBound,
    dimension=st.integers(1, 12),
    classes=st.sampled_from([1, 2, 3, 10, 100]),
    label_weight=st.floats(1e-3, 1e3),
    rows=st.integers(1, 20),
    trace=st.floats(1e-3, 1e3),
)


def larger(bound: GramBound, **changed: object) -> GramBound:
    fields = ("dimension", "classes", "label_weight", "rows", "trace", "by_class")
    return GramBound(**{**{name: getattr(bound, name) for name in fields}, **changed})  # type: ignore[arg-type]


@given(BOUNDS, st.floats(1.0, 4.0))
def test_looser_bounds_never_move_less(bound: GramBound, factor: float) -> None:
    changes: list[dict[str, object]] = [
        {"label_weight": bound.label_weight * factor},
        {"trace": bound.trace * factor},
        {"rows": bound.rows + 1},
        {"dimension": bound.dimension + 1},
    ]
    if bound.classes > 1:
        changes += [{"classes": bound.classes + 1}, {"by_class": True}]
    for changed in changes:
        other = larger(bound, **changed)
        for relation in ("add-remove", "replace-one"):
            assert other.l2(relation) >= bound.l2(relation)
            assert other.l1(relation) >= bound.l1(relation)


@given(BOUNDS, st.booleans())
def test_a_replaced_unit_moves_it_by_one_to_two_units(bound: GramBound, by_class: bool) -> None:
    bound = larger(bound, by_class=by_class and bound.classes > 1)
    for norm in (bound.l1, bound.l2):
        assert norm("add-remove") * (1 - 1e-15) <= norm("replace-one")
        assert norm("replace-one") <= 2 * norm("add-remove") * (1 + 1e-15)


EDGE = math.sqrt(2.0)
"""With one number as a label, the formula for a replaced unit changes at this weight."""


@for_each("trace", [1.0, 1e-60, 3e60])
@for_each("rows", [1, 10**18])
@for_each(
    "weight", [1e-130, 1e-9, 1.0, math.nextafter(EDGE, 0), EDGE, math.nextafter(EDGE, 9), 1e40]
)
def test_bounds_are_rounded_up_by_one_step_at_most(weight: float, rows: int, trace: float) -> None:
    """Against the squares of the pairs that attain them, as fractions."""
    bound = GramBound(dimension=2, classes=1, label_weight=weight, rows=rows, trace=trace)
    part = rows * Fraction(weight) ** 2 / Fraction(trace)
    cosine = min(part / 2, Fraction(1))
    squares = {"add-remove": 1 + part, "replace-one": 2 - 2 * cosine**2 + 2 * part * (1 + cosine)}
    for relation, square in squares.items():
        exact = square * Fraction(trace) ** 2
        limit = bound.l2(relation)
        assert Fraction(limit) ** 2 >= exact > Fraction(math.nextafter(limit, 0.0)) ** 2


@for_each("weight", [1e-130, 0.7, 1e130])
@for_each("d", [1, 2, 7, 8192])
def test_l1_bounds_are_rounded_up(d: int, weight: float) -> None:
    for trace in (1e-130, 1.0, 3e130):
        bound = GramBound(dimension=d, classes=3, label_weight=weight, rows=5, trace=trace)
        matrix = Fraction(trace) * (d + 1) / 2
        label = Fraction(weight) * Fraction(4, 3)
        # l1 >= matrix + label root: compared by squares.
        left = Fraction(bound.l1("add-remove")) - matrix
        assert left >= 0
        assert left**2 >= label**2 * d * 5 * Fraction(trace)
        assert left <= label * Fraction(math.sqrt(5.0 * d * trace) * (1 + 1e-15)) + matrix / 2**51


@for_each(
    ("fields", "said"),
    [
        ({"dimension": 0}, "dimension"),
        ({"dimension": 8193}, "dimension"),
        ({"dimension": 2.5}, "dimension"),
        ({"classes": -1}, "classes"),
        ({"classes": 1025}, "classes"),
        ({"label_weight": 0.0}, "label_weight"),
        ({"label_weight": math.nan}, "label_weight"),
        ({"trace": 0.0}, "trace"),
        ({"trace": math.inf}, "trace"),
        ({"rows": 0}, "rows"),
        ({"by_class": True, "classes": 1}, "two classes"),
        ({"by_class": True, "classes": 1000, "dimension": 1000}, "268,435,456 numbers"),
        ({"bound_source": "sample"}, "bound_source"),
    ],
)
def test_what_is_out_of_range_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        GramBound(**{"dimension": 3, **fields})  # type: ignore[arg-type]


def test_what_has_no_sensitivity_is_refused() -> None:
    with pytest.raises(Unsupported, match="private data"):
        GramBound(dimension=3, bound_source="private")
    with pytest.raises(Unsupported, match="zero-out"):
        sensitivity(GramBound(dimension=3), "zero-out")
    with pytest.raises(InvalidInput, match="neighbours"):
        sensitivity(GramBound(dimension=3), "swap")
    with pytest.raises(Unsupported, match="extreme"):
        GramBound(dimension=3, classes=1, label_weight=1e200).l2("add-remove")


def test_the_sensitivity_says_for_whom_it_holds() -> None:
    bound = GramBound(dimension=3, classes=2, rows=4)
    moved = sensitivity(bound, "replace-one", unit="user")
    assert (moved.l1, moved.l2) == (bound.l1("replace-one"), bound.l2("replace-one"))
    assert (moved.unit, moved.neighbours) == ("user", "replace-one")
    assert "a user has at most 4 rows, each of squared norm at most 0.25" in moved.conditions[0]
    assert bound.values == 6 + 6
    assert GramBound(dimension=3, classes=2, by_class=True).values == 12 + 6
