"""TCGA-BRCA: survival of breast-cancer patients in six regions, from clinical tables.

As in FLamby's Fed-TCGA-BRCA: 39 features (age and 38 zero-one columns), the label is [time in
days, event], 1 for an observed death, and the split is that of `train_test_split.csv`.  Patients of
`brca.csv` whom that file does not list (eight, from sites in Brazil, Nigeria and Pakistan) are
left out.

Source: du Terrail et al. 2022, *FLamby*, arXiv 2210.04620, section on Fed-TCGA-BRCA; features of
Andreux, Manoel, Menuet, Saillard and Simpson 2020, arXiv 2006.08997.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator

from ...accountant.errors import InvalidInput
from ..data.normalise import Scaling
from . import files
from .dataset import Dataset, parted
from .published import TEST, TRAIN, require_published_counts

REGIONS: Final = ("Northeast", "South", "West", "Midwest", "Europe", "Canada")

FEATURES: Final = (
    "age_at_index",
    "ethnicity_not hispanic or latino",
    "ethnicity_not reported",
    "race_asian",
    "race_black or african american",
    "race_not reported",
    "race_white",
    "ajcc_pathologic_m_MX",
    "ajcc_pathologic_n_N0 (i-)",
    "ajcc_pathologic_n_N1",
    "ajcc_pathologic_n_N1a",
    "ajcc_pathologic_n_N2",
    "ajcc_pathologic_n_N2a",
    "ajcc_pathologic_stage_Stage IA",
    "ajcc_pathologic_stage_Stage IIA",
    "ajcc_pathologic_stage_Stage IIB",
    "ajcc_pathologic_stage_Stage IIIA",
    "ajcc_pathologic_stage_Stage IIIC",
    "ajcc_pathologic_t_T1c",
    "ajcc_pathologic_t_T2",
    "ajcc_pathologic_t_T3",
    "ajcc_staging_system_edition_5th",
    "ajcc_staging_system_edition_6th",
    "ajcc_staging_system_edition_7th",
    "icd_10_code_C50.9",
    "morphology_8500/3",
    "morphology_8520/3",
    "primary_diagnosis_Infiltrating duct carcinoma, NOS",
    "primary_diagnosis_Lobular carcinoma, NOS",
    "prior_malignancy_yes",
    "synchronous_malignancy_Not Reported",
    "treatment_or_therapy_not reported",
    "treatment_or_therapy_yes",
    "tumor_stage_stage i",
    "tumor_stage_stage ia",
    "tumor_stage_stage iia",
    "tumor_stage_stage iib",
    "tumor_stage_stage iiia",
    "tumor_stage_stage iiic",
)

_BINARY_FEATURES: Final = len(FEATURES) - 1

SCALING: Final = Scaling(
    lower=(18.0, *_BINARY_FEATURES * (0.0,)),
    upper=(90.0, *_BINARY_FEATURES * (1.0,)),
    mean=(60.0, *_BINARY_FEATURES * (0.0,)),
    scale=(15.0, *_BINARY_FEATURES * (1.0,)),
    source=(
        "age 18 to 90 (the archive shows no age above 90), centred at 60, near the median age at"
        " diagnosis in the United States (SEER), in steps of 15 years; zero-one features as they"
        " are"
    ),
)

_FILES: Final = ("brca.csv", "train_test_split.csv")


def read(path: str | Path | None, rng: Generator) -> Dataset:  # noqa: ARG001
    """Return the data set from a folder with `brca.csv` and `train_test_split.csv`; no `rng`.

    Silos 0 to 5 are `REGIONS`.  Raises `InvalidInput` for a missing file or column, a value that
    is no number, a patient who stands twice in a file, a split that names no region or a patient
    who is not in the table, and other numbers of patients of each region than are published.
    """
    folder = files.folder("tcga-brca", path, _FILES)
    source, split_file = (folder / name for name in _FILES)
    table = files.table(source, ("pid", *FEATURES, "E", "T"))
    row_of = _rows(source, table["pid"])
    fold_of = _folds(split_file, row_of)
    chosen = np.array(sorted(fold_of), np.int64)
    columns = {name: files.numbers(source, name, table[name]) for name in (*FEATURES, "T", "E")}
    with np.errstate(over="ignore"):  # what is infinite as float32 is refused by its place
        features = np.column_stack([columns[name] for name in FEATURES])[chosen].astype(np.float32)
        labels = np.column_stack([columns["T"], columns["E"]])[chosen].astype(np.float32)
    test = np.array([fold_of[row][0] for row in chosen], np.bool_)
    silo = np.array([fold_of[row][1] for row in chosen], np.int64)
    for of, part in ((TRAIN, silo[~test]), (TEST, silo[test])):
        require_published_counts("tcga-brca", split_file.name, of, part)
    return Dataset(
        name="tcga-brca",
        task="survival",
        classes=1,
        **parted(test, features, labels, silo),
        silos=len(REGIONS),
        scaling=SCALING,
        split="FLamby's, as listed in train_test_split.csv",
        licence="TCGA open-access clinical data; check that its terms apply to you",
        citation=(
            "The Cancer Genome Atlas Research Network, TCGA-BRCA; prepared by du Terrail et al."
            " (2022), FLamby, arXiv 2210.04620"
        ),
    )


def _rows(path: Path, patients: list[str]) -> dict[str, int]:
    """Return the row of each patient; refuse a patient who has two."""
    row_of: dict[str, int] = {}
    for row, patient in enumerate(patients):
        if row_of.setdefault(patient, row) != row:
            raise InvalidInput(
                f"Line {row + 2} of {path.name} is of a patient who has another line.",
                "Which of them counts is not known.",
                "Fetch the file again.",
            )
    return row_of


def _folds(path: Path, row_of: dict[str, int]) -> dict[int, tuple[bool, int]]:
    """Return for each row that the split lists whether it is a test record, and its region."""
    table = files.table(path, ("pid", "fold2"))
    known = {
        f"{fold}_{region}": (fold == "test", region)
        for fold in ("train", "test")
        for region in range(len(REGIONS))
    }
    folds: dict[int, tuple[bool, int]] = {}
    for line, (patient, fold) in enumerate(zip(table["pid"], table["fold2"], strict=True), start=2):
        wrong = None
        if fold not in known:
            wrong = "fold2 is no fold of a region"
        elif patient not in row_of:
            wrong = "patient is not in brca.csv"
        elif row_of[patient] in folds:  # else a test record could be trained on
            wrong = "patient stands in a line before it"
        if wrong is not None:
            raise InvalidInput(
                f"Line {line} of {path.name} does not fit: its {wrong}.",
                next_step="Take both files from the same source.",
            )
        folds[row_of[patient]] = known[fold]
    return folds
