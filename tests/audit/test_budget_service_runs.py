"""The client of a budget ledger, and runs that claim from one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event
from typer.testing import CliRunner

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, PrivplanError
from privplan.cli.main import app
from privplan.fl.ledger_client.claimed_events import event_of
from privplan.fl.ledger_client.connection import Connection, LedgerRefused, LedgerUnreachable
from privplan.fl.running import run_claim

from ..cases import for_each
from .ledger_services import ANA, LAPLACE, OTTO, SMALL, TRAINING
from .ledger_site import WARD, Site, open_site


@pytest.fixture
def site(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("ledger")) as opened:
        monkeypatch.setenv("PRIVPLAN_LEDGER_TOKEN", opened.tokens["ana"])
        yield opened


def test_an_odometer_spends_from_the_ledger(site: Site) -> None:
    ledger = pp.Ledger(site.url)
    odometer = ledger.odometer(site.ledger.name, project="sepsis", blocks=["a"])
    claim = odometer.spend(LAPLACE)
    assert claim.state == "begun"
    assert site.ledger.audited(dict(claim.receipt)).problem is None
    claim.release("ab" * 32)
    waiting = odometer.claim(TRAINING, key="k")
    assert odometer.claim(TRAINING, key="k").id == waiting.id
    waiting.cancel()
    with pytest.raises(LedgerRefused, match="cancelled"):
        waiting.begin()
    odometer.spend(SMALL).abandon()
    with pytest.raises(BudgetExceeded, match="does not fit") as refusal:
        odometer.spend(ev.Repeat(10**6, SMALL))
    assert refusal.value.answer["fits"]["count"] > 0  # type: ignore[attr-defined]
    reading = odometer.reading()["blocks"]
    assert reading["a"]["spent"] > reading["b"]["spent"] == 0.0
    assert ledger.head(site.ledger.name)["seq"] == odometer.reading()["seq"]
    assert "plt_" not in f"{ledger!r} {odometer!r} {claim!r}"


def test_events_of_other_programs_are_claimed() -> None:
    state = {"history": [(1.1, 0.01, 500), (1.2, 0.02, 3)], "mechanism": "rdp"}
    steps = [
        ev.Repeat(500, ev.Poisson(0.01, ev.Gaussian(1.1))),
        ev.Repeat(3, ev.Poisson(0.02, ev.Gaussian(1.2))),
    ]
    assert event_of(state, method="poisson") == ev.Compose(tuple(steps))
    described = {"noise_multiplier": 1.1, "records": 1000, "batch": 10, "steps": 500}
    assert event_of({**described, "method": "poisson"}) == steps[0]
    assert event_of(dp_event.LaplaceDpEvent(2.0)) == LAPLACE
    assert event_of(LAPLACE.to_json()) == LAPLACE


@for_each(
    ("source", "says"),
    [
        ({"history": [(1.1, 0.01, 500)]}, "sampled"),
        ({"history": []}, "sampled"),
        ({"noise_multiplier": 1.1, "rate": 0.1, "steps": 5}, "sampled"),
        ({"noise_multiplier": 1.1, "rate": 0.1, "method": "poisson"}, "steps"),
        ({"noise_multiplier": 1.1, "steps": 5, "method": "poisson"}, "rate"),
        ({"noise_multiplier": 1.1, "steps": 5, "method": "shuffled", "rate": 0.1}, "sampled"),
        ({"price": [0], "method": "poisson"}, "price"),
        (3.0, "Nothing is known"),
    ],
)
def test_what_does_not_say_how_it_was_made_is_not_claimed(source: object, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        event_of(source)


@for_each(
    "url",
    [
        "ftp://x",
        "https://",
        "",
        "http://ledger.example",
        "https://a:b@ledger.example",
        "https://x/?t=1",
    ],
)
def test_an_address_that_would_show_a_token_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        pp.Ledger(url, "secret")


@for_each("status", [b"201 Created", b"409 Conflict"])
def test_an_answer_that_is_cut_off_is_asked_for_again(status: bytes) -> None:
    """As by a service that is killed while it answers."""
    whole = b'{"type": "urn:privplan:ledger:budget", "id": "x"}'
    sent = [whole[:9], whole]

    def answer(listening: socket.socket) -> None:
        for body in sent:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(2**16)
                head = b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(whole)
                accepted.sendall(head + body)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        connection = Connection(f"http://127.0.0.1:{listening.getsockname()[1]}", "x")
        if status.startswith(b"201"):
            assert connection.post("/v1/claims", {}, "k")["id"] == "x"
        else:
            with pytest.raises(BudgetExceeded):
                connection.post("/v1/claims", {}, "k")
        thread.join()


def test_a_run_claims_its_plan_and_closes_with_its_head(site: Site, tmp_path: Path) -> None:
    outcome = pp.run(site.ward, tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "ledger.json").read_text())
    assert site.tokens["ana"] not in json.dumps(kept)
    claim = site.ledger.service.claim_now(kept["claim"], ANA)
    assert claim["state"] == "released"
    assert claim["head"] == outcome.head
    assert claim["spent"]["epsilon"] > 0.0
    entry = json.loads(site.ledger.lines()[1])
    assert ev.from_json(entry["event"]) == run_claim.claimed_event(outcome.prepared)
    assert entry["stated"]["observer"] == "model"
    assert not any("ledger" in warning for warning in outcome.warnings)
    text = (tmp_path / "run" / "log.jsonl").read_text()
    assert site.url not in text


def test_a_run_that_was_cut_off_goes_on_with_its_claim(site: Site, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pp.run(site.ward, tmp_path / "run", report=stop)
    spent = site.ledger.balances()
    assert site.ledger.audited().claims == {"begun": 1}
    pp.resume(tmp_path / "run")
    assert site.ledger.balances() == spent
    assert site.ledger.audited().claims == {"released": 1}


def test_a_run_whose_plan_does_not_fit_draws_nothing(site: Site, tmp_path: Path) -> None:
    site.ledger.fill(ev.Gaussian(3.0))
    before = site.ledger.balances()
    with pytest.raises(BudgetExceeded):
        pp.run(site.ward, tmp_path / "run")
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == b""
    assert site.ledger.balances() == before
    # The cap was moved: the same folder goes on, under the same key.
    proposal = site.ledger.owner("propose_cap", 9.0, "more")["proposal"]
    site.ledger.owner("approve_cap", proposal, actor=OTTO)
    assert pp.resume(tmp_path / "run").result.rounds == 2


def test_a_ledger_that_does_not_answer_stops_a_run_before_noise(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = {"key": None, "timeout": 1.0, "attempts": 1}
    monkeypatch.setattr(Connection.__init__, "__kwdefaults__", defaults)
    ward = {**site.ward, "ledger": {**site.ward["ledger"], "url": "http://127.0.0.1:9"}}
    with pytest.raises(LedgerUnreachable):
        pp.run(ward, tmp_path / "away")
    assert (tmp_path / "away" / "log.jsonl").read_bytes() == b""
    monkeypatch.setenv("PRIVPLAN_LEDGER_TOKEN", "plt_wrong")
    with pytest.raises(LedgerRefused, match="401"):
        pp.run(site.ward, tmp_path / "wrong")
    monkeypatch.delenv("PRIVPLAN_LEDGER_TOKEN")
    with pytest.raises(InvalidInput, match="token"):
        pp.run(site.ward, tmp_path / "none")


def test_a_ledger_with_another_key_stops_a_run_before_noise(site: Site, tmp_path: Path) -> None:
    public = site.ledger.service.signer.public
    ward = {**site.ward, "ledger": {**site.ward["ledger"], "public_key": "5f" * 32}}
    with pytest.raises(LedgerUnreachable, match="signed by the key"):
        pp.run(ward, tmp_path / "other")
    assert (tmp_path / "other" / "log.jsonl").read_bytes() == b""
    assert "begun" not in site.ledger.audited().claims
    pp.run({**ward, "ledger": {**site.ward["ledger"], "public_key": public}}, tmp_path / "run")
    assert site.ledger.audited().claims["released"] == 1


def test_a_ledger_that_is_gone_at_the_end_holds_nothing_back(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise LedgerUnreachable("The ledger is gone.")

    monkeypatch.setattr("privplan.fl.ledger_client.ledger.LedgerClaim.release", gone)
    outcome = pp.run(site.ward, tmp_path / "run")
    assert outcome.result.rounds == 2
    assert any("stays begun there" in warning for warning in outcome.warnings)
    assert site.ledger.audited().claims == {"begun": 1}


def test_a_claim_that_was_lost_after_it_was_sent_is_the_same_claim(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the ledger's answer and the next line of the file."""
    keep = run_claim._keep

    def killed(folder: Path, kept: dict[str, Any]) -> None:
        if kept["claim"] is not None:
            raise KeyboardInterrupt
        keep(folder, kept)

    with monkeypatch.context() as patch:
        patch.setattr(run_claim, "_keep", killed)
        with pytest.raises(KeyboardInterrupt):
            pp.run(site.ward, tmp_path / "run")
    assert site.ledger.audited().claims == {"claimed": 1}
    pp.resume(tmp_path / "run")
    assert site.ledger.audited().claims == {"released": 1}


def test_a_run_pays_for_no_second_round_under_a_claim_that_ended(
    site: Site, tmp_path: Path
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pp.run(site.ward, tmp_path / "run", report=stop)
    kept = json.loads((tmp_path / "run" / "ledger.json").read_text())
    site.ledger.step("abandon", kept["claim"])
    with pytest.raises(InvalidInput, match="abandoned"):
        pp.resume(tmp_path / "run")
    other = tmp_path / "run" / "config.toml"
    other.write_text(other.read_text().replace("sepsis", "other"))
    with pytest.raises(PrivplanError, match="another ledger"):
        pp.resume(tmp_path / "run")


@for_each(
    "table",
    [
        {"url": "http://127.0.0.1:1"},
        {"data_set": "ward", "project": "x"},
        {"charged_blocks": ["a"]},
        {"public_key": "5f" * 32},
        {"url": "http://127.0.0.1:1", "data_set": "ward", "project": "x", "public_key": "5f"},
        {"url": "http://127.0.0.1:1", "data_set": "ward", "project": "x", "charged_blocks": []},
        {"url": "http://127.0.0.1:1", "data_set": "ward", "project": "x", "token": "plt_x"},
    ],
)
def test_a_table_that_makes_no_sense_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        pp.plan_run({**WARD, "ledger": table})


def test_the_command_says_what_a_witness_and_an_audit_find(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*words: str) -> Any:
        return CliRunner().invoke(app, list(words))

    monkeypatch.setenv("PRIVPLAN_LEDGER_TOKEN", site.tokens["aud"])
    receipt = site.ledger.claim(begin=True)
    state, name = str(tmp_path / "state.json"), site.ledger.name
    seen = command("ledger", "witness", site.url, "--state", state, "--json")
    assert seen.exit_code == 0, seen.output
    assert json.loads(seen.stdout)["result"]["data_sets"][0]["added"] == 2
    site.ledger.claim()
    again = command("ledger", "witness", site.url, "--state", state)
    assert "entry 2, 1 new" in again.stdout
    export, kept = tmp_path / "export.jsonl", tmp_path / "receipt.json"
    exported = command("ledger", "export", site.url, name, "--out", str(export), "--json")
    assert exported.exit_code == 0, exported.output
    assert export.read_bytes() == b"".join(site.ledger.lines())
    assert json.loads(exported.stdout)["result"]["entries"] == 3
    assert command("ledger", "export", site.url, name, "--out", str(export)).exit_code == 2
    kept.write_text(json.dumps(receipt))
    head = site.ledger.service.head(name)["hash"]
    audited = command(
        "audit", "ledger", str(export), "--head", head, "--receipt", str(kept), "--json"
    )
    assert audited.exit_code == 0, audited.output
    result = json.loads(audited.stdout)["result"]
    assert result["claims"] == {"begun": 1, "claimed": 1}
    assert result["held_against"] == "a head and 1 receipt"
    export.write_bytes(export.read_bytes().replace(b'"begun":true', b'"begun":false'))
    failed = command("audit", "ledger", str(export))
    assert failed.exit_code == 1
    assert "entry 1" in failed.stdout
    # Another history than the one that was seen.
    source = json.loads(Path(state).read_text())
    source["heads"][name][-1]["hash"] = "00" * 32
    Path(state).write_text(json.dumps(source))
    site.ledger.claim()
    other = command("ledger", "witness", site.url, "--state", state)
    assert other.exit_code == 1
    assert "another history" in " ".join(other.stdout.split())
