"""Layers over a stack of parameter vectors, with derivatives by hand.

Shapes: weights (units, ...), inputs and outputs (units, records, values).  `backward` adds `scale`
times the gradient to `into`.  If `into` is zeros, that is the gradient; if it is the weights
themselves and `scale` is -rate, it is a step of SGD, and no gradient is ever stored.  So a layer
computes the derivative with respect to its input before it touches `into`.

A product of small matrices can round otherwise where a matrix begins at another place in memory,
which depends on the units before it in the stack.  So that a unit's results do not depend on the
others, every matrix in float64 begins at a multiple of 32 bytes: the numbers of a unit's weights
are a multiple of `ALIGNED`, by rows of zeros (`stored`), and those of its values are, by how many
records there are (`widths`, `Model.multiple`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from ...accountant.arrays import FloatArray
from .training_draws import DROPOUT_LEVELS, Draws

Saved: TypeAlias = tuple[Tensor, ...]
Weights: TypeAlias = Sequence[Tensor]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
Arrays: TypeAlias = list[FloatArray]

ALIGNED: Final = 4
"""How many float64 numbers lie between places where a matrix may begin."""

_MATRIX: Final = 2
"""A matrix has at least so many rows and columns: a row or a column by itself is multiplied by
another algorithm, for which 32 bytes are not enough."""

_GROUP_NORM_EPSILON: Final = 1e-5
"""What is added to a variance before its root, as in `torch.nn.GroupNorm`."""


class Layer(Protocol):
    """One layer; `shapes` are those of its parameters in one flat vector, in their order.

    `stored` are those of its weights, which may have more rows than the parameters; `widths` are
    how many values per record its matrices have.
    """

    @property
    def shapes(self) -> Shapes: ...

    @property
    def stored(self) -> Shapes: ...

    @property
    def widths(self) -> tuple[int, ...]: ...

    def initial(self, rng: Generator) -> Arrays:
        """Return initial parameters, in these shapes."""

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        """Return the output, and what `backward` will need.  Without `draws` nothing drops out."""

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        """Add `scale` times the gradient to `into`; return the slope with respect to the input.

        If that is not `needed`, anything may be returned.
        """


class ParameterFreeLayer:
    """A layer without parameters."""

    shapes: Shapes = ()
    stored: Shapes = ()
    widths: tuple[int, ...] = ()

    def initial(self, rng: Generator) -> Arrays:
        """Return nothing: there are none."""
        return []


def uniform(rng: Generator, shapes: Shapes, fan_in: int) -> Arrays:
    """Return parameters uniform in +-1 / sqrt(fan_in), as in `torch.nn.Linear` and `Conv2d`."""
    reach = 1.0 / math.sqrt(fan_in)
    return [rng.uniform(-reach, reach, shape) for shape in shapes]


def multiple_for(width: int) -> int:
    """Return what the number of rows of this width must be a multiple of, to fill whole places."""
    return ALIGNED // math.gcd(ALIGNED, width)


def rows_stored(rows: int, columns: int) -> int:
    """Return the least number of rows, at least `rows`, whose numbers fill whole places.

    It is at least `_MATRIX`.

    >>> rows_stored(30, 30), rows_stored(1, 16), rows_stored(10, 25)
    (30, 2, 12)
    """
    step = multiple_for(columns)
    return -(-max(rows, _MATRIX) // step) * step


@dataclass(frozen=True)
class Linear:
    """x W^T + b, with W (outputs, inputs) and b (outputs,)."""

    inputs: int
    outputs: int

    @property
    def shapes(self) -> Shapes:
        return (self.outputs, self.inputs), (self.outputs,)

    @property
    def stored(self) -> Shapes:
        columns = max(self.inputs, _MATRIX)
        rows = rows_stored(self.outputs, columns)
        return (rows, columns), (rows,)

    @property
    def widths(self) -> tuple[int, ...]:
        return self.stored[0]

    def initial(self, rng: Generator) -> Arrays:
        """Return W and b, uniform in +-1 / sqrt(inputs)."""
        return uniform(rng, self.shapes, self.inputs)

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        weight, bias = weights
        x = _widened(x, weight.shape[2])
        out = torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))
        return out[..., : self.outputs].contiguous(), (x,)

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        (x,), slope = saved, _widened(slope, weights[0].shape[1])
        before = torch.bmm(slope, weights[0])[..., : self.inputs] if needed else slope
        into[0].baddbmm_(slope.transpose(1, 2), x, alpha=scale)
        into[1].add_(slope.sum(1), alpha=scale)
        return before


def _widened(x: Tensor, width: int) -> Tensor:
    """Return values with zeros behind them, up to a width, one unit's behind the other's."""
    more = width - x.shape[2]
    return torch.nn.functional.pad(x, (0, more)) if more else x.contiguous()


class Relu(ParameterFreeLayer):
    """max(x, 0); its derivative at 0 is 0.

    It overwrites its input, so it stands behind a layer that does not keep its own output.
    """

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        out = torch.relu_(x)
        return out, (out,)

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        return cast(Tensor, torch.ops.aten.threshold_backward(slope, saved[0], 0))


@dataclass(frozen=True)
class Normalise:
    """Each record's values to mean 0 and variance 1, then gain and bias: GroupNorm, one group."""

    values: int

    widths: tuple[int, ...] = field(default=(), init=False)

    @property
    def shapes(self) -> Shapes:
        return (self.values,), (self.values,)

    @property
    def stored(self) -> Shapes:
        return self.shapes

    def initial(self, rng: Generator) -> Arrays:
        """Return gain 1 and bias 0."""
        return [np.ones(self.values), np.zeros(self.values)]

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        gain, bias = weights
        normal, mean, inverse = torch.ops.aten.native_layer_norm(
            x, [self.values], None, None, _GROUP_NORM_EPSILON
        )
        return torch.addcmul(bias[:, None], normal, gain[:, None]), (x, normal, mean, inverse)

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        x, normal, mean, inverse = saved
        before = slope * weights[0][:, None]
        if needed:
            before = torch.ops.aten.native_layer_norm_backward(
                before, x, [self.values], mean, inverse, None, None, [True, False, False]
            )[0]
        into[0].add_((slope * normal).sum(1), alpha=scale)
        into[1].add_(slope.sum(1), alpha=scale)
        return before


@dataclass(frozen=True)
class Dropout(ParameterFreeLayer):
    """Each value is 0 with probability `rate`, and divided by 1 - `rate` otherwise.

    `index` tells the layers of a model apart, so that their draws differ.  `rate` is rounded to a
    multiple of 1 / `DROPOUT_LEVELS`.
    """

    index: int
    rate: float
    exact: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", round(self.rate * DROPOUT_LEVELS) / DROPOUT_LEVELS)

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        if draws is None or self.exact == 0.0:
            return x, ()
        kept = self._kept(x, draws).to(x.dtype).div_(1.0 - self.exact)
        return x * kept, (kept,)

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        return slope * saved[0] if saved else slope

    def _kept(self, x: Tensor, draws: Draws) -> Tensor:
        """Return which values stay, in a shape that broadcasts to x."""
        return draws.dropout_mask(self.index, x.shape[1], x.shape[2], self.exact)
