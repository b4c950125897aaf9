"""Losses whose records count more or less by their class: public weights, one for each class.

    loss of a record of class y   ->   weight_y times it

Nothing else changes: what a unit sends is clipped as before, so the bound on it holds whatever the
weights are.  They are public, and never counted in the records: how often a class occurs is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...accountant.errors import InvalidInput
from .losses import Loss
from .model import Model


@dataclass(frozen=True)
class ClassWeighted:
    """A loss of classes, each record's term times the weight of its class."""

    loss: Loss
    weights: tuple[float, ...]

    @property
    def additive(self) -> bool:
        """Whether it is a sum of terms of single records, as the loss is."""
        return self.loss.additive

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""
        return self.loss.value(logits, labels, self._weighed(labels, share))

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the derivative with respect to the logits, in their shape."""
        return self.loss.slope(logits, labels, self._weighed(labels, share))

    def _weighed(self, labels: Tensor, share: Tensor) -> Tensor:
        # Padding has share 0, whatever class its label names.
        weights = torch.tensor(self.weights, dtype=share.dtype, device=share.device)
        # By gather, which keeps units apart where many are computed together (`unit_operations`).
        each = weights.expand(*labels.shape, len(weights)).gather(-1, labels[..., None])
        return share * each[..., 0]


def class_weighted(model: Model, weights: Sequence[float] | None, classes: int) -> Model:
    """Return the model with a loss that weighs classes; as it is where there are no weights.

    Raises `InvalidInput` unless there is one weight for each of two classes or more.
    """
    if weights is None:
        return model
    if classes < 2 or len(weights) != classes:
        of = "no classes" if classes < 2 else f"{classes:,} classes"
        raise InvalidInput(
            f"`class_weights` in [training] are {len(weights):,}, and labels are of {of}.",
            "Each class has a weight of its own, in the order in which they are listed.",
            "Give one for each class, or leave `class_weights` out.",
        )
    return replace(model, loss=ClassWeighted(model.loss, tuple(weights)))
