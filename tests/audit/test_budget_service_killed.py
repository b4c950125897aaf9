"""A budget ledger whose service, clients, disk and clock fail: what it acknowledged is kept.

Each test drives a data set to its cap while something fails.  At the end every claim that was
acknowledged stands in the history, nothing is charged twice, no block is above its cap, not one
more claim of that price fits, and each balance is at or above an independent sum and close to it.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded
from privplan.audit.budget_service import books
from privplan.audit.budget_service.audited import LedgerAudit
from privplan.audit.budget_service.balances import within
from privplan.audit.budget_service.terms import Terms
from privplan.fl.ledger_client.connection import Connection, LedgerUnreachable

from .ledger_processes import TERMS, Clients, ServiceProcess, claim_body, killed_client, serving
from .ledger_services import SMALL, Ledger, served
from .postgresql import cluster

PRICED = ev.Gaussian(15.0)
"""About a hundred of it fit."""


def independent_sum(noise: float, count: int) -> list[Fraction]:
    """Return what `count` Gaussian releases cost at each order, as shares of the budget.

    R(a) = a / (2 noise^2), and the budget at order a is
    epsilon - (log(k / delta) - log a) / (a - 1) - log((a - 1) / a) with k orders.
    """
    currency = Terms.of(TERMS).currency
    shares = []
    with mpmath.workdps(40):
        for order in map(mpmath.mpf, currency.orders):
            overhead = mpmath.log(len(currency.orders)) - mpmath.log(mpmath.mpf(TERMS["delta"]))
            overhead = (overhead - mpmath.log(order)) / (order - 1) + mpmath.log(
                (order - 1) / order
            )
            budget = mpmath.mpf(TERMS["epsilon"]) - overhead
            spent = count * order / (2 * mpmath.mpf(noise) ** 2)
            exact = spent / budget
            shares.append(Fraction(int(mpmath.floor(exact * 10**35)), 10**35))
    return shares


def require_exact(audited: LedgerAudit, noise: float) -> None:
    """Assert that balances are sums of the exact prices, from above and closely."""
    assert audited.problem is None, audited.problem
    count = sum(audited.claims.values())
    cap = Terms.of(TERMS).cap_of(TERMS["epsilon"])
    for spent in audited.balances.values():
        assert within(spent, cap)
        pairs = list(zip(spent, independent_sum(noise, count), strict=False))
        counted = [(Fraction(units, 10**15), share) for units, share in pairs if units < 10**17]
        assert counted
        for balance, share in counted:
            assert share <= balance <= share * (1 + Fraction(1, 10**9))


def require_full(service: ServiceProcess, event: ev.Event) -> None:
    """Assert that not one more claim fits."""
    with pytest.raises(BudgetExceeded):
        service.client().post("/v1/claims", claim_body(event), "one more")


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_service_that_is_killed_keeps_what_it_acknowledged(kills: int, tmp_path: Path) -> None:
    chance = random.Random(kills)
    (tmp_path / "keys").mkdir()
    event = PRICED if kills < 5 else ev.Gaussian(60.0)
    with serving(str(tmp_path / "ledger.db"), tmp_path / "keys") as service:
        clients = Clients(service, event)
        for number in range(kills):
            while clients.running and len(clients.answers) <= 10 * number:
                time.sleep(0.01)
            time.sleep(chance.random() * 0.1)
            service.kill()
            service.start()
        clients.join()
        assert clients.troubles == [], clients.troubles
        audited = service.audited([each["receipt"] for each in clients.answers])
        ids = [each["id"] for each in clients.answers]
        assert len(set(ids)) == len(ids) == sum(audited.claims.values())
        require_exact(audited, event.noise_multiplier)
        require_full(service, event)


def test_a_client_that_is_killed_leaves_its_claims_spent(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    with serving(str(tmp_path / "ledger.db"), tmp_path / "keys") as service:
        acknowledged = tmp_path / "acknowledged"
        children = [
            killed_client(service.port, service.analyst, PRICED, acknowledged) for _ in range(2)
        ]
        while not acknowledged.exists() or acknowledged.read_text().count("\n") < 6:
            time.sleep(0.01)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        noted = set(acknowledged.read_text().split())
        clients = Clients(service, PRICED, 2)
        clients.join()
        audited = service.audited([each["receipt"] for each in clients.answers])
        written = sum(audited.claims.values()) - len(clients.answers)
        # What a client was about to note when it was killed was acknowledged as well.
        assert len(noted) <= written <= len(noted) + len(children)
        require_exact(audited, PRICED.noise_multiplier)
        require_full(service, PRICED)


def _claim_for_ever(client: Connection, answers: list[dict[str, Any]]) -> None:
    for number in range(60):
        answers.append(client.post("/v1/claims", claim_body(PRICED), f"{number}"))


def test_a_full_disk_acknowledges_nothing_that_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    database = tmp_path / "ledger.db"
    with serving(str(database), tmp_path / "keys") as service:
        client = service.client()
        client._attempts = 1  # a full disk does not mend itself
        answers: list[dict[str, Any]] = [client.post("/v1/claims", claim_body(PRICED), "first")]
        assert service.process is not None
        journal = database.with_name(database.name + "-wal")
        limit = journal.stat().st_size + 2**16
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (limit, limit + 2**30))
        with pytest.raises(LedgerUnreachable, match="503"):
            _claim_for_ever(client, answers)
        assert len(answers) > 1
        # What is committed can be read, and is what was acknowledged.
        assert sum(service.audited([each["receipt"] for each in answers]).claims.values()) == len(
            answers
        )
        room = (limit + 2**30, limit + 2**30)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, room)
        clients = Clients(service, PRICED, 2)
        clients.join()
        assert clients.troubles == [], clients.troubles
        answers += clients.answers
        audited = service.audited([each["receipt"] for each in answers])
        assert len({each["id"] for each in answers}) == sum(audited.claims.values())
        require_exact(audited, PRICED.noise_multiplier)
        require_full(service, PRICED)


def test_a_clock_that_jumps_changes_no_balance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            days = chance.randrange(-5000, 5000)
            return datetime(2026, 11, 30, tzinfo=tz or UTC) + timedelta(days=days)

    chance = random.Random(7)
    monkeypatch.setattr(books, "datetime", Jumping)
    with served(tmp_path / "ledger.db") as service:
        jumping = Ledger(service, epsilon=2.0)
        count = jumping.fill(SMALL)
        monkeypatch.undo()
        steady = Ledger(service, epsilon=2.0)
        assert steady.fill(SMALL) == count
        assert jumping.balances() == steady.balances()
        assert jumping.audited().problem is None


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_sixty_four_clients_spend_to_the_cap_and_not_beyond(store: str, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    event = ev.Gaussian(60.0)
    with ExitStack() as stack:
        database = str(tmp_path / "ledger.db")
        if store == "postgresql":
            database = stack.enter_context(cluster()).database("many")
        service = stack.enter_context(serving(database, tmp_path / "keys"))
        clients = Clients(service, event, 64)
        clients.join()
        assert clients.troubles == [], clients.troubles
        audited = service.audited([each["receipt"] for each in clients.answers])
        ids = {each["id"] for each in clients.answers}
        assert len(ids) == len(clients.answers) == sum(audited.claims.values())
        require_exact(audited, event.noise_multiplier)
        require_full(service, event)
