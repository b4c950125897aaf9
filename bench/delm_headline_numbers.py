"""What follows from the rows of DELM's headlines, and what needs no run: gaps, rounds, deltas."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from privplan.accountant.sensitivity.functional import Objective, delta_as_published, sensitivity
from privplan.accountant.sensitivity.selection import exponent_as_published

Row = dict[str, Any]

TARGETS: Final = (0.8, 0.85)
"""Accuracies of which it is asked after how many rounds they are reached."""

PRINTED_ROUNDS: Final = 250

_PAIRS: Final = (
    ("3a", 0.1, "basic, p 0.5", "LDP-FL", 9.6, "uniform, epsilon 0.1"),
    ("3a", 1.0, "basic, p 0.5", "LDP-FL", 5.4, "uniform, epsilon 1"),
    ("4", 1.0, "enhanced, divergence", "LDP-FL", 15.6, "1 class"),
    ("4", 1.0, "enhanced, divergence", "FedProx", 8.6, "1 class"),
    ("bad data", 1.0, "enhanced, divergence", "LDP-FL", 16.2, "bad data"),
    ("bad data", 1.0, "enhanced, divergence", "SecProbe", 5.1, "bad data"),
    ("4", 1.0, "enhanced, top-k", "LDP-FL", 22.9, "1 class, Figure 4"),
    ("4", 1.0, "enhanced, divergence", "basic", 8.3, "1 class: .912 against .829"),
)
"""Figure, claimed epsilon, whose, over whom, the printed gap in points, and where."""

_WITHOUT: Final = (
    ("4", "1 class"),
    ("bad data", "bad data"),
    ("uniform", "uniform"),
)
"""Where the choice of clients is measured without noise, with the paper's epsilon3 = 3."""


def pairs(rows: list[Row]) -> list[Row]:
    """Return gaps in points of accuracy, of the same seeds; those of a choice without noise last.

    `printed` is null where the text has none: that the choice by divergence gains nothing over a
    uniform one is what its largest odds ratio says.
    """
    answer = []
    for figure, claimed, of, over, printed, where in _PAIRS:
        better, worse = _row(rows, figure, of, claimed), _row(rows, figure, over, claimed)
        if better is not None and worse is not None:
            answer.append(_gap(better, worse, where, printed))
    for figure, where in _WITHOUT:
        for of, over in (("divergence", "uniform"), ("top-k", "uniform")):
            names = (f"enhanced, {name} without noise" for name in (of, over))
            better, worse = (_row(rows, figure, name, None) for name in names)
            if better is not None and worse is not None:
                answer.append(_gap(better, worse, where, None))
    return answer


def _gap(better: Row, worse: Row, where: str, printed: float | None) -> Row:
    points = 100.0 * (np.array(better["accuracies"]) - np.array(worse["accuracies"]))
    return {
        "of": better["name"],
        "over": worse["name"],
        "where": where,
        "printed": printed,
        "points": float(points.mean()),
        "deviation": float(points.std(ddof=1)),
    }


def _row(rows: list[Row], figure: str, name: str, claimed: float | None) -> Row | None:
    """Return the row of digits of this name; of one that claims nothing, whatever is asked."""
    return next(
        (
            row
            for row in rows
            if (row["data"], row["figure"], row["name"]) == ("digits", figure, name)
            and row["claimed"] in (claimed, None)
        ),
        None,
    )


def to_reach(rows: list[Row]) -> list[Row]:
    """Return after how many rounds the mean accuracy reaches a target, and after how many minutes.

    Of rows in which all clients train in the same way; null where it is never reached.
    """
    wanted = [row for row in rows if row["figure"] in ("3a", "4", "uniform")]
    answer = []
    for row in wanted:
        for target in TARGETS:
            reached = next(
                (i for i, value in enumerate(row["by_round"], 1) if value >= target), None
            )
            answer.append(
                {
                    "name": f"{row['data']}, {row['figure']}: {row['name']}",
                    "claimed": row["claimed"],
                    "target": target,
                    "rounds": reached,
                    "minutes": None if reached is None else reached * row["seconds_a_round"] / 60.0,
                    "minutes_of_250": PRINTED_ROUNDS * row["seconds_a_round"] / 60.0,
                }
            )
    return answer


def deltas() -> list[Row]:
    """Return the printed sensitivity of the coefficients next to the one that is proven.

    L1, replace-one, rows of norm 1 at most, ten classes; the text leaves the relation open.
    """
    answer = []
    for model, classes in (("logistic", 2), ("softmax", 10)):
        for features in (32, 64, 392, 784):
            objective = Objective(model, features, classes=classes)
            printed = delta_as_published(model, features, classes)
            proven = sensitivity(objective, "replace-one").l1
            answer.append(
                {
                    "model": model,
                    "features": features,
                    "printed": printed,
                    "proven": proven,
                    "ratio": printed / proven,
                }
            )
    return answer


def largest_odds(epsilon: float = 3.0, clients: int = 100) -> float:
    """Return e^(epsilon3 / 2n): how much likelier the least divergent is drawn than the most.

    >>> round(largest_odds(), 4)
    1.0151
    """
    return math.exp(float(exponent_as_published(epsilon, clients)))
