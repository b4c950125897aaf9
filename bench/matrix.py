"""The sensitivity of correlated noise, beside jax_privacy: values and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

from privplan import events as ev
from privplan.accountant.sensitivity.matrix import (
    MatrixSensitivity,
    sensitivity_bounds,
    strategy_matrix,
)

ROUNDS = 1_000
EVERY_OTHER_DIGIT = 2e-6
"""jax_privacy computes in float32: its last digits are its own."""

NOTE = """\
1,000 rounds (random: 200). jax_privacy: the function that its documentation names for the case, in
its float32; times are of second calls, after its compilation. "exact" is ours: both ends agree."""


@dataclass(frozen=True)
class Case:
    """A strategy and a participation, and jax_privacy's number for them."""

    name: str
    strategy: ev.Strategy
    participation: ev.Participation
    peer: Callable[[Any], float]
    bound: bool = False

    def ours(self) -> MatrixSensitivity:
        """Return our bounds, computed anew."""
        sensitivity_bounds.cache_clear()
        return sensitivity_bounds(self.strategy, self.participation)


def cases() -> tuple[Case, ...]:
    """Return what is compared."""
    random = np.random.default_rng(0).standard_normal((200, 200))
    dense = ev.DenseStrategy((np.tril(random, -1) + 15.0 * np.eye(200)).tolist())
    banded = ev.ToeplitzStrategy(ROUNDS, [1.0, -0.5, 0.4, -0.3, 0.2])
    blt = ev.BufferedToeplitzStrategy(ROUNDS, [0.99, 0.8], [0.05, 0.2])
    tree = ev.TreeStrategy(ROUNDS, 2)
    separated = ev.SeparatedParticipation(20, 50)

    def with_matrix(strategy: ev.Strategy, name: str, *arguments: int) -> Callable[[Any], float]:
        matrix = strategy_matrix(strategy)
        return lambda module: float(getattr(module, name)(module.jnp.array(matrix), *arguments))

    def with_coefficients(module: Any) -> float:
        from jax_privacy.matrix_factorization import toeplitz

        column = module.jnp.array(strategy_matrix(blt)[:, 0])
        return float(toeplitz.minsep_sensitivity_squared(column, 50, 20, ROUNDS)) ** 0.5

    bound = "get_min_sep_sensitivity_upper_bound"
    single = "single_participation_sensitivity"
    return (
        Case("tree, single", tree, ev.SingleParticipation(), with_matrix(tree, single)),
        Case(
            "5 bands, 50 apart",
            banded,
            separated,
            with_matrix(banded, "get_sensitivity_banded", 50, 20),
        ),
        Case("BLT, 50 apart", blt, separated, with_coefficients),
        Case(
            "BLT, 20 epochs",
            blt,
            ev.EpochParticipation(20),
            with_matrix(blt, "fixed_epoch_sensitivity", 20),
        ),
        Case(
            "random, 10 epochs",
            dense,
            ev.EpochParticipation(10),
            with_matrix(dense, "fixed_epoch_sensitivity", 10),
            bound=True,
        ),
        Case(
            "random, 20 apart",
            dense,
            ev.SeparatedParticipation(10, 20),
            with_matrix(dense, bound, 20, 10),
            bound=True,
        ),
        Case("tree, 50 apart", tree, separated, with_matrix(tree, bound, 50, 20), bound=True),
    )


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    installed = find_spec("jax_privacy") is not None
    table = grid(
        "Correlated noise: by how much a unit moves C x",
        "<strategy, participation",
        "lower",
        "upper",
        "<exact",
        "time",
        "jax_privacy",
        "its time",
    )
    never_above, agree, slowest = True, True, 0.0
    for case in cases():
        progress(case.name)
        mine = timing.timed(case.ours, 3)
        bounds = mine.result.bounds
        slowest = max(slowest, mine.seconds)
        theirs = _peer(case) if installed else None
        if theirs is not None:
            never_above &= bounds.upper <= theirs.result * (1.0 + EVERY_OTHER_DIGIT)
            if not case.bound:
                agree &= abs(bounds.upper / theirs.result - 1.0) <= EVERY_OTHER_DIGIT
        table.add_row(
            case.name,
            f"{bounds.lower:.5f}",
            f"{bounds.upper:.5f}",
            yes(mine.result.exact),
            seconds(mine.seconds),
            "not installed" if theirs is None else f"{theirs.result:.5f}",
            "" if theirs is None else seconds(theirs.seconds),
        )
    console.print(table, NOTE, "", sep="\n")
    fast = Verdict("sensitivity of C, slowest", "<= 2 s", seconds(slowest), slowest <= 2.0)
    if not installed:
        return [fast]
    return [
        fast,
        Verdict(
            "sensitivity of C, where both are exact", "equal", yes(agree).split("]")[1][:-2], agree
        ),
        Verdict(
            "sensitivity of C, never above jax_privacy's",
            "each",
            yes(never_above).split("]")[1][:-2],
            never_above,
        ),
    ]


def _peer(case: Case) -> timing.Timing[float]:
    from jax_privacy.matrix_factorization import sensitivity

    case.peer(sensitivity)
    return timing.timed(lambda: case.peer(sensitivity), 3)


if __name__ == "__main__":
    show(Console(width=140))
