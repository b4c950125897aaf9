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
from privplan.audit.check.claim_status import claim_status
from privplan.audit.check.headline import headline
from privplan.audit.check.result_json import result_json
from privplan.audit.description.printed_number import PrintedNumber

from ..cases import for_each
from .described import checked, errors, ids

PROVEN = Proof(Bounds(1.0, 1.2))


@for_each(
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
    assert claim_status(claim, PROVEN) == stands


def test_what_is_lacking_leaves_a_claim_open() -> None:
    assert claim_status(PrintedNumber(1.1), Proof(None, lacking=("claim.delta",))) == "open"
    open_sampler = Proof(Bounds(1.0, 9.0), alternatives={"poisson": Bounds(1.0, 1.2)})
    assert claim_status(PrintedNumber(1.5), open_sampler) == "open"
    assert claim_status(PrintedNumber(0.5), open_sampler) == "false"
    assert claim_status(PrintedNumber(9.0), open_sampler) == "holds"
    assert claim_status(PrintedNumber(9.0), Proof(Bounds(1.0, math.inf))) == "between"


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
    assert any("Poisson" in line and "holds" in line for line in result.by_sampler)
    assert any("no amplification" in line for line in result.by_sampler)
    assert "if batches were Poisson samples" in headline(result)
    assert [each.key for each in result.deciding] == ["sampling.method"]
    # A missing amplification refutes nothing.
    assert not any("every step" in line and "false" in line for line in result.by_sampler)
    assert not errors(result)


def test_without_a_sampler_what_is_false_under_each_is_false() -> None:
    result = checked({"claim.epsilon": Decimal("0.60")}, without=("sampling.method",))
    assert result.verdict == "false"


def test_without_a_sampler_what_holds_under_each_holds() -> None:
    result = checked({"claim.epsilon": 10**9}, without=("sampling.method",))
    assert result.verdict in ("holds", "holds-not-from-these-settings")


def test_a_number_of_other_settings_holds_and_is_named() -> None:
    result = checked({"claim.epsilon": Decimal("1.7342")})
    assert result.verdict == "holds-not-from-these-settings"
    assert not errors(result)
    assert result.causes


@for_each("target", [2, 8, Decimal("8.0"), Decimal("2.5")])
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
    result = checked(without=("schedule.steps",))
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
    result = checked(shuffled, without=("claim.neighbours",))
    assert result.verdict == "unverifiable"
    assert [each.key for each in result.deciding] == ["claim.neighbours"]


@for_each("neighbours", [(), ("claim.neighbours",)])
def test_what_is_proven_depends_on_no_claim(neighbours: tuple[str, ...]) -> None:
    claims = [Decimal("0.10"), Decimal("4.00"), 20, 70]
    proven = {
        checked({"sampling.method": "shuffled", "claim.epsilon": claim}, without=neighbours).proven
        for claim in claims
    }
    assert len(proven) == 1


@for_each(("currency", "true"), [("rho", 3516 / 2 / 1.69), ("mu", 3516**0.5 / 1.3)])
def test_a_claim_of_another_currency_is_called_by_its_name(currency: str, true: float) -> None:
    facts = {f"claim.{currency}": true * 1.001, "sampling.method": "full"}
    left_out = ("claim.epsilon", "claim.delta", "sampling.batch", "schedule.epochs")
    result = checked({**facts, "schedule.steps": 3516}, without=left_out)
    assert result.currency == currency
    assert result_json(result)["currency"] == currency
    assert result.proven is not None
    assert result.proven.upper == pytest.approx(true, rel=1e-9)


def test_a_number_that_only_its_rounding_carries_is_called_so() -> None:
    result = checked({"claim.epsilon": Decimal("0.86")})
    assert result.only_rounded
    assert headline(result).startswith("HOLDS AS PRINTED, rounded: epsilon is at least 0.86")
    assert result_json(result)["claimed_rounding"] == 0.005
    assert not checked({"claim.epsilon": Decimal("0.87")}).only_rounded


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
@settings(max_examples=60, deadline=None)
@given(**DESCRIBED)
def test_verdicts_keep_their_laws_widely(**described: Any) -> None:
    laws_hold(**described)


@for_each(("batches", "epochs"), [(33, 30), (2136, 1), (235, 15), (7, 12), (49, 9)])
def test_a_rate_of_whole_batches_contradicts_no_epochs(batches: int, epochs: int) -> None:
    """1 / batches is a rate that a program printed, above or below the fraction."""
    facts = {
        "sampling.rate": Decimal(repr(1.0 / batches)),
        "schedule.steps": batches * epochs,
        "schedule.epochs": epochs,
    }
    result = checked(facts, without=("sampling.batch", "data.records", "claim.epsilon"))
    assert "contradiction" not in ids(result)


def test_pure_noise_is_claimed_at_delta_zero() -> None:
    facts = {"noise.family": "laplace", "noise.noise_multiplier": 2.0, "claim.epsilon": 0.5}
    left_out = ("claim.delta", "sampling.batch", "schedule.epochs")
    result = checked({**facts, "sampling.method": "full", "schedule.steps": 1}, without=left_out)
    assert (result.verdict, result.delta) == ("holds", 0.0)
    assert result.facts["claim.delta"].provenance == "assumed"
    assert "claim.delta" in {each.key for each in result.missing}


def test_a_number_that_was_cut_off_is_called_so() -> None:
    """A PLD value to as many digits as it takes until cutting it off makes it false."""
    proven = checked().proven
    assert proven is not None
    digits = [Decimal(f"{proven.lower:.9f}"[: 2 + count]) for count in range(2, 6)]
    false = [each for each in digits if PrintedNumber.of(epsilon=each).highest < proven.lower]
    assert false
    for cut in false:
        result = checked({"claim.epsilon": cut})
        assert (result.verdict, "rounded-down" in errors(result)) == ("false", True), cut
