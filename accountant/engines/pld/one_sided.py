"""Lower-bound pairs whose two directions were rounded separately: P down and Q up in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import FloatArray
from .atoms import AtomPair
from .pair import Pair

LogPair = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class OneSidedAtoms(AtomPair):
    """Outcomes of a lower bound on P against Q; the reverse bound has outcomes `backward`.

    Swapping the two would turn what was rounded down into what was rounded up.
    """

    backward: LogPair = (np.zeros(0), np.zeros(0))

    def reverse(self) -> AtomPair:
        """Return the lower bound on Q against P."""
        return OneSidedAtoms(
            *self.backward, has_heavy_atoms=self.has_heavy_atoms, backward=(self.log_p, self.log_q)
        )


def one_sided_pair(forward: LogPair, backward: LogPair) -> Pair:
    """Return the pair of two lower bounds, each (log P, log Q): P against Q, and Q against P."""
    return Pair.of_outcomes(OneSidedAtoms(*forward, has_heavy_atoms=False, backward=backward))
