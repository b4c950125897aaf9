"""The words that keys of a configuration take."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from ...accountant.neighbours import NEIGHBOURS, Unit

RATINGS: Final = "ratings"
"""The data set that is a matrix without labels: for systems that declare a use for its keys."""

TABLE: Final = "table"
"""The data set that is the user's own: records of real people, described by a public schema."""

DATASETS: Final = (
    TABLE,
    *("heart-disease", "tcga-brca", "creditcard", "mnist", "digits", "breast-cancer", "low-rank"),
    *("digits-32", "synthetic-digits", "emnist", "cifar-10"),
    RATINGS,
)

MODELS: Final = ("logistic", "cox", "softmax", "linear", "mlp", "cnn", "mlp-64", "alexnet")

LOSSES_OF_NUMBERS: Final = ("squared", "huber")
"""The losses of labels that are numbers, by name: of any model for them."""

LOSSES: Final = ("binary-cross-entropy", "cross-entropy", "cox", *LOSSES_OF_NUMBERS)
"""The losses by name."""

UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
RELATIONS: Final = NEIGHBOURS

Aggregation: TypeAlias = Literal["plain", "masked", "private-weighting", "shares", "shuffle"]
AGGREGATIONS: Final[tuple[Aggregation, ...]] = get_args(Aggregation)

KEY_BITS: Final = (2048, 3072, 4096)

Fsync: TypeAlias = Literal["records", "always", "never"]
