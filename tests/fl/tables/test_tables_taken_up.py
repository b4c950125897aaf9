"""Runs on a table that are cut off and taken up, and runs that canaries attack, by system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.accountant.records import RoundIntent, RoundRelease
from privplan.audit.attack.log_attack import attack
from privplan.audit.attack.report import AttackRequest
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter

from ...cases import for_each
from ..small_runs import of
from .hospitals import configuration, write
from .test_table_runs import turned

ONE_RELEASE: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("delm-linear", {"run": {"rounds": 1}, "delm": {"row_norm": 2.0}}),
    (
        "delm-basic",
        {"run": {"rounds": 2}, "delm": {"row_norm": 2.0, "pca": "none", "objective": "once"}},
    ),
)
"""Systems of one release, which a run that is killed beside it has on disk."""

ROUNDS: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("delm-basic", {"delm": {"row_norm": 2.0, "pca": "gaussian", "sensitivity": "proven"}}),
    ("delm-enhanced", {"delm": {"row_norm": 2.0, "pca": "none", "sensitivity": "proven"}}),
    ("flame-simple", {"flame": {"transport": "ideal"}}),
    ("flame-double", {"flame": {"chosen": 4, "padded_to": 22}}),
    ("flame-topk", {"flame": {"transport": "ideal", "chosen": 2, "decoys": 3}}),
    ("uldp-avg", {"security": {"aggregation": "private-weighting", "key_bits": 2048}}),
    ("fedpower-original", {"fedpower": {"rank": 2, "row_norm": 2.0, "divisor": 60}}),
    ("fedpower-utility", {"fedpower": {"rank": 2, "row_norm": 2.0, "divisor": 60}}),
    ("fedpower-private", {"fedpower": {"rank": 2, "row_norm": 2.0, "divisor": 60}}),
)
"""Systems of rounds, each with noise of its own."""


class Killed(BaseException):
    """What cuts a run off."""


def cut_off(tables: dict[str, Any], kind: type[Any], number: int) -> None:
    """Begin a run in the folder `out`, and cut it off behind a record of this kind."""
    append, seen = LogWriter.append, 0

    def failing(writer: LogWriter, record: Any) -> int:
        nonlocal seen
        line = append(writer, record)
        seen += isinstance(record, kind)
        if seen == number:
            raise Killed
        return line

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogWriter, "append", failing)
        with pytest.raises(Killed):
            pp.run(tables, "out")


@for_each("system, tables", ROUNDS, items=2)
def test_a_round_that_is_lost_is_paid_for_and_the_run_goes_on_with_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, tables: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    said = configuration(system, **{**tables, "run": {"rounds": 3}})
    cut_off(said, RoundIntent, 2)
    write(tmp_path, turned)  # where a row stands makes no difference
    pp.resume("out")
    intents, releases = of(Path("out"), RoundIntent), of(Path("out"), RoundRelease)
    assert len(releases) == len(intents) - 1
    report = audit_budget(Path("out"))
    assert report.supported, report
    assert report.spent == len(intents)
    assert verify(Path("out")).complete


@for_each("system, tables", ONE_RELEASE)
def test_a_release_is_on_disk_when_it_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, tables: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    cut_off(configuration(system, **tables), RoundRelease, 1)
    assert pp.resume("out").result.rounds == 1
    assert audit_budget(Path("out")).supported


ATTACKED: tuple[tuple[str, dict[str, dict[str, Any]], int], ...] = (
    (*ONE_RELEASE[0], 100),
    (*ROUNDS[0], 40),
    (*ROUNDS[2], 60),
    (*ROUNDS[3], 60),
    (*ROUNDS[4], 60),
    (*ROUNDS[5], 20),
    (*ROUNDS[6], 64),
    (*ROUNDS[7], 64),
    (*ROUNDS[8], 64),
)
"""Systems with how many canaries there are; other rounds of DELM have none."""


@for_each("system, tables, canaries", ATTACKED, items=3)
def test_canaries_in_the_shape_of_the_table_contradict_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    tables: dict[str, Any],
    canaries: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    pp.run(configuration(system, **tables), "out")
    asked = AttackRequest(tiers=("claim",), canaries=canaries, seed=3)
    found = attack(Path("out"), asked, append=False)
    assert found.measurements
    assert not found.contradicted
