"""The data sets by name: one function for all of them."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Final, cast

import numpy as np
from numpy.random import Generator

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from ..data.normalise import Scaling, publicly
from .dataset import Dataset
from .ratings import RATINGS

_MODULES: Final = {
    "heart-disease": "heart_disease",
    "tcga-brca": "tcga_brca",
    "creditcard": "creditcard",
    "mnist": "mnist",
    "digits": "digits",
    "breast-cancer": "breast_cancer",
    "low-rank": "low_rank",
    "digits-32": "digits_32",
    "synthetic-digits": "synthetic_digits",
    "emnist": "emnist",
    "cifar-10": "cifar_10",
}

NAMES: Final = tuple(_MODULES)
"""The names that `load` knows."""

SHAPES: Final = {
    "heart-disease": (13, 2),
    "tcga-brca": (39, 1),
    "creditcard": (30, 2),
    "mnist": (784, 10),
    "digits": (64, 10),
    "breast-cancer": (30, 2),
    "low-rank": (50, 2),
    "digits-32": (1024, 10),
    "synthetic-digits": (64, 10),
    "emnist": (784, 47),
    "cifar-10": (3072, 10),
}
"""How many features a record has, and how many classes there are: known without the records."""


def load(
    name: str,
    path: str | Path | None = None,
    *,
    normalisation: str = "public",
    rng: Generator | None = None,
) -> Dataset:
    """Return a data set by name.

    `path`: the folder of its files (`creditcard`: or the CSV file); `digits`, `digits-32` and
    `breast-cancer` come with scikit-learn, `low-rank` and `synthetic-digits` are generated, and
    they take none.  `normalisation`: `public`
    clips and scales features by public constants (`Dataset.scaling`), `none` leaves them as read.
    `rng` chooses the test records of data sets that come without a split, and Creditcard's sample
    of negatives; without it the choice is fixed.  That choice is public set-up.

    Raises `InvalidInput` for an unknown name, a missing, truncated or wrong file, and
    `normalisation="private"`; `MissingExtra` where scikit-learn is needed and absent.
    """
    if not isinstance(name, str) or name not in _MODULES:
        raise _unknown(name)
    if normalisation == "private":
        raise InvalidInput(
            "Features are not normalised by statistics of private records here.",
            "Such statistics are a release, and must be drawn by an accounted mechanism.",
            "Load with `normalisation='none'`, release the moments"
            " (`fl.frame.private_normalisation.MomentsRelease`), and apply them.",
        )
    validate.choice(("public", "none"), normalisation=normalisation)
    chosen = np.random.default_rng(0) if rng is None else rng
    data = cast(Dataset, _module(name).read(path, chosen))
    if normalisation == "none":
        return data
    return replace(
        data,
        features=publicly(data.features, data.scaling),
        test_features=publicly(data.test_features, data.scaling),
        normalisation=f"public constants: {data.scaling.source}",
    )


def scaling_of(name: str) -> Scaling:
    """Return the public constants of a data set's features, without its records.

    Raises `InvalidInput` for an unknown name.
    """
    return cast(Scaling, _module(name).SCALING)


def _module(name: object) -> ModuleType:
    module = _MODULES.get(name) if isinstance(name, str) else None
    if module is None:
        raise _unknown(name)
    return importlib.import_module(f".{module}", __package__)


def _unknown(name: object) -> InvalidInput:
    if name == RATINGS:
        return InvalidInput(
            "Ratings are no records with labels.",
            "They are a sparse matrix, which a system reads that has a use for it.",
            "Read them with `fl.datasets.ratings.read_ratings`.",
        )
    shown = repr(name)[:60]
    near = nearest(str(name).lower().replace("_", "-"), NAMES)
    hint = f"Did you mean {near}?" if near else "Choose one of " + ", ".join(NAMES) + "."
    return InvalidInput(f"There is no data set {shown}.", next_step=hint)
