"""The models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from .images import ChannelDropout, Convolution, Flatten, Images, MaxPool
from .layers import Dropout, Layer, Linear, Normalise, Relu
from .losses import (
    LOSSES_OF_NUMBERS,
    NAMED_LOSSES,
    BinaryCrossEntropy,
    CoxPartialLikelihood,
    CrossEntropy,
    Loss,
)
from .model import Model

_HIDDEN_WIDTH: Final = 30
_HIDDEN_BLOCKS: Final = 5
_IMAGE_SIDE: Final = 28
_SMALL_IMAGE_SIDE: Final = 8

_WIDE_HIDDEN: Final = 64
"""Width of the one hidden layer of `mlp-64`."""

_ALEXNET_CHANNELS: Final = (8, 16, 24, 24, 16)
"""Channels of the five convolutions of `alexnet`, in the proportions of 96, 256, 384, 384, 256;
multiples of `layers.ALIGNED`."""

_ALEXNET_HIDDEN: Final = 64
"""Width of both hidden dense layers of `alexnet`, 4,096 in the paper."""

_ALEXNET_IMAGES: Final = {28**2: (1, 28), 32**2: (1, 32), 3 * 32**2: (3, 32)}
"""Channels and side of the images that `alexnet` takes, by how many values they have."""

_ModelParts: TypeAlias = tuple[int, Loss, tuple[Layer, ...]]
_ModelBuilder: TypeAlias = Callable[[int, int, float], _ModelParts]
_LayersBuilder: TypeAlias = Callable[[int, int, float], tuple[Layer, ...]]

NAMES_OF_LOSSES_OF_NUMBERS: Final = tuple(
    name for name, loss in NAMED_LOSSES.items() if loss in LOSSES_OF_NUMBERS
)
"""The losses of labels that are numbers, by name."""

USUAL_LOSS_OF_NUMBERS: Final = "squared"
"""What is minimised for labels that are numbers, where nothing is said."""


def model_named(
    name: str, features: int, classes: int, *, dropout: float = 0.0, loss: str | None = None
) -> Model:
    """Return a model for records of `features` values and `classes` classes.

    With `loss`, "squared" or "huber", labels are numbers from -1 to 1, `classes` is 1, and the
    model has one output; `logistic`, `cox` and `softmax` are not for them, and `linear` is for
    nothing else.

    - `logistic`: Linear(features, 1), binary cross-entropy; 2 classes.  Heart Disease: 14.
    - `cox`: Linear(features, 1), Cox's partial likelihood; 1 class, a risk score.  TCGA-BRCA: 40.
    - `softmax`: Linear(features, classes), cross-entropy.
    - `linear`: Linear(features, 1), squared error unless `loss` is "huber"; 1 class, a number.
    - `mlp`: Linear(features, 30)-ReLU-GroupNorm, four more such blocks of width 30, each followed
      by dropout, Linear(30, classes).  Creditcard: 5,012.
    - `cnn`: 5 x 5 convolutions to 10 and 20 channels (dropout of channels after the second), each
      followed by 2 x 2 max-pooling and ReLU, Linear(320, 50)-ReLU-dropout-Linear(50, classes), on
      28 x 28 images.  MNIST: 21,840.  On 8 x 8 images 3 x 3 and 2 x 2 convolutions to as many
      channels, the first followed by pooling, and Linear(80, 50).  Digits: 5,480.
    - `mlp-64`: Linear(features, 64)-ReLU-Linear(64, classes).  392 features, 10 classes: 25,802.
    - `alexnet`: the shape of AlexNet on images of 32 x 32 (1 or 3 channels) or 28 x 28 (1 channel),
      without its response normalisation, and narrow: 5 x 5 convolutions to 8 and 16 channels, 3 x 3
      ones to 24, 24 and 16, all padded; 3 x 3 max-pooling with stride 2 after the first, second and
      fifth; ReLU after each; dropout-Linear(., 64)-ReLU, twice, Linear(64, classes).  Its first
      kernel, 11 x 11 with stride 4 in the paper, has no room.  32 x 32, 1 channel: 29,674.

    `dropout` is the rate in training, in [0, 1); 0, the default, trains without it.  The paper of
    `mlp` and `cnn` trains with .5, and so do `fl.declarations.dataset_defaults`.  The other models
    have none.

    Raises `InvalidInput` for an unknown name, with a suggestion, and for features, classes or a
    rate that do not fit the model.  Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024,
    *Uldp-FL*, arXiv 2308.12210, section 5.1, and its published code; for `mlp-64` Cao et al. 2023,
    *Differentially Private Federated Learning with Functional Mechanism*; for `alexnet` Krizhevsky,
    Sutskever and Hinton 2012, *ImageNet Classification with Deep Convolutional Neural Networks*.

    >>> [model_named(*model).parameters for model in (("logistic", 13, 2), ("cox", 39, 1))]
    [14, 40]
    """
    if not isinstance(name, str) or name not in MODELS:
        raise _unknown(name)
    width, number = validate.count(features=features), validate.count(classes=classes)
    rate = validate.probability(dropout=dropout)
    if rate >= 1.0:
        raise InvalidInput("`dropout` must be below 1.", "At 1 nothing is left to learn from.")
    if rate and name not in _WITH_DROPOUT:
        raise InvalidInput(
            f"The model {name} has no dropout; `dropout` is {rate:g}.", next_step="Leave it out."
        )
    if loss is not None or name == _LINE:
        chosen = _loss_of_numbers(name, number, USUAL_LOSS_OF_NUMBERS if loss is None else loss)
        layers = _LAYERS[name](width, 1, rate)
        return Model(name, width, 1, rate, chosen, layers, numbers=True)
    outputs, of_classes, layers = _BUILDERS[name](width, number, rate)
    return Model(name, width, outputs, rate, of_classes, layers)


def _loss_of_numbers(name: str, classes: int, loss: str) -> Loss:
    kind = NAMED_LOSSES[validate.choice(NAMES_OF_LOSSES_OF_NUMBERS, loss=loss)]
    _fits(name, name in _LAYERS, "classes or times, and labels are numbers", _LINE)
    _fits(name, classes == 1, f"one score of numbers, `classes` 1; it is {classes}", "softmax")
    return kind()


def _linear(features: int, outputs: int, rate: float) -> tuple[Layer, ...]:  # noqa: ARG001
    return (Linear(features, outputs),)


def _logistic(features: int, classes: int, rate: float) -> _ModelParts:  # noqa: ARG001
    _fits("logistic", classes == 2, f"2 classes; there are {classes}", "softmax")
    return 1, BinaryCrossEntropy(), (Linear(features, 1),)


def _cox(features: int, classes: int, rate: float) -> _ModelParts:  # noqa: ARG001
    _fits("cox", classes == 1, f"one risk score, `classes` 1; it is {classes}", "softmax")
    return 1, CoxPartialLikelihood(), (Linear(features, 1),)


def _softmax(features: int, classes: int, rate: float) -> _ModelParts:  # noqa: ARG001
    _fits("softmax", classes >= 2, f"2 classes or more; `classes` is {classes}", "cox")
    return classes, CrossEntropy(), (Linear(features, classes),)


def _mlp(features: int, outputs: int, rate: float) -> tuple[Layer, ...]:
    layers: list[Layer] = [Linear(features, _HIDDEN_WIDTH), Relu(), Normalise(_HIDDEN_WIDTH)]
    for block in range(1, _HIDDEN_BLOCKS):
        layers += [
            Linear(_HIDDEN_WIDTH, _HIDDEN_WIDTH),
            Relu(),
            Normalise(_HIDDEN_WIDTH),
            Dropout(block, rate),
        ]
    return (*layers, Linear(_HIDDEN_WIDTH, outputs))


def _cnn(features: int, outputs: int, rate: float) -> tuple[Layer, ...]:
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
    return (*layers, Relu(), Dropout(2, rate), Linear(50, outputs))


def _mlp_64(features: int, outputs: int, rate: float) -> tuple[Layer, ...]:  # noqa: ARG001
    return (Linear(features, _WIDE_HIDDEN), Relu(), Linear(_WIDE_HIDDEN, outputs))


def _alexnet(features: int, outputs: int, rate: float) -> tuple[Layer, ...]:
    sizes = f"images of 32 x 32 (1 or 3 channels) or 28 x 28 (1 channel); `features` is {features}"
    _fits("alexnet", features in _ALEXNET_IMAGES, sizes, "softmax")
    depth, side = _ALEXNET_IMAGES[features]
    first, second, third, fourth, last = _ALEXNET_CHANNELS
    # Pooling before ReLU gives the same numbers, and ReLU has less to do.
    pooled = (MaxPool(3, 2), Relu())
    rest = _pooled_three_times(side)
    return (
        Images(depth, side, side),
        *(Convolution(depth, first, 5, 2), *pooled),
        *(Convolution(first, second, 5, 2), *pooled),
        *(Convolution(second, third, 3, 1), Relu()),
        *(Convolution(third, fourth, 3, 1), Relu()),
        *(Convolution(fourth, last, 3, 1), *pooled),
        Flatten(last, rest, rest),
        *(Dropout(1, rate), Linear(last * rest**2, _ALEXNET_HIDDEN), Relu()),
        *(Dropout(2, rate), Linear(_ALEXNET_HIDDEN, _ALEXNET_HIDDEN), Relu()),
        Linear(_ALEXNET_HIDDEN, outputs),
    )


def _pooled_three_times(side: int) -> int:
    """Return the side of an image after three poolings of 3 x 3 blocks, 2 apart."""
    for _ in range(3):
        side = (side - 3) // 2 + 1
    return side


def _of_classes(name: str) -> _ModelBuilder:
    """Return the builder of a model with an output for each class, under the cross-entropy."""

    def build(features: int, classes: int, rate: float) -> _ModelParts:
        _fits(name, classes >= 2, f"2 classes or more; `classes` is {classes}", "cox")
        return classes, CrossEntropy(), _LAYERS[name](features, classes, rate)

    return build


_LINE: Final = "linear"

_LAYERS: Final[Mapping[str, _LayersBuilder]] = {
    _LINE: _linear,
    "mlp": _mlp,
    "cnn": _cnn,
    "mlp-64": _mlp_64,
    "alexnet": _alexnet,
}
"""The layers of models that numbers can be learnt with."""

_BUILDERS: Final[Mapping[str, _ModelBuilder]] = {
    "logistic": _logistic,
    "cox": _cox,
    "softmax": _softmax,
    **{name: _of_classes(name) for name in _LAYERS if name != _LINE},
}

_WITH_DROPOUT: Final = ("mlp", "cnn", "alexnet")

MODELS: Final = (*_BUILDERS, _LINE)
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
