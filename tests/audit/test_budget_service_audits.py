"""Verdicts of audits on claims: what they charge, what they freeze, and whom they reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.audit.budget_service.audited import audit_history
from privplan.audit.budget_service.claims import AuditedLoss
from privplan.audit.budget_service.names import Refusal
from privplan.audit.budget_service.service import LedgerService

from .ledger_services import AUDITOR, LAPLACE, Ledger, served
from .test_budget_service_history import rewritten


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    with served(tmp_path_factory.mktemp("ledger") / "ledger.db") as opened:
        yield opened


@pytest.fixture
def ledger(service: LedgerService) -> Ledger:
    return Ledger(service)


def test_an_audit_charges_what_was_lost_above_the_claim(ledger: Ledger) -> None:
    claim = ledger.claim(begin=True)["id"]
    ledger.step("release", claim, None)
    before = ledger.balances()
    ledger.step("audit", claim, "above", _lost(ledger, claim, ev.Laplace(1.0)), actor=AUDITOR)
    after = ledger.balances()
    double = Ledger(ledger.service)
    double.claim(ev.Laplace(1.0))
    assert after == double.balances()
    assert before["a"] < after["a"]
    assert ledger.shown()["frozen"] is None
    # More than is left is charged as well, and freezes.
    second = ledger.claim(begin=True)["id"]
    ledger.step("release", second, None)
    lost = _lost(ledger, second, ev.Laplace(0.1))
    ledger.step("audit", second, "above", lost, actor=AUDITOR)
    assert "lost more" in ledger.shown()["frozen"]
    with pytest.raises(Refusal, match="frozen"):
        ledger.claim()
    with pytest.raises(Refusal, match="more than its cap"):
        ledger.owner("thaw", "please")
    audited = ledger.audited()
    assert audited.problem is None
    assert audited.frozen


def _lost(ledger: Ledger, claim: str, event: ev.Event) -> AuditedLoss | None:
    return ledger.service.audited_loss(claim, event.to_json(), AUDITOR)


def test_a_verdict_above_that_states_no_size_freezes(ledger: Ledger) -> None:
    claim, waiting = ledger.claim(begin=True)["id"], ledger.claim()["id"]
    ledger.step("release", claim, None)
    ledger.step("audit", claim, "above", None, actor=AUDITOR)
    assert ledger.shown()["frozen"]
    with pytest.raises(Refusal, match="frozen"):
        ledger.step("begin", waiting)
    ledger.owner("thaw", "the size is known now")
    assert ledger.step("begin", waiting)["state"] == "begun"


def test_a_verdict_above_with_an_event_that_costs_no_more_freezes(ledger: Ledger) -> None:
    claim = ledger.claim(begin=True)["id"]
    ledger.step("release", claim, None)
    lost = _lost(ledger, claim, ev.Laplace(9.0))
    ledger.step("audit", claim, "above", lost, actor=AUDITOR)
    assert ledger.shown()["frozen"]
    assert ledger.audited().problem is None


def test_what_was_never_released_or_held_before_is_charged_as_well(ledger: Ledger) -> None:
    begun, left, held = (ledger.claim(begin=True)["id"] for _ in range(3))
    ledger.step("abandon", left)
    ledger.step("release", held, None)
    ledger.step("audit", held, "holds", None, actor=AUDITOR)
    with pytest.raises(Refusal, match="begun"):
        ledger.step("audit", begun, "holds", _lost(ledger, begun, LAPLACE), actor=AUDITOR)
    for claim in (begun, left, held):
        for _ in range(2):  # the same once more is charged once
            lost = _lost(ledger, claim, ev.Laplace(1.9))
            said = ledger.step("audit", claim, "above", lost, actor=AUDITOR)
            assert said["audit"]["verdict"] == "above"
    exact = Ledger(ledger.service)
    for _ in range(3):
        exact.claim(ev.Laplace(1.9))
    assert ledger.balances() == exact.balances()
    assert ledger.shown()["frozen"] is None
    assert ledger.shown()["certified"]
    audited = ledger.audited()
    assert (audited.problem, audited.claims) == (None, {"audited": 3})
    waiting = ledger.claim()["id"]
    with pytest.raises(Refusal, match="claimed"):
        ledger.step("audit", waiting, "above", None, actor=AUDITOR)


def test_a_verdict_told_again_after_another_one_is_paid_already(service: LedgerService) -> None:
    """As by a second auditor, or by a retry: both losses are charged, and their size is known."""
    for second in (ev.Laplace(1.6), None, ev.Laplace(1.85)):
        ledger = Ledger(service)
        claim = ledger.claim(begin=True)["id"]
        ledger.step("release", claim, None)
        first = _lost(ledger, claim, ev.Laplace(1.8))
        ledger.step("audit", claim, "above", first, actor=AUDITOR)
        other = None if second is None else _lost(ledger, claim, second)
        verdict = "holds" if second is None else "above"
        ledger.step("audit", claim, verdict, other, actor=AUDITOR)
        before = ledger.balances()
        ledger.step("audit", claim, "above", first, actor=AUDITOR)
        assert ledger.balances() == before
        assert (ledger.shown()["frozen"], ledger.shown()["certified"]) == (None, True)
        assert ledger.audited().problem is None
        # What costs no more than was claimed is still a loss of which nobody says how much it was.
        ledger.step("audit", claim, "above", _lost(ledger, claim, LAPLACE), actor=AUDITOR)
        assert (bool(ledger.shown()["frozen"]), ledger.shown()["certified"]) == (True, False)
        assert ledger.audited().problem is None
    lines = rewritten(ledger.lines(), _of_a_cheaper_claim)
    assert "other of what was claimed" in str(audit_history(lines).problem)


def _of_a_cheaper_claim(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim.audit":
        record["claimed"] = ["0"] * len(record["claimed"])


def test_a_loss_that_is_stated_for_others_is_converted_as_its_claim_was(
    service: LedgerService,
) -> None:
    ledger, stated = Ledger(service, neighbours="replace-one"), {"neighbours": "add-remove"}
    claim = ledger.claim(LAPLACE, begin=True, **stated)["id"]
    ledger.step("release", claim, None)
    before = ledger.balances()
    lost = service.audited_loss(claim, LAPLACE.to_json(), AUDITOR, stated)
    ledger.step("audit", claim, "holds", lost, actor=AUDITOR)
    assert ledger.balances() == before
    more = service.audited_loss(claim, ev.Laplace(1.9).to_json(), AUDITOR, stated)
    assert ledger.step("audit", claim, "holds", more, actor=AUDITOR)["audit"]["verdict"] == "above"
    assert ledger.balances()["a"] > before["a"]
    assert ledger.audited().problem is None
    # A history that forgets for whom the loss was stated is contradicted.
    lines = rewritten(ledger.lines(), _for_records)
    assert "no price" in str(audit_history(lines).problem)


def _for_records(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim.audit":
        record["stated"] = {"unit": "record"}
