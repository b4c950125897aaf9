"""A model that is a module of one's own, as `Model` is for those of privplan's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from .layers import ALIGNED, Shapes, Weights
from .model import Model
from .module_body import ModuleBody, untraced
from .module_failures import contained
from .training_draws import Draws

_MAX_SAVED_NUMBERS: Final = 2**24
"""How many numbers may be kept while outputs are computed."""


@dataclass(frozen=True, eq=False)
class OwnModel(Model):
    """A module that was checked (`.module_checks`), for records of `record_shape`.

    `make(seed)` makes it anew; it was made with `seed`.  Weights are a stack of flat rows for each
    parameter, (units, numbers), with zeros behind them, so that each begins where it would if its
    unit trained alone (see `layers`).
    """

    body: ModuleBody
    record_shape: tuple[int, ...]
    classes: int
    make: Callable[[int], nn.Module]
    seed: int
    numbers_kept: int

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of the parameters, in the order of the flat vector."""
        return tuple(self.body.shapes.values())

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of each part of the flat vector, in its order."""
        return self.body.shapes

    @cached_property
    def multiple(self) -> int:
        """What the number of records of a stack must be a multiple of."""
        return ALIGNED

    @cached_property
    def kept(self) -> int:
        """How many numbers are kept of one record between forward and backward."""
        return self.numbers_kept

    def initial(self, seed: int) -> FloatArray:
        """Return the public parameters that training starts from, as the module has them: (D,)."""
        known = validate.count_from(0, seed=seed) == self.seed
        body = self.body if known else ModuleBody(self.make(seed))
        if body.shapes != self.body.shapes:
            raise InvalidInput(
                f"The model {self.name} has other parameters under another seed.",
                next_step="Let the seed decide their values alone.",
            )
        return flat_parameters(body)

    def logits(self, parameters: ArrayLike, features: ArrayLike) -> FloatArray:
        """Return the outputs for records: (records, outputs) float64, without dropout.

        Records at which the module fails have NaN.
        """
        flat = torch.from_numpy(self.vector(parameters))
        weights = self._shaped(self.spread(flat, 1))
        table = np.asarray(features)
        self.check_records(table.shape)
        # No record looks at another, so pieces of any size give the same.
        piece = max(1, _MAX_SAVED_NUMBERS // (self.kept + 1))
        logits = np.full((len(table), self.outputs), np.nan)
        first_of_all = [weight[0] for weight in weights]
        with torch.no_grad(), untraced():
            for first in range(0, len(table), piece):
                records = np.array(table[first : first + piece], np.float64)
                x = torch.from_numpy(records).reshape(len(records), *self.record_shape)
                logits[first : first + piece] = self._answers(first_of_all, x).numpy()
        return logits

    def check_records(self, shape: Sequence[int]) -> None:
        """Raise `InvalidInput` unless records of this array shape fit the model."""
        if tuple(shape[1:]) != self.record_shape:
            raise InvalidInput(
                f"The model {self.name} was made for records of shape {self.record_shape};"
                f" `features` has shape {tuple(shape)}.",
                next_step="Make it for these records.",
            )

    @property
    def label_classes(self) -> int:
        """How many classes labels have; 1 where they are [time, event]."""
        return self.classes

    def spread(self, parameters: Tensor, units: int) -> list[Tensor]:
        """Return one parameter vector (D,) as weights of `units` units, which share memory."""
        rows = []
        for part in torch.split(parameters, [math.prod(shape) for shape in self.shapes]):
            # Zeros up to a multiple of `ALIGNED`, so that the next unit's row begins there.
            row = part.new_zeros(-(-len(part) // ALIGNED) * ALIGNED)
            row[: len(part)] = part
            rows.append(row.expand(units, len(row)))
        return rows

    def flat(self, weights: Weights) -> Tensor:
        """Return weights as parameter vectors: (units, D)."""
        parts = zip(weights, self.shapes, strict=True)
        return torch.cat([weight[:, : math.prod(shape)] for weight, shape in parts], 1)

    def forward(self, weights: Weights, x: Tensor, draws: Draws | None) -> Tensor:
        """Return the outputs of each unit's records: (units, records, outputs).

        Records at which the module fails have NaN.
        """
        keys = [None] * len(x) if draws is None else list(draws.keys)
        shaped, records = self._shaped(weights), self._records(x)
        with untraced():
            logits = [
                self._answers([weight[unit] for weight in shaped], records[unit], key)
                for unit, key in enumerate(keys)
            ]
        return torch.stack(logits)

    def _answers(self, weights: list[Tensor], x: Tensor, key: Tensor | None = None) -> Tensor:
        """Return the outputs of records (records, outputs); NaN of those at which it fails."""
        with contained():  # whatever somebody's records make of the module
            return self._outputs(weights, x, key)
        rows = x.new_full((len(x), self.outputs), math.nan)
        for record in range(len(x)):
            with contained():
                rows[record] = self._outputs(weights, x[record : record + 1], key)[0]
        return rows

    def _outputs(self, weights: list[Tensor], x: Tensor, key: Tensor | None) -> Tensor:
        # Copies, so that what is written reaches nobody else.
        copies = [weight.clone() for weight in weights]
        out = self.body.fresh().outputs(copies, x.clone(), training=key is not None, key=key)
        if not isinstance(out, Tensor) or out.shape != (len(x), self.outputs):
            raise ValueError("other outputs than at the door")
        return out.to(x.dtype)

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
        """Add `scale` times the gradient of each unit's loss to `into`; see `Model`."""
        keys = None if draws is None else draws.keys
        gradients = self.body.gradients(
            self.loss, self._shaped(weights), self._records(x), labels, share, keys
        )
        for target, gradient in zip(self._shaped(into), gradients, strict=True):
            target.add_(gradient, alpha=scale)

    def _shaped(self, weights: Weights) -> list[Tensor]:
        """Return weights in the shapes of the parameters: (units, ...)."""
        return [
            weight[:, : math.prod(shape)].view(len(weight), *shape)
            for weight, shape in zip(weights, self.shapes, strict=True)
        ]

    def _records(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], *self.record_shape)


def flat_parameters(body: ModuleBody) -> FloatArray:
    """Return the parameters of a module that training moves, one behind the other: (D,) float64."""
    parts = [each.detach().reshape(-1).numpy() for each in body.trained.values()]
    return np.concatenate([np.empty(0), *parts])
