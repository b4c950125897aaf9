"""The "training" of canaries among DISCO's peers: rows that pull along a column of their own.

They replace what training gives, before the system's own clip and noise: a canary that is put in
after the clip would not show that the clip is missing.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import numpy as np

from ..canaries import CANARY_NORM_IN_CLIPS
from ..training.local_training import NoTraining

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray
    from ..data.federation import Indices
    from ..frame.model import Parameters
    from ..training.local_training import Rows

_JUST_UNCLIPPED: Final = 1.0 - 1e-12
"""The norm of a row that counts as unclipped, in clips."""


class CanaryTraining(NoTraining):
    """A `LocalTraining` in which canary j moves its own column of every tensor, and nothing else.

    `holders` (n,) says in which peer each canary lies.  `pulls` (n,) are +1 or -1, set before each
    run; `clip` that of the round, before each round.  With `short` a row that pulls against its
    column is just unclipped.
    """

    def __init__(self, holders: IntArray, *, silos: int, tensors: int, short: bool) -> None:
        self.holders, self._silos, self._tensors, self._short = holders, silos, tensors, short
        self.pulls, self.signs = np.ones(len(holders)), np.ones(len(holders))
        self.clip = 1.0
        self.model = SimpleNamespace(
            parts={f"tensor-{index}": (len(holders),) for index in range(tensors)}
        )

    def initial(self) -> Parameters:
        """Return the first model."""
        return np.zeros(len(self.holders) * self._tensors)

    def towards(self, number: int) -> FloatArray:
        """Return the public direction of each canary in round `number`: (n,), +1 or -1."""
        return self.signs if number % 2 == 0 else -self.signs

    def along(self, values: FloatArray) -> FloatArray:
        """Return how far a vector (D,) lies in the direction of each canary: (n,)."""
        return np.asarray(values.reshape(self._tensors, -1).sum(axis=0) / math.sqrt(self._tensors))

    def silo_deltas(self, parameters: Parameters, number: int) -> Rows:  # noqa: ARG002
        """Return the update of each peer: (silos, D)."""
        rows = np.zeros((self._silos, len(self.holders) * self._tensors))
        rows[self.holders] = self._rows(number)
        return rows

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:  # noqa: ARG002
        """Return the gradient of each record, which is a canary: (records, D)."""
        return -self._rows(step)[chosen]

    def _rows(self, number: int) -> Rows:
        """Return the row of each canary, equally long in all tensors: (n, D)."""
        moved = self.pulls * self.towards(number)
        lengths = np.full(len(moved), CANARY_NORM_IN_CLIPS)
        if self._short:
            lengths[moved < 0.0] = _JUST_UNCLIPPED
        scaled = self.clip * lengths * moved / math.sqrt(self._tensors)
        return np.tile(np.diag(scaled), self._tensors)
