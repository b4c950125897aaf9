"""Correlated noise next to independent noise, at the same epsilon: `python bench/banded.py`.

Users take part in ten cohorts in turns, 50 rounds, five seeds.  With one band the noise of each
round is its own.  The last arm has no cohorts: everybody takes part in every round.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, yes

from privplan.fl.running import Configuration, ready_new_run
from privplan.fl.running.session import execute

ROUNDS: Final = 50
COHORTS: Final = 10
SEEDS: Final = (1, 2, 3, 4, 5)
ARMS: Final[Mapping[str, int | None]] = {
    "banded, 10 bands": 10,
    "independent, same cohorts": 1,
    "independent, everybody": None,
}
"""Bands of each arm; None: without cohorts."""


@dataclass(frozen=True)
class Case:
    """A data set, its epsilon at delta 1e-5, and the server's rates that are tried."""

    data: str
    epsilon: float
    rates: tuple[float, ...]

    def settings(self, bands: int | None, rate: float, seed: int) -> str:
        """Return the configuration of one run."""
        turns = f'noise = "banded"\ncohorts = {COHORTS}\nbands = {bands}' if bands else ""
        return f"""
[run]
system = "uldp-avg"
rounds = {ROUNDS}
seed = {seed}
evaluate_every = {ROUNDS}
[data]
name = "{self.data}"
users = 100
silos = 5
[privacy]
epsilon = {self.epsilon}
delta = 1e-5
{turns}
[training]
global_rate = {rate}
"""


CASES: Final = (Case("breast-cancer", 4.0, (30.0, 100.0)), Case("digits", 8.0, (10.0, 30.0)))


def accuracy(case: Case, bands: int | None, rate: float, seed: int) -> float:
    """Return the balanced accuracy of the last model."""
    with tempfile.TemporaryDirectory() as made:
        file, folder = Path(made) / "run.toml", Path(made) / "run"
        file.write_text(case.settings(bands, rate, seed))
        ready = ready_new_run(Configuration.read(file), folder)
        with ready.writer:
            result = execute(ready.prepared, folder, ready.writer)
    return float(result.measured[-1].metrics["balanced_accuracy"])


def show(console: Console, quick: bool = False) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    seeds = SEEDS[:2] if quick else SEEDS
    verdicts = []
    title = f"Correlated noise: balanced accuracy after {ROUNDS} rounds, {len(seeds)} seeds"
    table = grid(title, "<data", "epsilon", "rate", "<noise", "mean", "least", "most")
    for case in CASES:
        progress(f"correlated noise on {case.data}")
        gains = []
        for rate in case.rates:
            scores = {
                arm: np.array([accuracy(case, bands, rate, seed) for seed in seeds])
                for arm, bands in ARMS.items()
            }
            for arm, each in scores.items():
                cells = [f"{value:.3f}" for value in (each.mean(), each.min(), each.max())]
                table.add_row(case.data, f"{case.epsilon:g}", f"{rate:g}", arm, *cells)
            banded, alone, _ = scores.values()
            gains.append((float((banded - alone).mean()), float((banded - alone).min())))
        verdicts.append(
            Verdict(
                f"{case.data}: banded less independent noise, same cohorts, mean over seeds",
                "> 0 at every rate",
                ", ".join(f"{mean:+.3f} (worst seed {worst:+.3f})" for mean, worst in gains),
                min(gains)[0] > 0.0,
            )
        )
    console.print(
        table,
        "What cohorts lose, correlated noise makes up for in part: where everybody can take part "
        "in every round, independent noise is better still.",
        "",
        sep="\n",
    )
    return verdicts


if __name__ == "__main__":
    console = Console(width=120)
    for verdict in show(console):
        console.print(verdict.what, verdict.measured, yes(verdict.reached))
