"""A round of `uldp-avg` that trains a module of one's own, for three numbers of users."""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

USERS = (2_500, 5_000, 10_000)
RECORDS, SILOS, FEATURES, WIDTH = 10, 10, 30, 205
ASKED_SECONDS = 60.0
MOST_GROWTH = 1.3
"""How much more than four times the time four times as many users may take."""

NOTE = """\
30 features, two hidden layers of width 205 with LayerNorm (49,817 parameters), a table of ten
silos, ten records a user, one local epoch, one thread: training, clips, noise, sum and log."""


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if find_spec("torch") is None:
        console.print("[yellow]Models of one's own are skipped: torch is not installed.[/]")
        return []
    table = grid("A module of one's own", "users", "records", "a round", "per 1,000 users")
    times: dict[int, float] = {}
    for users in USERS[:2] if quick else USERS:
        progress(f"a round of {users:,} users with a module of one's own")
        with tempfile.TemporaryDirectory() as folder:
            times[users] = _round(Path(folder), users)
        each = seconds(times[users] / users * 1e3)
        table.add_row(f"{users:,}", f"{users * RECORDS:,}", seconds(times[users]), each)
    console.print(table, NOTE, "", sep="\n")
    most, few = max(times), min(times)
    growth = times[most] / times[few] / (most / few)
    verdicts = [
        Verdict(
            "a module of one's own, time by users",
            f"linear, <= {MOST_GROWTH:g}x",
            f"{growth:.2f}x",
            growth <= MOST_GROWTH,
        )
    ]
    if most == USERS[-1]:
        what = f"a round of {most:,} users with 50,000 parameters"
        reached = times[most] <= ASKED_SECONDS
        verdicts.append(Verdict(what, f"<= {ASKED_SECONDS:g} s", seconds(times[most]), reached))
    return verdicts


def _round(folder: Path, users: int) -> float:
    """Return the seconds of one round on a table that is written for it."""
    import privplan as pp

    columns = {f"x{index}": {"kind": "number", "range": [-4, 4]} for index in range(FEATURES)}
    files = {f"s{silo}": str(_file(folder, silo, users // SILOS)) for silo in range(SILOS)}
    began = 0.0

    def module(features: int, classes: int) -> Any:
        from torch import nn

        hidden: list[nn.Module] = []
        for inputs in (features, WIDTH):
            hidden += [nn.Linear(inputs, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU()]
        nonlocal began
        began = time.perf_counter()  # made last before the rounds
        return nn.Sequential(*hidden, nn.Linear(WIDTH, classes))

    label = {"column": "y", "kind": "binary", "values": ["0", "1"]}
    configuration = {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {
            "name": "table",
            "silos": files,
            "user": "id",
            "users_at_most": users,
            "columns": columns,
            "label": label,
        },
        "privacy": {"noise_multiplier": 5.0},
        "training": {"local_epochs": 1},
    }
    pp.run(configuration, folder / "out", model=module)
    return time.perf_counter() - began


def _file(folder: Path, silo: int, users: int) -> Path:
    """Return a file of one silo, with users of its own."""
    rng = np.random.default_rng(silo)
    x = rng.normal(size=(users * RECORDS, FEATURES))
    who = rng.integers(silo * users, (silo + 1) * users, len(x))
    y = (x[:, 0] + x[:, 1] > 0.0).astype(int)
    path = folder / f"s{silo}.csv"
    header = ",".join(["id", "y", *(f"x{index}" for index in range(FEATURES))])
    table = np.column_stack([who, y, x])
    np.savetxt(
        path,
        table,
        fmt=["%d", "%d", *["%.3f"] * FEATURES],
        delimiter=",",
        header=header,
        comments="",
    )
    return path
