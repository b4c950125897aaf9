"""The table `[delm]`: what is released of records, and the pieces of the published schemes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ...accountant import validate
from ..declarations.declaration import Table
from ..declarations.toml_key import Key, word
from ..statistics.settings import TABLE as STATISTICS
from ..statistics.settings import ReleaseSettings

LossName = Literal["linear", "logistic", "softmax"]

LOGISTIC: Final = "logistic"

WISHART: Final = "wishart"
NO_PCA: Final = "none"
"""The PCA as published, which proves nothing, and none at all."""

FRESH: Final = "fresh"
ONCE: Final = "once"
"""New noise in every round, as published, or noise that is drawn once."""

LAYERS: Final = "layers"
"""The shuffle as published, layer by layer."""

DIVERGENCE: Final = "divergence"
UNIFORM: Final = "uniform"
TOP_K: Final = "top-k"
"""How a layer's clients are chosen: as published, at random, or the least divergent."""

PRINTED: Final = "printed"
PROVEN: Final = "proven"
"""Noise for the sensitivity that was printed, or for the one that is proven."""

LINEAR_MODELS: Final = ("logistic", "softmax")
"""Models whose objective is a polynomial with coefficients that depend on records alone."""


IMAGE_MODELS: Final[Mapping[str, tuple[int, ...]]] = {
    "alexnet": (784, 1_024, 3_072),
    "cnn": (64, 784),
}
"""How many features models of images take."""


@dataclass(frozen=True, kw_only=True)
class DelmSettings(ReleaseSettings):
    """`[delm]`: what is released and how, in the sound and in the published schemes.

    `loss` is of `delm-linear`; what follows it, of `delm-basic` and `delm-enhanced`.
    """

    loss: LossName = "softmax"
    pca: Literal["wishart", "gaussian", "none"] = "wishart"
    objective: Literal["fresh", "once"] = "fresh"
    sensitivity: Literal["printed", "proven"] = "printed"
    shuffle: Literal["layers", "none"] = "layers"
    selection: Literal["divergence", "uniform", "top-k"] = "divergence"
    selected: int | None = None
    ratio: float = 2.0
    pca_epsilon: float | None = None
    training_epsilon: float | None = None
    selection_epsilon: float | None = None


_PIECES: Final = (
    word(
        "pca",
        ("wishart", "gaussian", "none"),
        "dimensions are reduced by components with Wishart noise, as published, which proves "
        "nothing; with symmetric Gaussian noise; or not at all",
        "wishart",
    ),
    word(
        "objective",
        ("fresh", "once"),
        "coefficients get new noise in every round, as published, or once for all rounds",
        "fresh",
    ),
    word(
        "sensitivity",
        ("printed", "proven"),
        "noise is made for the sensitivity that the paper prints, or for the one that is proven",
        "printed",
    ),
    word(
        "shuffle",
        ("layers", "none"),
        "messages lose their senders layer by layer, as published, which hides no record; or not",
        "layers",
    ),
    word(
        "selection",
        ("divergence", "uniform", "top-k"),
        "a layer's clients are chosen by the exponential mechanism on their divergence, as "
        "published; at random; or the least divergent",
        "divergence",
    ),
    Key(
        "selected",
        validate.count,
        "k, how many clients are chosen of each layer",
        "half of them",
        "The mean of a layer is of so many clients.",
    ),
    Key(
        "ratio",
        validate.positive,
        "epsilon of the training over that of the PCA, where only [privacy] epsilon is given",
        "2.0",
        "It divides the budget between two pieces.",
    ),
    Key(
        "pca_epsilon",
        validate.positive,
        "epsilon of the PCA",
        "by ratio, from [privacy] epsilon",
    ),
    Key(
        "training_epsilon",
        validate.positive,
        "epsilon of the coefficients in one round",
        "by ratio, from [privacy] epsilon",
    ),
    Key(
        "selection_epsilon",
        validate.positive,
        'epsilon of the selection, for selection = "divergence"',
        "m times [privacy] epsilon, for m layers",
    ),
)
"""The pieces of the published schemes."""

PIECE_KEYS: Final = tuple(key.name for key in _PIECES)

CHOICE_KEYS: Final = ("selection", "selected", "selection_epsilon")
"""Keys of the choice of clients, which only the enhanced scheme makes."""

TABLE: Final = Table(
    name="delm",
    about="what is released of records, how it is bounded, and what is made of it",
    settings=DelmSettings,
    keys=(
        word(
            "loss",
            ("linear", "logistic", "softmax"),
            "what is minimised: squares against one-hot labels, or the logistic loss of two "
            "classes or more, to the second degree; all are read off the same release",
            "softmax",
        ),
        *_PIECES,
        *(key for key in STATISTICS.keys if key.name != "fit"),
    ),
)
