"""The prices of strangers' events: what ends a pricing is no price, and waiters are bounded."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.audit.budget_service import pricer as pricing
from privplan.audit.budget_service import pricing_process
from privplan.audit.budget_service.names import Refusal
from privplan.audit.budget_service.pricer import Pricer
from privplan.audit.budget_service.terms import Terms

from .ledger_services import OLGA, OTTO, Ledger, served

TERMS = Terms.of(
    {"name": "w", "unit": "user", "neighbours": "add-remove", "epsilon": 4.0, "delta": 1e-6}
)
EVENT = ev.Laplace(2.0).to_json()


@pytest.fixture
def pricer() -> Iterator[Pricer]:
    pricer = Pricer(1)
    yield pricer
    pricer.close()


def test_processes_that_were_ended_while_idle_cost_nobody_a_claim(pricer: Pricer) -> None:
    before = pricer.price(TERMS, EVENT, None, "ana").price
    for process in pricer._idle:
        process.kill()
        process.wait()
    assert pricer.price(TERMS, ev.Laplace(3.0).to_json(), None, "ana").price < before


def test_what_cuts_a_pricing_off_is_not_kept_as_its_answer(
    pricer: Pricer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word, status in (("failed", 503), ("exceeded", 422)):
        with monkeypatch.context() as patch:
            patch.setattr(pricer, "_asked", lambda _, word=word: {word: True})
            with pytest.raises(Refusal) as refusal:
                pricer.price(TERMS, EVENT, None, "ana")
        assert refusal.value.status == status
    assert pricer.price(TERMS, EVENT, None, "ana").price


def test_a_child_that_something_else_ended_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: Any) -> dict[str, object]:
        os.kill(os.getpid(), 9)
        raise AssertionError

    def busy(_: Any) -> dict[str, object]:
        while True:
            pass

    monkeypatch.setattr(pricing_process, "answer_of", killed)
    assert pricing_process._answered_in_child("{}") == '{"failed": true}'
    monkeypatch.setattr(pricing_process, "CPU_SECONDS", 1)
    monkeypatch.setattr(pricing_process, "answer_of", busy)
    assert pricing_process._answered_in_child("{}") == '{"exceeded": true}'


def test_those_who_wait_for_a_price_leave_threads_to_others(
    pricer: Pricer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    refused: list[tuple[int, str]] = []

    def slow(_: str) -> dict[str, Any]:
        go.wait(30)
        return {"failed": True}

    def ask(number: int, holder: str | None = None) -> None:
        event = ev.Laplace(2.0 + number).to_json()
        try:
            pricer.price(TERMS, event, None, holder or f"h{number % 6}")
        except Refusal as refusal:
            refused.append((refusal.status, refusal.word))

    monkeypatch.setattr(pricer, "_asked", slow)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(54)]
    for thread in threads:
        thread.start()
    most = pricing.MAX_WAITING_OF_ALL
    end = time.monotonic() + 20
    while len(refused) < len(threads) - most and time.monotonic() < end:
        time.sleep(0.001)
    waiting = sum(thread.is_alive() for thread in threads)
    # Whoever has none waiting still has a turn; and not everybody who says so.
    others = [
        threading.Thread(target=ask, args=(100 + number,), kwargs={"holder": f"new{number}"})
        for number in range(20)
    ]
    for thread in others:
        thread.start()
    more = pricing.MORE_FOR_NEW_HOLDERS
    while len(refused) < len(threads) - most + len(others) - more and time.monotonic() < end:
        time.sleep(0.001)
    go.set()
    for thread in (*threads, *others):
        thread.join()
    assert waiting <= most
    assert refused.count((503, "not-priced")) == most + more
    assert set(refused) <= {(503, "busy"), (429, "busy"), (503, "not-priced")}


def test_a_warning_of_a_library_stays_in_the_process_that_prices(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = f"import warnings; warnings.warn('loud'); {pricing._PROGRAM}"
    with pytest.MonkeyPatch.context() as patch, contextlib.closing(Pricer(1)) as loud:
        patch.setattr(pricing, "_PROGRAM", program)
        assert loud.price(TERMS, EVENT, None, "ana").price
    assert "loud" not in capfd.readouterr().err


def test_a_claim_above_a_whole_budget_fits_a_cap_that_was_raised(tmp_path: Path) -> None:
    with served(tmp_path / "ledger.db") as service:
        ledger = Ledger(service, currency="zcdp")
        event = ev.ZCDP(0.5)
        with pytest.raises(Refusal, match="does not fit"):
            ledger.claim(event)
        proposal = ledger.owner("propose_cap", 8.0, "more", actor=OLGA)["proposal"]
        ledger.owner("approve_cap", proposal, actor=OTTO)
        (price, _) = service.pricer.price(
            service.data_set(ledger.name)[1], event.to_json(), None, "ana"
        ).price
        assert price > 10**15
        ledger.claim(event)
        assert ledger.balances()["a"][0] == price
        assert ledger.audited().problem is None
