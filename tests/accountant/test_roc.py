"""`roc`: TPR at many false positive rates, from both sides."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import privplan as pp
from privplan import events as ev

from ..cases import for_each

RATES = [0.2, 0.001, 0.5]


@for_each(("relation", "mu"), [("add-remove", 0.5), ("replace-one", 1.0)])
def test_gaussian_noise_has_the_curve_of_two_normals(relation: str, mu: float) -> None:
    exact = norm.cdf(norm.ppf(RATES) + mu)
    curve = pp.roc(ev.Gaussian(2.0), RATES, neighbours=relation)
    assert (curve.lower <= exact).all()
    assert (exact <= curve.upper).all()
    assert (curve.upper - curve.lower < 1e-9).all()
    assert curve.neighbours == relation


def test_a_binary_response_has_the_curve_of_its_two_coins() -> None:
    keep = np.exp(1.0) / (1.0 + np.exp(1.0))
    rates = np.array([0.1, 1.0 - keep, 0.6])
    # The likelihood ratio takes two values: accuse on one answer, and at random on the other.
    exact = np.where(
        rates <= 1.0 - keep,
        rates * keep / (1.0 - keep),
        keep + (rates - (1.0 - keep)) * (1.0 - keep) / keep,
    )
    curve = pp.roc(ev.RandomizedResponse(1.0, 2), rates, neighbours="replace-one")
    assert (curve.lower <= exact * (1 + 1e-12)).all()
    assert (exact <= curve.upper * (1 + 1e-12)).all()
    assert (curve.upper - exact < 1e-3).all()


def test_a_point_of_the_curve_is_the_tpr_of_a_risk() -> None:
    event = ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(1.0)))
    (bounds,) = pp.roc(event, [0.01]).tprs
    assert bounds == pp.risk(event, fpr=0.01).tpr


@for_each("fprs", [[0.0], [0.5, 1.0], ["a"], "0.5", 0.5, [], {}, {0.1: 1}])
def test_what_is_no_rate_is_refused(fprs: object) -> None:
    with pytest.raises(pp.errors.InvalidInput, match="fprs"):
        pp.roc(ev.Gaussian(1.0), fprs)


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(pp.errors.InvalidInput, match="`event` must be an event"):
        pp.roc("gaussian", [0.5])
