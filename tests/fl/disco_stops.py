"""Runs of DISCO's peers that are stopped, for tests: which, and what holds of all at their end."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from privplan.accountant import records
from privplan.audit.budget import BudgetReport, audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.frame.state import state_digest
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

from .small_runs import of

FIRST = 0.3
"""The clip of the first round of a run here, as `disco_runs.text` has it."""

SEEDED_ONLY = {"seeded"}
"""The errors that the audit may find: a test may seed its noise."""


Tables = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Peers:
    """What a configuration has, and who is in each round, as the log has it, by hand."""

    tables: Tables
    rosters: list[tuple[int, ...] | None]

    @property
    def rounds(self) -> int:
        return len(self.rosters)


def framed(frames: tuple[str, ...], rosters: list[tuple[int, ...] | None]) -> Peers:
    """Return peers with these frames in four rounds."""
    written = ", ".join(f'"{frame}"' for frame in frames)
    tables = {
        "run": {"rounds": "4"},
        "data": {"silos": str(len(frames))},
        "disco": {"time_frames": f"[{written}]"},
    }
    return Peers(tables, rosters)


STEADY: Final = Peers({"data": {"silos": "4"}}, [None, None, None])
"""Four peers, all in all of three rounds."""

MOVING: Final = framed(
    ("1-4", "1-2", "1-2", "3-4", "2-4"), [(0, 1, 2), (0, 1, 2, 4), (0, 3, 4), (0, 3, 4)]
)
"""In round 2 there are four peers of five, and 3 are enough."""

HALVES: Final = framed(
    ("1-4", "1-4", "1-4", "2-2", "2-2", "2-2"),
    [(0, 1, 2), (0, 1, 2, 3, 4, 5), (0, 1, 2), (0, 1, 2)],
)
"""In round 2 there are six peers, and 3 are enough."""


audit_of_whole: Final = functools.cache(audit_budget)
"""The audit of a run that is whole, and changes no more."""


def require_sound(folder: Path, rounds: int, clip: str) -> BudgetReport:
    """Require what holds of every closed run, however often it was cut off; return its audit."""
    found = verify(folder)
    assert found.complete, found.problem
    assert edits_of(folder) == ()
    report = audit_budget(folder)
    assert {one.id for one in report.hazards if one.severity == "error"} <= SEEDED_ONLY
    intents = of(folder, records.RoundIntent)
    sums = [one for one in intents if one.phase == "train"]
    # No round is made twice: what was begun is spent, and the next one has the next number.
    assert len({(one.round, one.phase) for one in intents}) == len(intents)
    assert {one.round for one in intents} == set(range(1, rounds + 1))
    require_clips_released(folder, clip)
    require_fresh_noise(folder)
    kept = Checkpoint.read(folder / MODEL_FILE)
    (close,) = of(folder, records.RunClose)
    assert set(kept.state) == (set() if clip == "fixed" else {"clip"})
    assert close.epsilon["peer"] > 0.0
    assert len(sums) <= rounds
    return report


def require_clips_released(folder: Path, clip: str) -> None:
    """Require that each clip is the state that was released beside the model that it starts from.

    A release that was logged and lost on its way to the disk is gone on from by nobody.
    """
    beside = {one.model_out: one.state_out for one in of(folder, records.RoundRelease)}
    for intent in of(folder, records.RoundIntent):
        if intent.phase != "train":
            continue
        bound = intent.contribution.bound
        if clip == "fixed" or intent.model_in not in beside:
            assert bound == FIRST
        else:
            assert state_digest({"clip": np.array([bound])}) == beside[intent.model_in]


def require_fresh_noise(folder: Path) -> None:
    """Require that no two releases have noise of the same bytes of a stream."""
    reached: dict[str, int] = {}
    for release in of(folder, records.RoundRelease):
        for used in release.streams:
            assert used.first >= reached.get(used.stream, 0)
            assert used.last > used.first
            reached[used.stream] = used.last
    assert reached


def require_gone_on(
    folder: Path, whole: Path, clip: str, peers: Peers
) -> tuple[BudgetReport, BudgetReport]:
    """Require a sound end, within the budget of a run that nobody stopped, and that it is claimed.

    Which rounds have a model is for the caller to say.  Return the audits of both runs.
    """
    report, uncut = require_sound(folder, peers.rounds, clip), audit_of_whole(whole)
    sums = [one for one in of(folder, records.RoundIntent) if one.phase == "train"]
    assert {one.round: one.silos for one in sums}.items() <= set(enumerate(peers.rosters, 1))
    (close,), (whole_close,) = (of(one, records.RunClose) for one in (folder, whole))
    assert close.epsilon == whole_close.epsilon
    assert report.supported is True
    assert report.ok
    assert report.claim == uncut.claim
    # What was lost counts as if it had been released, and nothing counts twice.
    assert report.total.upper == pytest.approx(uncut.total.upper, rel=1e-9)
    assert report.total.upper <= close.epsilon["peer"] * (1 + 1e-9)
    noted = {"dangling"} if len(sums) == peers.rounds else {"dangling", "stopped-early"}
    assert {hazard.id for hazard in report.hazards} <= noted
    return report, uncut
