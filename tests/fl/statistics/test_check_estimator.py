"""The estimators under scikit-learn's own checks; what fails is listed, with its reason."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.utils.estimator_checks import check_estimator

import privplan as pp

from ...cases import for_each
from .expected_failures import EXPECTED

# Data of the checks are small, so there is hardly any noise; a seed makes fits repeatable, which
# many checks ask for.
ESTIMATORS = (
    pp.PrivatePCA(row_norm=20.0, epsilon=1e3, seed=1),
    pp.PrivateRidge(row_norm=6.0, label_range=(-150.0, 150.0), epsilon=1e5, seed=1),
    pp.PrivateLogistic(row_norm=20.0, classes=4, epsilon=1e3, seed=1),
)


def outcomes(estimator: Any) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(check_estimator(estimator, on_fail=None, on_skip=None))


@for_each("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_only_what_is_listed_fails(estimator: Any) -> None:
    done = outcomes(estimator)
    failed = {each["check_name"]: each["exception"] for each in done if each["status"] == "failed"}
    expected = EXPECTED[type(estimator).__name__]
    assert {name: str(error) for name, error in failed.items() if name not in expected} == {}
    # A check that no longer fails is to be struck off the list.
    assert set(expected) == set(failed)
    assert sum(each["status"] == "passed" for each in done) >= 40


def test_every_expected_failure_has_a_reason() -> None:
    assert set(EXPECTED) == {type(each).__name__ for each in ESTIMATORS}
    for reasons in EXPECTED.values():
        assert all(name.startswith("check_") and len(why) > 40 for name, why in reasons.items())
