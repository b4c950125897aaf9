"""The "training" of canaries: rows far longer than the clip, each in a direction of its own.

They replace the result of training inside the silos, before the system's own weights, clip,
sampling and noise: a canary that is inserted after the clip would not show that the clip is
missing.

A row has a single number that is not 0, so a clip of each number by itself looks like a clip of the
norm; the residual tier of the audit tells these apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms.clip import Sparse
from ..data.federation import Federation
from ..frame.model import Parameters
from ..training.local_training import LocalTraining, Rows, UpdateBlock
from .federation import Coins

CANARY_NORM_IN_CLIPS: Final = 10.0
"""The norm of a canary's row, in clips: a missing clip shows tenfold."""


@dataclass(frozen=True, eq=False)
class RealUsers:
    """Real users with the canaries: their training, the length of their model, their data."""

    local: LocalTraining
    width: int
    federation: Federation


class CanaryLocalTraining:
    """Training in which each canary is a user behind all real ones, and moves its own column alone.

    `users` are their numbers, (m,), ascending; None: those that follow the real users, without a
    gap.  Users between them are nobody.  `federation` is made by `canary_federation`; a row is
    `CANARY_NORM_IN_CLIPS` times `clip` long.  A unit whose coin says in moves the sum along its
    sign of the round (`Coins.sign`); one whose coin says out moves it the other way with `opposite`
    (the relation replace-one), and otherwise not at all, whether it has records or not.  The real
    users' model comes first in the vector, the canaries' columns follow.
    """

    def __init__(
        self,
        coins: Coins,
        federation: Federation,
        *,
        clip: float,
        opposite: bool = False,
        real_users: RealUsers | None = None,
        users: IntArray | None = None,
    ) -> None:
        self._first = 0 if real_users is None else real_users.federation.users
        self._width = 0 if real_users is None else real_users.width
        self._users = self._first + np.arange(len(coins)) if users is None else users
        if federation.users != self._users[-1] + 1:
            raise InvalidInput(
                f"{len(coins)} canaries and {self._first} real users are not the "
                f"{federation.users} users of the federation."
            )
        # The unit of each user: (users,), -1 where it is no canary.
        self._unit = np.full(federation.users, -1)
        self._unit[self._users] = np.arange(len(coins))
        self._coins, self._federation, self._real = coins, federation, real_users
        out = -1.0 if opposite else 0.0
        self._length = CANARY_NORM_IN_CLIPS * clip * np.where(coins.into, 1.0, out)
        self.columns: IntArray = self._width + coins.columns
        """The column of each unit in the model: (m,)."""
        self.width = self._width + len(coins)

    def use(self, federation: Federation) -> None:
        """Go on as before: canaries have no features, and real ones were normalised already."""

    def initial(self) -> Parameters:
        """Return the first model: zeros for the canaries."""
        model = np.zeros(self.width)
        if self._real is not None:
            model[: self._width] = self._real.local.initial()
        return model

    def user_deltas(
        self, parameters: Parameters, users: Sequence[IntArray], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield what each user that takes part moves the model by, by user and silo."""
        if self._real is not None:
            model, real = parameters[: self._width], self._real_among(users)
            yield from map(self._widened, self._real.local.user_deltas(model, real, number))
        yield self._rows(users, number, 1.0)

    def user_gradients(
        self, parameters: Parameters, users: Sequence[IntArray], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield the gradients that move the model as `user_deltas` says: its negatives."""
        if self._real is not None:
            model, real = parameters[: self._width], self._real_among(users)
            yield from map(self._widened, self._real.local.user_gradients(model, real, number))
        yield self._rows(users, number, -1.0)

    def silo_deltas(self, parameters: Parameters, number: int) -> Rows:
        """Return what all users of a silo move its model by: (silos, D).

        The sum of its canaries' rows, each counted once, however many records it has there.
        """
        rows = np.zeros((self._federation.silos, self.width))
        if self._real is not None:
            model = parameters[: self._width]
            rows[:, : self._width] = self._real.local.silo_deltas(model, number)
        # Row of canary j: +-(norm) in its own column, in every silo where it has records.
        present = self._federation.counts[self._users] > 0
        moved = self._length * self._coins.sign(number)
        rows[:, self.columns] += np.where(present, moved[:, None], 0.0).T
        return rows

    def record_gradients(self, models: Rows, chosen: IntArray, step: int) -> Rows:
        """Return the gradient of each record at its silo's model: (records, D)."""
        rows = np.zeros((len(chosen), self.width))
        unit = self._unit[self._federation.user[chosen]]
        canary = unit >= 0
        if self._real is not None:
            real_models = models[:, : self._width]
            real = self._real.local.record_gradients(real_models, chosen[~canary], step)
            rows[~canary, : self._width] = real
        which = unit[canary]
        moved = self._length[which] * self._coins.sign(step)[which]
        # A gradient is minus the direction in which the unit pulls the model.
        rows[np.flatnonzero(canary), self.columns[which]] = -moved
        return rows

    def _rows(self, users: Sequence[IntArray], number: int, times: float) -> UpdateBlock:
        """Return one row for each canary in each silo where it takes part."""
        unit = [numbers[numbers >= 0] for numbers in (self._unit[here] for here in users)]
        silo = np.repeat(np.arange(len(users)), [len(here) for here in unit])
        which = np.concatenate(unit)
        moves: BoolArray = self._length[which] != 0.0
        which, silo = which[moves], silo[moves]
        moved: FloatArray = times * self._length[which] * self._coins.sign(number)[which]
        rows = Sparse(self.columns[which][:, None], moved[:, None], self.width)
        return UpdateBlock(self._users[which], silo, rows)

    def _real_among(self, users: Sequence[IntArray]) -> list[IntArray]:
        return [here[here < self._first] for here in users]

    def _widened(self, block: UpdateBlock) -> UpdateBlock:
        """Return real users' rows as rows of the whole model."""
        values: FloatArray = block.rows.dense() if isinstance(block.rows, Sparse) else block.rows
        columns = np.broadcast_to(np.arange(self._width), values.shape)
        return UpdateBlock(block.user, block.silo, Sparse(columns, values, self.width))
