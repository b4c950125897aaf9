"""`privplan audit budget --ledger`: the verdict on a run's log, told to the ledger that paid."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privplan as pp
from privplan.accountant.event_tree import with_less_noise
from privplan.cli.main import app
from privplan.fl.ledger_client.connection import LedgerRefused
from privplan.fl.ledger_client.ledger import Ledger as Client
from privplan.fl.ledger_client.ledger import LedgerClaim
from privplan.fl.running import run_claim

from .forging import each, forged
from .ledger_services import ANA, Ledger
from .ledger_site import Site, open_site


@pytest.fixture
def site(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("ledger")) as opened:
        monkeypatch.setenv("PRIVPLAN_LEDGER_TOKEN", opened.tokens["ana"])
        yield opened


def told(site: Site, folder: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    """Return the exit code, what the ledger was told, and the text, of an auditor's command."""
    words = ["audit", "budget", str(folder), "--ledger", site.url, *more]
    outcome = CliRunner(env={"PRIVPLAN_LEDGER_TOKEN": site.tokens["aud"]}).invoke(
        app, [*words, "--json"]
    )
    assert site.tokens["aud"] not in outcome.output
    answer = json.loads(outcome.stdout)
    return outcome.exit_code, (answer["result"] or {}).get("ledger", {}), outcome.output


def claim_in(folder: Path) -> str:
    return str(json.loads((folder / "ledger.json").read_text())["claim"])


def test_an_honest_run_is_told_to_hold_and_costs_nothing_more(site: Site, tmp_path: Path) -> None:
    pp.run(site.ward, tmp_path / "run")
    before, claim = site.ledger.balances(), claim_in(tmp_path / "run")
    for _ in range(2):  # the same once more, as after an answer that was lost
        code, said, _ = told(site, tmp_path / "run")
        assert code == 0
        assert said == {
            "claim": claim,
            "verdict": "holds",
            "charged": False,
            "frozen": False,
            "why": None,
        }
    assert site.ledger.service.claim_now(claim, ANA)["state"] == "audited"
    assert site.ledger.balances() == before
    audited = site.ledger.audited()
    assert (audited.problem, audited.claims) == (None, {"audited": 1})
    assert [json.loads(line)["type"] for line in site.ledger.lines()].count("claim.audit") == 1


def test_what_a_run_lost_above_its_claim_is_charged(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_claim.claimed_event
    monkeypatch.setattr(
        run_claim, "claimed_event", lambda prepared: with_less_noise(whole(prepared), 1 / 1.1)
    )
    outcome = pp.run(site.ward, tmp_path / "run")
    code, said, _ = told(site, tmp_path / "run")
    assert code == 1
    assert (said["verdict"], said["charged"], said["frozen"]) == ("above", True, False)
    paid = site.ledger.balances()["a"]
    exact = Ledger(site.ledger.service)
    exact.claim(whole(outcome.prepared))
    # What an honest claim costs, but for the decimal numbers of the log.
    for units, honest in zip(paid, exact.balances()["a"], strict=True):
        assert honest * (1 - 3e-9) <= units <= honest
    assert site.ledger.audited().problem is None


@pytest.fixture
def unreleased(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run whose claim is begun, and not released."""
    with monkeypatch.context() as patch:
        patch.setattr(LedgerClaim, "release", lambda *_: None)
        pp.run(site.ward, tmp_path / "run")
    return tmp_path / "run"


def release(site: Site, claim: str, folder: Path) -> None:
    lines = (folder / "log.jsonl").read_text().splitlines()
    site.ledger.step("release", claim, json.loads(lines[-1])["hash"])


def test_a_log_that_supports_nothing_freezes_and_ends_certification(
    site: Site, unreleased: Path, tmp_path: Path
) -> None:
    def uncounted(line: dict[str, Any]) -> None:
        line["weights"]["largest_sum"] = "3.0"

    claim = claim_in(unreleased)
    bad = forged(unreleased, tmp_path / "bad", each("round.intent", uncounted))
    release(site, claim, bad)
    code, said, _ = told(site, bad)
    assert code == 1
    assert (said["verdict"], said["charged"], said["frozen"]) == ("above", False, True)
    assert "nobody says how much" in site.ledger.shown()["frozen"]
    site.ledger.owner("thaw", "it was a mistake of the log")
    shown = site.ledger.shown()
    assert not shown["certified"]
    assert "NOT CERTIFIED" in shown["notes"][0]
    audited = site.ledger.audited()
    assert audited.problem is None
    assert not audited.certified
    assert any("nobody says how much" in warning for warning in audited.warnings)


def test_of_another_log_nothing_is_told(site: Site, unreleased: Path, tmp_path: Path) -> None:
    claim, other = claim_in(unreleased), tmp_path / "other"
    code, _, says = told(site, unreleased)
    assert code == 2
    assert "no log closed it" in says
    release(site, claim, unreleased)
    pp.run({name: part for name, part in site.ward.items() if name != "ledger"}, other)
    code, _, says = told(site, other)
    assert code == 2
    assert "which claim" in says
    code, said, _ = told(site, other, "--claim", claim)
    assert code == 1
    assert said["verdict"] is None
    assert "not the log" in said["why"]
    shutil.copy(unreleased / "ledger.json", other)
    assert told(site, other)[0] == 1
    assert site.ledger.audited().claims == {"released": 1}
    assert told(site, unreleased)[0] == 0


@pytest.mark.parametrize("more", [["--sealed"], ["--head", "ab" * 32]])
def test_what_is_not_to_be_published_is_not_told(
    more: list[str], site: Site, tmp_path: Path
) -> None:
    assert told(site, tmp_path, *more)[0] == 2
    assert CliRunner().invoke(app, ["audit", "budget", ".", "--claim", "x"]).exit_code == 2


def test_an_analyst_tells_no_verdict(site: Site, unreleased: Path) -> None:
    release(site, claim_in(unreleased), unreleased)
    claim = Client(site.url).connection.get(f"/v1/claims/{claim_in(unreleased)}")
    with pytest.raises(LedgerRefused, match="403"):
        LedgerClaim(Client(site.url).connection, claim).audit("holds")
