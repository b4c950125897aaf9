"""`privplan examples` and `--statement`: files to begin with, and a paragraph to paste."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Refused, Run

EXAMPLES = Path(__file__).parents[2] / "examples"
FACTS = {"noise_multiplier": "1.1", "rate": ".01", "steps": "100", "delta": "1e-5"}
SHUFFLED = {**FACTS, "method": "shuffled"}
POISSON = {**FACTS, "method": "poisson"}


def check_of(facts: dict[str, str], *more: str) -> tuple[str, ...]:
    said = [part for key, value in facts.items() for part in ("--set", f"{key}={value}")]
    return ("check", *said, *more)


def test_examples_are_written_once(run: Run, refused: Refused) -> None:
    outcome = run("examples", "mine")
    assert outcome.code == 0
    written = {path.relative_to("mine") for path in Path("mine").rglob("*") if path.is_file()}
    there = {path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*") if path.is_file()}
    assert written == {path for path in there if "__pycache__" not in path.parts}
    runs = run("examples", "others", "--json").json["result"]["configurations"]
    assert {"breast-cancer.toml", "hospitals/run.toml"} <= set(runs)
    assert not {"hospitals/schema.toml", "flower/pyproject.toml"} & set(runs)
    assert "breast-cancer.toml" in outcome.out
    assert "mine is there already" in refused("examples", "mine")


def test_a_statement_has_the_proven_number_and_not_the_claimed_one(run: Run) -> None:
    said = run(*check_of(POISSON, "--claimed", "9", "--statement"))
    assert said.code == 0
    text = " ".join(said.out.split())
    proven = run(*check_of(POISSON, "--claimed", "9", "--json")).json["result"]["proven"]
    assert f"epsilon {proven['upper']:.4g} at delta 1e-05, for adding or removing" in text
    assert (
        "Gaussian noise with multiplier 1.1 added to sums of Poisson samples at rate 0.01" in text
    )
    assert "One record is protected." in text
    assert " 9 " not in text


def test_a_claim_that_is_false_is_not_stated(run: Run) -> None:
    said = run(*check_of(SHUFFLED, "--claimed", ".2", "--statement"))
    assert said.code == 1
    assert "a loader that shuffles" in said.out
    assert "0.2 " not in said.out


@pytest.mark.parametrize("facts", [FACTS, {**POISSON, "clip_source": "data"}])
def test_nothing_is_stated_where_nothing_is_proven(run: Run, facts: dict[str, str]) -> None:
    outcome = run(*check_of(facts, "--statement"))
    assert outcome.code == 3
    assert "There is no guarantee to state." in outcome.err


def test_a_statement_is_about_one_run(run: Run, refused: Refused) -> None:
    run("examples", "mine")
    for name in ("a", "b"):
        Path(f"{name}.toml").write_text("[claim]\nepsilon = 1.0\ndelta = 1e-5\n")
    assert "is about one run" in refused("check", "a.toml", "b.toml", "--statement")
