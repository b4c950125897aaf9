"""A run on a table of three sizes: its plan, a round, the memory; and that their cost is linear."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

USERS = (25_000, 50_000, 100_000)
SILOS = 50
TABLE_FEATURES = 30
RECORDS_PER_USER = 5

MAX_PLAN_SECONDS = 5.0
MAX_ROUND_SECONDS = 20.0
MAX_MEMORY_GIB = 2.0
MAX_GROWTH = 1.25
"""How many times as much a user may cost in the largest table as in the smallest."""

NOTE = """\
50 silos, each a CSV file; 30 features, 5 records of each user in silos drawn at random; uldp-avg
with a logistic model. Each size is a new process: the plan is its whole time from the first import,
with the files read; the round is training, clipping, the sum and the noise, with its log. The cost
of a user is that of reading and of the round, by how much both grow."""


def show(console: Any, environment: Mapping[str, str]) -> list[Any]:
    """Print the table and return what was asked of it."""
    from verdicts import Verdict, grid, progress, seconds, yes

    table = grid("A table", "users", "records", "plan", "its CPU", "read", "a round", "peak memory")
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for users in USERS:
            progress(f"a table of {users:,} users")
            _write(Path(folder), users)
            said = subprocess.run(
                [sys.executable, __file__, folder, str(users)],
                env=dict(environment),
                check=True,
                capture_output=True,
                text=True,
            )
            measured.append(json.loads(said.stdout))
            last = measured[-1]
            table.add_row(
                f"{users:,}",
                f"{last['records']:,}",
                *(seconds(last[part]) for part in ("plan", "cpu", "read", "round")),
                f"{last['memory']:.2f} GiB",
            )
    console.print(table, NOTE, "", sep="\n")
    least, most = measured[0], measured[-1]
    larger = (most["read"] + most["round"]) / (least["read"] + least["round"])
    growth = larger * USERS[0] / USERS[-1]
    rows = (
        (
            "plan",
            f"< {MAX_PLAN_SECONDS:g} s",
            seconds(most["plan"]),
            most["plan"] < MAX_PLAN_SECONDS,
        ),
        (
            "round",
            f"< {MAX_ROUND_SECONDS:g} s",
            seconds(most["round"]),
            most["round"] < MAX_ROUND_SECONDS,
        ),
        (
            "memory",
            f"< {MAX_MEMORY_GIB:g} GiB",
            f"{most['memory']:.2f} GiB",
            most["memory"] < MAX_MEMORY_GIB,
        ),
        ("cost of a user", f"<= {MAX_GROWTH:g}x", f"{growth:.2f}x", growth <= MAX_GROWTH),
    )
    for what, asked, reached, enough in rows:
        console.print(f"{what}: {reached}, asked {asked}, {yes(enough)}")
    return [Verdict(f"table of {USERS[-1]:,} users, {row[0]}", *row[1:]) for row in rows]


def _write(folder: Path, users: int) -> None:
    """Write the files of all silos."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    rows = RECORDS_PER_USER * users
    user, silo = rng.integers(users, size=rows), rng.integers(SILOS, size=rows)
    plain = csv.WriteOptions(quoting_style="none")
    for index in range(SILOS):
        here = user[silo == index]
        features = np.round(rng.normal(size=(len(here), TABLE_FEATURES)), 3)
        columns = {f"x{number}": features[:, number] for number in range(TABLE_FEATURES)}
        label = (features[:, 0] + rng.normal(size=len(here)) > 0.0).astype(int)
        frame = pa.table({"patient": here, **columns, "y": label})
        csv.write_csv(frame, folder / f"s{index}.csv", plain)


def configuration(folder: Path, users: int) -> dict[str, dict[str, Any]]:
    """Return the configuration of a run on them."""
    columns = {
        f"x{number}": {"kind": "number", "range": [-4, 4]} for number in range(TABLE_FEATURES)
    }
    return {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {
            "name": "table",
            "silos": {f"s{index}": str(folder / f"s{index}.csv") for index in range(SILOS)},
            "user": "patient",
            "label": {"column": "y", "kind": "binary", "values": ["0", "1"]},
            "columns": columns,
            "users_at_most": users,
        },
        "privacy": {"noise_multiplier": 5.0, "delta": 1e-6},
    }


def _measure(folder: Path, users: int) -> dict[str, float]:
    """Return what a new process needs, in seconds and GiB."""
    began = time.perf_counter()
    import privplan as pp
    from privplan.fl.log import LogWriter
    from privplan.fl.running.session import execute
    from privplan.fl.tables.federated_table import table_of

    planned = pp.plan_run(configuration(folder, users))
    plan, cpu = time.perf_counter() - began, time.process_time()
    data = planned.prepared.settings.data
    began = time.perf_counter()
    table_of(data)
    read = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as out, LogWriter.create(Path(out) / "run") as writer:
        began = time.perf_counter()
        execute(planned.prepared, Path(out) / "run", writer)
        last = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    records = planned.prepared.federation.records
    timed = {"plan": plan, "cpu": cpu, "read": read, "round": last}
    return {**timed, "memory": memory, "records": records}


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), int(sys.argv[2]))))
