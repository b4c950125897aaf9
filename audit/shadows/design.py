"""The membership design: shadows in balanced halves, targets by independent fair coins.

Shadows come in pairs, of which one has the units that the other has not: every unit is in exactly
half of them, so how often it is in says nothing.  Targets are other models, and each of their
coins is independent of everything else.  A shadow that shared coins with a target would tell who is
in that target, and the attack would find its own design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator

from ...accountant import validate
from ...accountant.arrays import BoolArray, IntArray
from ...accountant.errors import InvalidInput

MIN_SHADOWS: Final = 4
"""Two pairs: one to tune with, and one for it to be compared with."""


@dataclass(frozen=True, eq=False)
class Design:
    """Which of `units` are in which model.

    `shadows` is (shadows, units), of which rows 2k and 2k + 1 are each other's opposite; `targets`
    is (targets, units).  Shadows that somebody else trained need not be `paired`.  Raises
    `InvalidInput` for shadows that are no such pairs.
    """

    shadows: BoolArray
    targets: BoolArray
    paired: bool = True

    def __post_init__(self) -> None:
        shadows, targets = self.shadows, self.targets
        if not shadows.dtype == targets.dtype == bool or shadows.ndim != 2 or targets.ndim != 2:
            raise InvalidInput("`shadows` and `targets` must be tables of booleans.")
        if shadows.shape[1] != targets.shape[1]:
            raise InvalidInput("`shadows` and `targets` must have a column for the same units.")
        if self.paired and (len(shadows) % 2 or (shadows[::2] == shadows[1::2]).any()):
            raise InvalidInput(
                "Shadows must come in pairs, each the opposite of the other.",
                "Otherwise how often a unit is in tells of who it is.",
                "Make them by `design`.",
            )

    @property
    def units(self) -> int:
        """How many units there are."""
        return int(self.targets.shape[1])

    @property
    def inside(self) -> BoolArray:
        """Who is in which model, shadows first: (models, units)."""
        return np.concatenate([self.shadows, self.targets])

    def inside_records(self, unit: IntArray) -> BoolArray:
        """Return which records are in which model: all those of a unit, in every silo, or none.

        `unit` (records,) is the unit of each record; the answer is (models, records).
        """
        return np.asarray(self.inside[:, unit])


def design(units: int, *, models: int, targets: int, rng: Generator) -> Design:
    """Return who of `units` is in which of `models`, of which `targets` are attacked.

    Range: `units` 2 or above, `targets` 1 or above; the other models are shadows, an even number,
    4 or more.  Raises `InvalidInput`.

    >>> plan = design(10, models=12, targets=2, rng=np.random.default_rng(0))
    >>> plan.shadows.sum(0).tolist(), plan.targets.shape
    ([5, 5, 5, 5, 5, 5, 5, 5, 5, 5], (2, 10))
    """
    validate.count_from(2, units=units)
    attacked = validate.count(targets=targets)
    shadows = validate.count(models=models) - attacked
    if shadows < MIN_SHADOWS or shadows % 2:
        raise InvalidInput(
            f"{models} models with {attacked} targets leave {shadows} shadows.",
            f"They come in pairs of opposite halves, and at least {MIN_SHADOWS} are needed.",
            f"Give an even number of shadows: models = {attacked + MIN_SHADOWS}, for example.",
        )
    # Rows 2k and 2k + 1 are complements: every unit is in exactly half of the shadows.
    half = rng.random((shadows // 2, units)) < 0.5
    paired = np.stack([half, ~half], axis=1).reshape(shadows, units)
    return Design(paired, rng.random((attacked, units)) < 0.5)
