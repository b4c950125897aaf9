"""The budget ledger over PostgreSQL: two servers of one database, and a server that is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.audit.budget_service.claiming import BudgetRefusal, PricedClaim, make_claims
from privplan.audit.budget_service.database import Database, StoreFailed
from privplan.audit.budget_service.names import Refusal
from privplan.audit.budget_service.service import LedgerService, claim_request
from privplan.audit.budget_service.signer import Signer

from .ledger_services import OLGA, SMALL, TRAINING, Ledger, pricer, served
from .postgresql import Cluster, cluster


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as started:
        yield started


def test_the_life_of_a_claim(running: Cluster) -> None:
    with served(running.database("life")) as service:
        ledger = Ledger(service)
        receipt = ledger.claim(TRAINING, key="k")["receipt"]
        assert ledger.claim(TRAINING, key="k")["receipt"] == receipt
        begun = ledger.claim(begin=True)["id"]
        ledger.step("release", begun, "ab" * 32)
        ledger.step("cancel", ledger.claim()["id"])
        ledger.owner("add_blocks", ["c"])
        assert ledger.fill(blocks=["c"]) > 0
        with pytest.raises(BudgetRefusal):
            ledger.claim(SMALL)
        audited = ledger.audited(receipt)
        assert audited.problem is None
        assert audited.claims["cancelled"] == 1


def test_two_servers_of_one_database_never_exceed_a_cap(running: Cluster) -> None:
    address, signer = running.database("two"), Signer.fresh()
    with served(address, signer) as first, served(address, signer) as second:
        ledger = Ledger(first, epsilon=2.0)
        alone = Ledger(first, epsilon=2.0).fill()
        other = Ledger.__new__(Ledger)
        other.service, other.name, other.terms = second, ledger.name, ledger.terms
        taken: list[int] = []
        threads = [
            threading.Thread(target=lambda each=each: taken.append(each.fill()))
            for each in (ledger, other) * 4
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == len(threads)
        assert sum(taken) == alone
        assert ledger.audited().problem is None
        assert ledger.balances() == other.balances()


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_what_was_acknowledged_outlives_a_killed_database(kills: int, running: Cluster) -> None:
    with served(running.database(f"killed{kills}")) as service:
        ledger = Ledger(service, epsilon=8.0)
        event = SMALL if kills == 1 else ev.Gaussian(30.0)
        acknowledged: list[str] = []

        def spend(number: int) -> None:
            attempt = 0
            while True:
                # After a failure the same key: whether it was written is not known.
                try:
                    acknowledged.append(ledger.claim(event, key=f"{number}-{attempt}")["id"])
                    attempt += 1
                except BudgetRefusal:
                    return
                except StoreFailed:
                    time.sleep(0.05)

        threads = [threading.Thread(target=spend, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for number in range(kills):
            while len(acknowledged) < 20 * (number + 1) and threads[0].is_alive():
                time.sleep(0.01)
            running.kill()
            running.start()
        for thread in threads:
            thread.join()
        audited = ledger.audited()
        assert audited.problem is None
        assert len(set(acknowledged)) == len(acknowledged) == sum(audited.claims.values())
        with pytest.raises(BudgetRefusal):
            ledger.claim(event)


def test_values_that_the_database_refuses_fail_alone(running: Cluster) -> None:
    """A group is one transaction: what one asks for must not undo what others do."""
    with served(running.database("refused")) as service:
        ledger = Ledger(service)
        insert = "insert into token values ('a', '\\000', 'a', 'owner', 1, 0, null)"

        def refused(connection: sa.Connection) -> None:
            connection.execute(sa.text("select :value"), {"value": "\0"})

        def repeated(connection: sa.Connection) -> None:
            for _ in range(2):
                connection.exec_driver_sql(insert)

        claim = claim_request({"data_set": ledger.name, "project": "p", "event": SMALL.to_json()})
        claim, price = service.priced(claim, OLGA)

        def claimed(connection: sa.Connection) -> object:
            return make_claims(connection, service.signer, [PricedClaim(claim, price, OLGA, "k")])

        answers = service.database.write([refused, claimed, repeated])
        assert [isinstance(each, Refusal) for each in answers] == [True, False, True]
        assert ledger.audited().claims == {"claimed": 1}


def test_an_address_that_does_not_answer_is_an_error(running: Cluster) -> None:
    with pytest.raises(InvalidInput, match="cannot be opened") as refusal:
        Database(f"postgresql://ledger:secret@127.0.0.1:{running.port}/nowhere")
    assert "secret" not in str(refusal.value)
    for address in ("mysql://x/y", "sqlite://", "://", "sqlite:///:memory:"):
        with pytest.raises(InvalidInput, match="address"):
            Database(address)


def test_a_service_refuses_names_of_others(running: Cluster) -> None:
    """Two servers open one name at once: one is refused, and the history has one opening."""
    address, signer = running.database("names"), Signer.fresh()
    services = [LedgerService(Database(address), signer, pricer()) for _ in range(2)]
    terms = {
        "name": "ward",
        "unit": "user",
        "neighbours": "add-remove",
        "epsilon": 4.0,
        "delta": 1e-6,
    }
    outcomes: list[bool] = []

    def opened(service: LedgerService) -> None:
        try:
            service.open_data_set(terms, OLGA)
            outcomes.append(True)
        except PrivplanError:
            outcomes.append(False)

    threads = [threading.Thread(target=opened, args=(service,)) for service in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, True]
    assert len(services[0].lines("ward", 0)) == 1
    for service in services:
        service.close()
