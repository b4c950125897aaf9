"""Runs of DISCO's peers that are cut off: the clip goes on from releases, under fresh noise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, Checkpoint

from ..cases import for_each
from ..cli.killing import at_each_write, gone_on
from .disco_runs import configuration, text
from .disco_stops import MOVING, SEEDED_ONLY, require_gone_on, require_sound
from .extras import needs
from .small_runs import interrupted, of, resumed, started

pytestmark = needs("sklearn", "cryptography", "torch")

RULES = {
    "fixed": {
        "disco": {"clip": '"fixed"', "noise": '"local"'},
        "security": {"aggregation": '"masked"'},
    },
    "previous": {"disco": {"clip": '"previous"'}},
    "quantile": {"disco": {"clip": '"quantile"'}},
}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
@for_each("clip", list(RULES))
def test_a_run_goes_on_after_a_kill_at_any_write(
    clip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    config = tmp_path / "run.toml"
    config.write_text(text("seed", run={"rounds": "2"}, **RULES[clip]))
    lost = 0
    for folder in gone_on(at_each_write(config, tmp_path / "runs"), 20):
        require_sound(folder, 2, clip)
        lost += bool(of(folder, records.RoundAbort) or len(of(folder, records.RunRecover)))
    assert lost > 5


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
@for_each("clip", ["fixed", "quantile"])
def test_a_run_with_frames_goes_on_after_a_kill_at_any_write(
    clip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Peers are in the rounds of their frames and no others, and pay for no more than those."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    config = tmp_path / "run.toml"
    disco = {**MOVING.tables["disco"], "clip": f'"{clip}"'}
    config.write_text(text("seed", **{**MOVING.tables, "disco": disco}))
    tried = at_each_write(config, tmp_path / "runs")
    whole, lost = Path(tried[-1]["folder"]), 0
    for folder in gone_on(tried[:-1], 40):
        require_gone_on(folder, whole, clip, MOVING)
        lost += len([one for one in of(folder, records.RoundRelease) if one.model_out]) < 4
    assert lost > 4


# The lines of a run: opening, then for each round intent and release (of a count too), evaluation.
# A record is cut off before it is written or after it: for the rules with one sum, in turn.
CUTS = [
    *(("fixed", after, after in (2, 5)) for after in (2, 3, 5, 6)),
    *(("previous", after, after in (3, 6)) for after in (2, 3, 5, 6)),
    *(("quantile", after, written) for after in (2, 3, 4, 5, 7, 8, 9) for written in (False, True)),
]


@for_each("clip, after, written", CUTS)
def test_a_round_that_is_lost_is_paid_for(
    clip: str, after: int, written: bool, whole: Any, tmp_path: Path
) -> None:
    folder, own = tmp_path / "run", configuration(**RULES[clip])
    interrupted(own, folder, after=after, written=written)
    checkpoint = folder / CHECKPOINT_FILE
    kept = Checkpoint.read(checkpoint) if checkpoint.exists() else None
    done = resumed(own, folder)
    require_sound(folder, 3, clip)
    uncut_folder, uncut = whole(own)
    (close,), (whole_close,) = (of(one, records.RunClose) for one in (folder, uncut_folder))
    assert close.epsilon == whole_close.epsilon  # whatever was lost is charged
    sums = [one.round for one in of(folder, records.RoundRelease) if one.model_out is not None]
    assert len(sums) == done.rounds <= 3
    if kept is not None and clip != "fixed" and kept.round < 3:
        first = next(
            one
            for one in of(folder, records.RoundIntent)
            if one.phase == "train" and one.round > kept.round and one.round in sums
        )
        assert first.contribution.bound == float(kept.state["clip"][0])
    if len(sums) < 3:  # other noise than in the run that was not cut off
        assert not np.array_equal(done.parameters, uncut.parameters)


@for_each("rounds", [1, 3])
@for_each(("after", "written"), [(2, True), (3, True), (4, False), (4, True)])
def test_a_run_that_lost_its_first_sum_is_not_taken_for_edited(
    after: int, written: bool, rounds: int, tmp_path: Path
) -> None:
    """The log then knows a count and no sum; with one round it never will."""
    folder = tmp_path / "run"
    own = configuration(**{**RULES["quantile"], "run": {"rounds": str(rounds)}})
    interrupted(own, folder, after=after, written=written)
    for _ in ("cut off", "closed"):
        errors = {one.id for one in audit_budget(folder).hazards if one.severity == "error"}
        assert errors <= SEEDED_ONLY
        assert edits_of(folder) == ()
        if not verify(folder).complete:
            resumed(own, folder)
    assert verify(folder).complete
    assert {one.round for one in of(folder, records.RoundIntent)} == set(range(1, rounds + 1))


@for_each("clip", ["previous", "quantile"])
def test_a_kept_clip_that_was_changed_is_refused(clip: str, tmp_path: Path) -> None:
    from dataclasses import replace

    folder, own = tmp_path / "run", configuration(**RULES[clip])
    interrupted(own, folder, after=7)
    kept = Checkpoint.read(folder / CHECKPOINT_FILE)
    wrong: dict[str, Any] = {"clip": kept.state["clip"] * 2.0}
    replace(kept, state=wrong).write(folder / CHECKPOINT_FILE)
    with pytest.raises(InvalidInput):
        resumed(own, folder)


@for_each("clip", list(RULES))
def test_seeded_runs_repeat(clip: str, whole: Any, tmp_path: Path) -> None:
    own = configuration(**RULES[clip])
    again = started(own, tmp_path / "again")
    assert np.array_equal(again.parameters, whole(own)[1].parameters)
