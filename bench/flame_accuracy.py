"""Accuracy of FLAME's protocols on digits, by noise, next to central noise, local noise and none.

    python bench/flame_accuracy.py bench/flame_accuracy.json

Clip, global rate and local epochs are chosen for each case and each split by a sketch of the rounds
in floats (`flame_sketch`), on training records that were left out; then all training records are
dealt to the users, the system itself trains, and its model is judged on the test records.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from flame_sketch import Held, accuracy, held_out
from flame_systems import CHOSEN, DELTA, USERS, Case, Chosen, noise_and_epsilon, trained
from rich.console import Console
from verdicts import Verdict, grid, progress

SPLITS: Final = 5
CHOOSING: Final = 4
"""How many seeds of noise a choice is by, in each split."""

_OBLIVIOUS: Final = ((0.01, 0.02, 0.05, 0.1), (5.0, 10.0, 20.0))
_BALL: Final = ((0.3, 0.5, 1.0), (4.0, 10.0, 25.0))
GRIDS: Final = {
    "none": ((0.05, 0.1, 1.0), (5.0, 10.0, 25.0)),
    "central": _BALL,
    "local-gaussian": _BALL,
    "local-laplace": _OBLIVIOUS,
    "topk": ((0.05, 0.1, 0.2), (2.0, 4.0, 8.0, 16.0)),
    "double": _OBLIVIOUS,
    "simple": _OBLIVIOUS,
}
"""Clips and global rates that are tried, by way; each with `LOCAL_EPOCHS`."""

LOCAL_EPOCHS: Final = (1, 2, 5)

EQUAL: Final = 3.5
"""The epsilon at which protocols and baselines are compared."""

ASKED: Final = {
    Case("none"): 0.92,
    Case("central", epsilon=0.86): 0.62,
    Case("central", epsilon=3.99): 0.83,
    Case("central", epsilon=11.8): 0.84,
    Case("topk", 1.2, padded_to=USERS): 0.67,
    Case("topk", 4.0, padded_to=USERS): 0.84,
    Case("double", 4.0, padded_to=USERS): 0.55,
    Case("double", 1.2, padded_to=333): 0.25,
    Case("double", 4.0, padded_to=333): 0.63,
    Case("simple", 0.5): 0.54,
    Case("simple", 2.0): 0.81,
}
"""The mean accuracy that was asked for, within two standard deviations over splits."""

COMPARED: Final = (
    Case("central", epsilon=EQUAL),
    Case("topk", epsilon=EQUAL, padded_to=USERS),
    Case("double", epsilon=EQUAL, padded_to=USERS),
    Case("double", epsilon=EQUAL, padded_to=333),
    Case("simple", epsilon=EQUAL),
    Case("local-gaussian", epsilon=EQUAL),
    Case("local-laplace", epsilon=EQUAL),
)

_QUICK: Final = (Case("topk", 1.2, padded_to=USERS), Case("simple", 0.5))

NOTE: Final = """\
Mean over five splits into training and test records, with the standard deviation over them; delta
0.01 / n^1.1, all records of a user, replace-one; epsilon of all rounds, as the plan proves it.
Clip, rate and local epochs are chosen in each split on 438 training records that are left out.  n_p
333 is an accounted cap.  What was asked is of one split, with clip and rate chosen on the test
records; it is reached where it lies at most two standard deviations above the mean."""


@dataclass(frozen=True)
class Point:
    """What a case reaches: test accuracies by split, and what was chosen in each."""

    case: Case
    noise_multiplier: float
    proven: float
    accuracies: list[float]
    choices: list[Chosen]

    @property
    def mean(self) -> float:
        """The mean over splits."""
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float:
        """The standard deviation of one split."""
        return float(np.std(self.accuracies, ddof=1))

    @property
    def fields(self) -> dict[str, Any]:
        """What stands in the file."""
        return {
            **asdict(self.case),
            "noise_multiplier": self.noise_multiplier,
            "proven": self.proven,
            "asked": ASKED.get(self.case),
            "mean": self.mean,
            "std": self.std,
            "accuracies": self.accuracies,
            "choices": [asdict(one) for one in self.choices],
        }


@cache
def held(split: int) -> Held:
    """Return what a choice in a split is made with."""
    return held_out(split)


def choice(case: Case, split: int) -> Chosen:
    """Return what has the largest mean accuracy on the training records that were left out."""
    noise = noise_and_epsilon(case)[0]
    seeds = range(CHOOSING if noise else 1)

    def judged(chosen: Chosen) -> float:
        found = [accuracy(case, noise, chosen, held(split), seed) for seed in seeds]
        return float(np.mean(found))

    tried = [Chosen(*one) for one in product(*GRIDS[case.way], LOCAL_EPOCHS)]
    return max(tried, key=judged)


def point(case: Case) -> Point:
    """Choose for a case in each split, and measure what was chosen on its test records."""
    progress(f"flame: {case}")
    choices = [choice(case, split) for split in range(SPLITS)]
    accuracies = [trained(case, chosen, split) for split, chosen in enumerate(choices)]
    return Point(case, *noise_and_epsilon(case), accuracies, choices)


def measured(quick: bool, into: Path | None = None) -> list[Point]:
    """Return the points of all cases; each is in the file as soon as it is there."""
    points = []
    for case in _QUICK if quick else (*ASKED, *COMPARED):
        points.append(point(case))
        if into is not None:
            answer = {
                "data": "digits",
                "users": USERS,
                "chosen": CHOSEN,
                "delta": DELTA,
                "splits": SPLITS,
                "choosing": {
                    "seeds": CHOOSING,
                    "clips and global rates": GRIDS,
                    "local epochs": LOCAL_EPOCHS,
                },
                "points": [one.fields for one in points],
            }
            into.write_text(json.dumps(answer, indent=1) + "\n")
    return points


def show(console: Console, quick: bool, into: Path | None = None) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    columns = ("<way", "epsilon0", "n_p", "proven epsilon", "accuracy", "asked", "<most chosen")
    table = grid(f"FLAME on digits: {USERS:,} users, 5 rounds, replace-one", *columns)
    verdicts = []
    for one in measured(quick, into):
        case, asked = one.case, ASKED.get(one.case)
        cell = f"{one.mean:.3f} +- {one.std:.3f}"
        usual, _ = Counter(one.choices).most_common(1)[0]
        table.add_row(
            case.way,
            f"{2 / one.noise_multiplier:.3g}" if case.way in ("topk", "double", "simple") else "-",
            f"{case.padded_to:,}" if case.padded_to else "-",
            f"{one.proven:.4g}" if one.proven else "-",
            cell,
            "-" if asked is None else f"{asked:g}",
            f"clip {usual.clip:g}, rate {usual.global_rate:g}, epochs {usual.local_epochs}",
        )
        if asked is not None:
            what = f"FLAME on digits, {case.way} at epsilon {one.proven:.3g}"
            reached = one.mean + 2.0 * one.std >= asked
            verdicts.append(Verdict(what, f"{asked:g} within 2 std", cell, reached))
    console.print(table, NOTE, "", sep="\n")
    return verdicts


if __name__ == "__main__":
    for verdict in show(Console(width=150), False, Path(sys.argv[1]) if sys.argv[1:] else None):
        print(f"{verdict.what}: asked {verdict.asked}, measured {verdict.measured}")
