"""Membership inference in a run on a table: its rows are read where a person says they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput, MissingExtra, PrivplanError, Unsupported
from privplan.audit.attack import AttackReport, AttackRequest, attack
from privplan.audit.attack.tiers import TierFunctions
from privplan.audit.attack_methods.membership import membership_tier
from privplan.audit.measurement import Measurement
from privplan.audit.results import measurements_in, results_in
from privplan.audit.shadows import SerialExecutor
from privplan.audit.verify import verify
from privplan.fl.log.hash_chain import LOG, SEALED

from ..cases import for_each
from ..fl.tables.hospitals import MARKER, SCHEMA, configuration, listed, write
from ..fl.tables.test_frames import handed_over, table
from .attacked import MEMBERSHIP

FEW = replace(
    TierFunctions.default(),
    membership=partial(membership_tier, models=12, targets=4, executor=SerialExecutor()),
)
"""The tiers as they are, with fewer models."""

NOISE = {"privacy": {"noise_multiplier": 0.3}}

TESTS = "age,sex,stage,smoker,outcome\n40.25,f,I,n,no\n90.75,m,III,y,yes\n33.125,m,II,y,no\n"


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, lambda lines: [*lines, f"{MARKER},40,f,I,y,{MARKER},yes"])
    (tmp_path / "test.csv").write_text(TESTS)


def attacked(data: Any, **asked: Any) -> AttackReport:
    said = replace(MEMBERSHIP, data=data, seed=1, **asked)
    return attack("out", said, tier_functions=FEW)


def areas(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [one for one in measurements if one.quantity == "AUC"]


CASES: tuple[dict[str, dict[str, Any]], ...] = (
    configuration(**NOISE),
    configuration(**NOISE, evaluation={"test": "test.csv", "source": "made for a test"}),
    configuration(**NOISE, evaluation={"test": "held-out", "held_out_noise": 5.0}),
    configuration(**NOISE, security={"aggregation": "masked"}, training={"weighting": "records"}),
    configuration("fedavg"),
    configuration("disco", privacy={"unit": "silo", "noise_multiplier": 2.0}),
    listed(configuration(**NOISE)),
)


@for_each("tables", CASES)
def test_the_rows_of_the_files_are_attacked_and_what_is_found_is_sealed(
    tables: dict[str, dict[str, Any]],
) -> None:
    shutil.rmtree("out", ignore_errors=True)
    pp.run(tables, "out")
    found = attacked(Path("out/config.toml"))
    compared = "evaluation" in tables  # records for tests, or users who were held out
    assert len(areas(found.measurements)) == (4 if compared else 2)
    for one in areas(found.measurements):
        assert 0.0 <= one.value <= 1.0
        assert (one.sample["population"] > 0) == compared
    assert found.sealed_tiers == ("membership",)
    assert measurements_in(Path("out")) == ()
    assert not any("could not be checked" in one for one in found.warnings)
    told = json.dumps(found.to_json(), default=str)
    assert MARKER not in told
    for name in (LOG, SEALED, "sealed-report.json"):
        assert MARKER not in Path("out", name).read_text()


def test_a_model_that_knows_its_rows_by_heart_gives_them_away() -> None:
    # Each patient has labels of its own by chance, and a wide model learns them without noise.
    tables = configuration(
        "fedavg",
        run={"rounds": 3},
        training={"model": "mlp-64", "local_epochs": 40, "local_rate": 0.5, "batch": 8},
    )
    pp.run(tables, "out")
    found = attacked(Path("out"))
    assert max(one.value for one in areas(found.measurements)) > 0.75


def test_a_frame_is_attacked_as_the_files_are() -> None:
    program = handed_over(**NOISE, run={"seed": 5})
    pp.run(program, "out", data=table())
    of_frame = attacked(table())
    assert of_frame.sealed_tiers == ("membership",)
    assert any("program gave" in one for one in of_frame.warnings)
    assert areas(of_frame.measurements)


REFUSED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (None, ("`data` is missing", "config.toml")),
    (Path("test.csv"), ("test.csv",)),
    (Path("none.toml"), ("none.toml",)),
    (table(), ("from files", "config.toml")),
    ("out", ("the run is on a table", "configuration")),
)


@for_each("case", REFUSED)
def test_what_does_not_say_where_the_rows_are_is_refused_before_any_work(
    case: tuple[Any, tuple[str, ...]],
) -> None:
    if not Path("out").exists():
        pp.run(configuration(**NOISE), "out")
    data, words = case
    before = Path("out", LOG).read_bytes()
    with pytest.raises(PrivplanError) as caught:
        attack("out", AttackRequest(tiers=("claim", "membership"), data=data), tier_functions=FEW)
    for word in words:
        assert word in str(caught.value)
    assert Path("out", LOG).read_bytes() == before


def test_rows_of_a_program_are_in_no_file_and_one_sentence_says_what_to_do() -> None:
    pp.run(handed_over(**NOISE), "out", data=table())
    for data in (None, Path("out"), Path("out/config.toml")):
        with pytest.raises(InvalidInput) as caught:
            attacked(data)
        assert "in no file" in caught.value.what
        assert "AttackRequest" in caught.value.next_step
    other = table(schema={**SCHEMA, "format": {"id_case": "lower"}})
    with pytest.raises(InvalidInput, match="otherwise than"):
        attacked(other)


def few_people(count: int) -> Callable[[list[str]], list[str]]:
    """Return what gives the rows of a file to so many people."""

    def edited(lines: list[str]) -> list[str]:
        rows = [line.split(",", 1)[1] for line in lines[: 40 if count else 0]]
        return [f"p{number % count},{row}" for number, row in enumerate(rows)]

    return edited


def public_lines() -> list[list[str]]:
    """Return the kind of each line of the log, and the names of all that it holds."""
    lines = [json.loads(line) for line in Path("out", LOG).read_text().splitlines()]
    return [[line["type"], *sorted(line), *sorted(line.get("result", ()))] for line in lines]


@for_each("count", [0, 1, 2, 20])
def test_a_log_says_the_same_of_the_attack_however_many_people_there_are(count: int) -> None:
    shutil.rmtree("out", ignore_errors=True)
    write(Path(), few_people(count))
    pp.run(configuration(**NOISE), "out")
    before = public_lines()
    if count < 2:
        with pytest.raises(InvalidInput, match=r"(?s)too few.*line \d+ is a commitment"):
            attacked(Path("out"))
    else:
        attacked(Path("out"))
    assert public_lines()[: len(before)] == before
    (added,) = public_lines()[len(before) :]
    assert added[0] == "audit.result"
    assert added[-1] == "sealed"
    (result,) = results_in(Path("out"))
    assert (result.tier, result.measurement, result.problem) == ("membership", None, "")
    assert verify(Path("out")).complete


def breaking(error: Exception) -> TierFunctions:
    def membership(*_: object, **__: object) -> NoReturn:
        raise error

    return replace(TierFunctions.default(), membership=membership)


@for_each("error", [ValueError("of a record"), InvalidInput("A replica diverged.")])
@for_each("append", [True, False])
def test_an_attack_that_fails_at_the_records_has_its_line(error: Exception, append: bool) -> None:
    shutil.rmtree("out", ignore_errors=True)
    pp.run(configuration(**NOISE), "out")
    request = replace(MEMBERSHIP, data=Path("out"))
    with pytest.raises(type(error), match=str(error)):
        attack("out", request, append=append, tier_functions=breaking(error))
    assert len(results_in(Path("out"))) == append


@for_each("error", [Unsupported("No likelihood."), MissingExtra("No package.")])
def test_what_follows_from_the_settings_adds_no_line(error: Exception) -> None:
    shutil.rmtree("out", ignore_errors=True)
    pp.run(configuration(**NOISE), "out")
    with pytest.raises(type(error)):
        attack("out", replace(MEMBERSHIP, data=Path("out")), tier_functions=breaking(error))
    assert not results_in(Path("out"))


def test_other_rows_than_those_of_the_run_are_refused(tmp_path: Path) -> None:
    pp.run(configuration(**NOISE), "out")
    write(tmp_path)
    with pytest.raises(InvalidInput, match="not those that the run was made on"):
        attacked(Path("out"))


def test_another_configuration_is_refused_by_the_keys_that_differ(tmp_path: Path) -> None:
    pp.run(configuration(**NOISE), "out")
    text = (tmp_path / "out" / "config.toml").read_text()
    (tmp_path / "other.toml").write_text(text.replace("rounds = 2", "rounds = 3"))
    with pytest.raises(InvalidInput, match=r"\[run\] rounds"):
        attacked(Path("other.toml"))
    narrow = {**SCHEMA["columns"], "age": {"kind": "number", "range": [0, 90]}}
    pp.run(configuration(**NOISE, data={"columns": narrow}), "narrow")
    with pytest.raises(InvalidInput, match="schema"):
        attacked(Path("narrow/config.toml"))


def test_a_table_is_no_place_of_the_records_of_a_paper() -> None:
    tables = {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {"name": "breast-cancer"},
        "privacy": {"noise_multiplier": 2.0},
    }
    pp.run(tables, "out")
    with pytest.raises(InvalidInput, match=r"comes with|is a table"):
        attacked(table())
