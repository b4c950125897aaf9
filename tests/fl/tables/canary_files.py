"""Files of silos in which canaries are patients, runs on them, and tests of what these runs claim.

Each canary has an id of its own, and a fair coin says whether its rows are in the files.  Their
numbers lie far outside the range of the schema.  So a canary moves the release along a direction of
its own as far as schema, clip and caps allow.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.arrays import BoolArray, FloatArray, IntArray
from privplan.accountant.records import RunClose, RunOpen
from privplan.audit.statistics import FamilyResult, claim_only
from privplan.fl.running.preparation import local_of, model_of

from ..small_runs import of

CANARIES = 400
"""How many canaries there are where each has a column of its own."""

FALSE_ALARM_RATE = 1e-3
"""How often a run that adds its noise is contradicted, at most; the seeds are fixed."""

Fault = Callable[[], AbstractContextManager[Any]]

Score = Callable[[FloatArray], FloatArray]
"""Takes what was released; returns a number for each canary: the higher, the likelier in."""

Watch = Callable[[], AbstractContextManager[list[FloatArray]]]
"""Collects what an observer sees that is in no file of the run's folder, while it is made."""

Rows = tuple[tuple[int, str], ...]
"""The sign of the numbers and the label of each row that a canary has in a file."""


def own_columns() -> IntArray:
    """Return patterns of canaries that have a column each: (canaries, columns)."""
    return np.eye(CANARIES, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Case:
    """A system and its tables, its score, and the files.

    - `observer`: who sees what is scored.  Of `model` that is the array `stored` in the folder, of
      others what `watch` collects, stacked.
    - `rows`: what a canary that is in has in a file; `instead` what one has that is out.
    - `others`: what one more patient, who is always there, has in every canary's columns.
    - `runs`: how many runs there are, each with coins and randomness of its own.
    - `patterns`: the sign of each number in a canary's rows, (canaries, columns); 0 is a gap.
    - `silos`: how many files there are; a canary is in all of them, or in one if `apart`.
    - `labelled`: whether the table has a label.
    - `trained`: whether a model was trained, from a first one that the configuration gives.
    - `listed`: whether there is a public list of patients, those that are out among them, and
      `quiet` others, who have no rows.
    """

    system: str
    tables: dict[str, dict[str, Any]]
    score: Score
    rows: Rows = ((1, "yes"),)
    instead: Rows = ()
    others: Rows = ()
    observer: str = "model"
    stored: str = "parameters"
    watch: Watch | None = None
    runs: int = 1
    patterns: IntArray = field(default_factory=own_columns)
    silos: int = 3
    apart: bool = False
    labelled: bool = True
    trained: bool = False
    listed: bool = False
    quiet: int = 0

    @property
    def columns(self) -> list[str]:
        """The columns of numbers."""
        return [f"x{number}" for number in range(self.patterns.shape[1])]

    @property
    def patients(self) -> list[str]:
        """The ids of all canaries."""
        return [f"p{number}" for number in range(len(self.patterns))]

    @property
    def register(self) -> list[str]:
        """The ids of all patients that there may be."""
        others = ["other"] if self.others else []
        return [*self.patients, *others, *(f"q{number}" for number in range(self.quiet))]

    def configuration(self, run: int = 0) -> dict[str, dict[str, Any]]:
        """Return the configuration of a run, for a working directory that holds the files."""
        columns: dict[str, Any] = {
            name: {"kind": "number", "range": [-3, 3], "gap": 0} for name in self.columns
        }
        data: dict[str, Any] = {
            "name": "table",
            "silos": {f"silo{silo}": f"{silo}.csv" for silo in range(self.silos)},
            "user": "patient",
            "columns": columns,
        }
        if self.listed:
            data["users_public"] = "the register of the study, doi 10.1/2"
            data |= {"users_list": "patients.txt", "users": len(self.register)}
        else:
            data["users_at_most"] = len(self.register)
        if self.labelled:
            data["label"] = {"column": "outcome", "kind": "binary", "values": ["no", "yes"]}
        else:
            columns["outcome"] = {"kind": "ignored"}
        usual: dict[str, dict[str, Any]] = {
            "run": {"system": self.system, "rounds": 1, "seed": 5 + run},
            "data": data,
            "privacy": {"noise_multiplier": 1.0},
        }
        if "epsilon" in self.tables.get("privacy", {}):  # noise follows from it
            usual["privacy"] = {}
        names = {**usual, **self.tables}
        return {name: {**usual.get(name, {}), **self.tables.get(name, {})} for name in names}

    def write(self, folder: Path, into: BoolArray) -> None:
        """Write the files of all silos, and the list of patients."""
        for silo in range(self.silos):
            lines = [",".join(["patient", *self.columns, "outcome"])]
            for canary, patient in enumerate(self.patients):
                if not self.apart or canary % self.silos == silo:
                    lines += self._lines(
                        patient, canary, self.rows if into[canary] else self.instead
                    )
                    lines += self._lines("other", canary, self.others)
            (folder / f"{silo}.csv").write_text("\n".join(lines) + "\n")
        (folder / "patients.txt").write_text("\n".join(["patient", *self.register]) + "\n")

    def _lines(self, patient: str, canary: int, rows: Rows) -> list[str]:
        """Return lines of a patient, with numbers in a canary's columns."""
        cells = {sign: self._cells(canary, sign) for sign, _ in rows}
        return [f"{patient},{cells[sign]},{label}" for sign, label in rows]

    def _cells(self, canary: int, sign: int) -> str:
        """Return the cells of a row: numbers that the schema clips, and gaps."""
        return ",".join(f"{sign * one}e9" if one else "" for one in self.patterns[canary].tolist())


@dataclass(frozen=True, eq=False)
class Attacked:
    """What a run claims of its model, and what its canaries show of it."""

    claimed: float
    found: FamilyResult


def attacked(case: Case, folder: Path, *faults: Fault) -> Attacked:
    """Write files with canaries, make runs that may have faults, and test what their logs claim."""
    scores, coins = [], []
    for run in range(case.runs):
        into = np.random.default_rng(11 + run).random(len(case.patterns)) < 0.5
        inside = folder / f"run-{run}"
        inside.mkdir()
        case.write(inside, into)
        scores.append(case.score(_seen(case, run, inside, faults)))
        coins.append(into)
    (opened,), (closed,) = of(inside / "out", RunOpen), of(inside / "out", RunClose)
    found = claim_only(
        np.concatenate(scores),
        np.concatenate(coins),
        closed.events[case.observer],
        opened.claim.neighbours,
        closed.delta,
        alpha=FALSE_ALARM_RATE,
    )
    return Attacked(closed.epsilon[case.observer], found)


def _seen(case: Case, run: int, folder: Path, faults: tuple[Fault, ...]) -> FloatArray:
    """Make a run in a folder that holds its files; return what the observer sees."""
    with pytest.MonkeyPatch.context() as patched, ExitStack() as all_faults:
        patched.chdir(folder)
        for fault in faults:
            all_faults.enter_context(fault())
        collected = all_faults.enter_context(case.watch()) if case.watch is not None else None
        prepared = pp.run(case.configuration(run), "out").prepared
    if collected is not None:
        return np.stack(collected)
    with np.load(folder / "out" / "model.npz") as model:
        released = np.asarray(model[case.stored])
    if case.trained:  # from a model that whoever reads the configuration can make
        settings, federation = prepared.settings, prepared.federation
        released -= local_of(settings, federation, model_of(settings, federation)).initial()
    return released
