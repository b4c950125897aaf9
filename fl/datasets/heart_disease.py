"""UCI Heart Disease: four hospitals, 13 features, is there heart disease or not.

Prepared as FLamby's Fed-Heart-Disease: columns 11 to 13 (slope, ca, thal) are dropped because they
are mostly missing, then rows with any missing value; chest pain and resting ECG become dummy
variables without their first category, which gives 13 features; labels 1 to 4 become 1.  The split
is FLamby's, row by row: scikit-learn's `train_test_split` per hospital with test share 0.34,
random state 43, stratified by label except in Switzerland, which has one healthy patient.  It
looks at labels, and is fixed and public.  FLamby then scales by private means; this does not.

Cholesterol 0 stands for "not measured" in Switzerland and part of VA; like FLamby, it stays.

Source: du Terrail et al. 2022, *FLamby*, arXiv 2210.04620, section on Fed-Heart-Disease.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...accountant.arrays import Float32Array, FloatArray
from ...accountant.errors import InvalidInput
from ..data.normalise import Scaling
from . import files
from .dataset import Dataset, parted
from .published import require_published_file

CENTRES: Final = ("cleveland", "hungarian", "switzerland", "va")

FEATURES: Final = (
    "age",
    "sex",
    "trestbps",
    "chol",
    "fbs",
    "thalach",
    "exang",
    "oldpeak",
    "cp=2",
    "cp=3",
    "cp=4",
    "restecg=1",
    "restecg=2",
)

# Bit i, from the left: complete row i of the hospital is a test record.
_TEST_ROWS: Final = {
    "cleveland": "040480a020b3c59dc48a03b505c0481087c001ac9430180a847015a598491260f8e2001cebe4",
    "hungarian": "1100847cb841d42c88700d510093869198d144134848122f693a0411802910ba30",
    "switzerland": "07863a8c80c0",
    "va": "464800245b65020eb85b04886003a74580",
}

_COLUMNS: Final = 14
_KEPT: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13)
_PLAIN: Final = (0, 1, 3, 4, 5, 7, 8, 9)
_CHEST_PAIN: Final = 2
_RESTING_ECG: Final = 6

# Order: FEATURES.  Zero-one features are taken to -1 and 1.
SCALING: Final = Scaling(
    lower=(18.0, 0.0, 80.0, 0.0, 0.0, 60.0, 0.0, -3.0, *5 * (0.0,)),
    upper=(100.0, 1.0, 200.0, 600.0, 1.0, 220.0, 1.0, 7.0, *5 * (1.0,)),
    mean=(55.0, 0.5, 130.0, 200.0, 0.5, 140.0, 0.5, 1.0, *5 * (0.5,)),
    scale=(10.0, 0.5, 20.0, 100.0, 0.5, 25.0, 0.5, 1.0, *5 * (0.5,)),
    source=(
        "round clinical values, not computed from these records: adults of middle age; 130 mm Hg,"
        " where hypertension begins (ACC/AHA 2017); 200 mg/dl, the desirable limit of cholesterol"
        " (NCEP ATP III); exercise heart rate 60 to 220; ST depression of 1 mm, the usual"
        " threshold of a positive exercise ECG; zero-one features to -1 and 1"
    ),
)


def read(path: str | Path | None, rng: Generator) -> Dataset:  # noqa: ARG001
    """Return the data set from a folder with the four `processed.*.data` files; needs no `rng`.

    Silos 0 to 3 are Cleveland, Hungary, Switzerland and VA Long Beach, with 199/104, 172/89, 30/16
    and 85/45 training/test records.  Raises `InvalidInput` for a missing file or another MD5.
    """
    names = [f"processed.{centre}.data" for centre in CENTRES]
    folder = files.folder("heart-disease", path, names)
    features, labels, silo, test = [], [], [], []
    for number, (centre, name) in enumerate(zip(CENTRES, names, strict=True)):
        raw = files.content(folder / name)
        require_published_file("heart-disease", folder / name, raw)
        rows = complete_rows(name, files.text(folder / name, raw))
        features.append(coded(rows))
        labels.append((rows[:, -1] > 0).astype(np.int64))
        silo.append(np.full(len(rows), number, np.int64))
        test.append(_test_rows(centre, len(rows)))
    held_out = np.concatenate(test)
    table, label, centre_of = np.concatenate(features), np.concatenate(labels), np.concatenate(silo)
    return Dataset(
        name="heart-disease",
        task="binary",
        classes=2,
        **parted(held_out, table, label, centre_of),
        silos=len(CENTRES),
        scaling=SCALING,
        split="FLamby's, row by row",
        licence="CC BY 4.0",
        citation=(
            "Janosi, Steinbrunn, Pfisterer, Detrano (1988), Heart Disease,"
            " UCI Machine Learning Repository, doi 10.24432/C52P4X"
        ),
    )


def complete_rows(name: str, text: str) -> FloatArray:
    """Return (rows, 11): the kept columns of the rows in which none of them is missing."""
    rows = []
    for line, row in enumerate(text.splitlines(), start=1):
        values = row.split(",")
        if len(values) != _COLUMNS:
            raise InvalidInput(
                f"Line {line} of {name} has {len(values)} values, not {_COLUMNS}.",
                next_step="Fetch the file again.",
            )
        if all(values[column] != "?" for column in _KEPT):
            rows.append([values[column] for column in _KEPT])
    try:
        return np.array(rows, np.float64).reshape(-1, len(_KEPT))
    except ValueError:
        raise InvalidInput(
            f"{name} has a value that is neither a number nor `?`.",
            next_step="Fetch the file again.",
        ) from None


def coded(rows: FloatArray) -> Float32Array:
    """Return (rows, 13) features, categories as zero-one columns; see `FEATURES`."""
    chest_pain = rows[:, _CHEST_PAIN, None] == (2, 3, 4)
    resting_ecg = rows[:, _RESTING_ECG, None] == (1, 2)
    return np.hstack([rows[:, _PLAIN], chest_pain, resting_ecg]).astype(np.float32)


def _test_rows(centre: str, rows: int) -> NDArray[np.bool_]:
    packed = np.frombuffer(bytes.fromhex(_TEST_ROWS[centre]), np.uint8)
    return np.unpackbits(packed, count=rows).astype(np.bool_)
