"""What an attacker tries: two releases for one price, another's guarantee, a budget lost."""

from __future__ import annotations

import os
import threading
import uuid
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import privplan as pp
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported

from ...cases import for_each
from .small import classified, statistics

FEATURES, LABELS = classified(rows=60)
TERMS: dict[str, Any] = {"row_norm": 6.0, "epsilon": 1.0, "seed": 1}


def test_threads_do_not_release_twice_for_one_price() -> None:
    for _ in range(5):
        made = statistics()
        start, released, refused = threading.Barrier(4), [], []

        def release(made: Any, start: Any, released: list[Any], refused: list[Any]) -> None:
            start.wait()
            try:
                released.append(made.release(FEATURES, LABELS))
            except BudgetExceeded as error:
                refused.append(error)

        threads = [
            threading.Thread(target=release, args=(made, start, released, refused))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(released), len(refused)) == (1, 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_release_for_the_price_of_its_parent() -> None:
    odometer = pp.Odometer(1.0, 1e-5, currency="gdp")
    child = os.fork()
    if not child:
        try:  # with streams of its own, and the budget of its parent
            statistics(epsilon=0.9, odometer=odometer).release(FEATURES, LABELS)
        except pp.errors.PrivplanError:
            os._exit(0)
        except BaseException:
            os._exit(2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    statistics(epsilon=0.9, odometer=odometer).release(FEATURES, LABELS)


def test_a_fit_keeps_the_guarantee_of_the_release_that_it_was_computed_from() -> None:
    odometer = pp.Odometer(50.0, 1e-5, observers=["model", "server"])
    made = statistics(silos=4, odometer=odometer)
    silo = np.arange(60) % 4
    model = pp.PrivateLogistic(made.release(FEATURES, LABELS, silo=silo)).fit()
    before, predicted = model.guarantee_, model.decision_function(FEATURES)
    made.release(FEATURES[:, :2], LABELS, silo=silo, aggregation="local")
    assert made.guarantee_.observer == "server"
    assert model.guarantee_ == before
    assert before.observer == "model"
    assert np.array_equal(model.decision_function(FEATURES), predicted)
    assert "What the 1 before it cost was spent as well." in made.cost


LOGISTIC: list[tuple[dict[str, Any], str]] = [
    ({"ridge": -1}, "`ridge`"),
    ({"ridge": "large"}, "`ridge`"),
    ({"components": 5}, "at most 4"),
    ({"class_weight": {"a": 1.0}}, "class_weight"),
    ({"class_weight": {0: -1.0}}, "class_weight"),
    ({"class_weight": "balanced", "intercept": 0.0}, "Without an intercept"),
]


@for_each(
    "kind, terms, named",
    [
        *((pp.PrivateLogistic, {"classes": 3, **terms}, named) for terms, named in LOGISTIC),
        (pp.PrivateRidge, {"classes": 3, "intercept": 0.0}, "Without an intercept"),
        (pp.PrivateRidge, {"classes": 3, "coding": [[1, 2]]}, "`coding`"),
        (pp.PrivateRidge, {"classes": 3, "coding": "abc"}, "`coding`"),
        (pp.PrivateRidge, {"label_range": (0, 3), "coding": [[1]]}, "`coding`"),
        (pp.PrivateRidge, {"classes": ["a", "b"]}, "texts as names"),
        (pp.PrivatePCA, {"n_components": 5}, "at most 4"),
        (pp.PrivatePCA, {"n_components": 0}, "`n_components`"),
    ],
)
def test_settings_of_a_fit_are_refused_before_its_release_is_paid(
    kind: Any, terms: dict[str, Any], named: str
) -> None:
    odometer = pp.Odometer(5.0, 1e-5)
    labels = np.array(["a", "b"])[LABELS % 2] if terms.get("classes") == ["a", "b"] else LABELS
    with pytest.raises((InvalidInput, Unsupported), match=named):
        kind(odometer=odometer, **TERMS, **terms).fit(FEATURES, labels)
    assert odometer.reading().share == 0.0


def kept(user: Any) -> float:
    """Return the released count of rows of which each user keeps two, with hardly any noise."""
    made = statistics(rows_per_user=2, epsilon=1e4)
    return made.release(FEATURES[: len(user)], LABELS[: len(user)], user=user).released.count


@for_each(
    "names",
    [
        np.array([uuid.UUID(int=number) for number in range(40)], dtype=object),
        np.array([2**60 + number for number in range(40)], dtype=object),
        np.array([*range(20), *map(str, range(20))], dtype=object),
        [*range(20), *map(str, range(20))],
        np.array([10**400 + number for number in range(40)], dtype=object),
    ],
)
def test_no_user_pushes_out_the_rows_of_another(names: Any) -> None:
    """40 users of one row: all of them stay.  Noise of the count is below .05; 10 deviations."""
    assert kept(names) == pytest.approx(40, abs=0.5)
    assert kept(np.repeat(np.asarray(names, object)[:10], 4)) == pytest.approx(20, abs=0.5)


@for_each(
    "names",
    [
        np.full(60, np.nan),
        [None] * 60,
        np.array(["a", None] * 30, dtype=object),
        np.array(["a", np.nan] * 30, dtype=object),
        np.full(60, np.datetime64("NaT")),
        np.array([{}] * 60, dtype=object),
        np.ma.masked_equal(np.arange(60), 3),
    ],
)
def test_a_row_without_a_user_is_refused(names: Any) -> None:
    with pytest.raises(InvalidInput, match="`user` must"):
        statistics(rows_per_user=2).release(FEATURES, LABELS, user=names)


def test_which_labels_occur_makes_no_warning_and_no_refusal() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in (np.arange(60), np.zeros(60, int)):
            pp.PrivateLogistic(classes=100, **TERMS).fit(FEATURES, labels)
        for labels in (np.where(LABELS > 0, 0.5, 1.0), np.ones(60)):
            pp.PrivateLogistic(classes=[0.5, 1.0], **TERMS).fit(FEATURES, labels)


def test_rows_with_imaginary_parts_are_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="Complex data not supported") as no:
        pp.PrivatePCA(**TERMS).fit(FEATURES + 12345j)
    assert "12345" not in str(no.value)
    assert "12345" not in str(no.value.__context__)
