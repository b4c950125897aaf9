"""EMNIST: handwritten digits and letters, 28 x 28, of the balanced split, from its four IDX files.

The publisher's split: 112,800 training and 18,800 test records of 47 classes.  Features are
(records, 1, 28, 28) in [0, 1]; the files hold each image mirrored at its diagonal, which is undone.

Source: Cohen, Afshar, Tapson and van Schaik 2017, *EMNIST: an extension of MNIST to handwritten
letters*, arXiv 1702.05373.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import Generator

from ...accountant.arrays import Float32Array, IntArray
from ..data.normalise import Scaling
from . import files
from .dataset import Dataset
from .idx import images_and_labels
from .published import TEST, TRAIN

EMNIST_CLASSES: Final = 47
_STEMS: Final = {TRAIN: "emnist-balanced-train", TEST: "emnist-balanced-test"}

SCALING: Final = Scaling(
    lower=0.0, upper=1.0, mean=0.0, scale=1.0, source="pixels from 0 to 255, to [0, 1]"
)


def read(path: str | Path | None, rng: Generator) -> Dataset:  # noqa: ARG001
    """Return the data set from a folder with the four IDX files; needs no `rng`.

    Raises `InvalidInput` for a missing, truncated or wrong file.
    """
    listed = [f"{stem}-{kind}[.gz]" for stem in _STEMS.values() for kind in ("images", "labels")]
    folder = files.folder("emnist", path, listed)
    features, labels = _part(folder, TRAIN)
    test_features, test_labels = _part(folder, TEST)
    return Dataset(
        name="emnist",
        task="multiclass",
        classes=EMNIST_CLASSES,
        features=features,
        labels=labels,
        test_features=test_features,
        test_labels=test_labels,
        scaling=SCALING,
        split="the publisher's",
        licence="public domain (NIST Special Database 19)",
        citation=(
            "Cohen, Afshar, Tapson, van Schaik (2017), EMNIST: an extension of MNIST to handwritten"
            " letters, arXiv 1702.05373"
        ),
    )


def _part(folder: Path, of: str) -> tuple[Float32Array, IntArray]:
    images, labels = images_and_labels(folder, _STEMS[of], EMNIST_CLASSES - 1, "EMNIST", of)
    return np.ascontiguousarray(images.transpose(0, 1, 3, 2)), labels
