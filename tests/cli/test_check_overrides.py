"""What an option says stands before a file, and whatever is printed names what it overrode."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..cases import for_each
from .conftest import Run

FILE = """
[claim]
epsilon = 1.13
delta = 1e-5
neighbours = "add-remove"
[noise]
noise_multiplier = 1.1
[data]
records = 60000
[sampling]
batch = 256
method = "poisson"
[schedule]
steps = 3516
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    return path


@for_each(
    "words",
    [
        ["--claimed", "1.2"],
        ["--set", "claim.epsilon=1.2"],
        ["--delta", "1e-3"],
        ["--set", "noise.noise_multiplier=1.3"],
    ],
)
def test_an_option_stands_before_the_file(words: list[str], file: Path, run: Run) -> None:
    for layout in ([], ["--brief"]):
        outcome = run("check", str(file), *words, *layout)
        assert outcome.code == 0, outcome.out
        assert "is overridden" in " ".join(outcome.out.split())


def test_a_table_names_what_was_overridden(file: Path, run: Run) -> None:
    other = file.with_name("other.toml")
    other.write_text(FILE.replace("1.13", "1.5"))
    outcome = run("check", str(file), str(other), "--set", "data.records=70000")
    assert "`data.records` = 60,000" in " ".join(outcome.out.split())
    assert "2 runs" in outcome.out
