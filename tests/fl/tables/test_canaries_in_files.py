"""Canaries that are patients in the files: what a run releases of them, against what it claims.

Each has an id of its own, and a fair coin says whether its rows are in the files.  They hold one
number, in a column where nobody else has one, far outside the range of the schema.  So a canary
moves coordinates of its own in the release, as far as schema, clip and caps allow.  A reader of the
run's folder scores it by these, and the scores test the claim that stands in the log.

Two systems are not here.  The silos of uldp-naive clip what they train on everybody's rows, so
that one of many canaries hardly moves it.  Users of FLAME pay for every coordinate, so that one
coordinate shows little of what is claimed of all (`test_canaries_in_the_shape_of_the_table` has
patterns of all of them).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.arrays import BoolArray, FloatArray
from privplan.accountant.records import RunClose, RunOpen
from privplan.audit.statistics import FamilyResult, claim_only
from privplan.fl.data.federation import Federation
from privplan.fl.running.preparation import local_of, model_of
from privplan.fl.uldp import group

from ...audit import broken, broken_gram
from ...cases import for_each
from ..small_runs import of

CANARIES = 400

FALSE_ALARM_RATE = 1e-3
"""How often a run that adds its noise is contradicted, at most; the seeds are fixed."""


# --- what is released of each canary --------------------------------------------------------------

Score = Callable[[FloatArray], FloatArray]
"""Takes what was released; returns a number for each canary: the higher, the likelier in."""


def weight(moved: FloatArray) -> FloatArray:
    """Return by how much the weight of each canary's column has moved in a linear model."""
    return moved[:CANARIES]


def square(gram: FloatArray) -> FloatArray:
    """Return the diagonal of a Gram matrix, of which the upper triangle is released by rows."""
    row = np.arange(CANARIES)
    return gram[row * CANARIES - row * (row - 1) // 2]


def square_and_labels(rows_per_unit: int) -> Score:
    """Return the matched filter of the diagonal and the label sums, which have the same noise.

    k equal rows of norm 1 / sqrt(k) and the label `yes` move the diagonal by 1, and the sums of
    (no, yes), whose labels are centred, by sqrt(k) (-1/2, 1/2).
    """

    def score(released: FloatArray) -> FloatArray:
        sums = released[CANARIES * (CANARIES + 1) // 2 :].reshape(CANARIES, 2)
        return square(released) + np.sqrt(rows_per_unit) / 2.0 * (sums[:, 1] - sums[:, 0])

    return score


# --- files ----------------------------------------------------------------------------------------

Rows = tuple[tuple[int, str], ...]
"""The sign of the number and the label of each row that a canary has in a file."""

PAIR: Rows = ((1, "yes"), (-1, "no"))
"""Rows that move the weight of their column alike, and the intercept not at all."""


@dataclass(frozen=True)
class Case:
    """A system and its tables, its score, and the files.

    - `rows`: what a canary that is in has in a file; `instead` what one has that is out.
    - `silos`: how many files there are; a canary is in all of them, or in one if `apart`.
    - `labelled`: whether the table has a label.
    - `trained`: whether a model was trained, from a first one that the configuration gives.
    """

    system: str
    tables: dict[str, dict[str, Any]]
    score: Score
    rows: Rows = ((1, "yes"),)
    instead: Rows = ()
    silos: int = 3
    apart: bool = False
    labelled: bool = True
    trained: bool = False

    def configuration(self) -> dict[str, dict[str, Any]]:
        """Return the configuration of a run, for a working directory that holds the files."""
        columns: dict[str, Any] = {
            f"x{column}": {"kind": "number", "range": [-3, 3], "gap": 0}
            for column in range(CANARIES)
        }
        data: dict[str, Any] = {
            "name": "table",
            "silos": {f"silo{silo}": f"{silo}.csv" for silo in range(self.silos)},
            "user": "patient",
            "users_at_most": CANARIES,
            "columns": columns,
        }
        if self.labelled:
            data["label"] = {"column": "outcome", "kind": "binary", "values": ["no", "yes"]}
        else:
            columns["outcome"] = {"kind": "ignored"}
        usual: dict[str, dict[str, Any]] = {
            "run": {"system": self.system, "rounds": 1, "seed": 5},
            "data": data,
            "privacy": {"noise_multiplier": 1.0},
        }
        names = {**usual, **self.tables}
        return {name: {**usual.get(name, {}), **self.tables.get(name, {})} for name in names}

    def write(self, folder: Path, into: BoolArray) -> None:
        """Write the files of all silos."""
        header = ",".join(["patient", *(f"x{column}" for column in range(CANARIES)), "outcome"])
        for silo in range(self.silos):
            lines = [header]
            for canary in range(CANARIES):
                if not self.apart or canary % self.silos == silo:
                    rows = self.rows if into[canary] else self.instead
                    lines += [line(canary, *row) for row in rows]
            (folder / f"{silo}.csv").write_text("\n".join(lines) + "\n")


def line(canary: int, sign: int, label: str) -> str:
    """Return a row with a number in the canary's own column, and gaps in all others."""
    return f"p{canary}{',' * (canary + 1)}{sign}e9{',' * (CANARIES - canary)}{label}"


CLIPPED = {"model": "logistic", "clip": 0.01}
STEPS = {**CLIPPED, "local_rate": 10.0, "local_epochs": 1}
TWICE: dict[str, dict[str, Any]] = {"run": {"rounds": 2}, "privacy": {"noise_multiplier": 2**0.5}}

CASES = {
    "uldp-avg": Case("uldp-avg", {**TWICE, "training": STEPS}, weight, rows=PAIR * 3, trained=True),
    "uldp-avg, masked, by records": Case(
        "uldp-avg",
        {
            **TWICE,
            "training": {**STEPS, "weighting": "records"},
            "security": {"aggregation": "masked"},
        },
        weight,
        rows=PAIR * 3,
        trained=True,
    ),
    "uldp-sgd": Case(
        "uldp-sgd", {**TWICE, "training": CLIPPED}, weight, rows=PAIR * 3, trained=True
    ),
    "uldp-group": Case(
        "uldp-group",
        {
            "uldp": {"group_records": 4, "record_rate": 1.0},
            "training": STEPS,
            "privacy": {"noise_multiplier": 4.0},
        },
        weight,
        rows=PAIR * 10,  # five times as many records as take part
        silos=1,
        trained=True,
    ),
    "disco, of records": Case(
        "disco",
        {
            "privacy": {"unit": "record", "noise_multiplier": 2.0},
            "disco": {"divisor": 100},
            "training": CLIPPED,
        },
        weight,
        instead=((-1, "yes"),),
        apart=True,
        trained=True,
    ),
    "statistics, of users": Case(
        "statistics",
        {
            "privacy": {"unit": "user"},
            "statistics": {"row_norm": 0.5, "intercept": 0.0, "rows_per_user": 6},
        },
        square_and_labels(6),
        rows=((1, "yes"),) * 8,  # four times as many as a silo keeps
    ),
    "statistics, of records": Case(
        "statistics",
        {"statistics": {"row_norm": 0.5, "intercept": 0.0}},
        square_and_labels(1),
        apart=True,
    ),
    "delm-linear": Case(
        "delm-linear",
        {
            "privacy": {"unit": "user"},
            "delm": {"row_norm": 0.5, "intercept": 0.0, "rows_per_user": 6},
        },
        square_and_labels(6),
        rows=((1, "yes"),) * 8,
    ),
    "fedpower-one-shot": Case(
        "fedpower-one-shot",
        {"fedpower": {"rank": 2, "row_norm": 0.5}},
        square,
        apart=True,
        labelled=False,
    ),
}


# --- runs -----------------------------------------------------------------------------------------

Fault = Callable[[], AbstractContextManager[Any]]


def a_tenth_of_the_noise() -> AbstractContextManager[Any]:
    """All that is drawn is a tenth as wide as the log says."""
    both = ExitStack()
    both.enter_context(broken.noise_times(0.1))
    both.enter_context(broken_gram.noise_times(0.1))
    return both


def all_records_take_part() -> AbstractContextManager[Any]:
    """No silo of uldp-group leaves a record of a user out."""

    def everything(federation: Federation, *_: int) -> BoolArray:
        return np.ones(federation.records, bool)

    return mock.patch.object(group, "records_taking_part", everything)


@dataclass(frozen=True, eq=False)
class Attacked:
    """What a run claims of its model, and what its canaries show of it."""

    claimed: float
    found: FamilyResult


def attacked(case: Case, folder: Path, *faults: Fault) -> Attacked:
    """Write files with canaries, make a run that may have faults, and test what its log claims."""
    into = np.random.default_rng(11).random(CANARIES) < 0.5
    case.write(folder, into)
    with pytest.MonkeyPatch.context() as patched, ExitStack() as all_faults:
        patched.chdir(folder)
        for fault in faults:
            all_faults.enter_context(fault())
        prepared = pp.run(case.configuration(), "out").prepared
    with np.load(folder / "out" / "model.npz") as model:
        released = np.asarray(model["parameters"])
    if case.trained:  # from a model that whoever reads the configuration can make
        settings, federation = prepared.settings, prepared.federation
        released -= local_of(settings, federation, model_of(settings, federation)).initial()
    (opened,), (closed,) = of(folder / "out", RunOpen), of(folder / "out", RunClose)
    found = claim_only(
        case.score(released),
        into,
        closed.events["model"],
        opened.claim.neighbours,
        closed.delta,
        alpha=FALSE_ALARM_RATE,
    )
    return Attacked(closed.epsilon["model"], found)


@for_each("name", CASES, items=3)
def test_patients_in_the_files_do_not_contradict_an_honest_run(tmp_path: Path, name: str) -> None:
    honest = attacked(CASES[name], tmp_path)
    assert not honest.found.rejected
    assert honest.found.epsilon <= honest.claimed


BROKEN: tuple[tuple[str, Fault], ...] = (
    *((name, a_tenth_of_the_noise) for name in CASES),
    ("uldp-avg", broken.no_clipping),
    ("uldp-avg", broken.no_weights),
    ("uldp-group", all_records_take_part),
    ("disco, of records", broken.no_clipping),
    ("statistics, of users", broken_gram.no_cap),
    ("statistics, of records", broken_gram.no_clipping),
)
"""Systems, and what of them is broken while the log goes on saying what it says."""


@pytest.mark.quick(7)
@for_each("name, fault", BROKEN)
def test_patients_in_the_files_contradict_a_broken_run(
    tmp_path: Path, name: str, fault: Fault
) -> None:
    dishonest = attacked(CASES[name], tmp_path, fault)
    assert dishonest.found.rejected
    assert dishonest.found.epsilon > dishonest.claimed
