"""Sums made again without the mechanism: were terms clipped and weighted as the intent says?

    sum_u w_su min(1, C / |row_su|) row_su          C as the intent states it, in floats

is compared with the integers that noise was added to.  These are truncated, at most two steps for
each term, so they may differ by that and by what floats round off, and by nothing else.  The
largest term is also clipped by itself, and its norm taken; and the weights of each user are summed.
All that is functions of data before the noise, so it is for the sealed sidecar only: ratios that
say how near to a limit something came, the largest of a round.
"""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import records
from ...accountant.mechanisms import Gaussian
from ...accountant.mechanisms.clip import Sparse

ITEM: Final = "recomputed"
"""The name of the sealed item."""

_SMALL: Final = 2**17
"""Up to so many products one multiplication with zeros is quicker than one for each silo."""


class Recomputed:
    """The sums of one release (silos, width), made again from rows as they come.

    `intent` states the clip and the weights, `mechanism` is what makes the sums that are compared.
    """

    def __init__(
        self, intent: records.RoundIntent, mechanism: Gaussian, silos: int, width: int
    ) -> None:
        self._bound, self._mechanism = intent.contribution.bound, mechanism
        self._sums = np.zeros((silos, width))
        self._silo: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        self._weights: list[NDArray[np.float64]] = [np.empty(0)]
        self._users: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        self._largest: tuple[float, NDArray[np.float64] | Sparse, NDArray[np.float64]] | None = None

    def add(
        self,
        rows: NDArray[np.float64] | Sparse,
        silo: NDArray[np.int64],
        norms: NDArray[np.float64],
        weights: NDArray[np.float64] | None = None,
        users: NDArray[np.int64] | None = None,
    ) -> None:
        """Add rows (n, width), of these silos, norms, weights (None: ones) and users: (n,) each."""
        if not len(norms):
            return
        own = np.ones(len(norms)) if weights is None else weights
        self._silo.append(silo)
        self._weights.append(own)
        if users is not None:
            self._users.append(users)
        top = float(norms.max())
        finite = top < np.inf  # not where one is no number
        known = norms if finite else np.where(np.isnan(norms), -1.0, norms)
        place = int(np.argmax(known))
        if self._largest is None or known[place] > self._largest[0]:
            one = np.array([place])
            self._largest = float(known[place]), rows[one], own[one]
        factors = own * (self._bound / np.maximum(norms, self._bound))
        if not finite:
            odd = np.flatnonzero(~np.isfinite(norms))
            rows, factors = _tamed(rows, odd, factors, own * self._bound)
        if isinstance(rows, Sparse):
            self._add_sparse(rows, silo, factors)
        else:
            self._add_dense(rows, silo, factors)

    def items(self, totals: ArrayLike) -> dict[str, object]:
        """Return the sealed item, for sums (silos, width) in steps of the mechanism's grid.

        `sum_off` is their largest distance from those made again, over what truncation explains;
        `term_largest` the norm of the term with the largest row over its bound, as it is clipped by
        itself; `weight_largest` the largest sum of one user's weights.  The first two of a sound
        run are at most 1, the last what the intent states.
        """
        silo, weights = np.concatenate(self._silo), np.concatenate(self._weights)
        users = np.concatenate(self._users)
        silos, width = self._sums.shape
        terms = np.bincount(silo, minlength=silos)
        grid = self._mechanism.grid
        size = np.bincount(silo, weights, minlength=silos) * (self._bound / grid)
        room = 1.0 + 2.0 * terms + size * (width + terms + 64.0) * 2.0**-50
        off = np.abs(np.asarray(totals) - self._sums / grid).max(axis=1, initial=0.0) / room
        return {
            ITEM: {
                "terms": len(silo),
                "sum_off": float(off.max(initial=0.0)),
                "term_largest": self._largest_term(),
                "weight_largest": float(np.bincount(users, weights).max()) if len(users) else None,
            }
        }

    def _largest_term(self) -> float:
        """Clip the row of the largest norm by itself, and return its norm over its bound."""
        if self._largest is None or not self._largest[2][0]:
            return 0.0
        _, row, weight = self._largest
        reach = self._bound * float(weight[0])
        term = self._mechanism.total(row, weight).astype(np.float64)
        norm = float(np.sqrt(term @ term)) * self._mechanism.grid
        return norm / reach if reach else 0.0  # a weight so small that it is lost

    def _add_dense(
        self, rows: NDArray[np.float64], silo: NDArray[np.int64], factors: NDArray[np.float64]
    ) -> None:
        silos = len(self._sums)
        if silos * rows.size <= _SMALL:
            apart = np.zeros((silos, len(rows)))
            apart[silo, np.arange(len(rows))] = factors
            self._sums += apart @ rows
            return
        if (silo[1:] < silo[:-1]).any():
            order = np.argsort(silo, kind="stable")
            rows, silo, factors = rows[order], silo[order], factors[order]
        ends = np.searchsorted(silo, np.arange(silos + 1))
        for one, (first, last) in enumerate(itertools.pairwise(ends.tolist())):
            if first < last:
                self._sums[one] += factors[first:last] @ rows[first:last]

    def _add_sparse(
        self, rows: Sparse, silo: NDArray[np.int64], factors: NDArray[np.float64]
    ) -> None:
        places = silo[:, None] * rows.width + rows.columns
        values = factors[:, None] * rows.values
        found = np.bincount(places.ravel(), values.ravel(), minlength=self._sums.size)
        self._sums += found.reshape(self._sums.shape)


def _tamed(
    rows: NDArray[np.float64] | Sparse,
    odd: NDArray[np.int64],
    factors: NDArray[np.float64],
    reach: NDArray[np.float64],
) -> tuple[NDArray[np.float64] | Sparse, NDArray[np.float64]]:
    """Return rows and factors without infinities: such a row counts as zero.

    A row of numbers whose squares are too large for a float is shortened first; `reach` is the norm
    that it is clipped to.
    """
    values = (rows.values if isinstance(rows, Sparse) else rows).copy()
    factors = factors.copy()
    for one in odd.tolist():
        row = values[one]
        top = float(np.abs(row).max(initial=0.0))
        if not np.isfinite(top):
            values[one], factors[one] = 0.0, 0.0
            continue
        values[one] = row / top
        factors[one] = reach[one] / float(np.sqrt(values[one] @ values[one]))
    if isinstance(rows, Sparse):
        return Sparse(rows.columns, values, rows.width), factors
    return values, factors
