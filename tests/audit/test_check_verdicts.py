"""The verdict of a check: by boundary values, and whatever the settings are."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.guarantee import Bounds
from privplan.audit.check.bounds import Proof
from privplan.audit.check.result_json import result_json
from privplan.audit.check.standing import standing
from privplan.audit.description.printed_number import PrintedNumber

from .described import checked, errors, ids

PROVEN = Proof(Bounds(1.0, 1.2))


@pytest.mark.parametrize(
    ("claim", "stands"),
    [
        (PrintedNumber(0.99, 0.005), "false"),
        (PrintedNumber(0.995, 0.005), "between"),
        (PrintedNumber(0.9999999), "false"),
        (PrintedNumber(1.0), "between"),
        (PrintedNumber(1.19, 0.005), "between"),
        (PrintedNumber(1.195, 0.005), "holds"),
        (PrintedNumber(1.2), "holds"),
        (PrintedNumber(1.1999999), "between"),
        (None, "no-claim"),
    ],
)
def test_a_claim_stands_by_its_rounding(claim: PrintedNumber | None, stands: str) -> None:
    assert standing(claim, PROVEN) == stands


def test_what_is_lacking_leaves_a_claim_open() -> None:
    assert standing(PrintedNumber(1.1), Proof(None, lacking=("claim.delta",))) == "open"
    open_sampler = Proof(Bounds(1.0, 9.0), alternatives={"poisson": Bounds(1.0, 1.2)})
    assert standing(PrintedNumber(1.5), open_sampler) == "open"
    assert standing(PrintedNumber(0.5), open_sampler) == "false"
    assert standing(PrintedNumber(9.0), open_sampler) == "holds"
    assert standing(PrintedNumber(9.0), Proof(Bounds(1.0, math.inf))) == "between"


def test_a_clean_run_holds_and_nothing_is_asked() -> None:
    result = checked()
    assert result.verdict == "holds"
    assert result.reproduced_by[0].change == "none"
    assert not ids(result)
    assert not result.missing


def test_the_bounds_are_those_of_the_accountant() -> None:
    event = ev.Repeat(3516, ev.Poisson(256 / 60000, ev.Gaussian(1.3)))
    assert checked().proven == account(event, delta=1e-5).epsilon


def test_without_a_sampler_there_is_no_bare_pass() -> None:
    result = checked(without=("sampling.method",))
    assert result.verdict == "unverifiable"
    assert result.missing[0].key == "sampling.method"
    assert result.alternatives is not None
    assert set(result.alternatives) == {"poisson", "shuffled", "fixed-size", "full"}
    assert any("Poisson" in line and "holds" in line for line in result.conditions)
    assert any("Without amplification" in line for line in result.conditions)
    assert not errors(result)


def test_without_a_sampler_what_is_false_under_each_is_false() -> None:
    result = checked({"claim.epsilon": Decimal("0.60")}, without=("sampling.method",))
    assert result.verdict == "false"


def test_without_a_sampler_what_holds_under_each_holds() -> None:
    result = checked({"claim.epsilon": 50000}, without=("sampling.method",))
    assert result.verdict in ("holds", "holds-not-from-these-settings")


def test_a_number_of_other_settings_holds_and_is_named() -> None:
    result = checked({"claim.epsilon": Decimal("1.7342")})
    assert result.verdict == "holds-not-from-these-settings"
    assert not errors(result)
    assert result.causes


@pytest.mark.parametrize("target", [2, 8, Decimal("8.0"), Decimal("2.5")])
def test_a_budget_that_is_kept_holds(target: object) -> None:
    result = checked({"claim.epsilon": target})
    assert result.verdict == "holds"
    assert {each.severity for each in result.causes} <= {"info"}


def test_only_the_rounding_carries_a_claim() -> None:
    result = checked({"claim.epsilon": Decimal("0.8645")})
    assert result.verdict == "false" or "rounded-down" not in ids(result)
    carried = checked({"claim.epsilon": Decimal("0.864561")})
    assert carried.verdict == "holds"
    down = checked({"claim.epsilon": Decimal("0.86")})
    assert down.verdict == "holds"
    (found,) = [each for each in down.causes if each.id == "rounded-down"]
    assert "Print 0.87." in found.says


def test_what_a_verdict_needs_is_asked_for_first() -> None:
    result = checked(without=("claim.delta",))
    assert (result.verdict, result.missing[0].key) == ("unverifiable", "claim.delta")
    result = checked(without=("noise.noise_multiplier",))
    assert (result.verdict, result.missing[0].key) == ("unverifiable", "noise.noise_multiplier")
    result = checked(without=("schedule.epochs",))
    assert (result.verdict, result.missing[0].key) == ("unverifiable", "schedule.steps")
    result = checked(without=("claim.epsilon",))
    assert (result.verdict, result.missing[0].key) == ("unverifiable", "claim.epsilon")
    assert result.proven is not None


def test_the_json_is_the_contract() -> None:
    found = result_json(checked(without=("sampling.method",)))
    assert list(found)[:8] == [
        "verdict",
        "proven",
        "claimed",
        "delta",
        "reproduced_by",
        "causes",
        "missing",
        "facts",
    ]
    assert found["claimed"] == 0.96
    assert isinstance(found["facts"], dict)
    assert found["facts"]["data.records"] == {
        "value": 60000,
        "provenance": "stated",
        "source": "by hand",
    }


def test_a_relation_that_nobody_stated_never_makes_a_claim_false() -> None:
    shuffled = {"sampling.method": "shuffled", "claim.epsilon": Decimal("4.00")}
    assert checked({**shuffled, "claim.neighbours": "add-remove"}).verdict == "false"
    assert checked(shuffled, without=("claim.neighbours",)).verdict == "unproven"


NOISES = st.floats(0.4, 6.0)
METHODS = st.sampled_from(["poisson", "shuffled", "fixed-size", "full", "with-replacement"])


def laws_hold(
    noise: float, batch: int, steps: int, method: str, relation: str, times: float, end: str
) -> None:
    """Never false at or above the lower end, never holding below the upper end."""
    facts: dict[str, object] = {
        "noise.noise_multiplier": noise,
        "data.records": 2560,
        "sampling.method": method,
        "schedule.steps": steps,
        "claim.neighbours": relation,
    }
    if method != "full":
        facts["sampling.batch"] = batch
    without = ("sampling.batch", "schedule.epochs", "claim.epsilon", "data.records")
    proven = checked(facts, without=without).proven
    assert proven is not None
    claim = (proven.lower if end == "lower" else proven.upper) * times
    if not 0.0 < claim < 1e12:
        return
    result = checked({**facts, "claim.epsilon": claim}, without=without)
    assert result.proven == proven
    if claim >= proven.lower:
        assert result.verdict != "false"
    else:
        assert result.verdict == "false"
    if claim < proven.upper:
        assert not result.verdict.startswith("holds")
    else:
        assert result.verdict.startswith("holds")
        assert not errors(result) - {"delta-rule", "delta-too-large"}


DESCRIBED: dict[str, Any] = dict(  # noqa: C408
    noise=NOISES,
    batch=st.sampled_from([10, 50, 256]),
    steps=st.integers(1, 400),
    method=METHODS,
    relation=st.sampled_from(["add-remove", "replace-one", "zero-out"]),
    times=st.sampled_from([0.5, 0.999, 1.0, 1.001, 3.0]),
    end=st.sampled_from(["lower", "upper"]),
)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(**DESCRIBED)
def test_verdicts_keep_their_laws(**described: Any) -> None:
    laws_hold(**described)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(**DESCRIBED)
def test_verdicts_keep_their_laws_widely(**described: Any) -> None:
    laws_hold(**described)
