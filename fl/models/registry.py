"""The models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ...accountant import validate
from ...accountant.decoding import nearest
from ...accountant.errors import InvalidInput
from .images import ChannelDropout, Convolution, Flatten, Images, MaxPool
from .layers import Dropout, Layer, Linear, Normalise, Relu
from .losses import BinaryCrossEntropy, CoxPartialLikelihood, CrossEntropy, Loss
from .model import Model

_HIDDEN_WIDTH: Final = 30
_HIDDEN_BLOCKS: Final = 5
_IMAGE_SIDE: Final = 28
_SMALL_IMAGE_SIDE: Final = 8

_ModelParts: TypeAlias = tuple[int, Loss, tuple[Layer, ...]]
_ModelBuilder: TypeAlias = Callable[[int, int, float], _ModelParts]


def model_named(name: str, features: int, classes: int, *, dropout: float = 0.0) -> Model:
    """Return a model for records of `features` values and `classes` classes.

    - `logistic`: Linear(features, 1), binary cross-entropy; 2 classes.  Heart Disease: 14.
    - `cox`: Linear(features, 1), Cox's partial likelihood; 1 class, a risk score.  TCGA-BRCA: 40.
    - `softmax`: Linear(features, classes), cross-entropy.
    - `mlp`: Linear(features, 30)-ReLU-GroupNorm, four more such blocks of width 30, each followed
      by dropout, Linear(30, classes).  Creditcard: 5,012.
    - `cnn`: 5 x 5 convolutions to 10 and 20 channels (dropout of channels after the second), each
      followed by 2 x 2 max-pooling and ReLU, Linear(320, 50)-ReLU-dropout-Linear(50, classes), on
      28 x 28 images.  MNIST: 21,840.  On 8 x 8 images 3 x 3 and 2 x 2 convolutions to as many
      channels, the first followed by pooling, and Linear(80, 50).  Digits: 5,480.

    `dropout` is the rate in training, in [0, 1); 0, the default, trains without it.  The paper of
    the last two trains with .5, and so do `fl.declarations.dataset_defaults`.  The other models
    have none.

    Raises `InvalidInput` for an unknown name, with a suggestion, and for features, classes or a
    rate that do not fit the model.  Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024,
    *Uldp-FL*, arXiv 2308.12210, section 5.1, and its published code.

    >>> [model_named(*model).parameters for model in (("logistic", 13, 2), ("cox", 39, 1))]
    [14, 40]
    """
    builder = _BUILDERS.get(name) if isinstance(name, str) else None
    if builder is None:
        raise _unknown(name)
    width, number = validate.count(features=features), validate.count(classes=classes)
    rate = validate.probability(dropout=dropout)
    if rate >= 1.0:
        raise InvalidInput("`dropout` must be below 1.", "At 1 nothing is left to learn from.")
    if rate and name not in ("mlp", "cnn"):
        raise InvalidInput(
            f"The model {name} has no dropout; `dropout` is {rate:g}.", next_step="Leave it out."
        )
    outputs, loss, layers = builder(width, number, rate)
    return Model(name, width, outputs, rate, loss, layers)


def _logistic(features: int, classes: int, rate: float) -> _ModelParts:  # noqa: ARG001
    _fits("logistic", classes == 2, f"2 classes; there are {classes}", "softmax")
    return 1, BinaryCrossEntropy(), (Linear(features, 1),)


def _cox(features: int, classes: int, rate: float) -> _ModelParts:  # noqa: ARG001
    _fits("cox", classes == 1, f"one risk score, `classes` 1; it is {classes}", "softmax")
    return 1, CoxPartialLikelihood(), (Linear(features, 1),)


def _softmax(features: int, classes: int, rate: float) -> _ModelParts:  # noqa: ARG001
    _fits("softmax", classes >= 2, f"2 classes or more; `classes` is {classes}", "cox")
    return classes, CrossEntropy(), (Linear(features, classes),)


def _mlp(features: int, classes: int, rate: float) -> _ModelParts:
    _fits("mlp", classes >= 2, f"2 classes or more; `classes` is {classes}", "cox")
    layers: list[Layer] = [Linear(features, _HIDDEN_WIDTH), Relu(), Normalise(_HIDDEN_WIDTH)]
    for block in range(1, _HIDDEN_BLOCKS):
        layers += [
            Linear(_HIDDEN_WIDTH, _HIDDEN_WIDTH),
            Relu(),
            Normalise(_HIDDEN_WIDTH),
            Dropout(block, rate),
        ]
    return classes, CrossEntropy(), (*layers, Linear(_HIDDEN_WIDTH, classes))


def _cnn(features: int, classes: int, rate: float) -> _ModelParts:
    _fits("cnn", classes >= 2, f"2 classes or more; `classes` is {classes}", "cox")
    sizes = f"28 x 28 or 8 x 8 images; `features` is {features}"
    _fits("cnn", features in (_IMAGE_SIDE**2, _SMALL_IMAGE_SIDE**2), sizes, "softmax")
    layers: tuple[Layer, ...]
    if features == _IMAGE_SIDE**2:
        layers = (
            Images(1, _IMAGE_SIDE, _IMAGE_SIDE),
            *(Convolution(1, 10, 5), MaxPool(), Relu()),
            *(Convolution(10, 20, 5), ChannelDropout(1, rate), MaxPool(), Relu()),
            Flatten(20, 4, 4),
            Linear(320, 50),
        )
    else:
        layers = (
            Images(1, _SMALL_IMAGE_SIDE, _SMALL_IMAGE_SIDE),
            *(Convolution(1, 10, 3), MaxPool(), Relu()),
            *(Convolution(10, 20, 2), ChannelDropout(1, rate), Relu()),
            Flatten(20, 2, 2),
            Linear(80, 50),
        )
    return classes, CrossEntropy(), (*layers, Relu(), Dropout(2, rate), Linear(50, classes))


_BUILDERS: Final[Mapping[str, _ModelBuilder]] = {
    "logistic": _logistic,
    "cox": _cox,
    "softmax": _softmax,
    "mlp": _mlp,
    "cnn": _cnn,
}

MODELS: Final = tuple(_BUILDERS)
"""The names that `model_named` knows."""


def _fits(name: str, fits: bool, needs: str, other: str) -> None:
    if not fits:
        raise InvalidInput(
            f"The model {name} is for {needs}.", next_step=f"Choose another, such as {other}."
        )


def _unknown(name: object) -> InvalidInput:
    close = nearest(str(name).lower(), MODELS)
    return InvalidInput(
        f"There is no model {name!r:.60}.",
        next_step=f"Did you mean {close}?" if close else f"Choose one of {', '.join(MODELS)}.",
    )
