"""A model: a chain of layers and a loss, over one parameter vector or a stack of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from .layers import ALIGNED, Layer, Shapes, Weights, multiple_for
from .losses import Loss
from .training_draws import Draws

_MAX_SAVED_NUMBERS: Final = 2**24
"""How many numbers the layers may keep while logits are computed: 128 MB of float64."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model whose parameters are one flat vector, in the order of its layers.

    `features` is the number of values of a record (records may have any shape with so many),
    `outputs` that of its logits: one score for two classes, for survival or for a number, else one
    per class.  `numbers` says that labels are numbers, scaled from a public range to [-1, 1].
    `dropout` is the rate in training; logits and losses are always computed without it.

    The functions of arrays are for those who use a model.  Those of tensors (`spread`, `flat`,
    `forward`, `add_gradient`) are for training: there, weights are a stack, `(units, ...)` each.
    """

    name: str
    features: int
    outputs: int
    dropout: float
    loss: Loss
    layers: tuple[Layer, ...]
    numbers: bool = field(default=False, kw_only=True)

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of the parameters, in the order of the flat vector."""
        return tuple(shape for layer in self.layers for shape in layer.shapes)

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of each part of the flat vector, in its order.

        >>> from privplan.fl.models import model_named
        >>> model_named("logistic", 4, 2).parts
        {'linear-1.weight': (1, 4), 'linear-1.bias': (1,)}
        """
        layers = [layer for layer in self.layers if layer.shapes]
        return {
            f"{type(layer).__name__.lower()}-{number}.{kind}": tuple(shape)
            for number, layer in enumerate(layers, 1)
            for kind, shape in zip(("weight", "bias"), layer.shapes, strict=True)
        }

    @cached_property
    def parameters(self) -> int:
        """How many parameters there are, D."""
        return sum(math.prod(shape) for shape in self.shapes)

    @cached_property
    def multiple(self) -> int:
        """What the number of records of a stack must be a multiple of; see `layers`."""
        if not self.loss.additive:  # it multiplies matrices of records by records
            return ALIGNED
        widths = [width for layer in self.layers for width in layer.widths]
        return max((multiple_for(width) for width in widths), default=1)

    @cached_property
    def kept(self) -> int:
        """How many numbers the layers keep of one record between forward and backward."""
        weights = self.spread(torch.zeros(self.parameters), 1)
        saved = self._chain(weights, torch.zeros(1, 1, self.features), None)[1]
        return sum(tensor.numel() for tensors in saved for tensor in tensors)

    def initial(self, seed: int) -> FloatArray:
        """Return the public parameters that training starts from: (D,).

        Weights and biases are uniform in +-1 / sqrt(fan-in), gains 1, as PyTorch's defaults.
        """
        rng = np.random.default_rng(validate.count_from(0, seed=seed))
        parts = [part.ravel() for layer in self.layers for part in layer.initial(rng)]
        return np.concatenate(parts)

    def logits(self, parameters: ArrayLike, features: ArrayLike) -> FloatArray:
        """Return the logits of records: (records, outputs) float64, without dropout.

        `parameters` is (D,), `features` (records, ...).  Raises `InvalidInput` for other shapes.
        """
        weights = self.spread(torch.from_numpy(self.vector(parameters)), 1)
        table = np.asarray(features)
        self.check_records(table.shape)
        # In pieces, so that what the layers keep stays within the limit.
        piece = max(1, _MAX_SAVED_NUMBERS // (self.kept + 1))
        parts = [np.empty((0, self.outputs))]
        for first in range(0, len(table), piece):
            records = np.ascontiguousarray(table[first : first + piece], np.float64)
            parts.append(self.forward(weights, torch.from_numpy(records)[None], None)[0].numpy())
        return np.concatenate(parts)

    def vector(self, parameters: ArrayLike) -> FloatArray:
        """Return parameters as (D,) float64; raise `InvalidInput` for another shape."""
        flat = np.array(parameters, np.float64)
        if flat.shape != (self.parameters,):
            raise InvalidInput(
                f"`parameters` must be of shape ({self.parameters},); it is {flat.shape}.",
                f"So many has the model {self.name}.",
                "Start from `model.initial(seed)`.",
            )
        return flat

    def check_records(self, shape: Sequence[int]) -> None:
        """Raise `InvalidInput` unless records of this array shape fit the model."""
        if len(shape) < 2 or math.prod(shape[1:]) != self.features:
            raise InvalidInput(
                f"The model {self.name} takes {self.features} values per record;"
                f" `features` has shape {tuple(shape)}.",
                next_step="Make the model with `model_named(name, features, classes)`.",
            )

    @property
    def label_classes(self) -> int:
        """How many classes labels have; 1 where they are [time, event]."""
        return max(self.outputs, 2) if self.loss.additive else 1

    def check_labels(self, labels: NDArray[np.generic]) -> None:
        """Raise `InvalidInput` unless labels have the form that the loss takes."""
        if self.numbers:
            fits, form = (
                labels.ndim == 1 and labels.dtype.kind == "f",
                "(records,) numbers in [-1, 1]",
            )
            fits = fits and (not len(labels) or bool(labels.min() >= -1 and labels.max() <= 1))
        elif self.label_classes == 1:
            fits, form = labels.ndim == 2 and labels.shape[1:] == (2,), "(records, 2) [time, event]"
        else:
            top = self.label_classes - 1
            fits = labels.ndim == 1 and labels.dtype.kind in "iu"
            fits = fits and (not len(labels) or bool(labels.min() >= 0 and labels.max() <= top))
            form = f"(records,) integers from 0 to {top}"
        if not fits:
            raise InvalidInput(f"The model {self.name} takes labels {form}.")

    def spread(self, parameters: Tensor, units: int) -> list[Tensor]:
        """Return one parameter vector (D,) as weights of `units` units, which share memory."""
        sizes = [math.prod(shape) for shape in self.shapes]
        stored = [shape for layer in self.layers for shape in layer.stored]
        weights = []
        for part, shape, room in zip(
            torch.split(parameters, sizes), self.shapes, stored, strict=True
        ):
            weight = part.new_zeros(room)
            weight[_corner(shape)] = part.view(shape)
            weights.append(weight.expand(units, *room))
        return weights

    def flat(self, weights: Weights) -> Tensor:
        """Return weights as parameter vectors: (units, D)."""
        parts = zip(weights, self.shapes, strict=True)
        return torch.cat([weight[:, *_corner(shape)].flatten(1) for weight, shape in parts], 1)

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> Tensor:
        """Return the logits of each unit's records under its weights: (units, records, outputs).

        `x` is (units, records, ...).
        """
        return self._chain(weights, x, draws)[0]

    def add_gradient(
        self,
        weights: Weights,
        x: Tensor,
        labels: Tensor,
        share: Tensor,
        draws: Draws | None,
        *,
        into: Weights,
        scale: float,
    ) -> None:
        """Add `scale` times the gradient of each unit's loss to `into`, which may be `weights`.

        `x` is (units, records, ...), `labels` (units, records, ...), `share` (units, records):
        the weight of each record in the loss, 0 for padding.
        """
        logits, saved = self._chain(weights, x, draws)
        slope = self.loss.slope(logits, labels, share)
        # Backwards through the chain: a layer takes the slope of its output, and adds its gradient.
        reversed_parts = zip(
            reversed(self.layers),
            reversed(list(self._by_layer(weights))),
            reversed(list(self._by_layer(into))),
            reversed(saved),
            reversed(self._needed),
            strict=True,
        )
        for layer, layer_weights, target, layer_saved, needed in reversed_parts:
            slope = layer.backward(layer_weights, layer_saved, slope, target, scale, needed)

    @cached_property
    def _needed(self) -> tuple[bool, ...]:
        """Whether the slope with respect to each layer's input is needed: parameters before it."""
        before = [False]
        for layer in self.layers[:-1]:
            before.append(before[-1] or bool(layer.shapes))
        return tuple(before)

    def _chain(
        self, weights: Weights, x: Tensor, draws: Draws | None
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        out, saved = x.flatten(2), []
        for layer, layer_weights in zip(self.layers, self._by_layer(weights), strict=True):
            out, layer_saved = layer.forward(layer_weights, out, draws)
            saved.append(layer_saved)
        return out, saved

    def _by_layer(self, weights: Weights) -> Iterator[Weights]:
        first = 0
        for layer in self.layers:
            last = first + len(layer.shapes)
            yield weights[first:last]
            first = last


def _corner(shape: Sequence[int]) -> tuple[slice, ...]:
    """Return where an array of this shape lies in a larger one: from the first of each."""
    return tuple(slice(size) for size in shape)
