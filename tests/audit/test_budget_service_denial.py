"""What somebody can do who may ask a ledger, to keep others out: they are answered still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from privplan.accountant.errors import InvalidInput
from privplan.audit.budget_service import witness as witnessing
from privplan.audit.budget_service.rotation import require_key
from privplan.audit.budget_service.service import LedgerService
from privplan.audit.budget_service.signer import Signer
from privplan.audit.budget_service.startup_check import require_consistent
from privplan.audit.budget_service.witness import heads_in, witness
from privplan.fl.ledger_client.connection import Connection

from .ledger_services import Ledger, answering, served, token


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    with served(tmp_path_factory.mktemp("ledger") / "ledger.db") as opened:
        yield opened


def test_a_receipt_of_a_former_key_takes_one_look_at_the_whole_history(
    tmp_path: Path,
) -> None:
    """Everybody has such receipts, and one thread writes what all ask for."""
    path, old, new = tmp_path / "ledger.db", Signer.fresh(), Signer.fresh()
    with served(path, old) as service:
        name = (ledger := Ledger(service)).name
        receipt = ledger.claim()["receipt"]
    with served(path, new) as service:
        require_key(service.database, new, old)
        asked: list[str] = []

        @sa.event.listens_for(service.database.engine, "before_cursor_execute")
        def note(*given: object) -> None:
            asked.append(str(given[2]))

        for _ in range(2):
            asked.clear()
            assert service.present(name, receipt) == {"agrees": True, "frozen": None}
        assert asked
        assert not [each for each in asked if "LIKE" in each]


def test_a_witness_can_read_what_it_wrote(
    service: LedgerService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state.json"
    ledgers = [Ledger(service) for _ in range(3)]
    with answering(service) as url:
        connection = Connection(url, token(service, "walter", "auditor"))
        assert len(witness(connection, state)) == 3
        monkeypatch.setattr(witnessing, "MAX_STATE_BYTES", 2 * state.stat().st_size)
        for _ in range(4):
            for ledger in ledgers:
                ledger.claim()
            assert all(each.problem is None for each in witness(connection, state))
            newest = {each.statement.data_set: each.statement.seq for each in heads_in(state)}
            assert newest == {each.name: each.shown()["seq"] for each in ledgers}
        monkeypatch.setattr(witnessing, "MAX_STATE_BYTES", 1000)
        with pytest.raises(InvalidInput):
            witness(connection, tmp_path / "another.json")
        assert not (tmp_path / "another.json").exists()
    assert require_consistent(service.database, service.signer) == []
