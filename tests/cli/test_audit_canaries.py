"""`privplan audit canaries`: drawn from a table, opened once, and what a false claim exits with."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from privplan.accountant import events as ev

from ..audit.test_canary_draw import WHO, schema_file, text_file
from .conftest import Refused, Run


def make(run: Run, folder: Path, *more: str) -> str:
    """Draw canaries from a table of generated people, and return the head of the manifest."""
    table = str(text_file(folder))
    said = ("--public", WHO, "--label", "outcome", "-n", "100", "-o", "c", *more)
    return run("audit", "canaries", "make", table, *said, "--quiet").out.strip()


def scored(path: str = "s.csv", *, sure: bool = True, column: str = "score") -> None:
    """Write scores by which all guesses are right, from the file that tells the coins."""
    with Path("c/insert.csv").open(newline="") as file:
        inside = {tuple(row) for row in csv.reader(file)}
    with Path("c/score.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    way = -1.0 if column == "loss" else 1.0
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["canary", column])
        for index, row in enumerate(rows):
            in_training = tuple(row[1:]) in inside if sure else False
            writer.writerow([row[0], way * (index + 1000.0 * in_training)])


def test_drawn_trained_and_scored(run: Run, tmp_path: Path) -> None:
    head = make(run, tmp_path)
    scored()
    command = ("audit", "canaries", "score", "c", "--scores", "s.csv", "--delta", "1e-5")
    outcome = run(*command, "--claim", "0.5", "--head", head, "--json")
    assert outcome.code == 1
    result = outcome.json["result"]
    assert (result["correct"], result["guesses"], result["contradicted"]) == (20, 20, True)
    assert result["epsilon"]["lower"] > 1.5
    assert result["checked"] == "chain and head"
    again = run(*command)
    assert again.code == 2
    assert "opened before" in again.err
    assert again.out == ""


def test_losses_are_turned_and_a_claim_that_holds_exits_with_0(run: Run, tmp_path: Path) -> None:
    make(run, tmp_path)
    scored(column="loss")
    command = ("audit", "canaries", "score", "c", "--scores", "s.csv", "--delta", "1e-5")
    outcome = run(*command, "--claimed", "8")
    assert outcome.code == 0
    assert "20 of 20 guesses about 100 coins were right" in outcome.out
    assert "epsilon 8: not contradicted" in outcome.out
    assert "A low value is not proof of privacy" in outcome.out
    assert "Canary gradients" in outcome.out
    assert "can be opened again" in " ".join(outcome.out.split())


def test_a_mechanism_may_be_named(run: Run, tmp_path: Path) -> None:
    make(run, tmp_path)
    scored()
    event = ev.Gaussian(8.0)
    Path("e.json").write_text(json.dumps(event.to_json()))
    command = ("audit", "canaries", "score", "c", "--scores", "s.csv", "--delta", "1e-5")
    outcome = run(*command, "--event", "e.json")
    assert outcome.code == 1
    assert "of the named mechanism's curve" in outcome.out
    assert "CONTRADICTED" in outcome.out


def test_what_is_printed_when_they_are_drawn(run: Run, tmp_path: Path) -> None:
    table, schema = str(text_file(tmp_path)), str(schema_file(tmp_path))
    command = ("audit", "canaries", "make", table, "-n", "60", "--label", "outcome")
    outcome = run(*command, "--schema", schema, "--kind", "users", "-o", "u", "--user", "patient")
    assert outcome.code == 0
    for words in ("users, a coin for each user", "insert.csv", "head", "batch / records"):
        assert words in outcome.out
    wrong = run(*command, "--public", WHO, "--kind", "wrong-label", "-o", "w", "--json").json
    assert wrong["result"]["removed"] == 60
    assert wrong["result"]["files"]["remove"] == "remove.csv"
    assert any("originals of all 60" in each for each in wrong["result"]["effects"])


def test_private_records_make_no_canaries(refused: Refused, tmp_path: Path) -> None:
    table = str(text_file(tmp_path))
    said = refused("audit", "canaries", "make", table, "--label", "outcome", "-o", "c")
    assert "canary made from private records" in said
    words = ("audit", "canaries", "make", table, "-o", "c", "--public", WHO)
    assert "Did you mean --kind wrong-label?" in refused(*words, "--kind", "wrong-labels")
    assert not Path("c").exists()
    Path("s.csv").write_text("canary,score\na,1\n")
    judged = ("audit", "canaries", "score", "c", "--scores", "s.csv", "--delta", "1e-5")
    assert "c/manifest.jsonl cannot be read" in refused(*judged)
