"""Training of models with one linear score, as `logistic` and `cox`, in a few numpy calls a step.

    s = X w          scores of a minibatch, with a 1 behind each record for the bias
    w <- w - rate sum_i slope_i(s) x_i

Such a step is less work than calling layers one by one, and a silo takes thousands in a round.
What `deltas` says of units holds here too, for every sum is added up in an order that the shape of
the unit's own minibatch fixes: `einsum` goes through a unit's numbers one behind the other, and no
product is left to a library that looks at where in memory a matrix begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ..models import Model
from ..models.layers import Linear
from ..models.losses import BinaryCrossEntropy, CoxPartialLikelihood, Huber, SquaredError
from ..models.training_draws import unit_keys
from .minibatches import orders
from .unit_blocks import Block, blocks
from .units import Recipe, Units

Step: TypeAlias = tuple[FloatArray, ...]
"""Records (units, width, D) of the first units of a block, and what their slopes are made of."""


@dataclass(frozen=True)
class ScoreLoss:
    """A loss of one score.

    `facts` turns labels (epochs, units, width, ...) and shares (units, width) into what `slope`
    takes with the scores (units, width), which it may overwrite; `numbers` is how many numbers
    a record has of them, at a width.
    """

    facts: Callable[[NDArray[Any], FloatArray], tuple[FloatArray, ...]]
    slope: Callable[..., FloatArray]
    numbers: Callable[[int], int]


def _facts(labels: NDArray[Any], share: FloatArray) -> tuple[FloatArray, ...]:
    return labels.astype(np.float64), np.broadcast_to(share, labels.shape)


def _binary_slope(score: FloatArray, label: FloatArray, share: FloatArray) -> FloatArray:
    """Return (1 / (1 + e^-s) - y) share."""
    np.negative(score, out=score)
    np.exp(score, out=score)
    score += 1.0
    np.reciprocal(score, out=score)
    score -= label
    score *= share
    return score


def _squared_slope(score: FloatArray, label: FloatArray, share: FloatArray) -> FloatArray:
    """Return (s - y) share."""
    score -= label
    score *= share
    return score


def _huber_slope(score: FloatArray, label: FloatArray, share: FloatArray) -> FloatArray:
    """Return s - y cut off at -1 and 1, times share."""
    score -= label
    np.clip(score, -1.0, 1.0, out=score)
    score *= share
    return score


def _cox_facts(labels: NDArray[Any], share: FloatArray) -> tuple[FloatArray, ...]:
    """Return share x event, and 0 for who is at risk at each record's time, -inf for others."""
    time, event = labels[..., 0], labels[..., 1]
    # Padding has share 0 and is at nobody's risk; each record is in its own risk set.
    later = (time[..., None, :] >= time[..., :, None]) & (share > 0.0)[..., None, :]
    at_risk = later | np.eye(time.shape[-1], dtype=bool)
    return share * event, np.where(at_risk, 0.0, -np.inf)


def _cox_slope(score: FloatArray, weight: FloatArray, at_risk: FloatArray) -> FloatArray:
    """Return sum_i weight_i softmax(risk set of i)_j - weight_j."""
    # (units, width, width): row i holds the scores of those at risk at the time of record i.
    within = score[:, None, :] + at_risk
    # The row's largest score off first: exp is then at most 1, and no row sums to 0.
    within -= within.max(axis=2, keepdims=True)
    np.exp(within, out=within)
    pulled: FloatArray = np.einsum("ui,uij->uj", weight / within.sum(axis=2), within)
    pulled -= weight
    return pulled


SCORE_LOSSES: Final[Mapping[type, ScoreLoss]] = {
    BinaryCrossEntropy: ScoreLoss(_facts, _binary_slope, lambda _: 2),
    SquaredError: ScoreLoss(_facts, _squared_slope, lambda _: 2),
    Huber: ScoreLoss(_facts, _huber_slope, lambda _: 2),
    CoxPartialLikelihood: ScoreLoss(_cox_facts, _cox_slope, lambda width: 1 + width),
}


def is_one_score(model: Model) -> bool:
    """Return whether the model is one linear score under a loss that is known here."""
    if len(model.layers) != 1:
        return False
    (only,) = model.layers
    linear = isinstance(only, Linear) and only.outputs == 1
    return linear and type(model.loss) in SCORE_LOSSES


class Scores:
    """Units of one model with one score, in float64 on a CPU; see `Source`.

    `room` is how many numbers may be made at once.
    """

    def __init__(self, model: Model, units: Units, *, seed: int, number: int, room: int) -> None:
        self._room = room
        self._loss = SCORE_LOSSES[type(model.loss)]
        self._x = with_ones(units.features[units.order])
        self._labels = units.labels[units.order]
        self._starts, self._sizes = units.offsets[:-1], units.sizes
        named = (torch.from_numpy(np.array(name)) for name in (units.user, units.silo))
        self._keys = unit_keys(seed, number, *named)

    def blocks(self, batch: int) -> Iterator[Block]:
        """Yield the units that have records in blocks."""
        values = self._x.shape[1]

        def cost(width: int) -> int:
            return int(2 * values + width * (values + self._loss.numbers(width)))

        return blocks(self._sizes, batch, 1, self._room, cost)

    def deltas(self, start: FloatArray, block: Block, recipe: Recipe) -> FloatArray:
        """Return how far a block's units move the parameters: (units, D)."""
        weights = np.tile(start, (len(block.units), 1))
        with np.errstate(all="ignore"):  # what diverges is not told
            for steps in self._epochs(block, recipe.epochs):
                for step in steps:
                    # w <- w - rate sum_i slope_i x_i, for the units that have this minibatch.
                    active = weights[: len(step[0])]
                    self._add(active, step, active, -recipe.local_rate)
            weights -= start
        return weights

    def gradients(self, start: FloatArray, block: Block) -> FloatArray:
        """Return the mean gradient of a block's units: (units, D)."""
        weights = np.tile(start, (len(block.units), 1))
        into = np.zeros_like(weights)
        sizes = self._sizes[block.units]
        with np.errstate(all="ignore"):
            for index in range(_passes(sizes, block)):
                records = self._minibatch_records(block, index)
                (step,) = self._steps(records[None], self._share(block, index, sizes))
                self._add(weights[: len(records)], step, into[: len(records)], 1.0)
        return into

    def _add(self, weights: FloatArray, step: Step, into: FloatArray, scale: float) -> None:
        """Add `scale` times the gradients of minibatches to `into`, which may be `weights`."""
        x, *facts = step
        # Scores s = X w, (units, width); then the slope of the loss at each, times its share.
        slope = self._loss.slope(np.einsum("urd,ud->ur", x, weights), *facts)
        slope *= scale
        # sum_i slope_i x_i, (units, D): one behind the other, in the order of the records.
        into += np.einsum("ur,urd->ud", slope, x)

    def _epochs(self, block: Block, epochs: int) -> Iterator[Iterable[Step]]:
        """Yield the steps of each epoch."""
        sizes = self._sizes[block.units]
        passes = range(_passes(sizes, block))
        shares = [self._share(block, index) for index in passes]
        if not block.several:  # each epoch is the same
            (only,) = self._steps(self._minibatch_records(block, 0)[None], shares[0])
            yield from repeat([only], epochs)
            return
        # As many epochs at a time as `room` holds of gathered records and facts.
        numbers = self._x.shape[1] + self._loss.numbers(block.width)
        most = max(1, self._room // (numbers * sum(share.size for share in shares)))
        keys, bounds = self._keys[block.units], torch.from_numpy(sizes)
        for first in range(0, epochs, most):
            some = range(first, min(first + most, epochs))
            order = orders(keys, bounds, some, len(passes) * block.batch).numpy()
            parts = (
                self._steps(self._minibatch_records(block, index, order), shares[index])
                for index in passes
            )
            if len(some) > 1:
                yield from zip(*parts, strict=True)
            else:  # one by one, for which there is room
                yield chain.from_iterable(parts)

    def _steps(self, records: IntArray, share: FloatArray) -> Iterator[Step]:
        """Yield one minibatch of each epoch; `records` is (epochs, units, width)."""
        facts = self._loss.facts(self._labels[records], share)
        return zip(self._x[records], *facts, strict=True)

    def _present(self, block: Block, index: int) -> BoolArray:
        """Return which places of a minibatch hold records, for the units that have it."""
        sizes = self._sizes[block.units]
        first = index * block.batch
        within = np.arange(first, first + block.width)
        present: BoolArray = within < sizes[sizes > first, None]
        return present

    def _share(self, block: Block, index: int, of: IntArray | None = None) -> FloatArray:
        """Return the weight of each record in a mean over `of` records, or over the minibatch."""
        present = self._present(block, index)
        over = present.sum(axis=1) if of is None else of[: len(present)]
        shares: FloatArray = present / over[:, None]
        return shares

    def _minibatch_records(
        self, block: Block, index: int, order: IntArray | None = None
    ) -> IntArray:
        """Return the records of a minibatch, (units, width), or of all epochs of an order.

        Padding repeats a record of the same unit.
        """
        present = self._present(block, index)
        units, first = len(present), index * block.batch
        within = np.arange(first, first + block.width)
        if order is not None:
            within = order[:, :units, first : first + block.width]
        return self._starts[block.units[:units], None] + np.where(present, within, 0)


class Records:
    """Records under a model with one score and a loss of each record by itself.

    `owner` (records,) says which of several weights each one meets.  For DP-SGD, whose steps have a
    handful of records each.
    """

    def __init__(
        self,
        model: Model,
        features: NDArray[np.generic],
        labels: NDArray[np.generic],
        owner: IntArray,
    ) -> None:
        self._loss = SCORE_LOSSES[type(model.loss)]
        self._x, self._owner = with_ones(features), owner
        self._facts = self._loss.facts(labels, np.ones(len(labels)))

    def gradients(self, models: FloatArray, chosen: IntArray) -> FloatArray:
        """Return the gradient of each of these records by itself: (records, D)."""
        x = self._x[chosen]
        facts = [fact[chosen] for fact in self._facts]
        with np.errstate(all="ignore"):
            score = np.einsum("rd,rd->r", x, models[self._owner[chosen]])
            slope = self._loss.slope(score, *facts)
            x *= slope[:, None]
        return x


def with_ones(features: NDArray[np.generic]) -> FloatArray:
    """Return records as rows with a 1 behind each: (records, values + 1) float64."""
    values = math.prod(features.shape[1:])
    table = np.ones((len(features), values + 1))
    table[:, :-1] = features.reshape(len(features), values)
    return table


def _passes(sizes: IntArray, block: Block) -> int:
    """Return the largest number of minibatches of a unit; `sizes` are those of the block."""
    return int(-(-sizes[0] // block.batch))
