"""What runs of DELM's schemes leave whose records are held out: for neighbours, after a kill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.mechanisms import Ticket
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.ledger.phases import votes_of
from privplan.fl.frame.held_out_release import HeldOutRelease

from ...cases import for_each
from ..extras import needs
from .delm_votes import (
    FOUND,
    PROJECTED,
    PUBLISHED,
    SOUND,
    Tables,
    configured,
    measured,
    ran,
    silent,
)
from .held_out_runs import Stop, ledger_of, resumed, stopped
from .playback import left, played

pytestmark = needs("torch", "pyarrow", "cryptography")


# -- neighbouring files -------------------------------------------------------------------------


def gone(lines: list[str]) -> list[str]:
    """Take one record out of each file."""
    return lines[1:]


def other(lines: list[str]) -> list[str]:
    """Put another record in the place of one."""
    return ["p88,33.0,f,II,y,ok,yes", *lines[1:]]


@for_each("system, tables", [SOUND[1], SOUND[2], PUBLISHED[0], PUBLISHED[1]])
@for_each("change", [gone, other], items=2)
def test_all_that_leaves_a_run_is_that_of_neighbouring_files_where_noise_is_played(
    tmp_path: Path, system: str, tables: Tables, change: Callable[[list[str]], list[str]]
) -> None:
    said = configured(system, {**tables, "run": {"seed": 5}})
    plain = played(tmp_path / "plain", said)
    assert plain.code == 0, plain.said
    again = played(tmp_path / "again", said, change, plain.noised)
    expected, found = left(plain), left(again)
    assert list(found) == list(expected)
    for name, content in expected.items():
        assert found[name] == content, name
    noised = played(tmp_path / "noised", said, change)
    assert left(noised, after_noise=False) == left(plain, after_noise=False)


def test_a_record_that_is_changed_does_change_what_is_summed(tmp_path: Path) -> None:
    """The comparison above would find a difference."""
    said = configured("delm-basic", {**FOUND, "run": {"seed": 5}})
    plain, changed = (
        played(tmp_path / name, said, edit) for name, edit in (("plain", None), ("other", other))
    )
    assert len(plain.noised) == len(changed.noised) == 9  # two rounds and votes of three clients
    assert not all(map(np.array_equal, plain.noised, changed.noised))


def cut(folder: Path, tables: Tables, where: tuple[Any, str], before: bool) -> None:
    """Begin a run, and cut it off before or after a function that the votes call."""
    owner, name = where
    known = getattr(owner, name)

    def stopping(*args: Any, **named: Any) -> Any:
        if name == "close" and args[0].intent.phase != "held-out":
            return known(*args, **named)
        if not before:
            known(*args, **named)
        raise Stop

    stopped(folder, tables, owner, name, stopping, silent)


@for_each("system, tables", [SOUND[0], SOUND[1], SOUND[2], PUBLISHED[0]])
def test_votes_that_were_not_begun_are_made_after_a_kill_as_without_one(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    """On the components that the run kept: with the same seed it is the same run."""
    tables = configured(system, {**tables, "run": {"seed": 7}})
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    with pytest.MonkeyPatch.context() as patched:
        silent(patched)
        whole = ran(tmp_path / "whole", tables)
    cut(tmp_path / "cut", tables, (HeldOutRelease, "totals"), before=False)
    assert votes_of(ledger_of(tmp_path / "cut" / "out")) is None
    outcome = resumed(tmp_path / "cut", silent)
    folder = tmp_path / "cut" / "out"
    assert outcome.result.held_out is not None
    assert measured(folder)["held_out"] == measured(whole)["held_out"]
    with np.load(whole / "model.npz") as one, np.load(folder / "model.npz") as two:
        assert set(one.files) == set(two.files)
        for name in set(one.files) - {"about"}:
            assert np.array_equal(one[name], two[name]), name
    assert audit_budget(folder).supported == audit_budget(whole).supported
    assert edits_of(folder) == (), edits_of(folder)


@for_each("before", [True, False])
def test_votes_that_were_cut_off_are_spent_and_never_made_again(
    tmp_path: Path, before: bool
) -> None:
    """Begun, they are lost; released, they are told by whoever takes the run up again."""
    cut(tmp_path, configured("delm-basic", PROJECTED), (Ticket, "close"), before=before)
    outcome = resumed(tmp_path, silent)
    folder = tmp_path / "out"
    intents = [spent for spent in ledger_of(folder).spent if spent.intent.phase == "held-out"]
    assert len(intents) == 1
    assert (outcome.result.held_out is None) == before
    assert ("held_out" in measured(folder)) != before
    budget = audit_budget(folder)
    assert budget.ok
    assert budget.spent == 4
    assert not edits_of(folder)


@for_each(
    "system, tables, says", [(*SOUND[0], "each epsilon pays"), (*PUBLISHED[0], "there is no")]
)
def test_a_forecast_and_a_run_say_who_votes(
    tmp_path: Path, system: str, tables: Tables, says: str
) -> None:
    said = configured(system, tables)
    forecast = " ".join(played(tmp_path / "dry", said, dry=True).said[0].split())
    assert "a share 0.4 of the records, by what each holds; one vote of each record" in forecast
    assert f"noise multiplier 1.5; {says}" in forecast
    made = " ".join(played(tmp_path / "run", said).said[0].split())
    assert "of 80 public votes" in made
    assert says in made
