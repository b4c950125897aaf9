"""How long a whole run of DISCO's peers takes: 20 peers, 20 rounds, 7,850 numbers, as shares."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

import privplan as pp

PEERS, ROUNDS, LIMIT = 20, 20, 30.0

RECORDS, TESTS = 2_000, 100

NOTE = """\
By the path of `privplan run`: plan, folder, log and sealed items on disk.  2,000 images of MNIST's
size are generated, in its format: one step of local training on each peer's 100.  Nothing is
evaluated.  All peers run in this one process.  Kept transcripts are in memory."""


@dataclass(frozen=True)
class Run:
    """Wall and processor seconds of one run."""

    what: str
    wall: float
    processor: float


def write_images(folder: Path) -> None:
    """Write generated images and labels in the format of MNIST's four files."""
    random = np.random.default_rng(1)
    for name, count in (("train", RECORDS), ("t10k", TESTS)):
        images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        head = np.array([0x803, count, 28, 28], ">u4").tobytes()
        (folder / f"{name}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = np.array([0x801, count], ">u4").tobytes()
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())


def configuration(folder: Path, *, keep: bool) -> dict[str, dict[str, object]]:
    """Return the run that is timed: a linear model of 784 x 10 and 10 numbers."""
    return {
        "run": {"system": "disco", "rounds": ROUNDS},
        "data": {"name": "mnist", "path": str(folder), "users": PEERS, "silos": PEERS},
        "privacy": {"epsilon": 5.0, "delta": 1e-5},
        "security": {"keep_transcripts": keep},
        "training": {
            "model": "softmax",
            "dropout": 0.0,
            "local_rate": 0.3,
            "local_epochs": 1,
            "batch": RECORDS,
            "clip": 0.3,
        },
        "disco": {"noise": "shared"},
        "evaluation": {"test": "none"},
    }


def runs() -> list[Run]:
    """Time the run, with transcripts kept and without."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "mnist"
        data.mkdir()
        write_images(data)
        for what, keep in (("nothing kept", False), ("transcripts kept", True)):
            progress(f"disco: {PEERS} peers, {ROUNDS} rounds, {what}")
            wall, processor = time.perf_counter(), time.process_time()
            pp.run(configuration(data, keep=keep), Path(name) / what)
            found.append(Run(what, time.perf_counter() - wall, time.process_time() - processor))
    return found


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid("DISCO: a whole run of 20 peers", "<what", "wall", "processor", "asked")
    verdicts = []
    for run in runs():
        asked = f"under {LIMIT:g} s"
        table.add_row(run.what, seconds(run.wall), seconds(run.processor), asked)
        verdicts.append(
            Verdict(f"DISCO's run, {run.what}", asked, seconds(run.wall), run.wall <= LIMIT)
        )
    console.print(table, NOTE, "", sep="\n")
    return verdicts


if __name__ == "__main__":
    show(Console(width=120))
