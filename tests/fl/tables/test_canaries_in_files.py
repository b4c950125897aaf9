"""Canaries that are patients in the files: what a run releases of them, against what it claims.

Each has a column where nobody else has a number, so it moves coordinates of its own in the release.
A reader of the run's folder scores it by these, and the scores test the claim that stands in the
log.  Users of FLAME pay for every coordinate: there each has numbers in all columns, by signs of
its own.

uldp-naive is not here: a silo clips what it trains on everybody's rows, so that one canary of many
hardly moves it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.linalg import hadamard

from privplan.accountant.arrays import BoolArray, FloatArray
from privplan.accountant.mechanisms import LaplaceMessages
from privplan.fl.data.federation import Federation
from privplan.fl.uldp import group

from ...audit import broken, broken_gram
from ...cases import for_each
from .canary_files import CANARIES, Case, Fault, Rows, Score, attacked

# --- what is released of each canary --------------------------------------------------------------


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


WALSH = hadamard(256)
"""Signs of as many canaries as columns, orthogonal to each other."""


def along_patterns(moved: FloatArray) -> FloatArray:
    """Return by how much the weights have moved along the signs of each canary."""
    return np.asarray(WALSH @ moved[: len(WALSH)])


# --- systems --------------------------------------------------------------------------------------

PAIR: Rows = ((1, "yes"), (-1, "no"))
"""Rows that move the weight of their column alike, and the intercept not at all."""

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

FLAME = Case(
    "flame-simple",
    {
        "privacy": {"noise_multiplier": 2.0},
        "training": STEPS,
        "flame": {"transport": "ideal"},
    },
    along_patterns,
    rows=PAIR,
    instead=((-1, "yes"), (1, "no")),
    patterns=WALSH,
    silos=1,
    trained=True,
    listed=True,
)
"""A run of FLAME, whose users are replaced, and whose claim takes ten seconds to test."""


# --- runs -----------------------------------------------------------------------------------------


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


def a_tenth_of_each_message() -> AbstractContextManager[Any]:
    """The noise of each message of FLAME is a tenth as wide as the log says."""
    drawn = LaplaceMessages._draw_noise

    def narrow(messages: LaplaceMessages, *drawing: Any) -> Any:
        return drawn(messages, *drawing) // 10

    return mock.patch.object(LaplaceMessages, "_draw_noise", narrow)


@pytest.mark.slow
@for_each("faults", [(), (a_tenth_of_each_message,)])
def test_patients_in_the_files_contradict_flame_only_where_it_is_broken(
    tmp_path: Path, faults: tuple[Fault, ...]
) -> None:
    seen = attacked(FLAME, tmp_path, *faults)
    assert seen.found.rejected == bool(faults)
    assert (seen.found.epsilon > seen.claimed) == bool(faults)
