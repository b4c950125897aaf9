"""What somebody can do who may ask a ledger, to keep others out: they are answered still."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget_service import app as service_app
from privplan.audit.budget_service import audit_limits, claiming, replayed
from privplan.audit.budget_service import witness as witnessing
from privplan.audit.budget_service.audit_limits import AuditLimits
from privplan.audit.budget_service.audited import audit_history
from privplan.audit.budget_service.daily_limits import DailyLimits
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.large_bodies import LARGE_BYTES, LargeBodies
from privplan.audit.budget_service.names import Refusal
from privplan.audit.budget_service.rotation import require_key
from privplan.audit.budget_service.service import LedgerService
from privplan.audit.budget_service.signer import Signer
from privplan.audit.budget_service.startup_check import require_consistent
from privplan.audit.budget_service.witness import heads_in, witness
from privplan.cli.main import app
from privplan.fl.ledger_client.connection import Connection, LedgerRefused, LedgerUnreachable

from .ledger_services import ANA, EVE, SMALL, Ledger, answering, pricer, served, token

NEARLY_FREE = ev.Gaussian(1e6)


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


def test_what_costs_nearly_nothing_is_limited_by_the_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, signer = tmp_path / "ledger.db", Signer.fresh()
    service = LedgerService(Database(str(path)), signer, pricer(), DailyLimits(5, 10**6))
    ledger, other = Ledger(service), Ledger(service)
    for number in range(5):
        claim = ledger.claim(NEARLY_FREE, key=str(number))
        # What is taken back stands in the history as well.
        ledger.step("cancel", claim["id"])
    before = ledger.shown()
    with pytest.raises(Refusal, match="5 claims") as refusal:
        ledger.claim(NEARLY_FREE)
    assert refusal.value.status == 429
    assert 0 < int(str(refusal.value.more["retry_after"])) <= 86_401
    assert ledger.shown() == before
    # A retry, another holder, another data set and another day have room.
    with pytest.raises(Refusal, match="cancelled"):
        ledger.claim(NEARLY_FREE, key="0")
    ledger.claim(NEARLY_FREE, actor=EVE)
    other.claim(NEARLY_FREE)
    with answering(service) as url:
        client = Connection(url, token(service, ANA.holder, ANA.role))
        body = {"data_set": ledger.name, "project": "x", "event": NEARLY_FREE.to_json()}
        with pytest.raises(LedgerRefused, match="429"):  # asked once
            client.post("/v1/claims", body, "k")
    service.close()
    # A service that is started again goes on counting.
    service = LedgerService(Database(str(path)), signer, pricer(), DailyLimits(5, 10**6))
    ledger.service = service
    with pytest.raises(Refusal, match="5 claims"):
        ledger.claim(NEARLY_FREE)
    monkeypatch.setattr(claiming, "today", lambda _: "another day")
    ledger.claim(NEARLY_FREE)
    assert ledger.audited().problem is None
    service.close()


def test_what_claims_write_is_limited_by_the_day(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "ledger.db"))
    service = LedgerService(database, Signer.fresh(), pricer(), DailyLimits(1000, 300_000))
    ledger = Ledger(service, blocks=[f"{number:060}" for number in range(400)])
    for _ in range(2):
        ledger.claim(NEARLY_FREE)
    with pytest.raises(Refusal, match="MB"):
        ledger.fill(NEARLY_FREE)
    assert sum(map(len, ledger.lines()[1:])) < 300_000
    service.close()


def test_a_ledger_of_before_counts_from_now_on(tmp_path: Path) -> None:
    path, signer = tmp_path / "ledger.db", Signer.fresh()
    with served(path, signer) as service:
        ledger = Ledger(service)
        ledger.claim()
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("drop table daily_claim")
        connection.exec_driver_sql("update alembic_version set version_num = '1'")
    engine.dispose()
    service = LedgerService(Database(str(path)), signer, pricer(), DailyLimits(1))
    ledger.service = service
    assert require_consistent(service.database, signer) == []
    ledger.claim()
    with pytest.raises(Refusal, match="1 claims"):
        ledger.claim()
    service.close()


def test_a_holder_has_one_large_body_at_a_time(
    service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others, and its own small ones, are answered meanwhile."""
    begun = threading.Event()

    class Noted(LargeBodies):
        @contextmanager
        def turn(self, holder: str) -> Iterator[None]:
            with super().turn(holder):
                begun.set()
                yield

    monkeypatch.setattr(service_app, "LargeBodies", Noted)
    ledger = Ledger(service)
    tokens = {name: token(service, name, "analyst") for name in ("mallory", "alice")}
    claim = {"data_set": ledger.name, "project": "x", "event": SMALL.to_json()}
    large = {**claim, "event": ev.Compose((ev.Gaussian(9e5),) * 2500).to_json()}
    assert len(json.dumps(large)) > LARGE_BYTES
    with answering(service) as url:
        mallory, alice = (Connection(url, each, attempts=1) for each in tokens.values())
        parts = urlsplit(url)
        head = (
            f"POST /v1/claims HTTP/1.1\r\nHost: x\r\nContent-Length: {2**20}\r\n"
            f"Authorization: Bearer {tokens['mallory']}\r\n\r\n"
        )
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as slow:
            slow.sendall(head.encode() + b" " * (LARGE_BYTES + 2**14))
            # Not before the service has begun to read it, or it would be the second one itself.
            assert begun.wait(60)
            _ask(mallory, {**large, "project": "y"}, until="429")
            assert mallory.post("/v1/claims", claim)["state"] == "claimed"
            assert alice.post("/v1/claims", large)["state"] == "claimed"
        _ask(mallory, large, until="claimed")


def _ask(client: Connection, body: dict[str, object], *, until: str) -> None:
    """Ask until the service has seen what another connection did: its answer is claimed, or 429."""
    said = ""
    while until not in said:
        try:
            said = str(client.post("/v1/claims", body)["state"])
        except LedgerUnreachable as refusal:
            said = str(refusal)
        assert "claimed" in said or "429" in said


def test_a_history_costs_an_auditor_no_more_than_the_limits(
    service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(service)
    for project in ("x", "y"):
        ledger.claim(project=project)
    lines = ledger.lines()
    assert audit_history(lines).ok
    with pytest.raises(InvalidInput, match="seconds of a processor"):
        audit_history(lines, limits=AuditLimits(seconds=-1.0))
    monkeypatch.setattr(audit_limits, "MAX_LIMITED_BALANCES", 5)
    with pytest.raises(InvalidInput, match="more than 5 balances"):
        audit_history([*lines, b"{}"])
    monkeypatch.undo()
    monkeypatch.setattr(replayed, "MAX_PRICING_BYTES", 2**26)
    monkeypatch.setattr(replayed, "whole_price", lambda *_: bytearray(2**29))
    assert "too large" in str(audit_history(lines).problem)
    monkeypatch.setattr(audit_limits, "MAX_AUDIT_BYTES", 2**26)
    monkeypatch.setattr(replayed, "of_texts", lambda *_: bytearray(2**29))
    with pytest.raises(InvalidInput, match="of memory"):
        audit_history(lines)


def test_how_large_a_history_is_is_asked_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = tmp_path / "ward.jsonl"
    with export.open("wb") as file:
        file.truncate(10**12)  # a file of holes, which takes no room

    def audited(*options: str) -> str:
        outcome = CliRunner().invoke(app, ["audit", "ledger", str(export), *options])
        assert outcome.exit_code == 2, outcome.output
        return " ".join(outcome.output.split())

    assert "--limit-megabytes" in audited()
    export.write_bytes(b"{}\n" * 3)
    assert "--limit-seconds" in audited("--limit-seconds", "0.0")
    monkeypatch.setattr(audit_limits, "MAX_ENTRY_BYTES", 2)
    assert "Line 1" in audited()
    with pytest.raises(InvalidInput, match="cannot be read"):
        audit_limits.exported_lines("/dev/zero")
