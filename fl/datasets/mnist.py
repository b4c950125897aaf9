"""MNIST: handwritten digits, 28 x 28, from the four IDX files, plain or gzipped.

The publisher's split: 60,000 training and 10,000 test records.  Features are (records, 1, 28, 28)
in [0, 1].

Source: LeCun, Cortes and Burges, *The MNIST database of handwritten digits*.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from numpy.random import Generator

from ..data.normalise import Scaling
from . import files
from .dataset import Dataset
from .idx import images_and_labels
from .published import TEST, TRAIN

_STEMS: Final = {TRAIN: "train", TEST: "t10k"}
_HIGHEST_LABEL: Final = 9

SCALING: Final = Scaling(
    lower=0.0,
    upper=1.0,
    mean=0.1307,
    scale=0.3081,
    source="the mean and deviation of MNIST's training set, as published (PyTorch's examples)",
)


def read(path: str | Path | None, rng: Generator) -> Dataset:  # noqa: ARG001
    """Return the data set from a folder with the four IDX files; needs no `rng`.

    Raises `InvalidInput` for a missing, truncated or wrong file.
    """
    listed = [f"{stem}-{kind}[.gz]" for stem in _STEMS.values() for kind in ("images", "labels")]
    folder = files.folder("mnist", path, listed)
    (features, labels), (test_features, test_labels) = (
        images_and_labels(folder, stem, _HIGHEST_LABEL, "MNIST", of) for of, stem in _STEMS.items()
    )
    return Dataset(
        name="mnist",
        task="multiclass",
        classes=10,
        features=features,
        labels=labels,
        test_features=test_features,
        test_labels=test_labels,
        scaling=SCALING,
        split="the publisher's",
        licence="CC BY-SA 3.0",
        citation=(
            "LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document"
            " recognition, Proceedings of the IEEE 86(11)"
        ),
    )
