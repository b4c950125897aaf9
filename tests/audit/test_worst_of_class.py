"""A stated number stands for a class of mechanisms: what its worst has not all have.

100 releases of 0.1-DP: the worst mechanism has epsilon 4.306 at 1e-5, and 100 releases with Laplace
noise of scale 10, each of which is 0.1-DP, have 4.220 by dp_accounting.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from typer.testing import CliRunner

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.account import bounds_on_epsilon
from privplan.audit.check.check_result import CheckResult
from privplan.cli.main import app
from privplan.cli.reports.guarantee_words import guarantee_rows, least_words

from ..cases import for_each

TENTHS = ev.Repeat(100, ev.Pure(0.1))


def laplace_epsilon() -> float:
    accountant = PLDAccountant()
    accountant.compose(dp_event.LaplaceDpEvent(10.0), 100)
    return float(accountant.get_epsilon(1e-5))


def checked(event: ev.Event, claim: str) -> CheckResult:
    return pp.check(event, {"claim": {"epsilon": float(claim), "delta": 1e-5}})


def test_a_member_of_the_class_has_less_than_its_worst() -> None:
    worst = pp.account(TENTHS, delta=1e-5)
    assert worst.lower_of_class
    assert worst.epsilon.lower > 4.306 > laplace_epsilon() == pytest.approx(4.220, abs=1e-3)
    itself = pp.account(ev.Repeat(100, ev.Laplace(10.0)), delta=1e-5)
    assert not itself.lower_of_class
    assert itself.epsilon.lower <= laplace_epsilon() + 1e-4


@for_each(
    "event",
    [
        ev.Pure(1.0),
        ev.Approximate(1.0, 1e-6),
        ev.Local(1.0),
        ev.Group(2, ev.Pure(0.5)),
        ev.Compose((ev.Pure(0.5), ev.Gaussian(2.0))),
        ev.Poisson(0.1, ev.Pure(1.0)),
    ],
)
def test_every_class_says_so(event: ev.Event) -> None:
    found = pp.account(event, delta=1e-5)
    assert found.lower_of_class
    assert found.epsilon.lower > bounds_on_epsilon(event, delta=1e-5).lower


@for_each("event", [ev.Gaussian(1.0), ev.ZCDP(0.5), ev.Poisson(0.1, ev.Gaussian(1.0))])
def test_a_mechanism_and_a_class_without_a_known_worst_do_not(event: ev.Event) -> None:
    assert not pp.account(event, delta=1e-5).lower_of_class


@for_each(
    ("claim", "verdict", "fires"),
    [("4.25", "unproven", True), ("4.31", "holds", False), ("1.0", "unproven", True)],
)
def test_a_claim_below_the_worst_does_not_follow_and_is_not_false(
    claim: str, verdict: str, fires: bool
) -> None:
    result = checked(TENTHS, claim)
    assert result.verdict == verdict
    assert result.class_lower == pytest.approx(4.3067913, abs=1e-6)
    assert result.proven is not None
    assert result.proven.lower == 0.0
    assert ("not-from-this-number" in {cause.id for cause in result.causes}) == fires


def test_a_mechanism_that_is_described_has_no_worst_of_a_class() -> None:
    result = checked(ev.Repeat(100, ev.Laplace(10.0)), "4.0")
    assert result.verdict == "false"
    assert result.class_lower == 0.0


def test_the_json_of_a_check_and_of_an_account_say_it(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(ev.to_json(TENTHS)))
    said = CliRunner().invoke(app, ["account", str(path), "--delta", "1e-5"]).stdout
    assert "at least   epsilon 4.306, for the worst mechanism with this number" in said
    answer = CliRunner().invoke(app, ["account", str(path), "--delta", "1e-5", "--json"]).stdout
    assert json.loads(answer)["result"]["lower_of_class"] is True
    facts = ["--set", "epsilon=4.25", "--set", "delta=1e-5"]
    said = CliRunner().invoke(app, ["check", str(path), *facts]).stdout
    assert "at least 4.306, for the worst mechanism with this number" in said


def test_curves_show_what_every_mechanism_of_a_class_loses() -> None:
    """A profile has no field for whose lower end it is, so that of the worst is not in it."""
    profile = pp.privacy_profile(ev.Approximate(1.0, 0.01), [0.0, 0.5, 1.0, 2.0])
    assert profile.lower.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert profile.upper[2] == pytest.approx(0.01)
    assert not any("worst mechanism" in step.statement for step in profile.derivation)


def test_no_finite_epsilon_is_said_so() -> None:
    guarantee = pp.account(ev.Approximate(1.0, 0.1), delta=1e-5)
    rows = dict(guarantee_rows(guarantee, "epsilon"))
    assert "infinite" not in rows.get("at least", "")
    assert least_words(float("inf")) == "no finite number holds, by any accounting"
