"""The words that keys of a configuration take."""

from __future__ import annotations

from typing import Final

RATINGS: Final = "ratings"
"""The data set that is a matrix without labels: for systems that declare a use for its keys."""

DATASETS: Final = (
    *("heart-disease", "tcga-brca", "creditcard", "mnist", "digits", "breast-cancer", "low-rank"),
    *("digits-32", "synthetic-digits", "emnist", "cifar-10"),
    RATINGS,
)

MODELS: Final = ("logistic", "cox", "softmax", "mlp", "cnn", "mlp-64", "alexnet")

UNITS: Final = ("record", "user", "silo", "entry")
RELATIONS: Final = ("add-remove", "replace-one", "zero-out")

AGGREGATIONS: Final = ("plain", "masked", "private-weighting", "shares", "shuffle")

KEY_BITS: Final = (2048, 3072, 4096)

FSYNC_POLICIES: Final = ("records", "always", "never")
