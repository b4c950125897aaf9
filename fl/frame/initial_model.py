"""The first model of a run, which its configuration gives: what an audit compares, without torch.

    weights and biases    uniform in +-1 / sqrt(fan-in), of one public generator, layer by layer
    gains, offsets        1 and 0

as `models.Model.initial` has them, which a test compares.  A processor may fuse the product and the
sum of low + width x u into one rounding; such a model differs in last digits, and counts as well.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from ...accountant.arrays import FloatArray
from ..tables.record_shape import shape_of_record

_SMALL_IMAGE: Final = 64
"""Values of an image of 8 x 8."""

_IMAGE: Final = 32**2
"""Values of one channel of an image of 32 x 32."""

_WIDE_HIDDEN: Final = 64
_ALEXNET_CHANNELS: Final = (8, 16, 24, 24, 16)

_MLP_WIDTH: Final = 30
_MLP_HIDDEN_LAYERS: Final = 5


@dataclass(frozen=True)
class UniformParameters:
    """Parameters of one array after the other, uniform in +-1 / sqrt(`fan_in`)."""

    sizes: tuple[int, ...]
    fan_in: int


@dataclass(frozen=True)
class ConstantParameters:
    """Parameters that are the same number."""

    size: int
    value: float


ModelPart: TypeAlias = UniformParameters | ConstantParameters


def initial_digest(
    model: object, data: object, seed: object, *, schema: object = None, fused: bool = False
) -> str | None:
    """Return the digest of the first model; None for what is not known here.

    `model` and `data` are names, `seed` that of the training and `schema` that of a table, as a
    configuration states them; `fused` is for a processor that rounds once.
    """
    shape = shape_of_record(data, schema)
    parts = _PARTS.get(model) if isinstance(model, str) else None
    if shape is None or parts is None or type(seed) is not int or seed < 0:
        return None
    vector = _draw_parts(parts(*shape), seed, _rounded_once if fused else _rounded_twice)
    return hashlib.sha256(vector.tobytes()).hexdigest()


def initial_size(model: object, data: object, schema: object = None) -> int | None:
    """Return how many parameters a model has; None for what is not known here."""
    tensors = initial_tensors(model, data, schema)
    return None if tensors is None else sum(tensors)


def initial_tensors(model: object, data: object, schema: object = None) -> tuple[int, ...] | None:
    """Return the lengths of a model's arrays, in their order; None for what is not known here."""
    shape = shape_of_record(data, schema)
    parts = _PARTS.get(model) if isinstance(model, str) else None
    if shape is None or parts is None:
        return None
    lengths: list[int] = []
    for part in parts(*shape):
        lengths += [part.size] if isinstance(part, ConstantParameters) else part.sizes
    return tuple(lengths)


def layers_in(model: object, features: int, classes: int) -> int | None:
    """Return how many layers with parameters a model has; None for what is not known here.

    >>> layers_in("softmax", 64, 10)
    1
    """
    parts = _PARTS.get(model) if isinstance(model, str) else None
    if parts is None:
        return None
    dense = [part for part in parts(features, classes) if isinstance(part, UniformParameters)]
    others = len(parts(features, classes)) - len(dense)
    return len(dense) + others // 2  # gains and offsets of one layer


def initial_vector(model: object, features: int, classes: int, seed: object) -> FloatArray | None:
    """Return the first model (D,) for so many features; None for what is not known here.

    On a processor that rounds once it differs in last digits.
    """
    parts = _PARTS.get(model) if isinstance(model, str) else None
    if parts is None or type(seed) is not int or seed < 0:
        return None
    return _draw_parts(parts(features, classes), seed, _rounded_twice)


def _draw_parts(
    parts: list[ModelPart], seed: int, draw: Callable[[FloatArray, float], FloatArray]
) -> FloatArray:
    # One generator for all layers, in their order: the draws depend on the order.
    rng = np.random.default_rng(seed)
    arrays: list[FloatArray] = []
    for part in parts:
        if isinstance(part, ConstantParameters):
            arrays.append(np.full(part.size, part.value))
            continue
        bound = 1.0 / math.sqrt(part.fan_in)
        arrays += [draw(rng.random(size), bound) for size in part.sizes]
    return np.concatenate(arrays).astype("<f8")


def _rounded_twice(uniforms: FloatArray, bound: float) -> FloatArray:
    """Return low + width x u, rounded twice, as `Generator.uniform` computes it."""
    return -bound + (bound - -bound) * uniforms


def _rounded_once(uniforms: FloatArray, bound: float) -> FloatArray:
    """Return the same, rounded once: the exact product with the error of its rounding."""
    # Exact rationals, rounded once at the end, as a fused multiply-add does.
    low, width = Fraction(-bound), Fraction(bound - -bound)
    return np.array([float(low + width * Fraction(uniform)) for uniform in uniforms.tolist()])


def _linear(inputs: int, outputs: int) -> UniformParameters:
    return UniformParameters((outputs * inputs, outputs), inputs)


def _one_score(features: int, _: int) -> list[ModelPart]:
    return [_linear(features, 1)]


def _softmax(features: int, classes: int) -> list[ModelPart]:
    return [_linear(features, classes)]


def _mlp(features: int, classes: int) -> list[ModelPart]:
    parts: list[ModelPart] = []
    for inputs in (features, *[_MLP_WIDTH] * (_MLP_HIDDEN_LAYERS - 1)):
        parts += [
            _linear(inputs, _MLP_WIDTH),
            ConstantParameters(_MLP_WIDTH, 1.0),
            ConstantParameters(_MLP_WIDTH, 0.0),
        ]
    return [*parts, _linear(_MLP_WIDTH, classes)]


def _cnn(features: int, classes: int) -> list[ModelPart]:
    small = features == _SMALL_IMAGE
    # The sides of both kernels, squared, and the width of what they leave of an image.
    first, second, width = (9, 4, 80) if small else (25, 25, 320)
    return [
        UniformParameters((10 * first, 10), first),
        UniformParameters((20 * 10 * second, 20), 10 * second),
        _linear(width, 50),
        _linear(50, classes),
    ]


def _mlp_64(features: int, classes: int) -> list[ModelPart]:
    return [_linear(features, _WIDE_HIDDEN), _linear(_WIDE_HIDDEN, classes)]


def _alexnet(features: int, classes: int) -> list[ModelPart]:
    depth = features // _IMAGE if features % _IMAGE == 0 else 1
    # What three poolings leave of the side of an image: 3 of 32 pixels, and 2 of 28.
    side = 3 if features % _IMAGE == 0 else 2
    kernels = zip(
        (depth, *_ALEXNET_CHANNELS[:-1]), _ALEXNET_CHANNELS, (25, 25, 9, 9, 9), strict=True
    )
    return [
        *(
            UniformParameters((outputs * inputs * kernel, outputs), inputs * kernel)
            for inputs, outputs, kernel in kernels
        ),
        _linear(_ALEXNET_CHANNELS[-1] * side**2, _WIDE_HIDDEN),
        _linear(_WIDE_HIDDEN, _WIDE_HIDDEN),
        _linear(_WIDE_HIDDEN, classes),
    ]


_PARTS: Final[Mapping[str, Callable[[int, int], list[ModelPart]]]] = {
    "logistic": _one_score,
    "cox": _one_score,
    "softmax": _softmax,
    "mlp": _mlp,
    "cnn": _cnn,
    "mlp-64": _mlp_64,
    "alexnet": _alexnet,
}
