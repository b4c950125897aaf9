"""A block's minibatches, as tensors on a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models import Model
from ..models.training_draws import Draws, child_keys, random_orders, unit_keys
from .unit_blocks import Block
from .units import Units

_ORDER_STREAM: Final = 0
"""The stream that orders an epoch; those behind it belong to its minibatches."""


@dataclass(frozen=True, eq=False)
class Minibatch:
    """One minibatch of each of the block's first `units` units.

    `x` is (units, width, ...), `labels` (units, width, ...), `share` (units, width): the weight of
    each record in the mean, 0 for padding.  Padding repeats a record of the same unit.
    """

    units: int
    x: Tensor
    labels: Tensor
    share: Tensor
    draws: Draws | None


class Source:
    """Records on a device, from which minibatches of blocks are taken."""

    def __init__(
        self,
        model: Model,
        units: Units,
        *,
        seed: int,
        number: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.device, self.dtype = device, dtype
        self._drops = model.dropout > 0.0
        self._features = self._tensor(units.features[units.order])
        self._labels = self._tensor(units.labels[units.order])
        self._starts, self._sizes = self._tensor(units.offsets[:-1]), self._tensor(units.sizes)
        self._keys = unit_keys(seed, number, self._tensor(units.user), self._tensor(units.silo))

    def whole(self, block: Block) -> Iterator[Minibatch]:
        """Yield the pieces of one pass in which a unit's shares add up to 1 over all pieces."""
        rows = self._tensor(block.units)
        yield from self._epoch(block, rows, 0, None, self._sizes[rows])

    def epochs(self, block: Block, epochs: int) -> Iterator[Minibatch]:
        """Yield the minibatches of each epoch in turn, in which shares add up to 1 each."""
        rows = self._tensor(block.units)
        if not block.several and not self._drops:  # each epoch is the same
            (only,) = self._epoch(block, rows, 0, None, None)
            for _ in range(epochs):
                yield only
            return
        for epoch in range(epochs):
            order = self._shuffled(block, rows, epoch) if block.several else None
            yield from self._epoch(block, rows, epoch, order, None)

    def _epoch(
        self, block: Block, rows: Tensor, epoch: int, order: Tensor | None, of: Tensor | None
    ) -> Iterator[Minibatch]:
        """Yield one pass; `order` of positions (as they come, if None); means over `of` records.

        Without `of`, they are over the minibatch.
        """
        sizes, keys = self._sizes[rows], child_keys(self._keys[rows], epoch)
        within = torch.arange(block.width, device=self.device)
        for step, units in enumerate(self._active(-(-sizes // block.batch))):
            first = step * block.batch
            # (units, width): the padding behind a minibatch's records is not present, and weighs 0.
            positions = first + within
            present = (within < block.batch) & (positions < sizes[:units, None])
            if order is not None:
                positions = order[:units, first : first + block.width]
            # Shares add up to 1 over a minibatch, or over the whole unit.
            over = present.sum(1) if of is None else of[:units]
            records = self._starts[rows[:units], None] + torch.where(present, positions, 0)
            yield Minibatch(
                units,
                self._features[records].to(self.dtype),
                self._labels[records],
                present.to(self.dtype) / over[:, None],
                Draws(child_keys(keys[:units], 1 + step)) if self._drops else None,
            )

    def _active(self, passes: Tensor) -> list[int]:
        """Return how many units have a minibatch at each step; `passes` falls."""
        counts = passes.cpu().numpy()
        return [int(np.sum(counts > step)) for step in range(int(counts[0]))]

    def _shuffled(self, block: Block, rows: Tensor, epoch: int) -> Tensor:
        sizes = self._sizes[rows]
        width = int(sizes.max()) + block.batch + block.width
        return orders(self._keys[rows], sizes, range(epoch, epoch + 1), width)[0]

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        """Return an array on the device; PyTorch shares no memory that may not be written."""
        return torch.tensor(values, device=self.device)


def orders(keys: Tensor, sizes: Tensor, epochs: range, width: int) -> Tensor:
    """Return each unit's order in some epochs: (epochs, units, width); see `random_orders`.

    `keys` are those of the units in a round, `sizes` how many records they have: (units,).
    """
    names = torch.arange(epochs.start, epochs.stop, device=keys.device)[:, None]
    # One key for each epoch and unit, by (seed, round, user, silo, epoch) and nothing else.
    epoch_keys = child_keys(child_keys(keys[None], names), _ORDER_STREAM)
    positions = random_orders(epoch_keys.flatten(), sizes.repeat(len(epochs)), width)
    return positions.view(len(epochs), len(keys), width)
