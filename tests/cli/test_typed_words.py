"""Numbers, options and commands as people type them, and what is said of a word that is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.cli.inputs.options import missing_delta
from privplan.cli.terminal.typed_words import digits_of

from ..cases import for_each
from .conftest import Refused, Run

TRAINED = ("--batch", "256", "--epochs", "15", "--delta", "1e-5")


@for_each(
    "text, whole, read",
    [
        ("60,000", True, "60000"),
        ("1,234,567", True, "1234567"),
        ("60_000", True, "60_000"),
        ("6e4", True, "60000"),
        ("2.56E2", True, "256"),
        (" 7 ", True, "7"),
        ("1e-5", False, "1e-5"),
        ("inf", False, "inf"),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, whole: bool, read: str) -> None:
    assert digits_of(text, "--n", whole=whole) == read


@for_each(
    "text, whole, says",
    [
        ("1,28", False, "1.28"),
        ("1,000", False, "--n 1.000 or --n 1000"),
        ("1,28", True, "a whole number"),
        ("60,00", True, "a whole number"),
        ("2.5e0", True, "a whole number"),
        ("1e400", True, "a whole number"),
        ("sixty", True, "a whole number"),
        ("0x10", True, "a whole number"),
        ("", False, "a number"),
        ("1.2.3", False, "a number"),
    ],
)
def test_what_may_be_another_number_is_refused_with_what_was_given(
    text: str, whole: bool, says: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        digits_of(text, "--n", whole=whole)
    assert repr(text) in refusal.value.what
    assert says in refusal.value.next_step


def test_an_answer_is_the_same_however_its_numbers_are_written(run: Run) -> None:
    plain = run("calibrate", "--epsilon", "2", "--records", "60000", *TRAINED, "-q").out
    assert run("Calibrate", "--epsilon", "2.", "--records", "60,000", *TRAINED, "-q").out == plain
    upper = ("--mechanism", "Gaussian", "--neighbours", "ADD-REMOVE")
    assert run("calibrate", "--epsilon", "2", "--records", "6e4", *TRAINED, *upper, "-q").out == (
        plain
    )


def test_a_word_that_is_no_command_leads_to_what_was_meant(refused: Refused) -> None:
    assert "Did you mean privplan audit budget?" in refused("audit", "budgt")
    assert "Did you mean privplan calibrate?" in refused("calibrat")
    Path("ward").mkdir()
    Path("run.toml").touch()
    assert "Did you mean privplan audit budget ward?" in refused("audit", "ward")
    assert "Did you mean privplan audit budget ward?" in refused("ward")
    assert "Did you mean privplan check run.toml?" in refused("run.toml")
    assert "It has account, audit" in refused("nothing-like-it")


def test_an_option_is_suggested_by_how_it_begins(refused: Refused) -> None:
    assert "Did you mean --noise-multiplier?" in refused("account", "--noise", "3")
    assert "Did you mean --epsilon?" in refused("calibrate", "--epsilom", "3")
    assert "privplan calibrate --help" in refused("calibrate", "--noise", "3")


def test_a_missing_delta_is_suggested_by_the_number_of_units(refused: Refused) -> None:
    counted = refused("calibrate", "--epsilon", "2", "--records", "60,000", *TRAINED[:4])
    assert "--delta 1e-06" in counted
    assert "1e-0" not in refused("calibrate", "--epsilon", "2", "--rate", ".1", "--rounds", "3")
    assert "--delta 1e-03" in missing_delta(100).next_step


def test_a_terminal_shows_the_verdict_in_colour_unless_told_otherwise(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = ("noise_multiplier=1.1", "rate=.01", "steps=100", "delta=1e-5", "method=poisson")
    asked = ("check", *(part for fact in facts for part in ("--set", fact)), "--claimed")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(*asked, "9").out.startswith("\x1b[32m\x1b[1mverdict")
    assert run(*asked, ".1").out.startswith("\x1b[31m\x1b[1mverdict")
    assert "\x1b" not in run(*asked, "9", "--json").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(*asked, "9").out


def test_python_runs_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "privplan", "-h"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "calibrate" in done.stdout
    assert "--show-completion" in done.stdout


@for_each(
    ("content", "says"),
    [
        ("run:\n  system: disco\ndata:\n  name: digits\n", "is YAML, and not TOML"),
        ("---\n# a run\nrun:\n  - one\n", "is YAML, and not TOML"),
        ('{"run": {"system": "disco"}}', "is JSON, and not TOML"),
        ("[run]\nsystem = disco\n", "is not TOML"),
        ("[run\n", "is not TOML"),
    ],
)
def test_another_format_is_recognised_as_such(refused: Refused, content: str, says: str) -> None:
    Path("run.cfg").write_text(content)
    assert says in refused("run", "run.cfg", "--dry-run")
