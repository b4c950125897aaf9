"""Releases of published systems, accounted for whom they are made."""

from __future__ import annotations

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.account_release import account_release
from privplan.accountant.sensitivity import functional, wishart
from privplan.accountant.sensitivity.release import Release


def test_the_relation_is_that_of_the_release():
    sensitivity = wishart.gaussian_sensitivity(1.0, "replace-one")
    release = wishart.gaussian_release(sensitivity, noise=2.0)
    found = account_release(release, delta=1e-5)
    right = pp.account(release.event, delta=1e-5, neighbours="replace-one").epsilon.upper
    wrong = pp.account(release.event, delta=1e-5).epsilon.upper
    assert found.epsilon.upper == right > wrong
    assert found.neighbours == "replace-one"
    assert found.epsilon.lower == 0.0
    assert release.conditions == found.derivation[0].conditions


def test_the_smallest_of_the_alternatives_counts():
    objective = functional.Objective("logistic", 20, "l2")
    release = functional.release(
        objective, "replace-one", scale=2.0, noise="laplace", schedule="fresh", rounds=50
    )
    assert len(release.events) > 1
    each = [
        pp.account(event, delta=1e-5, neighbours="replace-one").epsilon.upper
        for event in release.events
    ]
    assert account_release(release, delta=1e-5).epsilon.upper == min(each) < max(each)


def test_unit_observer_and_warnings_are_those_of_the_release():
    release = Release(
        ev.Gaussian(1.0), "add-remove", "silo", "user", conditions=("fresh",), warnings=("mind",)
    )
    found = account_release(release, epsilon=1.0)
    assert (found.unit, found.observer) == ("user", "silo")
    assert "mind" in found.warnings
    assert found.delta.lower == 0.0 < found.delta.upper
    assert found.epsilon == 1.0


def test_no_question_is_refused():
    with pytest.raises(pp.errors.InvalidInput):
        account_release(Release(ev.Gaussian(1.0), "add-remove", "model"))
