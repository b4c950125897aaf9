"""The parts of epsilon, and the claim that the paper makes of them."""

from __future__ import annotations

import pytest

from privplan.accountant.claims.delm import published_total
from privplan.accountant.errors import InvalidInput
from privplan.fl.delm.parts import Parts, given_parts, parts_by_ratio, require_claim
from privplan.fl.delm.settings import DelmSettings

from ...cases import for_each


def test_the_parts_of_the_paper_are_those_of_one() -> None:
    parts = parts_by_ratio(1.0, 2.0, 3, has_pca=True, has_choice=True)
    assert (parts.pca, parts.training, parts.selection) == pytest.approx((0.6, 1.2, 3.0))
    assert parts.claimed(3) == pytest.approx(published_total(0.6, 1.2, 3.0))


@for_each("layers", [1, 2, 3, 8])
@for_each("ratio", [0.5, 2.0, 10.0])
@for_each("epsilon", [0.1, 1.0, 4.0])
@for_each("has_choice", [False, True])
@for_each("has_pca", [False, True])
def test_both_sides_of_the_maximum_are_the_claim(
    has_pca: bool, has_choice: bool, epsilon: float, ratio: float, layers: int
) -> None:
    parts = parts_by_ratio(epsilon, ratio, layers, has_pca=has_pca, has_choice=has_choice)
    assert parts.pca + parts.training / layers == pytest.approx(epsilon)
    assert parts.selection / layers == pytest.approx(epsilon if has_choice else 0.0)
    if has_pca:
        assert parts.training == pytest.approx(ratio * parts.pca)
    require_claim(parts, epsilon, layers)


def test_another_claim_than_that_of_the_formula_is_refused_in_words() -> None:
    parts = Parts(0.6, 1.2, 3.0)
    with pytest.raises(InvalidInput) as refused:
        require_claim(parts, 1.8, 3)
    assert "max(0.6 + 1.2/3, 3/3)" in refused.value.what
    assert "claims 1" in refused.value.what
    require_claim(parts, 1.0, 3)


def test_parts_of_pieces_that_are_not_there_are_refused() -> None:
    table = DelmSettings(row_norm=1.0, pca="none", training_epsilon=1.0)
    assert given_parts(table, chooses=False) == Parts(0.0, 1.0, 0.0)
    for lacking, chooses in (
        (DelmSettings(row_norm=1.0, training_epsilon=1.0), False),
        (DelmSettings(row_norm=1.0, pca="none", training_epsilon=1.0), True),
        (DelmSettings(row_norm=1.0, pca="none", pca_epsilon=1.0, training_epsilon=1.0), False),
        (
            DelmSettings(row_norm=1.0, pca="none", training_epsilon=1.0, selection_epsilon=1.0),
            False,
        ),
    ):
        with pytest.raises(InvalidInput, match="_epsilon`"):
            given_parts(lacking, chooses=chooses)
    assert given_parts(DelmSettings(row_norm=1.0), chooses=True) is None
