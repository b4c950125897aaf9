"""The history of a budget ledger: derived again offline, contradicted wherever it was changed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget_service import replayed, restoring
from privplan.audit.budget_service.audited import audit_history
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.names import Refusal
from privplan.audit.budget_service.replayed_fields import ended_after
from privplan.audit.budget_service.restoring import hold_witnessed
from privplan.audit.budget_service.rotation import require_key
from privplan.audit.budget_service.signer import SignedStatement, Signer
from privplan.fl.log.hash_chain import START, chained

from ..cases import for_each
from .ledger_services import ANA, AUDITOR, LAPLACE, OLGA, OTTO, SMALL, TRAINING, Ledger, served


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A history with every kind of entry but those of a restored backup."""
    with served(tmp_path_factory.mktemp("ledger") / "ledger.db") as service:
        ledger = Ledger(service)
        ledger.owner("limit_project", "small", 0.5)
        kept = ledger.claim(begin=True, project="small")
        ledger.step("cancel", ledger.claim(TRAINING)["id"])
        ledger.step("begin", ledger.claim(TRAINING, blocks=["b"])["id"])
        ledger.step("abandon", ledger.claim(begin=True)["id"])
        ledger.owner("add_blocks", ["c"])
        ledger.step("release", kept["id"], "ab" * 32)
        lost = service.audited_loss(kept["id"], ev.Laplace(1.9).to_json(), AUDITOR)
        ledger.step("audit", kept["id"], "above", lost, actor=AUDITOR)
        proposal = ledger.owner("propose_cap", 3.5, "less")["proposal"]
        ledger.owner("approve_cap", proposal, actor=OTTO)
        ledger.owner("freeze", "holiday")
        ledger.owner("thaw", "over")
        ledger.claim(blocks=["c"])
        yield ledger


def rewritten(lines: list[bytes], change: Callable[[int, dict[str, Any]], None]) -> list[bytes]:
    """Return a history written anew with changed entries: every hash fits."""
    prev, written = START, []
    for seq, line in enumerate(lines):
        record = json.loads(line)
        change(seq, record)
        for name in ("seq", "prev", "hash"):
            record.pop(name, None)
        text, prev = chained(record, seq, prev)
        written.append(text.encode() + b"\n")
    return written


def test_every_balance_is_derived_again(ledger: Ledger) -> None:
    audited = ledger.audited()
    assert audited.problem is None
    assert {name: list(units) for name, units in audited.balances.items()} == ledger.balances()
    assert audited.claims == {
        "audited": 1,
        "cancelled": 1,
        "begun": 1,
        "abandoned": 1,
        "claimed": 1,
    }
    assert audited.spent["a"] == ledger.shown()["blocks"]["a"]["spent"]
    assert audited.held_against == "a head"


@for_each("seq", list(range(16)), items=2)
def test_lines_that_were_edited_moved_or_taken_out_are_found(seq: int, ledger: Ledger) -> None:
    lines = ledger.lines()
    assert len(lines) == 17
    edited = lines[seq].replace(b'"by":"', b'"by":"x', 1)
    assert edited != lines[seq]
    assert audit_history([*lines[:seq], edited, *lines[seq + 1 :]]).entry == seq
    assert audit_history([*lines[:seq], *lines[seq + 1 :]]).entry == seq
    swapped = [*lines[:seq], lines[seq + 1], lines[seq], *lines[seq + 2 :]]
    assert audit_history(swapped).entry == seq
    assert audit_history([*lines[: seq + 1], *lines[seq:]]).entry == seq + 1


def test_an_end_that_was_cut_off_is_found_by_a_head_or_a_receipt(ledger: Ledger) -> None:
    lines = ledger.lines()
    source = ledger.service.head(ledger.name)
    head = SignedStatement.from_json(source)
    assert audit_history(lines[:-1]).problem is None
    assert audit_history(lines, head).ok
    assert audit_history(lines, source["hash"]).ok
    for kept in (head, source["hash"]):
        assert "cut off" in str(audit_history(lines[:-1], kept).problem)
    assert "cut off" in str(audit_history(lines[:-1], None, [head]).problem)


def _cheaper(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim" and record["begun"]:
        record["price"] = [str(int(units) // 2) for units in record["price"]]


def _noisier(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim":
        record["event"] = ev.Laplace(9.0).to_json()


def _without_cap(_: int, record: dict[str, Any]) -> None:
    if "cap" in record:
        record["cap"] = [str(10**16) for _ in record["cap"]]


def _by_the_same(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "cap.move":
        record["by"] = "olga"


def _uncharged(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim.audit":
        record["charged"] = ["0"] * len(record["charged"])


def _fewer_blocks(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim":
        record["blocks"] = [*record["blocks"], "nowhere"]


def _begun_twice(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim.begin" or record["type"] == "claim.abandon":
        record["type"] = "claim.cancel"


def _invented(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "freeze":
        record["type"] = "refund"


def _replaced(kind: str, **changed: object) -> Callable[[int, dict[str, Any]], None]:
    def change(_: int, record: dict[str, Any]) -> None:
        if record["type"] == kind:
            record.update(changed)

    return change


def _above_without_a_price(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "claim.audit":
        record.update(event=None, charged=["0"] * len(record["charged"]))


def _cap_below(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "cap.move":
        record["cap"] = [str(min(int(units), 1)) for units in record["cap"]]
    if record["type"] == "freeze":
        record.update(type="view.open", view="image")


def _behind_before_a_step(_: int, record: dict[str, Any]) -> None:
    if record["type"] == "project.limit":
        kept = {"at": record["at"], "type": "behind", "seen": 9, "seen_hash": "5f" * 32}
        record.clear()
        record.update(kept)


@for_each(
    ("change", "says"),
    [
        (_above_without_a_price, "nobody says how much"),
        (_cap_below, "the cap is below what is spent"),
        (_behind_before_a_step, "frozen"),
        *(
            (_replaced("project.limit", share=share), "no entry that a service writes")
            for share in ("5", "2", "-1", "1/0", "1e99999999", "1e-999999999", "nan", 1)
        ),
        *(
            (_replaced("data-set.open", blocks=blocks), "`blocks` must be")
            for blocks in ([], "ab", {"a": 1})
        ),
        *(
            (_replaced("data-set.open", key=key), "no entry that a service writes")
            for key in ("zz", 5, None)
        ),
        *(
            (_replaced("data-set.open", epsilon=epsilon), "no entry that a service writes")
            for epsilon in ("1e99999999", "inf", "nan", "1_0", 4.0)
        ),
        (_cheaper, "below that of its event"),
        (_without_cap, "above what its epsilon allows"),
        (_by_the_same, "approved by whoever proposed"),
        (_uncharged, "charges less"),
        (_fewer_blocks, "does not exist"),
        (_begun_twice, "and not claimed"),
        (_invented, "no service writes"),
    ],
)
def test_a_history_that_was_written_anew_is_contradicted_by_what_it_says(
    change: Callable[[int, dict[str, Any]], None], says: str, ledger: Ledger
) -> None:
    problem = str(audit_history(rewritten(ledger.lines(), change)).problem)
    assert says in problem, problem


def test_a_history_that_was_written_anew_is_contradicted_by_what_others_kept(
    ledger: Ledger,
) -> None:
    """Without a head or a receipt, one that is consistent is not found: the verdict says so."""
    lines = rewritten(ledger.lines(), _noisier)
    assert audit_history(lines).held_against == "itself alone"
    head = SignedStatement.from_json(ledger.service.head(ledger.name))
    assert "another hash" in str(audit_history(lines, head).problem)


def test_a_forged_head_is_refused(ledger: Ledger) -> None:
    lines, source = ledger.lines(), ledger.service.head(ledger.name)
    forger = Signer.fresh()
    statement = SignedStatement.from_json(source).statement
    forged = SignedStatement(statement, source["key"], forger.sign(statement).signature)
    assert "not signed" in str(audit_history(lines, forged).problem)
    assert "not signed" in str(audit_history(lines, forger.sign(statement)).problem)
    less = {**source, "balances": {**source["balances"], "a": ["0"] * len(source["cap"])}}
    assert "not signed" in str(audit_history(lines, SignedStatement.from_json(less)).problem)
    for broken in ({}, {**source, "seq": -1}, {**source, "cap": "x"}, {**source, "extra": 1}, []):
        with pytest.raises(InvalidInput):
            SignedStatement.from_json(broken)


# Keys that follow one another, and databases that were restored.


def _restored(folder: Path, backup: bytes) -> None:
    for file in folder.glob("ledger.db*"):
        file.unlink()
    (folder / "ledger.db").write_bytes(backup)


def test_a_key_names_the_next_and_heads_before_it_still_hold(tmp_path: Path) -> None:
    path, old, new = tmp_path / "ledger.db", Signer.fresh(), Signer.fresh()
    with served(path, old) as service:
        ledger = Ledger(service)
        receipt = ledger.claim()["receipt"]
    database = Database(str(path))
    with pytest.raises(InvalidInput, match="signed by the key"):
        require_key(database, new, None)
    with pytest.raises(InvalidInput, match="signed by the key"):
        require_key(database, new, Signer.fresh())
    assert require_key(database, new, old) == 1
    assert require_key(database, new, None) == 0
    database.close()
    with served(path, new) as service:
        ledger.service = service
        ledger.claim()
        assert ledger.audited(receipt).problem is None
        earlier = [SignedStatement.from_json(receipt)]
        head = SignedStatement.from_json(service.head(ledger.name))
        for key in (old.public, new.public):
            assert audit_history(ledger.lines(), head, earlier, key).ok
        assert audit_history(ledger.lines(), None, earlier, old.public).ok
        # Whoever has the old key could write such a receipt, and a history to it.
        assert not audit_history(ledger.lines(), None, earlier, new.public).ok
        other = rewritten(
            ledger.lines(),
            lambda _, record: record.update(key="00" * 32) if "signature" in record else None,
        )
        assert "not signed by the one before" in str(audit_history(other).problem)
    with served(path, old) as service:
        ledger.service = service
        with pytest.raises(Refusal, match="another key"):
            ledger.claim()


def test_a_restored_backup_takes_no_claims_until_its_gap_is_charged(tmp_path: Path) -> None:
    path, signer = tmp_path / "ledger.db", Signer.fresh()
    with served(path, signer) as service:
        ledger = Ledger(service)
        early = ledger.claim(begin=True)["receipt"]
        waiting = ledger.claim()["id"]
    backup = path.read_bytes()
    with served(path, signer) as service:
        ledger.service = service
        late = ledger.claim(TRAINING, begin=True)["receipt"]
        spent = ledger.balances()
    _restored(tmp_path, backup)
    with served(path, signer) as service:
        ledger.service = service
        behind = ledger.balances()
        assert behind != spent
        assert service.present(ledger.name, early) == {"agrees": True, "frozen": None}
        last = json.loads(ledger.lines()[-1])["seq"]
        assert service.present(ledger.name, late)["agrees"] is False
        for attempt in (
            ledger.claim,
            lambda: ledger.step("begin", waiting),
            lambda: ledger.step("cancel", waiting),
        ):
            with pytest.raises(Refusal) as refusal:
                attempt()
            assert refusal.value.word == "behind"
        shown = service.wrote(
            lambda each: restoring.acknowledge(each, signer, ledger.name, "lost", last, OLGA)
        )
        assert shown["frozen"] is None
        # The gap is what the late receipt says beyond the end of the backup.
        assert ledger.balances() == spent
        # In the history that was lost it may have been begun.
        with pytest.raises(Refusal, match="begun"):
            ledger.step("cancel", waiting)
        assert service.present(ledger.name, late) == {"agrees": False, "frozen": None}
        assert ledger.claim(LAPLACE, blocks=["a"])["state"] == "claimed"
        audited = ledger.audited()
        assert audited.problem is None, audited.problem
        assert any("restored from a backup" in warning for warning in audited.warnings)


@pytest.mark.parametrize("restored_at", [None, 1])
def test_claims_that_were_made_since_a_backup_stand_next_to_those_that_were_lost(
    restored_at: int | None, tmp_path: Path
) -> None:
    path, signer = tmp_path / "ledger.db", Signer.fresh()
    with served(path, signer) as service:
        ledger = Ledger(service, epsilon=8.0)
        waiting = ledger.claim()["id"]
    backup = path.read_bytes()
    with served(path, signer) as service:
        ledger.service = service
        ledger.step("begin", waiting)
        late = ledger.claim(SMALL, begin=True)["receipt"]
        lost = list(map(int, late["balances"]["a"]))
    _restored(tmp_path, backup)
    with served(path, signer) as service:
        ledger.service = service
        # Nobody has seen it yet: what was begun in the lost history is cancelled in this one.
        ledger.step("cancel", waiting)
        other = ledger.claim(TRAINING, begin=True)["receipt"]
        here = ledger.balances()["a"]
        assert service.present(ledger.name, late)["agrees"] is False
        service.wrote(
            lambda each: restoring.acknowledge(each, signer, ledger.name, "lost", restored_at, OLGA)
        )
        truth = [a + b for a, b in zip(lost, here, strict=True)]
        assert ledger.balances()["a"] == truth
        audited = ledger.audited(other)
        assert audited.problem is None
        says = "as a whole" if restored_at is None else "by the word of an owner"
        assert any(says in warning for warning in audited.warnings)
        less = rewritten(
            ledger.lines(),
            lambda _, record: record.update(charged={}) if record["type"] == "restore" else None,
        )
        assert "charged less than was spent" in str(audit_history(less).problem)


def test_a_witnessed_head_stops_a_restored_backup_before_it_serves(tmp_path: Path) -> None:
    path, signer = tmp_path / "ledger.db", Signer.fresh()
    with served(path, signer) as service:
        ledger = Ledger(service)
        other = Ledger(service)
    backup = path.read_bytes()
    with served(path, signer) as service:
        ledger.service = service
        ledger.claim(begin=True)
        heads = [SignedStatement.from_json(service.head(each.name)) for each in (ledger, other)]
    _restored(tmp_path, backup)
    database = Database(str(path))
    assert hold_witnessed(database, signer, heads) == [ledger.name]
    assert hold_witnessed(database, signer, heads) == [ledger.name]
    database.close()
    with served(path, signer) as service:
        ledger.service = other.service = service
        with pytest.raises(Refusal, match="older than what was seen"):
            ledger.claim()
        assert other.claim()["state"] == "claimed"
        service.wrote(
            lambda each: restoring.acknowledge(each, signer, ledger.name, "lost", None, OLGA)
        )
        assert hold_witnessed(service.database, signer, heads) == []
        assert ledger.claim(LAPLACE, blocks=["a"])["state"] == "claimed"


def test_only_what_the_service_signed_can_say_that_it_is_behind(ledger: Ledger) -> None:
    statement = SignedStatement.from_json(ledger.service.head(ledger.name)).statement
    forged = Signer.fresh().sign(statement).to_json()
    with pytest.raises(Refusal, match="no statement that the service signed"):
        ledger.service.present(ledger.name, forged)
    other = Ledger(ledger.service)
    with pytest.raises(Refusal, match="no statement that the service signed"):
        ledger.service.present(ledger.name, ledger.service.head(other.name))
    with pytest.raises(InvalidInput):
        ledger.service.present(ledger.name, {"seq": 10**9})
    assert ledger.service.claim_now(ledger.claim(blocks=["c"])["id"], ANA)["state"] == "claimed"


def test_a_claim_is_not_cancelled_while_its_data_set_is_behind(ledger: Ledger) -> None:
    lines = ledger.lines()
    kinds = [json.loads(line)["type"] for line in lines]
    at = kinds.index("claim.cancel")
    record = {"type": "behind", "at": "2026-11-30", "seen": 9, "seen_hash": "5f" * 32}
    seen = [*lines[:at], json.dumps(record).encode(), *lines[at:]]
    problem = audit_history(rewritten(seen, lambda *_: None)).problem
    assert "cancelled that may have been begun" in str(problem)


def test_a_public_key_must_have_signed_what_was_kept(ledger: Ledger) -> None:
    ledger.claim()
    lines, key = ledger.lines(), ledger.service.signer.public
    head = SignedStatement.from_json(ledger.service.head(ledger.name))
    other = Signer.fresh().public
    assert audit_history(lines, head, key=key).ok
    for kept in (None, head.statement.hash, head):
        assert "signs nothing" in str(audit_history(lines, kept, key=other).problem)
    for kept in (None, head.statement.hash):
        assert "no head or receipt" in str(audit_history(lines, kept, key=key).problem)
    with pytest.raises(InvalidInput, match="public key"):
        audit_history(lines, head, key="nonsense")


@cache
def history() -> list[bytes]:
    """Return the history of a data set without claims."""
    with TemporaryDirectory() as folder, served(Path(folder) / "ledger.db") as service:
        return Ledger(service).lines()


@for_each("budget", ["1e99999999", "1e-99999999", "-1", "1/0", "0x1", "1" * 2000, 1, None])
def test_a_budget_that_no_service_writes_ends_an_audit_at_once(budget: object) -> None:
    lines = history()

    def changed(seq: int, record: dict[str, Any]) -> None:
        if seq == 0:
            record["terms"]["currency"]["budgets"][3] = budget

    assert "make no sense" in str(audit_history(rewritten(lines, changed)).problem)


def test_an_interruption_that_is_lost_comes_again() -> None:
    """As where it is raised while an object is finalised."""
    with pytest.raises(TimeoutError), ended_after(0.01):
        _lose_the_first()


def _lose_the_first() -> None:
    with suppress(BaseException):
        while True:
            pass
    started = time.process_time()
    while time.process_time() < started + 10.0:
        pass


def test_an_event_that_is_too_long_to_be_priced_ends_an_audit(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayed, "MAX_PRICING_SECONDS", 0.02)
    leaves = tuple(ev.Poisson(0.01 + i * 1e-6, ev.Gaussian(1.0 + i * 1e-4)) for i in range(4000))

    def changed(_: int, record: dict[str, Any]) -> None:
        if record["type"] == "claim":
            record["event"] = ev.Compose(leaves).to_json()

    ledger.claim()
    started = time.process_time()
    audited = audit_history(rewritten(ledger.lines(), changed))
    assert "too long to be priced" in str(audited.problem)
    assert time.process_time() - started < 10.0
    # What was set up for the end of one pricing is gone after it.
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
