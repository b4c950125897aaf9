"""The table `[delm]`: what is released of records, and the pieces of the published schemes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ...accountant import validate
from ..declarations.declaration import Table
from ..declarations.toml_key import key
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

    loss: LossName = key(
        "what is minimised: squares against one-hot labels, or the logistic loss of two classes "
        "or more, to the second degree; all are read off the same release",
        default="softmax",
    )
    pca: Literal["wishart", "gaussian", "none"] = key(
        "dimensions are reduced by components with Wishart noise, as published, which proves "
        "nothing; with symmetric Gaussian noise; or not at all",
        default="wishart",
    )
    objective: Literal["fresh", "once"] = key(
        "coefficients get new noise in every round, as published, or once for all rounds",
        default="fresh",
    )
    sensitivity: Literal["printed", "proven"] = key(
        "noise is made for the sensitivity that the paper prints, or for the one that is proven",
        default="printed",
    )
    shuffle: Literal["layers", "none"] = key(
        "messages lose their senders layer by layer, as published, which hides no record; or not",
        default="layers",
    )
    selection: Literal["divergence", "uniform", "top-k"] = key(
        "a layer's clients are chosen by the exponential mechanism on their divergence, as "
        "published; at random; or the least divergent",
        default="divergence",
    )
    selected: int | None = key(
        "k, how many clients are chosen of each layer",
        validate.count,
        default=None,
        shown="half of them",
        why="The mean of a layer is of so many clients.",
    )
    ratio: float = key(
        "epsilon of the training over that of the PCA, where only [privacy] epsilon is given",
        validate.positive,
        default=2.0,
        why="It divides the budget between two pieces.",
    )
    pca_epsilon: float | None = key(
        "epsilon of the PCA",
        validate.positive,
        default=None,
        shown="by ratio, from [privacy] epsilon",
    )
    training_epsilon: float | None = key(
        "epsilon of the coefficients in one round",
        validate.positive,
        default=None,
        shown="by ratio, from [privacy] epsilon",
    )
    selection_epsilon: float | None = key(
        'epsilon of the selection, for selection = "divergence"',
        validate.positive,
        default=None,
        shown="m times [privacy] epsilon, for m layers",
    )


PIECE_KEYS: Final = tuple(name for name in DelmSettings.__annotations__ if name != "loss")
"""Keys of the pieces of the published schemes."""

CHOICE_KEYS: Final = ("selection", "selected", "selection_epsilon")
"""Keys of the choice of clients, which only the enhanced scheme makes."""

TABLE: Final = Table(
    name="delm",
    about="what is released of records, how it is bounded, and what is made of it",
    settings=DelmSettings,
)
