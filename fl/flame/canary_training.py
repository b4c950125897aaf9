"""The "training" of canaries among FLAME's users: updates ten clips long in every coordinate.

They replace what training gives, before the system's own choice of coordinates, clip and noise: a
canary that is put in after the clip would not show that the clip is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ..canaries import CANARY_NORM_IN_CLIPS
from ..training.local_training import UpdateBlock

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray
    from ..data.federation import Federation, Indices
    from ..frame.model import Parameters
    from ..training.local_training import Rows


class CanaryUpdates:
    """A `LocalTraining` in which the first users are canaries, and the others' updates are 0.

    `directions` (m, d) are those of the canaries by their coins, set before each run: +1, -1 or 0
    of each coordinate, or more where it is favoured.  They turn round by round, so that noise that
    is used again cancels out.
    """

    def __init__(self, dimensions: int, *, clip: float) -> None:
        self._length = CANARY_NORM_IN_CLIPS * clip
        self.directions: FloatArray = np.zeros((1, dimensions))

    def use(self, federation: Federation) -> None:
        """Go on as before: there are no features."""

    def initial(self) -> Parameters:
        """Return the first model."""
        return np.zeros(self.directions.shape[1])

    def turn(self, number: int) -> float:
        """Return which way canaries pull in round `number`: +1 or -1; public."""
        return 1.0 if number % 2 == 0 else -1.0

    def user_deltas(
        self,
        parameters: Parameters,  # noqa: ARG002
        users: Sequence[Indices],  # noqa: ARG002
        number: int,
    ) -> Iterator[UpdateBlock]:
        """Yield the updates of the canaries; all others have none."""
        canaries = np.arange(len(self.directions))
        rows = self._length * self.turn(number) * self.directions
        yield UpdateBlock(canaries, np.zeros_like(canaries), rows)

    def user_gradients(
        self, parameters: Parameters, users: Sequence[Indices], number: int
    ) -> NoReturn:
        """Refuse: FLAME asks for updates alone."""
        raise NotImplementedError

    def silo_deltas(self, parameters: Parameters, number: int) -> Rows:
        """Refuse, likewise."""
        raise NotImplementedError

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Refuse, likewise."""
        raise NotImplementedError
