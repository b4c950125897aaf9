"""Credit-card fraud: two days of card payments, 30 features, fraud or not.

As in Kato et al. 2024: 15% of all 284,807 payments, stratified, are the test set; of the honest
training payments 10% are kept, which leaves 24,584 training records (418 frauds).  The paper scales
by the mean and deviation of private records; this uses public constants.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, section 5, and its
reference code for the order of the steps.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator

from ...accountant.arrays import Float32Array, IntArray
from ...accountant.errors import InvalidInput
from ..data.normalise import Scaling
from . import files
from .bundled import stratified
from .dataset import Dataset
from .published import ALL, require_published_counts

FEATURES: Final = ("Time", *(f"V{number}" for number in range(1, 29)), "Amount")
LABEL: Final = "Class"
FILE: Final = "creditcard.csv"

CREDITCARD_TEST_SHARE: Final = 0.15
NEGATIVES_KEPT: Final = 0.1

SCALING: Final = Scaling(
    lower=(0.0, *28 * (-10.0,), 0.0),
    upper=(172_800.0, *28 * (10.0,), 2_500.0),
    mean=(86_400.0, *28 * (0.0,), 100.0),
    scale=(43_200.0, *28 * (1.0,), 250.0),
    source=(
        "Time: seconds within two days; V1 to V28: principal components, centred by construction,"
        " clipped to 10 either way; Amount: 0 to 2,500, in steps of 250 around 100"
    ),
)


def read(path: str | Path | None, rng: Generator) -> Dataset:
    """Return the data set from `creditcard.csv`, or from the folder that holds it.

    `rng` chooses test records and the honest payments that are kept.  Only rows that are used are
    parsed.  Raises `InvalidInput` for a missing file or column, a class other than 0 and 1, a value
    that is no number, and other numbers of payments of each class than are published.
    """
    source = _file(path)
    lines = files.text(source, files.content(source)).splitlines()
    try:
        header = next(csv.reader(lines[:1]), [])
    except csv.Error:
        header = []
    places = files.column_places(source, header, (*FEATURES, LABEL))
    rows = [line for line in lines[1:] if line]
    labels = _classes(source, rows, places[-1], len(header))
    require_published_counts("creditcard", source.name, ALL, labels)
    test = stratified(labels, CREDITCARD_TEST_SHARE, rng)
    honest = np.flatnonzero(~test & (labels == 0))
    dropped = rng.permutation(honest)[max(int(len(honest) * NEGATIVES_KEPT), 1) :]
    train = ~test
    train[dropped] = False
    return Dataset(
        name="creditcard",
        task="binary",
        classes=2,
        features=_parsed(source, rows, np.flatnonzero(train), places[:-1]),
        labels=labels[train],
        test_features=_parsed(source, rows, np.flatnonzero(test), places[:-1]),
        test_labels=labels[test],
        scaling=SCALING,
        split="15% test, stratified; 10% of honest training payments kept",
        licence="Open Database License (ODbL) 1.0, contents DbCL 1.0",
        citation=(
            "Dal Pozzolo, Caelen, Johnson, Bontempi (2015), Calibrating probability with"
            " undersampling for unbalanced classification, IEEE CIDM; Worldline and ULB"
        ),
    )


def _file(path: str | Path | None) -> Path:
    if path is not None and files.is_there(files.expanded(path), Path.is_file):
        return files.expanded(path)
    return files.folder("creditcard", path, (FILE,)) / FILE


def _classes(source: Path, rows: list[str], class_column: int, width: int) -> IntArray:
    codes = {"0": 0, "1": 1, '"0"': 0, '"1"': 1, "'0'": 0, "'1'": 1}
    labels = np.empty(len(rows), np.int64)
    for number, row in enumerate(rows):
        values = row.split(",")
        label = codes.get(values[class_column]) if len(values) == width else None
        if label is None:
            raise InvalidInput(
                f"Line {number + 2} of {source.name} is no payment of class 0 or 1.",
                next_step="Fetch the file again.",
            )
        labels[number] = label
    return labels


def _parsed(source: Path, rows: list[str], chosen: IntArray, places: list[int]) -> Float32Array:
    picked = [rows[number] for number in chosen]
    try:
        return np.loadtxt(
            picked, np.float32, delimiter=",", usecols=places, quotechar='"', ndmin=2, comments=None
        )
    except ValueError:
        raise InvalidInput(
            f"{source.name} has a value that is no number.", next_step="Fetch the file again."
        ) from None
