"""Histories that were lost, several from one backup: what all of them spent is charged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget_service import restoring
from privplan.audit.budget_service.audited import audit_history
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.names import Refusal
from privplan.audit.budget_service.restoring import hold_witnessed
from privplan.audit.budget_service.rotation import require_key
from privplan.audit.budget_service.service import LedgerService
from privplan.audit.budget_service.signer import SignedStatement, Signer
from privplan.audit.budget_service.startup_check import require_consistent
from privplan.audit.budget_service.tables import entries
from privplan.audit.budget_service.witness import heads_in, witness
from privplan.fl.ledger_client.connection import Connection

from .ledger_services import OLGA, SMALL, Ledger, answering, served, token
from .test_budget_service_history import rewritten

MEDIUM = ev.Gaussian(6.0)


class LostHistories:
    """A ledger that is restored from one backup again and again."""

    def __init__(self, folder: Path) -> None:
        self.path, self.backup = folder / "ledger.db", folder / "backup.db"
        self.signer = Signer.fresh()
        with self.served() as service:
            self.ledger = Ledger(service)
            self.ledger.claim(SMALL, begin=True)
            self.seq = int(service.head(self.ledger.name)["seq"])
            self.shared = self.ledger.balances()["a"]
        shutil.copyfile(self.path, self.backup)

    @contextmanager
    def served(self) -> Iterator[LedgerService]:
        with served(self.path, self.signer) as service:
            if hasattr(self, "ledger"):
                self.ledger.service = service
            yield service

    def lost(self, *events: ev.Event) -> list[dict[str, Any]]:
        """Return the receipts of a history that is lost."""
        with self.served():
            receipts = [self.ledger.claim(event, begin=True)["receipt"] for event in events]
        shutil.copyfile(self.backup, self.path)
        return receipts

    def beyond(self, receipt: dict[str, Any]) -> list[int]:
        """Return what a receipt says that was spent since the backup."""
        said = map(int, receipt["balances"]["a"])
        return [a - b for a, b in zip(said, self.shared, strict=True)]

    def charged(self) -> list[int]:
        return [a - b for a, b in zip(self.ledger.balances()["a"], self.shared, strict=True)]

    def present(self, receipt: dict[str, Any]) -> dict[str, Any]:
        return self.ledger.service.present(self.ledger.name, receipt)

    def acknowledge(self, histories: int | None = None) -> None:
        self.ledger.service.wrote(
            lambda each: restoring.acknowledge(
                each, self.signer, self.ledger.name, "lost", self.seq, OLGA, histories
            )
        )


def _sum(*vectors: list[int]) -> list[int]:
    return [sum(each) for each in zip(*vectors, strict=True)]


@pytest.fixture
def lost(tmp_path: Path) -> LostHistories:
    return LostHistories(tmp_path)


def test_two_histories_of_one_backup_are_charged_together(lost: LostHistories) -> None:
    (first,), (second,) = lost.lost(SMALL), lost.lost(MEDIUM)
    with lost.served():
        lost.present(first)
        lost.present(second)
        with pytest.raises(InvalidInput, match="1 lost histories cannot be"):
            lost.acknowledge(histories=1)
        lost.acknowledge()
        assert lost.charged() == _sum(lost.beyond(first), lost.beyond(second))
        audited = lost.ledger.audited(first, second)
        assert audited.problem is None, audited.problem
        assert any("2 of what was kept is of a history" in each for each in audited.warnings)

        def one(_: int, record: dict[str, Any]) -> None:
            if record["type"] == "restore":
                record["histories"] = 1

        def largest(_: int, record: dict[str, Any]) -> None:
            if record["type"] == "restore":
                record["charged"] = {
                    name: list(map(str, lost.beyond(second))) for name in record["charged"]
                }

        lines = lost.ledger.lines()
        assert "more lost histories" in str(audit_history(rewritten(lines, one)).problem)
        assert "charged less" in str(audit_history(rewritten(lines, largest)).problem)
    assert _consistent(lost)


def test_receipts_of_one_history_are_charged_once_by_the_word_of_an_owner(
    lost: LostHistories,
) -> None:
    first, second, third = lost.lost(SMALL, MEDIUM, SMALL)
    with lost.served():
        lost.present(first)
        lost.present(third)
        lost.acknowledge(histories=1)
        assert lost.charged() == lost.beyond(third)
        # Another one of the history of which the owner spoke.
        assert lost.present(second) == {"agrees": False, "frozen": None}
        audited = lost.ledger.audited(first, third)
        assert audited.problem is None
        assert any("by the word of an owner" in each for each in audited.warnings)
    assert _consistent(lost)


def test_without_a_word_every_receipt_is_of_a_history_of_its_own(lost: LostHistories) -> None:
    first, second, third = lost.lost(SMALL, MEDIUM, SMALL)
    with lost.served():
        lost.present(second)
        lost.acknowledge()
        # It says less than what was charged, and may be of another history all the same.
        assert lost.present(first)["frozen"] is not None
        lost.present(third)
        with pytest.raises(InvalidInput, match="cannot be"):
            lost.acknowledge(histories=0)  # it says more than what was charged
        lost.acknowledge()
        assert lost.charged() == _sum(*map(lost.beyond, (first, second, third)))
        assert lost.ledger.audited(first, second, third).problem is None
    assert _consistent(lost)


def test_a_history_that_comes_to_light_later_is_charged_as_well(lost: LostHistories) -> None:
    (first,), (second,) = lost.lost(MEDIUM), lost.lost(SMALL)
    with lost.served():
        lost.present(first)
        lost.acknowledge(histories=1)
        answer = lost.present(second)  # the same entry, another hash, and it says less
        assert answer["agrees"] is False
        assert answer["frozen"] is not None
        with pytest.raises(Refusal, match="older than what was seen"):
            lost.ledger.claim(SMALL)
        with pytest.raises(InvalidInput, match="cannot be"):
            lost.acknowledge(histories=0)
        lost.acknowledge(histories=1)
        assert lost.charged() == _sum(lost.beyond(first), lost.beyond(second))
        assert lost.ledger.audited(first, second).problem is None
    assert _consistent(lost)


def test_what_is_of_a_history_that_was_charged_costs_nothing_by_the_word_of_an_owner(
    lost: LostHistories,
) -> None:
    first, second = lost.lost(SMALL, MEDIUM)
    with lost.served():
        lost.present(second)
        lost.acknowledge()
        assert lost.present(first)["frozen"] is not None
        lost.acknowledge(histories=0)
        assert lost.charged() == lost.beyond(second)
        assert lost.ledger.audited(first, second).problem is None


def _consistent(lost: LostHistories) -> bool:
    database = Database(str(lost.path))
    try:
        return require_consistent(database, lost.signer) == []
    finally:
        database.close()


def test_an_acknowledgement_without_what_was_seen_is_contradicted(lost: LostHistories) -> None:
    (first,) = lost.lost(SMALL)
    with lost.served():
        lost.present(first)
        lost.acknowledge()
        lines = lost.ledger.lines()

    def emptied(_: int, record: dict[str, Any]) -> None:
        if record["type"] == "restore":
            record.update(statements=[], charged={})

    assert "without what was seen" in str(audit_history(rewritten(lines, emptied)).problem)


def test_a_backup_did_not_end_after_the_lost_history_went_on(lost: LostHistories) -> None:
    (first,) = lost.lost(SMALL)
    with lost.served():
        lost.ledger.claim(SMALL)
        lost.present(first)
        whole = json.loads(lost.ledger.lines()[-1])["seq"]
        for late in (lost.seq + 1, whole):
            lost.seq, kept = late, lost.seq
            with pytest.raises(InvalidInput, match="`restored_at` must be before"):
                lost.acknowledge()
            lost.seq = kept
        lost.acknowledge()
        lines = lost.ledger.lines()
        assert audit_history(lines).problem is None
    for late in (lost.seq + 1, whole, 10**6):

        def later(_: int, record: dict[str, Any], late: int = late) -> None:
            if record["type"] == "restore":
                record.update(restored_at=late, charged={})

        assert "a backup ended before" in str(audit_history(rewritten(lines, later)).problem)


def test_a_key_that_named_its_successor_says_nothing_of_later_entries(tmp_path: Path) -> None:
    path, old, new = tmp_path / "ledger.db", Signer.fresh(), Signer.fresh()
    with served(path, old) as service:
        ledger = Ledger(service)
        before = ledger.claim()["receipt"]
        early = SignedStatement.from_json(before).statement
    database = Database(str(path))
    require_key(database, new, old)
    database.close()
    with served(path, new) as service:
        ledger.service = service
        ledger.claim()
        head = SignedStatement.from_json(service.head(ledger.name)).statement
        assert service.present(ledger.name, before)["agrees"] is True
        for said in (head, replace(head, hash="5f" * 32), replace(head, seq=99, hash="5f" * 32)):
            with pytest.raises(Refusal, match="had named its successor"):
                service.present(ledger.name, old.sign(said).to_json())
        forged = old.sign(head)
        assert "not signed by the key" in str(audit_history(ledger.lines(), forged).problem)
        # Of the time before, it is the one who knows.
        lost = old.sign(replace(early, hash="5f" * 32)).to_json()
        assert service.present(ledger.name, lost)["agrees"] is False
        service.wrote(lambda each: restoring.acknowledge(each, new, ledger.name, "x", None, OLGA))

        def late(_: int, record: dict[str, Any]) -> None:
            if record["type"] == "restore":
                record["statements"].append(old.sign(replace(head, hash="6f" * 32)).to_json())

        assert ledger.audited().problem is None
        assert "is not signed" in str(audit_history(rewritten(ledger.lines(), late)).problem)


def test_a_witness_goes_on_with_a_history_that_acknowledges_what_was_lost(
    lost: LostHistories, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    with lost.served() as service:
        auditor = token(service, "aud", "auditor")
    shutil.copyfile(lost.path, lost.backup)  # it has the token of the auditor
    with lost.served() as service:
        for _ in range(2):
            lost.ledger.claim(SMALL, begin=True)
            with answering(service) as url:
                assert witness(Connection(url, auditor), state)[0].problem is None
    shutil.copyfile(lost.backup, lost.path)
    database = Database(str(lost.path))
    assert hold_witnessed(database, lost.signer, heads_in(state)) == [lost.ledger.name]
    database.close()
    with lost.served() as service:
        with answering(service) as url:
            (seen,) = witness(Connection(url, auditor), state)
            assert "restored from a backup" in str(seen.problem)
        (head,) = heads_in(state)
        lost.acknowledge(histories=1)
        assert lost.charged() == lost.beyond(head.to_json())
        with answering(service) as url:
            for restored in (True, False):
                (seen,) = witness(Connection(url, auditor), state)
                assert (seen.problem, seen.restored) == (None, restored)
        assert lost.ledger.claim(SMALL)["state"] == "claimed"
    assert json.loads(state.read_text())["heads"][lost.ledger.name]


def test_a_block_that_a_restored_backup_has_forgotten_is_there_again_with_its_charge(
    lost: LostHistories,
) -> None:
    name = lost.ledger.name
    with lost.served():
        lost.ledger.owner("add_blocks", ["new"])
        receipt = lost.ledger.claim(SMALL, begin=True, blocks=["new"])["receipt"]
        exact = lost.ledger.balances()["new"]
    shutil.copyfile(lost.backup, lost.path)
    with lost.served() as service:
        lost.present(receipt)
        lost.acknowledge()
        assert lost.ledger.balances()["new"] == exact
        assert service.shown(name)["frozen"] is None
        with pytest.raises(Refusal, match="exists"):
            lost.ledger.owner("add_blocks", ["new"])
        audited = lost.ledger.audited(receipt)
        assert audited.problem is None
        lines = lost.ledger.lines()
        # An acknowledgement that leaves it out is contradicted.
        bad = rewritten(lines, _without_new)
        assert "less than was spent" in str(audit_history(bad).problem)
    with lost.served():  # and its tables follow from the history
        require_consistent(lost.ledger.service.database, lost.signer)


def _without_new(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "restore":
        del record["charged"]["new"]


def test_a_column_of_hashes_agrees_with_no_lost_history(lost: LostHistories) -> None:
    """Whoever can write the database must not hide that it was restored."""
    (receipt,) = lost.lost(SMALL)
    with lost.served():
        lost.ledger.claim(MEDIUM)
        service = lost.ledger.service
        values = {"hash": receipt["hash"]}
        service.wrote(
            lambda each: each.execute(
                entries.update().where(entries.c.seq == receipt["seq"]).values(**values)
            )
        )
        assert not lost.present(receipt)["agrees"]
