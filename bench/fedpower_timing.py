"""How long runs of FedPower take: 100 nodes, 92 rounds, 1,000 x 500, rank 10; and one release."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fedpower_systems import AGGREGATIONS, dealt, iterates, settings, system_of
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

import privplan as pp
from privplan.fl.data.federation import Federation
from privplan.fl.settings.schema import Settings

NODES, ROUNDS, ROWS, COLUMNS, RANK = 100, 92, 1_000, 500, 10

LIMIT, LIMIT_ONE_SHOT = 25.0, 2.0
"""Seconds on two cores that were asked for."""

NOTE = """\
Whole numbers from 0 to 5. Rounds are made in memory, with intents and sealed items, and with sums
in the clear.  The line on masks is measured over 2 rounds, and stands for 92: what 100 parties say
to each other, all of it computed here.  The encryption of Algorithm 2 is not in it
(`fedpower_parties`)."""


@dataclass(frozen=True)
class Run:
    """One thing that is timed, wall and processor seconds, and the limit."""

    what: str
    wall: float
    processor: float
    limit: float


def timed(what: str, limit: float, call: Callable[[], object]) -> Run:
    """Return the times of one call, all threads of this process together."""
    progress(f"fedpower: {what}")
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return Run(what, time.perf_counter() - wall, time.process_time() - processor, limit)


def ratings() -> np.ndarray:
    """Return a matrix of whole numbers from 0 to 5."""
    return np.random.default_rng(1).integers(0, 6, (ROWS, COLUMNS)).astype(np.float64)


def runs() -> list[Run]:
    """Time the systems, and one release of a Gram matrix."""
    rows = ratings()
    federation = dealt(rows, NODES)
    power = {"rank": RANK, "row_norm": 80.0, "most_rows": 10 * ROWS}
    published = {**power, "as_published": True, "divide_by_rows": True}
    chosen = (
        ("fedpower-power", power, {"epsilon": 8.0}),
        ("fedpower-original", published, {"noise_multiplier": 5.0}),
        ("fedpower-private", published, {"noise_multiplier": 5.0}),
    )
    found = []
    for system, table, privacy in chosen:
        made = settings(
            system,
            federation,
            privacy=privacy,
            fedpower=table,
            rounds=ROUNDS,
        )

        def all_rounds(made: Settings = made) -> None:
            for _ in iterates(system_of(made, federation, 1), (COLUMNS, RANK), 1):
                pass

        words = system if AGGREGATIONS[system] == "plain" else f"{system}, in the clear"
        found.append(timed(words, LIMIT, all_rounds))
    found.append(under_masks(federation, published))
    found.append(timed("one release, and its directions", LIMIT_ONE_SHOT, released))
    return found


def under_masks(federation: Federation, table: dict[str, Any], measured: int = 2) -> Run:
    """Return the time of Algorithm 3 under masks: some rounds, times all of them."""
    made = settings(
        "fedpower-private",
        federation,
        privacy={"noise_multiplier": 5.0},
        fedpower=table,
        rounds=measured,
    )

    def rounds() -> None:
        masked = system_of(made, federation, 1, in_the_clear=False)
        for _ in iterates(masked, (COLUMNS, RANK), 1):
            pass

    run = timed("fedpower-private, under masks", LIMIT, rounds)
    times = ROUNDS / measured
    return replace(run, wall=run.wall * times, processor=run.processor * times)


def released() -> None:
    """Release a Gram matrix of the rows once, and take its leading directions."""
    statistics = pp.PrivateStatistics(
        row_norm=80.0, epsilon=8.0, delta=1e-5, intercept=0.0, silos=NODES, seed=1
    )
    statistics.release(ratings(), silo=np.repeat(np.arange(NODES), ROWS // NODES))
    pp.PrivatePCA(statistics, n_components=RANK).fit()


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    released()  # warm-up: imports
    table = grid(
        f"FedPower: {NODES} nodes, {ROUNDS} rounds, {ROWS:,} x {COLUMNS}, rank {RANK}",
        *("<what", "wall", "processor", "asked"),
    )
    verdicts = []
    for run in runs():
        asked = f"under {run.limit:g} s"
        table.add_row(run.what, seconds(run.wall), seconds(run.processor), asked)
        reached = run.wall <= run.limit
        verdicts.append(Verdict(f"FedPower: {run.what}", asked, seconds(run.wall), reached))
    console.print(table, NOTE, "", sep="\n")
    return verdicts


if __name__ == "__main__":
    show(Console(width=150))
