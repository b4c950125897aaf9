"""The exact integer Gram matrix of rows in a file, next to numpy's product of the same floats.

`python bench/gram.py FOLDER ours|numpy NORM` measures one of them in a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = 10
INTERCEPT = 0.2

BLOCK = 100_000
"""Rows that are written, or checked, at a time."""


@dataclass(frozen=True)
class Case:
    """Rows of uniform features in [0, 1], and what is asked of their statistics."""

    rows: int
    columns: int
    mapped: bool
    asked_cpu: float | None
    asked_wall: float | None
    asked_memory: int

    @property
    def name(self) -> str:
        """Return what the table calls it."""
        return f"{self.rows:,} x {self.columns}, {'mapped' if self.mapped else 'in memory'}"


CASES = (
    Case(60_000, 784, False, 1.3, None, 420),
    Case(1_000_000, 100, True, None, 60.0, 500),
)

NOTE = f"""\
Features are float32, in a file; each row is the sum of a new process, whose memory is its highest,
with Python, the data and the pages of the file. privplan: the rows on a grid of 17 bits with an
intercept, and sums over {CLASSES} classes. "long" rows are twice the row norm or more, so each is
shortened. numpy: the same features in float64, X.T @ X, and nothing else. "exact": 8 columns and
the intercept against 64-bit integer products."""


def show(console: Any) -> list[Any]:
    """Print the table and return what was asked of it."""
    from verdicts import Verdict, grid, progress, seconds, yes

    table = grid("Gram matrices", "<rows", "<what", "CPU", "clock", "MiB", "<exact", "of numpy")
    verdicts = []
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        for case in CASES:
            progress(f"Gram matrix of {case.name}")
            _write(folder, case)
            numpy = _process(folder, "numpy", case, 1.0)
            short, long = (_process(folder, "ours", case, times) for times in (1.0, 0.25))
            for what, of in (("numpy, float64", numpy), ("privplan", short), ("long rows", long)):
                table.add_row(
                    case.name,
                    what,
                    seconds(of["cpu"]),
                    seconds(of["wall"]),
                    f"{of['memory']:.0f}",
                    yes(of["exact"]) if "exact" in of else "",
                    f"{of['cpu'] / numpy['cpu']:.2f}",
                )
            name = f"Gram matrix of {case.name}"
            for limit, value, what in (
                (case.asked_cpu, short["cpu"], "CPU"),
                (case.asked_wall, short["wall"], "clock"),
            ):
                if limit is not None:
                    reached = short["exact"] and value <= limit
                    verdicts.append(
                        Verdict(f"{name}, {what}", f"<= {limit:g} s", seconds(value), reached)
                    )
            used, most = short["memory"], case.asked_memory
            verdicts.append(
                Verdict(f"{name}, memory", f"<= {most} MiB", f"{used:.0f} MiB", used <= most)
            )
    console.print(table, NOTE, "", sep="\n")
    return verdicts


def _write(folder: Path, case: Case) -> None:
    rng = np.random.default_rng(0)
    shape = (case.rows, case.columns)
    features = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, shape)
    for first in range(0, case.rows, BLOCK):
        part = features[first : first + BLOCK]
        part[:] = rng.random(part.shape, np.float32)
    features.flush()
    np.save(folder / "labels.npy", rng.integers(0, CLASSES, case.rows).astype(np.int8))


def _process(folder: Path, what: str, case: Case, times: float) -> dict[str, Any]:
    """Return what a new process says of itself; the row norm is `times` the longest row's."""
    norm = times * case.columns**0.5
    mode = "mapped" if case.mapped else "memory"
    command = [sys.executable, __file__, str(folder), what, mode, str(norm)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _measure(folder: Path, what: str, mode: str, norm: float) -> dict[str, Any]:
    from privplan.accountant.mechanisms.gram_noise import NoisyGram
    from privplan.accountant.mechanisms.gram_rows import gram_total
    from privplan.accountant.sensitivity.gram import GramBound

    features = np.load(folder / "features.npy", mmap_mode="r" if mode == "mapped" else None)
    labels = np.load(folder / "labels.npy")
    bound = GramBound(dimension=features.shape[1] + 1, classes=CLASSES)
    release = NoisyGram(gram=bound, std=5.0, bits=17, row_norm=norm)
    cpu, wall = time.process_time(), time.perf_counter()
    if what == "numpy":
        wide = features.astype(np.float64)
        total = wide.T @ wide
    else:
        total = gram_total(release, features, labels, intercept=INTERCEPT).total
    answer: dict[str, Any] = {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "memory": _highest_memory(),
    }
    if what == "ours":
        answer["exact"] = _exact(release, features, total)
    return answer


def _highest_memory() -> float:
    """Return the most MiB that this process has had; `getrusage` knows its parent's too."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def _exact(release: Any, features: Any, total: Any) -> bool:
    """Return whether sums of some columns are those of 64-bit integers, which do not overflow."""
    from privplan.accountant.mechanisms.gram_row_grid import grid_rows

    d = release.gram.dimension
    columns = np.r_[np.linspace(0, d - 2, 8).astype(int), d - 1]
    gram = np.zeros((9, 9), np.int64)
    for first in range(0, len(features), BLOCK):
        rows, _ = grid_rows(release, features[first : first + BLOCK], intercept=INTERCEPT)
        some = rows[:, columns].astype(np.int64)
        gram += some.T @ some
    i, j = (columns[each] for each in np.triu_indices(9))
    return bool((total[i * d - i * (i - 1) // 2 + j - i] == gram[np.triu_indices(9)]).all())


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))))
