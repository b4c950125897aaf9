"""Losses and their derivatives with respect to the logits, for many units at once.

A unit is what trains by itself, as a user's records in a silo.  The loss of a unit is the mean over
the records of its batch.  Shapes: logits (units, records, outputs); `share` (units, records), the
weight of each record in the mean: 1 / batch, and 0 for padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import torch
from torch import Tensor


class Loss(Protocol):
    """A loss; `additive` if it is a sum of terms of single records, as DP-SGD needs."""

    @property
    def additive(self) -> bool: ...

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the derivative with respect to the logits, in their shape."""


class BinaryCrossEntropy:
    """-y log p - (1 - y) log(1 - p) with p = sigmoid(logit); labels (units, records) 0 or 1."""

    additive: Final = True

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""
        score = logits[..., 0]
        each = torch.nn.functional.softplus(score) - score * labels
        return (each * share).sum(1)

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the derivative (p - y) share: (units, records, 1)."""
        # p as softmax(logit, 0), not by torch.sigmoid, whose last bit depends on where in memory a
        # value lies: then another unit's presence could change it.
        odds = torch.cat([logits, torch.zeros_like(logits)], 2)
        return (torch.softmax(odds, 2)[..., :1] - labels[..., None]) * share[..., None]


class CrossEntropy:
    """-log softmax(logits)[y]; labels (units, records) from 0 to outputs - 1."""

    additive: Final = True

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""
        chosen = torch.log_softmax(logits, 2).gather(2, labels[..., None])[..., 0]
        return -(chosen * share).sum(1)

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the derivative (softmax(logits) - onehot(y)) share."""
        slope = torch.softmax(logits, 2)
        slope.scatter_add_(2, labels[..., None], -torch.ones_like(slope[..., :1]))
        return slope.mul_(share[..., None])


class SquaredError:
    """(s - y)^2 / 2 of the one output s; labels (units, records) are numbers in [-1, 1]."""

    additive: Final = True

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""
        error = logits[..., 0] - labels
        return (0.5 * error * error * share).sum(1)

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the derivative (s - y) share: (units, records, 1)."""
        return ((logits[..., 0] - labels) * share)[..., None]


class Huber:
    """(s - y)^2 / 2 where |s - y| <= 1, half of the range of labels, and |s - y| - 1/2 beyond it.

    Labels (units, records) are numbers in [-1, 1].
    """

    additive: Final = True

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""
        error = logits[..., 0] - labels
        near = error.clamp(-1.0, 1.0)
        # near (error - near / 2) is error^2 / 2 within the bend, and |error| - 1/2 beyond it.
        return (near * (error - 0.5 * near) * share).sum(1)

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the derivative, s - y cut off at -1 and 1, times share: (units, records, 1)."""
        return ((logits[..., 0] - labels).clamp(-1.0, 1.0) * share)[..., None]


class CoxPartialLikelihood:
    """Cox's negative log partial likelihood, with Breslow's risk sets, over the batch.

        sum_i share_i event_i (log sum_{j: time_j >= time_i} exp(score_j) - score_i)

    Labels are (units, records, 2) with rows [time, event].  Records without an event count in the
    mean, as in FLamby's loss, from which this differs only where times are tied: there FLamby's
    risk set is whatever its sort leaves.  A batch with no event, or one record, has loss 0.

    It couples the records of a batch, so no record has a loss, or a gradient, of its own.
    """

    additive: Final = False

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""
        score, event = logits[..., 0], labels[..., 1].to(logits.dtype)
        risk = torch.logsumexp(self._at_risk(score, labels, share), 2)
        return (share * event * (risk - score)).sum(1)

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return sum_i share_i event_i softmax(scores in the risk set of i)_j - share_j event_j."""
        score, event = logits[..., 0], labels[..., 1].to(logits.dtype)
        weight = share * event
        within = torch.softmax(self._at_risk(score, labels, share), 2)
        pulled = torch.bmm(weight[:, None], within)[:, 0]
        return (pulled - weight)[..., None]

    def _at_risk(self, score: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return score j where record j is at risk at the time of record i, else -inf.

        Shape (units, records i, records j); a record is always in its own risk set.
        """
        time, present = labels[..., 0], share > 0
        later = (time[:, None, :] >= time[..., None]) & present[:, None, :]
        itself = torch.eye(time.shape[1], dtype=torch.bool, device=time.device)
        return score[:, None, :].expand(later.shape).masked_fill(~(later | itself), -torch.inf)


class OwnLoss:
    """A loss of one's own: a function of outputs (records, outputs) and labels (records, ...).

    It returns a term for each record, (records,), which depends on that record alone; `checks` see
    to it.  The loss of a unit is their mean, so padding counts for nothing.
    """

    additive: Final = True

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._function = function

    def each(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the term of each record: (records,)."""
        # Labels that are numbers have the type of outputs: losses of PyTorch take one type alone.
        same = labels.to(logits.dtype) if labels.is_floating_point() else labels
        return self._function(logits, same)

    def value(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the loss of each unit: (units,)."""
        # All units' records one behind the other: no term depends on another record.
        each = self.each(logits.flatten(0, 1), labels.flatten(0, 1))
        return (each.reshape(share.shape) * share).sum(1)

    def slope(self, logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        """Return the derivative with respect to the logits, in their shape."""
        slope: Tensor = torch.func.grad(lambda at: self.value(at, labels, share).sum())(logits)
        return slope


NAMED_LOSSES: Final[Mapping[str, type[Loss]]] = {
    "binary-cross-entropy": BinaryCrossEntropy,
    "cross-entropy": CrossEntropy,
    "cox": CoxPartialLikelihood,
    "squared": SquaredError,
    "huber": Huber,
}
"""The losses that a model of one's own may name."""

LOSSES_OF_NUMBERS: Final = (SquaredError, Huber)
"""Those of labels that are numbers."""
