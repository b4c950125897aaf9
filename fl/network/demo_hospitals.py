"""Three hospitals' files for a demonstration: made by a rule, so no person stands behind a row."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOSPITALS: Final = ("north", "south", "east")

_PATIENTS: Final = 240
_HEADER: Final = ("patient", "age", "stage", "smoker", "readmitted")

SCHEMA: Final = """# What is public of the hospitals' files.
[label]
kind = "binary"
values = ["no", "yes"]
source = "a demonstration"

[columns.age]
kind = "number"
range = [18, 105]
source = "a demonstration"

[columns.stage]
kind = "ordinal"
values = ["I", "II", "III", "IV"]

[columns.smoker]
kind = "boolean"
values = ["no", "yes"]
"""

CONFIG: Final = """# Three hospitals learn who comes back, each with its files in its own house.
[run]
system = "uldp-avg"
rounds = 3
[data]
name = "table"
silos = {{ north = "north.csv", south = "south.csv", east = "east.csv" }}
user = "patient"
label = "readmitted"
schema = "{schema}"
users_at_most = 500
[privacy]
epsilon = 4.0
delta = 1e-5
[training]
weighting = "uniform"
local_epochs = 1
[security]
aggregation = "masked"
"""


def write_hospitals(folder: Path) -> Path:
    """Write the files, the schema and a configuration in a folder; return the configuration."""
    for number, hospital in enumerate(HOSPITALS):
        with (folder / f"{hospital}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_HEADER)
            writer.writerows(_rows(number))
    (folder / "schema.toml").write_text(SCHEMA, "utf-8")
    config = folder / "run.toml"
    config.write_text(CONFIG.format(schema=folder / "schema.toml"), "utf-8")
    return config


def _rows(hospital: int) -> Iterator[tuple[object, ...]]:
    """Yield the visits of a hospital; some patients are seen in two of them."""
    for patient in range(_PATIENTS):
        told = hashlib.sha256(f"patient {patient}".encode()).digest()
        if told[0] % 3 != hospital and told[1] % 8:
            continue
        age, stage, smokes = 18 + told[2] % 80, told[3] % 4, told[4] < 80
        comes_back = age / 2 + 12 * stage + 20 * smokes + told[5] / 8 > 75
        stages = ("I", "II", "III", "IV")
        yield (
            f"P{patient:04}",
            age,
            stages[stage],
            "yes" if smokes else "no",
            "yes" if comes_back else "no",
        )
