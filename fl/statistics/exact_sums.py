"""What silos sum exactly, before any noise: Gram matrices and label sums on the grid of a release.

They are made before the intent, so that no record can keep a release that was paid for from being
made; after it nothing is computed that could fail by what the numbers are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accountant.arrays import IntArray
from ...accountant.mechanisms.gram_rows import GramTotal, gram_total
from .settings import BEYOND, CLIPPED, DROPPED, ROWS
from .sum_check import SumCheck

if TYPE_CHECKING:
    from ...accountant.mechanisms import NoisyGram
    from ..data.federation import Federation
    from .run_terms import RunTerms


@dataclass(frozen=True, eq=False, repr=False)
class ExactSums:
    """What silos have summed before any noise, and what of it is sealed."""

    by_silo: tuple[GramTotal, ...]
    check: SumCheck

    @property
    def totals(self) -> list[IntArray]:
        """The sum (values,) of each silo."""
        return [each.total for each in self.by_silo]

    def sealed(self, most_rows: int) -> dict[str, object]:
        """Return the sealed items about the rows."""
        rows = [each.rows for each in self.by_silo]
        return {
            ROWS: rows,
            CLIPPED: [each.clipped for each in self.by_silo],
            DROPPED: [each.dropped for each in self.by_silo],
            BEYOND: max(0, sum(rows) - most_rows),
            **self.check.items(),
        }


def exact_sums(terms: RunTerms, federation: Federation, mechanism: NoisyGram) -> ExactSums:
    """Return the exact sums of all silos, and the check of them; private."""
    intercept = terms.settings.intercept
    # As they lie, float32: each silo's are put on the grid block by block.
    features: Any = federation.features.reshape(federation.records, terms.features)
    labels = federation.labels.astype(np.int64)  # classes, as was checked
    units = federation.user if terms.unit == "user" else federation.silo
    check, totals = SumCheck(mechanism, intercept), []
    groups = federation.by_silo()
    for silo in range(federation.silos):
        here, most = groups.records(silo), terms.kept(silo)
        total = gram_total(
            mechanism,
            features[here],
            labels[here],
            intercept=intercept,
            units=None if most is None else units[here],
            most_rows=most,
        )
        if most is None:
            check.add(features, labels, here, total.total)
        else:
            kept = here[_first_of_each(units[here], most)]
            check.add(features, labels, kept, total.total, units[kept])
        totals.append(total)
    return ExactSums(tuple(totals), check)


def _first_of_each(units: IntArray, most: int) -> IntArray:
    """Return the rows that a silo should have kept: of each unit the first `most`."""
    order = np.argsort(units, kind="stable")
    _, counts = np.unique(units, return_counts=True)
    starts = np.cumsum(counts) - counts  # where each unit's rows begin, in this order
    earlier = np.arange(len(units)) - np.repeat(starts, counts)
    return np.sort(order[earlier < most])
