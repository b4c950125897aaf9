"""Layers over images: inputs and outputs (units, channels, records, height, width).

Records stand behind channels so that a convolution is one batched matrix product:
(outputs, channels k k) times (channels k k, records positions).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import cast

import torch
from numpy.random import Generator
from torch import Tensor

from .layers import (
    Arrays,
    Dropout,
    ParameterFreeLayer,
    Saved,
    Shapes,
    Weights,
    rows_stored,
    uniform,
)
from .training_draws import Draws


@dataclass(frozen=True)
class Images(ParameterFreeLayer):
    """(units, records, values) to images, values by channel, then row, then column."""

    channels: int
    height: int
    width: int

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        shape = (*x.shape[:2], self.channels, self.height, self.width)
        return x.reshape(shape).transpose(1, 2), ()

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        return slope.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class Flatten(Images):
    """Images to (units, records, values): `Images` the other way round."""

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        return x.transpose(1, 2).flatten(2), ()

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        return Images.forward(self, weights, slope, None)[0].contiguous()


@dataclass(frozen=True)
class Convolution:
    """Square kernels of side `side`, stride 1: W (outputs, channels, side, side), b.

    `padding` rows and columns of zeros stand around each image.
    """

    channels: int
    outputs: int
    side: int
    padding: int = 0

    widths: tuple[int, ...] = field(default=(), init=False)

    @property
    def shapes(self) -> Shapes:
        return (self.outputs, self.channels, self.side, self.side), (self.outputs,)

    @property
    def stored(self) -> Shapes:
        rows = rows_stored(self.outputs, self.channels * self.side**2)
        return (rows, self.channels, self.side, self.side), (rows,)

    def initial(self, rng: Generator) -> Arrays:
        """Return W and b, uniform in +-1 / sqrt(channels side side)."""
        return uniform(rng, self.shapes, self.channels * self.side**2)

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        weight, bias = weights
        x = torch.nn.functional.pad(x, (self.padding,) * 4) if self.padding else x
        # Every window as a column: (units, channels side side, records positions).
        windows = x.unfold(3, self.side, 1).unfold(4, self.side, 1)
        out = windows.shape[2:5]
        patches = windows.permute(0, 1, 5, 6, 2, 3, 4).flatten(4).flatten(1, 3)
        flat = torch.baddbmm(bias[..., None], weight.flatten(2), patches)
        return flat[:, : self.outputs].reshape(len(x), self.outputs, *out), (patches,)

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        # The slope of W is slope patches^T; rows of zeros stand where `stored` has added some.
        (patches,), rows = saved, weights[0].shape[1]
        columns = torch.nn.functional.pad(slope.flatten(2), (0, 0, 0, rows - self.outputs))
        before = self._before(weights[0], columns, slope.shape) if needed else slope
        into[0].view(len(slope), rows, -1).baddbmm_(columns, patches.transpose(1, 2), alpha=scale)
        into[1].add_(columns.sum(2), alpha=scale)
        return before

    def _before(self, weight: Tensor, columns: Tensor, out: torch.Size) -> Tensor:
        """Return the slope with respect to the input: every window adds its part."""
        units, _, records, height, width = out
        parts = torch.bmm(weight.flatten(2).transpose(1, 2), columns)
        parts = parts.view(units, self.channels, self.side, self.side, records, height, width)
        # One shifted addition for each cell of the kernel, over all windows at once.
        border = self.side - 1
        before = parts.new_zeros(units, self.channels, records, height + border, width + border)
        for row, column in product(range(self.side), repeat=2):
            before[..., row : row + height, column : column + width] += parts[:, :, row, column]
        if not self.padding:
            return before
        inside = slice(self.padding, -self.padding)
        return before[..., inside, inside].contiguous()


@dataclass(frozen=True)
class MaxPool(ParameterFreeLayer):
    """The largest of each `side` x `side` block; the first of equals in a row-wise reading.

    Blocks begin `stride` pixels apart, so they overlap where that is below `side`.
    """

    side: int = 2
    stride: int = 2

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> tuple[Tensor, Saved]:
        planes = x.flatten(1, 2)
        out, chosen = torch.ops.aten.max_pool2d_with_indices(
            planes, [self.side] * 2, [self.stride] * 2
        )
        return out.view(*x.shape[:3], *out.shape[2:]), (planes, chosen)

    def backward(
        self,
        weights: Weights,
        saved: Saved,
        slope: Tensor,
        into: Weights,
        scale: float,
        needed: bool,
    ) -> Tensor:
        planes, chosen = saved
        sides, strides = [self.side] * 2, [self.stride] * 2
        before = torch.ops.aten.max_pool2d_with_indices_backward(
            slope.flatten(1, 2), planes, sides, strides, [0, 0], [1, 1], False, chosen
        )
        return cast(Tensor, before.view(*slope.shape[:3], *before.shape[2:]))


@dataclass(frozen=True)
class ChannelDropout(Dropout):
    """Dropout of a record's whole channels."""

    def _kept(self, x: Tensor, draws: Draws) -> Tensor:
        kept = draws.dropout_mask(self.index, x.shape[2], x.shape[1], self.exact)
        return kept.transpose(1, 2)[..., None, None]
