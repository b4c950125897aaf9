"""Runs of FedPower as a newcomer meets them: what refusals say, and what the last lines say."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from privplan.cli.main import app

CONFIG = """\
[run]
system = "{system}"
[data]
{data}
silos = 3
[privacy]
unit = "{unit}"
epsilon = 1.0
[security]
aggregation = "{aggregation}"
[fedpower]
{table}
{more}
"""
RATINGS = 'name = "ratings"\npath = "ratings.csv"\nusers = {}\ncolumns = "films.csv"'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{user},{film},{1 + (user + film) % 5}" for user in range(9) for film in range(4)]
    Path("ratings.csv").write_text("userId,movieId,rating\n" + "\n".join(lines) + "\n")
    Path("films.csv").write_text("0\n1\n2\n3\n")


def outcome(
    *,
    system: str = "fedpower",
    data: str = 'name = "breast-cancer"',
    unit: str = "record",
    aggregation: str = "masked",
    table: str = "rank = 2\nrow_norm = 4.0",
    more: str = "",
) -> tuple[int, str]:
    """Return the exit code and all that was printed, in one line."""
    text = CONFIG.format(
        system=system, data=data, unit=unit, aggregation=aggregation, table=table, more=more
    )
    Path("run.toml").write_text(text)
    result = CliRunner().invoke(app, ["run", "run.toml", "--out", "out"])
    return result.exit_code, " ".join((result.stdout + result.stderr).split())


def refusal(**given: str) -> str:
    code, said = outcome(**given)
    assert code == 2, said
    assert not Path("out").exists()
    assert "next:" in said
    return said


def test_public_ratings_are_measured_on_all_rows() -> None:
    code, said = outcome(
        data=RATINGS.format(9), more='[evaluation]\ntest = "public"\nsource = "Example Films"'
    )
    assert code == 0, said
    assert "on 9 records that are declared public: Example Films" in said


def test_another_number_of_users_is_named_and_the_right_one_is_not() -> None:
    said = refusal(data=RATINGS.format(8))
    assert "`users` is 8, and the file has another number of users." in said
    assert "9" not in said


def test_an_aggregation_of_others_comes_after_its_own() -> None:
    said = refusal(system="fedpower-original")
    assert 'next: Write aggregation = "plain"; or choose another system: delm-linear, ' in said
    assert "uldp-avg or uldp-sgd." in said


def test_every_unit_that_is_promised_is_named() -> None:
    said = refusal(unit="user")
    assert "to be record, silo or entry; it is" in said
    assert "promises privacy for one record, all records of a silo together or one entry" in said


def test_a_missing_key_is_asked_for_in_its_table() -> None:
    said = refusal(table="rank = 2")
    assert "lacks `row_norm` in [fedpower]" in said
    assert "Write `row_norm` under [fedpower]" in said


@pytest.mark.parametrize(
    "words", ["model.npz", "selection_source", "[run] rounds is then the most", "Under zero-out"]
)
def test_the_page_answers_what_a_newcomer_asks(words: str) -> None:
    result = CliRunner().invoke(app, ["explain", "fedpower"])
    assert words in " ".join(result.stdout.split())
