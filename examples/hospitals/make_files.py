"""Five hospitals' files, drawn from a seed: no person stands behind a row.

    python make_files.py [FOLDER]

Patients are seen in one hospital, and some of them in a second one. Files have gaps, words that the
schema does not know, and a line that is no row, as such files do.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from pathlib import Path

HOSPITALS = ("north", "south", "east", "west", "centre")
PATIENTS = 1500
HEADER = ("patient", "age", "sex", "stage", "smoker", "marker", "ward", "readmitted")


def visits(rng: random.Random) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of each hospital, in the order of the visits."""
    rows: dict[str, list[tuple[object, ...]]] = {hospital: [] for hospital in HOSPITALS}
    for number in range(PATIENTS):
        patient, home = f"P{number:05d}", rng.choice(HOSPITALS)
        age, sex = min(105.0, max(18.0, rng.gauss(62.0, 15.0))), rng.choice("fm")
        smoker, stage = rng.random() < 0.3, rng.choice(("I", "II", "III", "IV"))
        for _ in range(1 + min(5, int(rng.expovariate(0.9)))):
            marker = rng.lognormvariate(0.4 * smoker, 0.5)
            score = 0.05 * (age - 62.0) + 0.7 * (stage in ("III", "IV")) + 0.8 * (marker - 1.2)
            readmitted = rng.random() < 1.0 / (1.0 + math.exp(-score))
            where = home if rng.random() < 0.9 else rng.choice(HOSPITALS)
            rows[where].append(
                (
                    patient,
                    "" if rng.random() < 0.03 else f"{age:.0f}",
                    "x" if rng.random() < 0.01 else sex,
                    stage,
                    "NA" if rng.random() < 0.05 else ("yes" if smoker else "no"),
                    f"{marker:.3f}",
                    rng.choice(("A", "B", 'C, "new"')),
                    "yes" if readmitted else "no",
                )
            )
    return rows


def main(folder: Path) -> None:
    """Write a file for each hospital."""
    folder.mkdir(parents=True, exist_ok=True)
    for hospital, rows in visits(random.Random(2026)).items():
        with (folder / f"{hospital}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADER)
            writer.writerows(rows)
        print(f"{folder / hospital}.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
