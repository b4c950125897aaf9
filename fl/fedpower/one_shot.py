"""The system `fedpower-one-shot`: one noisy Gram matrix A^T A, whose eigenvectors cost nothing.

It is the release of `fl.statistics` without labels and without an intercept.  A row is bounded by
its norm alone, so all of the budget is in one release; the number of directions that are read off
it afterwards changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...accountant import events as ev
from ...accountant.mechanisms import NoisyGram
from ...accountant.mechanisms.gram_rows import gram_total
from ..frame.setup import Setup, setup
from ..frame.state import Shape, State
from ..observers.names import CLIENT, SILO
from ..statistics.exact_sums import ExactSums
from ..statistics.run_terms import RunTerms
from ..statistics.settings import ReleaseSettings
from ..statistics.sum_check import SumCheck
from ..statistics.system import Statistics
from . import rows as data_rows
from .run_terms import gram_settings, gram_terms
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining


class OneShot(Statistics):
    """One release of a Gram matrix; see the module.

    The model is its upper triangle (d (d + 1) / 2,), row by row, of rows in units of R
    (`directions` reads it).  Raises `InvalidInput` as `Statistics`, and for more directions than
    columns.
    """

    state = State()

    def __init__(self, setup: Setup, table: FedPowerSettings) -> None:
        self.table = table
        super().__init__(setup, gram_settings(table))

    def run_terms(self, table: ReleaseSettings) -> RunTerms:
        """Return the public facts of the release, of rows without labels."""
        del table  # made of `self.table`, as an audit makes it
        return gram_terms(self.table, self.setup, data_rows.dimension(self.setup.federation))

    @property
    def parts(self) -> Mapping[str, Shape]:
        """The shape of what is released."""
        return {"gram": (self.terms.gram.values,)}

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of the release for each observer; a client is a silo."""
        views = dict(super().views(noise_multiplier))
        return views | ({CLIENT: views[SILO]} if SILO in views else {})

    def exact_sums(self, mechanism: NoisyGram) -> ExactSums:
        """Return the exact sums of all silos, and the check of them; private."""
        federation, check, totals = self.setup.federation, SumCheck(mechanism, 0.0), []
        for silo in range(self.setup.silos):
            rows, most = data_rows.node_rows(federation, silo), self.terms.kept(silo)
            total = gram_total(mechanism, rows, most_rows=most)
            count = rows.shape[0] if most is None else min(rows.shape[0], most)
            kept = np.arange(count)
            whose = None if most is None else np.full(count, silo)
            check.add(rows, np.zeros(rows.shape[0], np.int64), kept, total.total, whose)
            totals.append(total)
        return ExactSums(tuple(totals), check)


def one_shot(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> OneShot:
    """Return the system `fedpower-one-shot`."""
    parts = setup(settings, federation, local, whole_ring=True)
    return OneShot(parts, settings.of(FedPowerSettings))
