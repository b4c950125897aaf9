"""Index privacy: the posterior by counting, the paper's numbers, and where a run says them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest

from privplan.accountant.claims import flame_formulas
from privplan.accountant.claims.table import rows
from privplan.fl.flame.index_privacy import index_privacy, posterior_ratios
from privplan.fl.running.preparation import prepare

from ..cases import for_each
from .flame_runs import flame


@for_each(("dimensions", "chosen", "decoys"), [(6, 2, 2), (5, 1, 2), (6, 2, 4)])
def test_the_ratio_is_bayes_rule(dimensions: int, chosen: int, decoys: int) -> None:
    """Every set of largest coordinates as likely, every set of decoys as likely, two rounds."""
    sets = [*combinations(range(dimensions), chosen)]
    seen_and_largest = seen = Fraction(0)
    for largest in sets:
        others = [c for c in range(dimensions) if c not in largest]
        draws = [*combinations(others, decoys)]
        both = Fraction(1, len(sets) * len(draws) ** 2)
        for first in draws:
            for second in draws:
                # Coordinate 0 is sent in both rounds.
                if 0 in largest or (0 in first and 0 in second):
                    seen += both
                    seen_and_largest += both * (0 in largest)
    posterior = seen_and_largest / seen
    exact = posterior / Fraction(chosen, dimensions)
    found = posterior_ratios(dimensions, chosen, decoys, 2)[1]
    assert found == pytest.approx(float(exact), rel=1e-15)
    assert Fraction(found) >= exact


def test_the_papers_nu_and_what_five_rounds_make_of_it() -> None:
    """k = 157 of 7,850, l = 16; the rows of `privplan claims flame`."""
    ratios = posterior_ratios(7850, 157, 15 * 157, 5)
    indexed = [
        row for row in rows("flame") if getattr(row, "func", 0) is flame_formulas._index_privacy
    ]
    once, often = (row() for row in indexed)
    names = ["index privacy nu, 1 round", "index privacy nu, 5 rounds"]
    assert [once.setting, often.setting] == names
    assert ratios[0] == once.proven == 3.125
    assert ratios[4] == often.proven
    assert [round(0.02 * ratio, 2) for ratio in ratios] == [0.06, 0.18, 0.42, 0.7, 0.88]


def test_all_coordinates_hide_the_largest_for_ever_and_no_decoys_show_them_at_once() -> None:
    assert posterior_ratios(6, 2, 4, 50) == [1.0] * 50
    assert posterior_ratios(6, 6, 0, 3) == [1.0] * 3
    assert posterior_ratios(6, 2, 0, 2) == [3.0, 3.0]


def test_a_run_without_decoys_says_nothing() -> None:
    assert prepare(flame("flame-topk")).notes == ()
    assert prepare(flame("flame-double")).notes == ()
    (note,) = prepare(flame("flame-topk", flame={"decoys": "4"})).notes
    assert note.name == "index privacy"
    assert note == index_privacy(31, 5, 4, 2)
