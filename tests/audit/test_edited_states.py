"""What a system keeps beside its model: each release names it, and a file holds the one named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from privplan.accountant.records import RoundRelease, RunClose
from privplan.audit.edits import edits_of
from privplan.fl.frame.model import model_digest
from privplan.fl.frame.state import state_digest
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint

from ..cases import for_each
from .faults import modelled
from .ledgers import Records, written

STATE = {"velocity": np.arange(6.0).reshape(2, 3), "steps": np.array(3.0)}
VECTOR = np.linspace(0.0, 1.0, 31)


def stated(keep: Callable[[int], bool] = lambda _: True) -> Records:
    """Return a log whose releases name a state, those that are to keep one."""
    made: Records = []
    for one in modelled():
        if isinstance(one, RoundRelease):
            last = model_digest(VECTOR) if one.round == 4 else one.model_out
            own = state_digest(STATE) if one.round == 4 else f"{one.round:064x}"
            one = replace(one, model_out=last, state_out=own if keep(one.round) else None)
        elif isinstance(one, RunClose):
            one = replace(one, model=model_digest(VECTOR))
        made.append(one)
    return made


def found_in(folder: Path) -> set[str]:
    return {one.id for one in edits_of(folder)}


def test_a_release_without_the_state_that_others_have_is_an_edit(tmp_path: Path) -> None:
    whole = found_in(written(tmp_path / "whole", stated()))
    assert "broken-lineage" not in whole
    for missing in (1, 2, 4):
        spoilt = stated(lambda number, missing=missing: number != missing)  # type: ignore[misc]
        assert "broken-lineage" in found_in(written(tmp_path / str(missing), spoilt))
    assert "broken-lineage" not in found_in(written(tmp_path / "none", stated(lambda _: False)))


TURNED = {**STATE, "velocity": np.asfortranarray(STATE["velocity"])}
OTHERS: dict[str, tuple[dict[str, Any], bool]] = {
    "kept": (STATE, True),
    "columns-first": (TURNED, True),
    "beside-what-was-released-once": ({**STATE, "clip": np.array([2.0])}, True),
    "another": ({**STATE, "velocity": STATE["velocity"] + 1e-9}, False),
    "another-shape": ({**STATE, "velocity": STATE["velocity"].ravel()}, False),
    "another-name": ({"speed": STATE["velocity"], "steps": STATE["steps"]}, False),
    "one-missing": ({"steps": STATE["steps"]}, False),
    "none": ({}, False),
    "many": ({**STATE, **{f"more{n}": np.zeros(2) for n in range(8)}}, False),
}


@for_each("place", [MODEL_FILE, CHECKPOINT_FILE])
@for_each("name", OTHERS)
def test_a_file_holds_the_state_that_was_released_with_its_model(
    name: str, place: str, tmp_path: Path
) -> None:
    state, fine = OTHERS[name]
    folder = written(tmp_path / "run", stated())
    Checkpoint("run-1", 4, "logistic", VECTOR, state=state).write(folder / place)
    assert ("foreign-model" not in found_in(folder)) == fine


def test_a_log_that_names_no_state_asks_for_none(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", stated(lambda _: False))
    Checkpoint("run-1", 4, "logistic", VECTOR, state=STATE).write(folder / MODEL_FILE)
    assert "foreign-model" not in found_in(folder)
