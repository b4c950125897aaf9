"""A service whose tables say other than its histories does not start, whichever row it is."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.budget_service import owners, restoring, startup_check
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.signer import Signer
from privplan.audit.budget_service.startup_check import require_consistent

from ..cases import for_each
from .ledger_services import AUDITOR, EVE, LAPLACE, OLGA, SMALL, Ledger, served


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Signer]:
    """Return a closed database with rows of every kind."""
    folder, signer = tmp_path_factory.mktemp("ledger"), Signer.fresh()
    path, backup = folder / "ledger.db", folder / "backup.db"
    with served(path, signer) as service:
        ledger = Ledger(service, cap_at_most=8.0)
        name = ledger.name
        Ledger(service)
        ledger.owner("limit_project", "small", 0.5)
        ledger.claim(begin=True, project="small")
        ledger.owner("limit_analyst", "ana", 0.75)
        service.wrote(lambda each: owners.open_view(each, signer, "image", name, OLGA))
    shutil.copyfile(path, backup)
    with served(path, signer) as service:
        ledger.service = service
        lost = [ledger.claim(SMALL, begin=True)["receipt"] for _ in range(2)]
    shutil.copyfile(backup, path)
    with served(path, signer) as service:
        ledger.service = service
        service.present(name, lost[0])
        service.wrote(lambda each: restoring.acknowledge(each, signer, name, "lost", 3, OLGA))
        ledger.owner("propose_cap", 3.5, "less")
        ledger.claim(SMALL)
        ledger.step("cancel", ledger.claim(SMALL)["id"])
        ledger.claim(SMALL, begin=True, blocks=["a"])
        done = ledger.claim(SMALL, begin=True)["id"]
        ledger.step("release", done, "ab" * 32)
        loss = service.audited_loss(done, LAPLACE.to_json(), AUDITOR)
        ledger.step("audit", done, "above", loss, actor=AUDITOR)
        ledger.claim(SMALL, data_set="image", actor=EVE, blocks=["a"])
        service.present(name, lost[1])
    return path, signer


def _started(path: Path, signer: Signer) -> list[str]:
    database = Database(str(path))
    try:
        return require_consistent(database, signer)
    finally:
        database.close()


def test_tables_that_follow_from_their_histories_are_served(kept: tuple[Path, Signer]) -> None:
    assert _started(*kept) == []


def test_what_is_too_long_to_be_added_up_is_priced_by_the_terms_of_its_history(
    kept: tuple[Path, Signer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup_check, "MAX_CHECKED_ENTRIES", 0)
    copy = tmp_path / "ledger.db"
    shutil.copyfile(kept[0], copy)
    assert len(_started(copy, kept[1])) == 2
    with sqlite3.connect(copy) as connection:
        connection.execute("update data_set set terms = replace(terms, '8.0', '4000.0')")
    connection.close()
    with pytest.raises(InvalidInput, match="changed from outside"):
        _started(copy, kept[1])


@for_each(
    "change",
    [
        "update block set spent = replace(spent, '1', '0')",
        "insert into block (data_set_id, name, spent) select 1, 'z', spent from block limit 1",
        "update data_set set cap = replace(cap, '1', '2')",
        "update data_set set epsilon = '400.0' where id = 1",
        "update data_set set terms = replace(terms, 'add-remove', 'replace-one') where id = 1",
        "update data_set set terms = replace(terms, '8.0', '4000.0') where name = 'image'",
        "update data_set set name = 'other' where name = 'image'",
        "update data_set set parent_id = 2 where name = 'image'",
        "update data_set set parent_id = 1 where id = 2",
        "update data_set set keys = keys || ' ' || keys",
        "update data_set set frozen = 'x'",
        "update data_set set behind = null",
        "delete from entry where seq = 1",
        "delete from entry where seq = 2",
        "update entry set line = replace(line, 'sepsis', 'other')",
        "update claim set state = 'claimed' where state = 'begun'",
        "update claim set state = 'begun' where state = 'cancelled'",
        "update claim set price = replace(price, '1', '0')",
        "update claim set block_ids = '[1]' where holder = 'ana'",
        "update claim set holder = 'eve'",
        "update claim set log_head = null",
        "update claim set content = (select content from claim where holder = 'eve')",
        "update claim set answer = (select answer from claim where holder = 'eve')",
        "update claim set project_id = (select id from project where name = 'small')",
        "update claim set data_set_id = 2 where holder = 'eve'",
        "delete from claim where holder = 'eve'",
        "update project set share = '1' where name = 'small'",
        "update project set share = '1' where name = 'analyst:ana'",
        "delete from project_block",
        "update project_block set spent = replace(spent, '1', '0')",
        "update proposal set epsilon = '8.0'",
        "update proposal set proposer = 'otto'",
        "delete from presented where acknowledged = 0",
        "update presented set acknowledged = 1",
        "delete from presented where acknowledged = 1",
        "update presented set acknowledged = 2 where acknowledged = 1",
        """update presented set statement = replace(statement, '"balances": {"a": ["',
           '"balances": {"a": ["1')""",
        "update presented set statement = (select statement from presented limit 1)",
        "update entry set hash = (select hash from entry where seq = 3) where seq = 4",
        """update claim set answer = replace(answer, '"verdict":"above"', '"verdict":"holds"')
           where state = 'audited'""",
    ],
)
def test_a_service_whose_tables_were_changed_does_not_start(
    change: str, kept: tuple[Path, Signer], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, signer = kept
    copy = tmp_path_factory.mktemp("changed") / "ledger.db"
    shutil.copyfile(path, copy)
    with sqlite3.connect(copy) as connection:
        assert connection.execute(change).rowcount > 0
    connection.close()
    with pytest.raises(InvalidInput, match="changed from outside"):
        _started(copy, signer)
