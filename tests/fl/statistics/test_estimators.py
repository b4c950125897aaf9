"""The estimators: what they compute, what they cost and say, and how they are copied and kept."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import privplan as pp
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.fl.statistics.private_statistics import PrivateStatistics

from ...cases import for_each
from .small import classified, statistics

FEATURES, LABELS = classified(rows=3000)
NUMBERS = FEATURES @ [1.0, -2.0, 0.5, 3.0] + 4.0
TERMS: dict[str, Any] = {"row_norm": 8.0, "epsilon": 8.0, "seed": 1}
ALL = (pp.PrivatePCA, pp.PrivateRidge, pp.PrivateLogistic)


@for_each("kind", ALL)
def test_the_default_constructor_refuses_to_fit(kind: Any) -> None:
    with pytest.raises(InvalidInput, match=r"`row_norm` must be given, or `statistics`"):
        kind().fit(FEATURES, LABELS)
    with pytest.raises(InvalidInput, match=r"`epsilon` must be given"):
        kind(row_norm=1.0).fit(FEATURES, LABELS)


def test_labels_are_stated_before_a_fit() -> None:
    with pytest.raises(InvalidInput, match=r"`classes` must be given"):
        pp.PrivateLogistic(row_norm=1.0, epsilon=1.0).fit(FEATURES, LABELS)
    with pytest.raises(InvalidInput, match=r"`label_range` or `classes` must be given"):
        pp.PrivateRidge(row_norm=1.0, epsilon=1.0).fit(FEATURES, NUMBERS)


def test_a_second_estimator_costs_nothing_and_says_so() -> None:
    made = statistics(epsilon=2.0).release(FEATURES, LABELS)
    assert made.odometer is not None
    spent = made.odometer.reading().share
    first = pp.PrivateLogistic(made).fit()
    second = pp.PrivatePCA(made, n_components=2).fit()
    assert "one release with gaussian noise: epsilon 2 at delta 1e-05 for one record" in first.cost_
    assert second.cost_ == (
        "PrivatePCA is computed from the same release as PrivateLogistic and costs nothing more."
    )
    assert "2 fits from it cost nothing more" in made.cost
    assert made.odometer.reading().share == spent
    assert first.guarantee_ == second.guarantee_ == made.guarantee_


def test_with_statistics_the_rows_are_not_looked_at() -> None:
    made = statistics().release(FEATURES, LABELS)
    alone = pp.PrivateLogistic(made).fit()
    beside = pp.PrivateLogistic(made).fit(-FEATURES, LABELS[::-1])
    assert np.array_equal(alone.coef_, beside.coef_)


def test_an_estimator_that_releases_by_itself_is_the_same() -> None:
    made = PrivateStatistics(classes=3, **TERMS).release(FEATURES, LABELS)
    given = pp.PrivateLogistic(made).fit()
    alone = pp.PrivateLogistic(classes=3, **TERMS).fit(FEATURES, LABELS)
    assert np.array_equal(given.coef_, alone.coef_)
    assert given.guarantee_ == alone.guarantee_
    again = pp.PrivatePCA(alone.statistics_, n_components=1).fit()
    assert "same release" in again.cost_


def test_a_classifier_decides_by_its_coefficients() -> None:
    model = pp.PrivateLogistic(classes=3, **TERMS).fit(FEATURES, LABELS)
    assert model.coef_.shape == (3, 4)
    inside = FEATURES[np.linalg.norm(FEATURES, axis=1) <= 8.0]
    scores = inside @ model.coef_.T + model.intercept_
    assert np.allclose(scores, model.decision_function(inside))
    chances = model.predict_proba(FEATURES)
    assert np.array_equal(model.predict(FEATURES), chances.argmax(axis=1))
    assert model.score(FEATURES, LABELS) > 0.85
    assert model.n_features_in_ == 4


def test_two_classes_have_log_odds() -> None:
    names = np.array(["no", "yes"])
    model = pp.PrivateLogistic(classes=["no", "yes"], **TERMS)
    model.fit(FEATURES, names[(LABELS == 1).astype(int)])
    inside = FEATURES[np.linalg.norm(FEATURES, axis=1) <= 8.0]
    odds = model.decision_function(inside)
    assert model.coef_.shape == (1, 4)
    assert np.allclose(odds, inside @ model.coef_[0] + model.intercept_[0])
    chances = model.predict_proba(inside)
    assert np.allclose(odds, np.log(chances[:, 1] / chances[:, 0]))
    assert set(model.predict(inside)) == {"no", "yes"}
    assert np.array_equal(model.predict(inside) == "yes", odds > 0)


def test_class_weights_release_a_matrix_for_each_class() -> None:
    rare = np.where(np.arange(3000) < 100, 1, 0)
    moved = FEATURES.copy()
    moved[:, 0] += rare
    plain = pp.PrivateLogistic(classes=2, **TERMS).fit(moved, rare)
    weighted = pp.PrivateLogistic(classes=2, class_weight="balanced", **TERMS).fit(moved, rare)
    assert weighted.statistics_.released.bound.by_class
    assert plain.predict(moved).sum() < 300 < weighted.predict(moved).sum()
    with pytest.raises(Unsupported, match="Gram matrix for each class"):
        pp.PrivateLogistic(plain.statistics_, class_weight="balanced").fit()


def test_numbers_are_predicted_in_their_units() -> None:
    model = pp.PrivateRidge(label_range=(-40.0, 60.0), **{**TERMS, "epsilon": 100.0})
    model.fit(FEATURES, NUMBERS)
    assert np.allclose(model.coef_, [1.0, -2.0, 0.5, 3.0], atol=0.2)
    inside = FEATURES[np.linalg.norm(FEATURES, axis=1) <= 8.0]
    assert np.allclose(model.predict(inside), inside @ model.coef_ + model.intercept_)
    assert model.score(inside, inside @ [1.0, -2.0, 0.5, 3.0] + 4.0) > 0.98


def test_ridge_of_classes_predicts_their_numbers_or_a_coding() -> None:
    made = PrivateStatistics(classes=[10, 20, 40], **TERMS)
    made.release(FEATURES, np.array([10, 20, 40])[LABELS])
    numbers = pp.PrivateRidge(made).fit().predict(FEATURES)
    assert np.corrcoef(numbers, np.array([10, 20, 40])[LABELS])[0, 1] > 0.7
    coded = pp.PrivateRidge(made, ridge=1.0, coding=[[10, 1], [20, 0], [40, 0]]).fit()
    assert coded.predict(FEATURES).shape == (3000, 2)
    plain = pp.PrivateRidge(made, ridge=1.0).fit()
    assert np.allclose(coded.predict(FEATURES)[:, 0], plain.predict(FEATURES))
    assert np.allclose(coded.coef_[0], plain.coef_)
    texts = statistics(classes=["a", "b", "c"]).release(FEATURES, np.array(["a", "b", "c"])[LABELS])
    with pytest.raises(InvalidInput, match="texts as names"):
        pp.PrivateRidge(texts).fit()


def test_components_project_and_come_back() -> None:
    terms = {**TERMS, "epsilon": 100.0, "row_norm": 20.0}
    model = pp.PrivatePCA(n_components=2, **terms).fit(FEATURES)
    _, singular, vectors = np.linalg.svd(FEATURES, full_matrices=False)
    assert np.allclose(np.abs((model.components_ * vectors[:2]).sum(axis=1)), 1.0, atol=1e-2)
    assert np.allclose(model.explained_variance_, singular[:2] ** 2 / 3000, rtol=0.05)
    assert 0.0 < model.explained_variance_ratio_.sum() < 1.0
    reduced = model.transform(FEATURES)
    assert reduced.shape == (3000, 2)
    assert np.allclose(model.transform(model.inverse_transform(reduced)), reduced)
    assert list(model.get_feature_names_out()) == ["privatepca0", "privatepca1"]
    assert pp.PrivatePCA(**TERMS).fit(FEATURES, LABELS).components_.shape == (4, 4)


@for_each("kind", ALL)
def test_an_entry_that_is_refused_is_not_shown(kind: Any) -> None:
    stated = {} if kind is pp.PrivatePCA else {"classes": 3}
    model = kind(row_norm=1.0, epsilon=1.0, **stated)
    for rows in ([["secret", 1.0]] * 3, np.array([["secret", 1.0]] * 3, dtype=object)):
        with pytest.raises(ValueError, match=r"an entry is a text|arrays of bytes/strings") as no:
            model.fit(rows, [0, 1, 2])
        assert "secret" not in str(no.value)
        assert "secret" not in str(no.value.__context__)


@for_each("kind", ALL)
def test_clones_share_one_release_and_one_budget(kind: Any) -> None:
    made = statistics().release(FEATURES, LABELS)
    odometer = pp.Odometer(1.0, 1e-5)
    copied = clone(kind(made, odometer=odometer))
    assert copied.statistics is made
    assert copied.odometer is odometer
    assert copy.deepcopy(odometer) is odometer is copy.copy(odometer)
    with pytest.raises(TypeError, match="second budget"):
        pickle.dumps(odometer)


def test_a_search_over_settings_of_one_release_costs_nothing() -> None:
    made = statistics(epsilon=4.0).release(FEATURES, LABELS)
    search = GridSearchCV(pp.PrivateLogistic(made), {"ridge": [0.1, 1.0, "auto"]}, cv=2)
    search.fit(FEATURES, LABELS)
    assert len(made.costs.fits) == 7
    assert made.odometer is not None
    assert made.odometer.reading().share == 1.0


def test_every_fit_of_its_own_is_charged_to_a_budget() -> None:
    odometer = pp.Odometer(1.0, 1e-5, currency="gdp")
    model = pp.PrivateLogistic(classes=3, **{**TERMS, "epsilon": 0.7}, odometer=odometer)
    model.fit(FEATURES, LABELS)
    with pytest.raises(BudgetExceeded):
        clone(model).fit(FEATURES, LABELS)


def test_kept_estimators_predict_and_cannot_release() -> None:
    made = PrivateStatistics(classes=3, row_norm=8.0, epsilon=8.0).release(FEATURES, LABELS)
    for model in (
        pp.PrivateLogistic(made).fit(),
        pp.PrivateLogistic(classes=3, row_norm=8.0, epsilon=8.0).fit(FEATURES, LABELS),
    ):
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict(FEATURES), model.predict(FEATURES))
        assert again.guarantee_ == model.guarantee_
        with pytest.raises(Unsupported, match="released before"):
            again.statistics_.release(FEATURES, LABELS)


def test_users_are_protected_by_an_estimator_too() -> None:
    model = pp.PrivateLogistic(classes=3, rows_per_user=10, **TERMS)
    model.fit(FEATURES, LABELS, user=np.arange(3000) // 10)
    assert model.guarantee_.unit == "user"
    assert model.score(FEATURES, LABELS) > 0.6


def test_in_a_pipeline_of_public_steps() -> None:
    public = FunctionTransformer(lambda rows: rows / 2.0)
    model = make_pipeline(public, pp.PrivateLogistic(classes=3, **{**TERMS, "row_norm": 4.0}))
    assert model.fit(FEATURES, LABELS).score(FEATURES, LABELS) > 0.85


def test_they_are_loaded_when_they_are_used_and_statistics_need_no_scikit_learn() -> None:
    program = (
        "import sys, privplan as pp\n"
        "assert 'numpy' not in sys.modules and 'sklearn' not in sys.modules\n"
        "pp.PrivateStatistics\n"
        "assert 'sklearn' not in sys.modules and 'torch' not in sys.modules\n"
        "sys.modules['sklearn'] = None\n"
        "import numpy as np\n"
        "s = pp.PrivateStatistics(row_norm=1.0, epsilon=1.0).release(np.ones((9, 2)))\n"
        "try: pp.PrivatePCA\n"
        "except pp.errors.MissingExtra as error: print(error.what)\n"
        "del sys.modules['sklearn']\n"
        "pp.PrivateRidge\n"
        "assert 'sklearn' in sys.modules and 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "The estimators need scikit-learn, which is not installed.\n"
