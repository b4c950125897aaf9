"""Logs of runs whose users were dealt at random for a study: the first line says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.audit.configuration.comparison import compared
from privplan.audit.ledger.entries import Entry, Ledger
from privplan.fl.log.reader import Scan

from ..fl.extras import needs
from ..fl.tables.hospitals import configuration, write

pytestmark = needs("torch", "sklearn", "pyarrow")

SENTENCE = (
    "users are dealt at random from the records of breast-cancer, for study; none is a real person"
)
DEALT = {
    "run": {"system": "uldp-avg", "rounds": 1},
    "data": {"name": "breast-cancer", "users": 10, "silos": 2},
    "privacy": {"noise_multiplier": 3.0, "delta": 1e-3},
}


def ledger_of(folder: Path, tables: dict[str, Any]) -> Ledger:
    folder.mkdir()
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        pp.run(tables, "out")
    return Ledger.of([Entry(line.number, line.seq, line.record) for line in Scan(folder / "out")])


def test_a_first_line_says_that_its_users_were_dealt(tmp_path: Path) -> None:
    dealt = ledger_of(tmp_path / "dealt", DEALT)
    assert dealt.opened.study == SENTENCE
    assert not compared(dealt).differences
    real = ledger_of(tmp_path / "real", configuration(run={"rounds": 1}))
    assert real.opened.study is None
    assert b'"study"' not in (tmp_path / "real" / "out" / "log.jsonl").read_bytes()


def test_another_sentence_than_that_of_the_configuration_is_found(tmp_path: Path) -> None:
    dealt = ledger_of(tmp_path / "dealt", DEALT)
    other = replace(dealt, opened=replace(dealt.opened, study="users are patients"))
    assert [one.fact for one in compared(other).differences] == ["study"]
    earlier = replace(dealt, opened=replace(dealt.opened, study=None))
    assert not compared(earlier).differences  # an earlier version did not say
