"""`privplan audit budget`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from privplan.accountant.records import Block, Tuning
from privplan.audit.hazards import RULES
from privplan.fl.log import LogWriter
from privplan.fl.log.hash_chain import LOG

from ..audit.forged import earlier
from ..audit.ledgers import (
    Records,
    changed,
    grouped,
    intents,
    naive,
    opening,
    part,
    weighted,
    written,
)
from ..cases import for_each
from .conftest import Refused, Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The log of 50 rounds with noise 5, which promises what it proves."""
    return written(tmp_path / "run", weighted(50))


@pytest.mark.usefixtures("folder")
def test_a_clean_run(run: Run) -> None:
    outcome = run("audit", "budget", "run")
    assert outcome.code == 0
    assert outcome.err == ""
    lines = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    assert lines["ledger"] == "102 records, chain intact; 50 of 50 rounds, closed"
    assert lines["spent"].startswith("epsilon 6.57298 of 6.5729")
    assert lines["spent"].endswith("at delta 1e-05   [####################]")
    assert lines["hides"] == "adding or removing one user, from whoever sees the released models"
    assert lines["claimed"].endswith("the log supports it")


@pytest.mark.usefixtures("folder")
def test_json(run: Run) -> None:
    outcome = run("audit", "budget", "run", "--json")
    assert outcome.code == 0
    assert outcome.json["ok"] is True
    assert outcome.json["assumptions"]
    result = outcome.json["result"]
    assert result["epsilon"]["upper"] == pytest.approx(6.573, abs=1e-3)
    assert 6.57 < result["epsilon"]["lower"] <= result["epsilon"]["upper"]
    assert (result["delta"], result["unit"], result["neighbours"]) == (1e-5, "user", "add-remove")
    assert [row["observer"] for row in result["observers"]] == ["model", "server", "silo"]
    assert result["claimed"] == pytest.approx(6.573, abs=1e-3)
    assert result["hazards"] == []
    assert result["rounds"] == 50
    assert result["complete"] is True


@pytest.mark.usefixtures("folder")
def test_quiet_prints_the_number(run: Run) -> None:
    assert run("audit", "budget", "run", "-q").out == "6.57298\n"


@for_each(("limit", "code"), [("6.6", 0), ("6.5", 1), ("0", 1)])
@pytest.mark.usefixtures("folder")
def test_a_limit(run: Run, limit: str, code: int) -> None:
    outcome = run("audit", "budget", "run", "--limit", limit, "--json")
    assert outcome.code == code
    assert outcome.json["result"]["within_limit"] is (code == 0)
    text = run("audit", "budget", "run", "--limit", limit)
    assert text.code == code
    assert ("!!!!" in text.out) == (code == 1 and limit != "0")
    said = f"kept: epsilon is at most {limit}\n"
    if code == 1:
        said = f"EXCEEDED: epsilon 6.57298 is above the limit of {limit}\n"
    assert dict(line.split(maxsplit=1) for line in text.out.splitlines(True))["limit"] == said


@pytest.mark.usefixtures("folder")
def test_without_a_limit_none_is_spoken_of(run: Run) -> None:
    assert "limit" not in run("audit", "budget", "run").out


def test_no_guarantee_exceeds_any_limit(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "run", intents(noise=part(std=0.0, share_std=0.0))(weighted(5)))
    outcome = run("audit", "budget", "run", "--limit", "1e6")
    assert outcome.code == 1
    assert "EXCEEDED: there is no guarantee, and the limit is epsilon 1000000" in outcome.out


@pytest.mark.usefixtures("folder")
def test_groups(run: Run) -> None:
    outcome = run("audit", "budget", "run", "--group", "2", "--group", "3", "--json")
    sizes = {row["size"]: row["epsilon"]["upper"] for row in outcome.json["result"]["groups"]}
    assert set(sizes) == {2, 3}
    assert sizes[3] > sizes[2] > 6.6
    assert "group of 3" in run("audit", "budget", "run", "--group", "3").out


def test_a_claim_that_does_not_hold(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "run", naive(100))
    outcome = run("audit", "budget", "run")
    assert outcome.code == 1
    assert "epsilon 10.73: the log does NOT support it" in outcome.out
    assert "warning as-published" in outcome.out
    assert "hides           adding or removing one user" in outcome.out
    result = run("audit", "budget", "run", "--json").json["result"]
    assert result["supported"] is False
    assert result["claimed"] == 10.73
    assert result["epsilon"]["upper"] == pytest.approx(24.38, abs=0.01)


def test_nothing_is_hidden_where_nothing_is_proven(run: Run, tmp_path: Path) -> None:
    unproven = intents(noise=part(family="none", std=0.0, share_std=0.0))(weighted(5))
    written(tmp_path / "run", unproven)
    outcome = run("audit", "budget", "run")
    assert "no guarantee" in outcome.out
    assert "hides           nothing that is proven; asked was adding or removing" in outcome.out


HAZARDS = {
    "event-mismatch": lambda: intents(noise=part(std=0.4, share_std=0.4 / 5**0.5))(weighted(5)),
    "tuning-unaccounted": lambda: opening(tuning=Tuning(9, public_only=False))(weighted(5)),
    "unit-mismatch": lambda: grouped(size=1),
}


@for_each("name", list(HAZARDS))
def test_an_error_is_told_in_full(run: Run, tmp_path: Path, name: str) -> None:
    records: Records = HAZARDS[name]()
    written(tmp_path / "run", records)
    outcome = run("audit", "budget", "run")
    assert outcome.code == 1
    assert f"error {name}" in outcome.out
    assert "why: " in outcome.out
    assert "next: " in outcome.out
    as_json = run("audit", "budget", "run", "--json")
    assert as_json.code == 1
    hazards = {hazard["id"]: hazard for hazard in as_json.json["result"]["hazards"]}
    assert hazards[name]["severity"] == "error"
    assert set(hazards[name]) == {
        *("id", "severity", "what", "why", "next", "epsilon", "lines", "count"),
    }


def test_a_running_log_says_what_is_left(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "run", weighted(50)[:41])
    outcome = run("audit", "budget", "run", "--limit", "6.58")
    assert outcome.code == 0
    assert "20 of 50 rounds, not closed" in outcome.out
    assert "30 more rounds like the last one; round 51 would exceed it" in outcome.out
    assert "warning incomplete" in outcome.out
    over = run("audit", "budget", "run", "--limit", "3.85")
    assert "no further round like the last one" in over.out


def test_a_broken_chain_names_its_line(run: Run, folder: Path) -> None:
    text = (folder / LOG).read_text()
    (folder / LOG).write_text(text.replace('"round":3', '"round":4', 1))
    outcome = run("audit", "budget", "run")
    assert outcome.code == 1
    assert "then line 6 is bad" in outcome.out
    result = run("audit", "budget", "run", "--json")
    assert result.code == 1
    assert result.json["result"]["hazards"][0]["lines"] == [6]
    assert result.json["result"]["epsilon"]["upper"] == "inf"
    assert run("audit", "budget", "run", "-q").out == "inf\n"


@pytest.mark.usefixtures("folder")
def test_what_is_no_log_or_no_number(refused: Refused) -> None:
    refused("audit", "budget", "elsewhere")
    refused("audit", "budget", "run", "--limit", "-1")
    refused("audit", "budget", "run", "--group", "0")
    refused("audit", "budget", "run", "--limit", "many")


def test_a_sealed_verdict_says_how_much_was_tested(run: Run, tmp_path: Path) -> None:
    folder = str(earlier(tmp_path, "avg-sampled"))
    outcome = run("audit", "budget", folder, "--sealed")
    assert outcome.code == 0
    said = "tested 2 of 2 rounds: 16 values opened, 2 sample sizes against their rate"
    assert said in outcome.out
    assert "which items each round seals" in outcome.out
    shown = run("audit", "budget", folder, "--sealed", "--json").json["result"]
    assert shown["sealed"] == {"released": 2, "rounds": 2, "values": 16, "counts": 2}
    assert shown["not_stated"] == ["which items each round seals"]


def test_no_torch_is_loaded(folder: Path) -> None:
    program = (
        "import sys\n"
        "from privplan.cli.main import app\n"
        "try:\n"
        f"    app(['audit', 'budget', {str(folder)!r}, '--json'])\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0, end.code\n"
        "loaded = {'torch', 'sklearn', 'phe', 'gmpy2', 'cryptography', 'privplan.fl.models'}\n"
        "print(sorted(loaded & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"
    assert json.loads(done.stdout)["ok"] is True


def test_every_topic_that_a_hazard_names_exists(run: Run) -> None:
    texts = " ".join(f"{rule.why} {rule.next_step}" for rule in RULES.values())
    topics = set(re.findall(r"privplan explain ([a-z-]+)", texts))
    assert topics
    for topic in topics:
        assert run("explain", topic).code == 0, topic


def test_rounds_that_a_block_has_paid_for_are_said_to_be_so(run: Run, tmp_path: Path) -> None:
    of_a_block = intents(block=Block(1, 20, (1.0,), 20))(weighted(20))
    written(tmp_path / "run", of_a_block[:7])
    said = " ".join(run("audit", "budget", "run", "--limit", "1e-9").out.split())
    assert "no further round like the last" in said
    said = " ".join(run("audit", "budget", "run", "--limit", "100").out.split())
    assert "(17 are planned; 17 paid for; if the run was cut off, nothing resumes it)" in said
    written(tmp_path / "two", intents(block=Block(1, 10, (1.0,), 10))(weighted(20))[:7])
    said = " ".join(run("audit", "budget", "two", "--limit", "100").out.split())
    assert "(17 are planned; 7 paid for, unless the run was cut off)" in said


def test_moments_that_were_not_released_are_said_to_be_lost(run: Run, tmp_path: Path) -> None:
    records = weighted(5)[:2]
    records[1] = replace(records[1], phase="normalise", round=0)
    written(tmp_path / "run", records)
    outcome = run("audit", "budget", "run", "--limit", "1000")
    said = " ".join(outcome.out.split())
    assert "are planned; if the run was cut off, nothing resumes it)" in said
    assert "normalised by were announced and not released" in said


# --- the sealed sidecar -------------------------------------------------------------------------


def sealed_run(folder: Path, counts: list[int]) -> None:
    """Write a sampled run (rate .3 of 50 users) that sealed how many joined each round."""
    records = weighted(len(counts), rate=0.3)
    with LogWriter.create(folder, fsync="never") as writer:
        writer.append(records[0])
        for index, joined in enumerate(counts):
            seq = writer.append(records[1 + 2 * index])
            sealed = writer.seal({"joined": joined, "norm_largest": 0.25})
            (release,) = changed([records[2 + 2 * index]], type(records[2]), sealed=sealed)
            (release,) = changed([release], type(release), intent=seq)
            writer.append(release)
        writer.append(records[-1])


HONEST = [14, 16, 11, 18, 15, 13, 19, 15, 12, 17, 14, 16, 10, 15, 20, 13, 15, 17, 14, 16]


@for_each(
    ("counts", "fires"),
    [(HONEST, False), ([15] * 20, True), ([30] * 20, True), ([25, 5] * 10, True), ([51], True)],
)
def test_sealed_counts_are_held_against_the_rate(
    run: Run, tmp_path: Path, counts: list[int], fires: bool
) -> None:
    sealed_run(tmp_path / "run", counts)
    before = (tmp_path / "run" / LOG).read_bytes()
    assert run("audit", "budget", "run").code == 0
    outcome = run("audit", "budget", "run", "--sealed")
    assert outcome.code == (1 if fires else 0)
    assert ("error rate-against-counts" in outcome.out) == fires
    assert "keep this report" in outcome.err
    assert (tmp_path / "run" / LOG).read_bytes() == before


@pytest.mark.quick(2)
@for_each(
    ("counts", "chosen_by", "fires"),
    [
        ([100, 0, 40, 17, 99], "each-silo", False),
        ([101, 0, 40, 17, 99], "each-silo", True),
        ([100, 40], "each-silo", True),
        ([-1, 0, 40, 17, 99], "each-silo", True),
        ([101, 0, 40, 17, 99], None, False),
    ],
)
def test_sealed_flags_are_held_against_their_caps(
    run: Run, tmp_path: Path, counts: list[int], chosen_by: str | None, fires: bool
) -> None:
    """8 records of each of 50 users over 5 silos: at most 2 of each user in one silo."""
    records = grouped(1, chosen_by=chosen_by)
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(records[0])
        seq = writer.append(records[1])
        sealed = writer.seal({"taking_part": counts})
        (release,) = changed([records[2]], type(records[2]), sealed=sealed, intent=seq)
        writer.append(release)
        writer.append(records[3])
    assert run("audit", "budget", "run").code == 0
    outcome = run("audit", "budget", "run", "--sealed")
    assert outcome.code == (1 if fires else 0)
    assert ("error flags-against-caps" in outcome.out) == fires


def test_a_sidecar_that_is_not_there(refused: Refused, folder: Path) -> None:
    assert folder.is_dir()
    refused("audit", "budget", "run", "--sealed")
