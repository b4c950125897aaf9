"""Objectives with a label weight, centred labels and the isometric layout."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.accountant.sensitivity.functional import (
    DATA,
    MODELS,
    QUADRATIC,
    Objective,
    sensitivity,
)
from privplan.accountant.sensitivity.gram import GramBound

from ..cases import for_each
from ..sweeps import sweep
from .objectives import coefficients, search

RELATIONS = ("add-remove", "replace-one")
CENTRED = "centred-statistics"


def weighted(model: str, d: int, weight: float, **given_fields: object) -> Objective:
    fields: dict[str, object] = {"data": "l2", "quadratic": "isometric", **given_fields}
    return Objective(model, d, label_weight=weight, **fields)  # type: ignore[arg-type]


@for_each("relation", RELATIONS)
@for_each("d", [1, 2, 3, 31, 784])
@for_each("classes", [2, 3, 10, 100])
def test_centred_statistics_are_a_gram_matrix_with_label_sums(
    classes: int, d: int, relation: str
) -> None:
    for weight in (0.01, 0.5, 0.8, 1.0, 1.6, 30.0):
        bound = GramBound(dimension=d, classes=classes, label_weight=weight)
        isometric = weighted(CENTRED, d, weight, classes=classes)
        triangle = weighted(CENTRED, d, weight, classes=classes, quadratic="upper-triangle")
        # A Gram matrix may be summed over silos that are seen one by one, which one sum is not.
        moved = sensitivity(isometric, relation).l2
        assert moved <= bound.l2(relation) if d == 1 else moved == bound.l2(relation)
        assert sensitivity(triangle, relation).l1 <= bound.l1(relation) * (1 + 1e-15)
        if relation != "replace-one":
            l1 = sensitivity(triangle, relation).l1
            assert l1 == pytest.approx(bound.l1(relation), rel=1e-15)


@for_each("relation", RELATIONS)
@for_each("d", [1, 2, 30])
def test_a_linear_model_is_one_with_numbers_as_labels(d: int, relation: str) -> None:
    """Its linear coefficients are -2 y x, so half of the weight."""
    for weight in (0.01, 0.5, 0.8, 1.0, 1.6, 30.0):
        bound = GramBound(dimension=d, classes=1, label_weight=weight)
        moved = sensitivity(weighted("linear", d, weight / 2), relation).l2
        assert moved <= bound.l2(relation) if d == 1 else moved == bound.l2(relation)
        triangle = weighted("linear", d, weight / 2, quadratic="upper-triangle")
        assert sensitivity(triangle, relation).l1 <= bound.l1(relation) * (1 + 1e-15)


def test_known_numbers() -> None:
    ten = weighted(CENTRED, 64, 1.0, classes=10)
    assert sensitivity(ten, "replace-one").l2 == pytest.approx(2.0506, abs=5e-5)
    assert sensitivity(ten).l2 == pytest.approx(math.sqrt(1.9))
    matrix = 31 * [1.0 / math.sqrt(31)]
    flat = np.array([matrix])
    small = weighted(CENTRED, 31, 1e-9, classes=2)
    for form, size in (("upper-triangle", 16.0), ("isometric", 1 + 30 / math.sqrt(2))):
        moved = np.abs(coefficients(CENTRED, form, flat, np.zeros(1), 2, 1e-9)).sum()
        assert moved == pytest.approx(size)
        l1 = sensitivity(weighted(CENTRED, 31, 1e-9, quadratic=form)).l1
        assert l1 == pytest.approx(size)
    assert sensitivity(small).l2 == pytest.approx(1.0, rel=1e-15)


@for_each("weight", [0.1, 1.0, 7.0])
@for_each("quadratic", QUADRATIC)
@for_each("data", DATA)
@for_each("model", MODELS)
def test_one_record_attains_both_norms(
    model: str, data: str, quadratic: str, weight: float
) -> None:
    for d in (1, 2, 3, 8, 20):
        objective = weighted(model, d, weight, data=data, quadratic=quadratic, classes=3)
        bound = sensitivity(objective)
        flat = np.full((1, d), 1.0 if data == "coordinate" else d**-0.5)
        rows = [flat, np.eye(d)[:1]]
        vectors = [coefficients(model, quadratic, x, np.ones(1), 3, weight) for x in rows]
        assert np.abs(vectors[0]).sum() == pytest.approx(bound.l1, rel=1e-12)
        assert max(map(np.linalg.norm, vectors)) == pytest.approx(bound.l2, rel=1e-12)


@for_each("weight", sweep([0.05, 0.9, 30.0], quick=1))
@for_each("quadratic", QUADRATIC)
@for_each("data", DATA)
@for_each("model", MODELS)
def test_no_worse_neighbours_are_found(
    model: str, data: str, quadratic: str, weight: float
) -> None:
    for d in (1, 3) if model != "softmax" else (1, 2):
        objective = weighted(model, d, weight, data=data, quadratic=quadratic, classes=3)
        for relation in RELATIONS:
            replaced, bound = relation == "replace-one", sensitivity(objective, relation)
            for norm, limit in ((1, bound.l1), (2, bound.l2)):
                worst = search(objective, norm, replaced=replaced, count=30, steps=60)
                assert (0.45 if replaced else 0.95) * limit <= worst <= limit * (1 + 1e-12)
                isometric = (data, quadratic, norm) == ("l2", "isometric", 2)
                if isometric and "softmax" not in model and model != "statistics" and d > 1:
                    assert worst >= 0.98 * limit


@given(
    st.sampled_from(MODELS),
    st.integers(1, 9),
    st.sampled_from(DATA),
    st.sampled_from(QUADRATIC),
    st.floats(1e-3, 1e3),
    st.floats(1.0, 3.0),
)
def test_a_larger_weight_never_moves_less(
    model: str, d: int, data: str, quadratic: str, weight: float, factor: float
) -> None:
    for relation in RELATIONS:
        low, high = (
            sensitivity(weighted(model, d, a, data=data, quadratic=quadratic), relation)
            for a in (weight, weight * factor)
        )
        assert low.l2 <= high.l2
        assert low.l1 <= high.l1 * (1 + 1e-14)
        single = sensitivity(weighted(model, d, weight, data=data, quadratic=quadratic))
        assert low.l2 <= 2 * single.l2 * (1 + 1e-15)
        assert low.l1 <= 2 * single.l1 * (1 + 1e-14)


@for_each("weight", [1e-120, 1e-9, 0.7, 1e9, 1e120])
def test_sensitivities_are_rounded_up(weight: float) -> None:
    single = sensitivity(weighted(CENTRED, 5, weight, classes=4))
    exact = 1 + Fraction(weight) ** 2 * Fraction(3, 4)
    assert Fraction(single.l2) ** 2 >= exact > Fraction(math.nextafter(single.l2, 0.0)) ** 2
    # L1: 1 + (5 - 1) / sqrt(2) + a 3/2 sqrt(5), each root rounded up.
    left = Fraction(single.l1) - 1
    assert left >= 0
    roots = 8 + Fraction(45, 4) * Fraction(weight) ** 2
    cross = 2 * Fraction(math.sqrt(8 * 45 / 4) * (1 - 1e-15)) * Fraction(weight)
    assert left**2 >= (roots + cross) * (1 - Fraction(1, 10**14))


def test_the_isometric_layout_has_the_least_noise_under_gaussian_noise_only() -> None:
    """Noise of one element above the diagonal, beside that of the triangle."""
    for relation in RELATIONS:
        isometric, triangle = (
            sensitivity(weighted(CENTRED, 31, 1.0, quadratic=form), relation)
            for form in ("isometric", "upper-triangle")
        )
        assert isometric.l2 / math.sqrt(2) < triangle.l2
        assert isometric.l1 / math.sqrt(2) < triangle.l1 < isometric.l1


@for_each("weight", [0.0, -1.0, math.nan, math.inf, True])
def test_weights_out_of_range_are_refused(weight: float) -> None:
    with pytest.raises(InvalidInput, match="label_weight"):
        Objective("linear", 3, label_weight=weight)
