"""Statistics of the noise that was drawn, for a trusted auditor: is it the noise that was logged?

    residual  =  what a silo sent  -  its exact sum of clipped and weighted terms

It is computed outside the mechanism, from integers, for every silo's share of the noise and for the
whole sum, so that any fault of the mechanism or of the network shows in it.  The sealed sidecar
gets a few statistics of each residual:

squares        the sum of squares of `squares_n` of the `values` numbers, in units: divided by the
               variance in the log it is chi-squared with `squares_n` degrees of freedom
n              the number of values that the other statistics use: all, or about `SAMPLE`, evenly
               spaced
zeros          how many of all values are 0, so had no noise
ks             Kolmogorov-Smirnov distance to N(0, `std`^2) of `ks_n` values: those of the same silo
               in all rounds since this process began
of_sums        the smallest and the largest sum of squares of a single sum, and its values, where a
               round has several
lag            the cosine between this residual and the same silo's previous one
earlier        the cosines with those 2, 3, ... up to `EARLIER` before it
within         the cosine between sums 0, 2, 4, ... of a round and sums 1, 3, 5, ...
alike          the two silos with the largest cosine in size, and that cosine
equal_sums     how many sums of a round have the same noise as an earlier one
parts          where values are of kinds (the diagonal of a matrix, label sums): the sum of squares
               of each, and how many values it is of, as noise of one kind may be wrong alone
fingerprints   a keyed hash of the residual: equal noise has equal hashes.  The key exists only in
               the memory of this process, so a hash reveals nothing else, even to a reader of the
               sidecar
unordered      the same of its absolute values in order of size: noise that was moved to other
               places, or has other signs, has equal ones; of `SQUARED_VALUES` values at most

**What is not sealed, and why.**  The noise itself: subtracted from the release it gives the exact
sum.  A hash of it without a key: whoever guesses the data can compute the residual and confirm the
guess.  A histogram: of a short vector it reveals nearly every value.  Statistics of fewer than
`MIN_VALUES` values, as the square of one value reveals it: such residuals have a fingerprint and
nothing else.  Even so, every number here is a function of data before the noise.  Somebody who
knows all data but one user's can test a guess of that against any of them, so no guarantee holds
against the reader of a sidecar, although it does not contain the sum.

The last residuals stay in memory for the next round; the silos had them in memory anyway.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...accountant import records
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.randomness import Secret

ITEM: Final = "residuals"
"""The name of the sealed item."""

SAMPLE: Final = 2**11
"""About how many values of one residual the statistics use, so that large models stay quick."""

SQUARED_VALUES: Final = 2**16
"""About how many values of one residual are squared and summed, which is cheap."""

MIN_VALUES: Final = 8
"""Fewest values of which statistics are sealed."""

EARLIER: Final = 8
"""With how many residuals of the same silo each is compared."""

_BINS_PER_STD: Final = 32
"""Bins of the distribution for each standard deviation."""

_BINS_EACH_SIDE: Final = 8 * _BINS_PER_STD
"""Bins on either side: up to 8 standard deviations."""

_NO_BINS: Final = np.zeros(2 * _BINS_EACH_SIDE, np.int64)


class Residuals:
    """The residuals of a run from round to round, in memory; one object per process."""

    def __init__(self) -> None:
        self._key = Secret(os.urandom(32))
        self.segment = os.urandom(8).hex()
        self._last: dict[int, deque[FloatArray]] = {}
        self._bins: dict[str, IntArray] = {}

    def monitor(
        self, noise: records.Noise, parts: Mapping[str, BoolArray] | None = None
    ) -> ResidualMonitor:
        """Return the monitor of one release, whose intent states this noise.

        `parts` are kinds of values whose noise is looked at by itself as well: (values,) each.
        """
        return ResidualMonitor(self, noise, parts or {})

    def since(self, silos: Sequence[int], samples: FloatArray) -> list[list[float | None]]:
        """Return the cosines of each silo's sample with its last ones, the last one first.

        `samples` is (silos, n), and is kept.  None where a silo
        has no sample of this length so long ago; then all silos have None.
        """
        cosines = []
        for ago in range(1, EARLIER + 1):
            rows = [self._ago(silo, ago) for silo in silos]
            if all(row is not None and row.shape == samples.shape[1:] for row in rows):
                cosines.append(_cosines(np.array(rows), samples))
            else:
                cosines.append([None] * len(silos))
        for silo, sample in zip(silos, samples, strict=True):
            self._last.setdefault(silo, deque(maxlen=EARLIER)).append(sample)
        return [list(of_silo) for of_silo in zip(*cosines, strict=True)]

    def _ago(self, silo: int, rounds: int) -> FloatArray | None:
        last = self._last.get(silo, ())
        return last[-rounds] if rounds <= len(last) else None

    def forget(self) -> None:
        """Drop the last samples of noise, where no round comes that they are compared with."""
        self._last.clear()

    def distances(self, names: Sequence[str], samples: FloatArray) -> tuple[list[float], list[int]]:
        """Add samples to the histograms of their names; return KS distances to N(0, 1), and counts.

        `samples` (names, n) are standardised.  Each distance and count is of all values under that
        name so far.  The distance is taken at the edges of bins only, so it is never above the
        Kolmogorov-Smirnov distance.
        """
        # The bin of each value, clipped to the outermost; all histograms lie one after another.
        bin_of = np.minimum(
            np.maximum(samples * _BINS_PER_STD + _BINS_EACH_SIDE, 0.0), 2 * _BINS_EACH_SIDE - 1
        )
        bin_of = bin_of.astype(np.int64) + 2 * _BINS_EACH_SIDE * np.arange(len(names))[:, None]
        counts = np.bincount(bin_of.ravel(), minlength=2 * _BINS_EACH_SIDE * len(names))
        bins = counts.reshape(len(names), 2 * _BINS_EACH_SIDE)
        bins = bins + np.array([self._bins.get(name, _NO_BINS) for name in names])
        self._bins.update(zip(names, bins, strict=True))
        # The empirical distribution at the edges between bins, against that of N(0, 1): at the
        # edges alone the largest distance can only be smaller than over all values.
        below = np.cumsum(bins, axis=1)
        counted = below[:, -1:]
        distance = np.abs(below[:, :-1] / counted - _normal_at_edges()).max(axis=1)
        return distance.tolist(), counted[:, 0].tolist()

    def fingerprint(self, values: NDArray[Any]) -> str:
        """Return a hash of values under the key of this run, in hex."""
        whole = np.ascontiguousarray(values)
        return hashlib.blake2b(whole.data, key=self._key, digest_size=16).hexdigest()


class ResidualMonitor:
    """Collects the residuals of one release, and returns the statistics to be sealed."""

    def __init__(
        self, memory: Residuals, noise: records.Noise, parts: Mapping[str, BoolArray]
    ) -> None:
        self._memory, self._noise = memory, noise
        self._masks = {name: mask for name, mask in parts.items() if mask.sum() >= MIN_VALUES}
        self._parts: dict[int, dict[str, float]] = {}
        self._shares: dict[int, _ResidualSample] = {}
        self._whole: tuple[_ResidualSample, list[int]] | None = None

    def share(self, silo: int, residual: NDArray[Any], unit: float) -> None:
        """Take one silo's residual, in steps of `unit`: (values,), or (sums, values).

        A round of several sums may give one row for each, or for some of them, in their order.
        All residuals of one release have the same shape; with parts it is (values,).
        """
        self._shares[silo] = _ResidualSample.at(residual, unit)
        self._parts[silo] = {
            name: float(np.sum(np.square(residual[mask] * unit)))
            for name, mask in self._masks.items()
        }

    def whole(self, residual: NDArray[Any], unit: float, silos: Sequence[int]) -> None:
        """Take the residual of the whole sum, of these silos, in steps of `unit`: (values,)."""
        self._whole = _ResidualSample.at(residual, unit), list(silos)

    def items(self) -> dict[str, object]:
        """Return the sealed item; for the sidecar only."""
        silos = sorted(self._shares)
        samples = [self._shares[silo] for silo in silos]
        return {
            ITEM: {
                "segment": self._memory.segment,
                "std": self._noise.share_std,
                "silos": silos,
                "fingerprints": [self._memory.fingerprint(sample.steps) for sample in samples],
                "equal_sums": [sample.equal for sample in samples],
                **(self._statistics(silos, samples) if samples else {}),
            }
        }

    def _statistics(
        self, silos: list[int], samples: Sequence[_ResidualSample]
    ) -> dict[str, object]:
        """Return the statistics of the silos' residuals, as lists over silos, and of the sum."""
        first = samples[0]
        statistics: dict[str, object] = {
            "sums": len(first.sample),
            "values": first.values,
            "n": first.sample.size,
            "whole": None if self._whole is None else _arrived(*self._whole),
        }
        if first.sample.size < MIN_VALUES:
            return statistics
        names = [f"silo-{silo}" for silo in silos]
        table = np.array([share.sample.ravel() for share in samples])
        standardised = table / self._noise.share_std
        if self._whole is not None:
            whole, arrived = self._whole
            names.append(f"whole-{len(arrived)}")
            sample = whole.sample.reshape(1, -1)
            deviation = self._noise.share_std * math.sqrt(len(arrived))
            standardised = np.vstack((standardised, sample / deviation))
        distances, counted = self._memory.distances(names, standardised)
        if self._whole is not None:
            statistics["whole"] = {
                **_arrived(whole, arrived),
                "zeros": whole.zeros,
                "squares": whole.squares,
                "squares_n": whole.squares_n,
                "ks": distances.pop(),
                "ks_n": counted.pop(),
            }
        if self._masks:
            statistics["parts"] = {
                name: {"n": int(mask.sum()), "squares": [self._parts[silo][name] for silo in silos]}
                for name, mask in self._masks.items()
            }
        sums = first.pairs
        halves = [table.reshape(len(silos), *first.sample.shape)[:, i:sums:2] for i in (0, 1)]
        size = halves[0][0].size
        last = self._memory.since(silos, table)
        if first.of_sum_n:
            statistics["of_sums"] = {
                "n": first.of_sum_n,
                "least": [share.of_sum[0] for share in samples],
                "most": [share.of_sum[1] for share in samples],
            }
        return {
            **statistics,
            "zeros": [share.zeros for share in samples],
            "squares": [share.squares for share in samples],
            "squares_n": [share.squares_n for share in samples],
            "ks": distances,
            "ks_n": counted,
            "lag": [of_silo[0] for of_silo in last],
            "earlier": [of_silo[1:] for of_silo in last],
            "unordered": [
                None if share.sizes is None else self._memory.fingerprint(share.sizes)
                for share in samples
            ],
            "within": _cosines(*halves) if size >= MIN_VALUES else [None] * len(silos),
            "within_n": size,
            "alike": _alike(silos, table),
        }


@dataclass(frozen=True, eq=False)
class _ResidualSample:
    """Evenly spaced values of each sum of one residual, and statistics of all of them.

    `steps` are the sampled integers (sums, n / sums), `sample` the same in units.  `squares` is the
    sum of squares of `squares_n` values, and `zeros` counts those that are 0 of all `values`.
    `equal` sums have the same noise as an earlier one.  `sizes` are all absolute values in order,
    None where they are too many; `of_sum` is the smallest and the largest sum of squares of one
    sum, of `of_sum_n` values each (0 where there is one sum, or it has too few).
    """

    steps: NDArray[Any]
    sample: FloatArray
    values: int
    zeros: int
    equal: int
    squares: float
    squares_n: int
    sizes: NDArray[Any] | None
    of_sum: tuple[float, float]
    of_sum_n: int

    @classmethod
    def at(cls, residual: NDArray[Any], unit: float) -> _ResidualSample:
        table = residual.reshape(-1, residual.shape[-1])
        steps = table[:, :: max(1, -(-table.size // SAMPLE))]
        equal = len(steps) - len({row.tobytes() for row in steps}) if len(steps) > 1 else 0
        zeros = table.size - int(np.count_nonzero(table))
        sample = np.asarray(steps * unit, np.float64)
        # More values than the sample has: a sum of squares is cheap.
        squared = table[:, :: max(1, -(-table.size // SQUARED_VALUES))] * unit
        of_each = _inner(squared, squared)
        several = len(table) > 1 and squared.shape[1] >= MIN_VALUES
        few = table.size <= SQUARED_VALUES
        return cls(
            steps,
            sample,
            table.size,
            zeros,
            equal,
            float(of_each.sum()),
            squared.size,
            np.sort(np.abs(table), axis=None) if few else None,
            (float(of_each.min()), float(of_each.max())),
            squared.shape[1] if several else 0,
        )

    @property
    def pairs(self) -> int:
        """The number of sums, rounded down to an even number."""
        return len(self.sample) // 2 * 2


def _arrived(whole: _ResidualSample, silos: list[int]) -> dict[str, object]:
    """Return the silos of a sum, the number of its values, and how many were sampled."""
    return {"silos": silos, "values": whole.values, "n": whole.sample.size}


def _inner(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the inner products of the rows of two tables (rows, n): (rows,)."""
    return np.asarray(np.einsum("ij,ij->i", first, second))


def _cosines(left: FloatArray, right: FloatArray) -> list[float | None]:
    """Return the cosine of the angle between the rows of two tables; None where one is zero."""
    first, second = (table.reshape(len(table), -1) for table in (left, right))
    sizes = np.sqrt(_inner(first, first) * _inner(second, second)).tolist()
    inner = _inner(first, second).tolist()
    return [a / b if b else None for a, b in zip(inner, sizes, strict=True)]


def _alike(silos: Sequence[int], samples: FloatArray) -> dict[str, object] | None:
    """Return the two silos with the largest cosine in size; None for one silo, or a zero row."""
    norms = np.sqrt(_inner(samples, samples))
    if len(silos) < 2 or not norms.all():
        return None
    cosines = np.triu((samples @ samples.T) / np.outer(norms, norms), 1)  # each pair once
    first, second = divmod(int(np.argmax(np.abs(cosines))), len(silos))
    return {"silos": [silos[first], silos[second]], "cosine": float(cosines[first, second])}


def every(sums: int, width: int) -> int:
    """Return k such that every k-th of the sums, each (width,), makes a sample of about `SAMPLE`.

    >>> every(10, 31), every(100_000, 31), every(4, 1_000_000)
    (1, 1514, 4)
    """
    return min(sums, max(1, -(-sums * width // SAMPLE)))


def _normal_at_edges() -> FloatArray:
    """Return the probability of N(0, 1) below each edge between two bins."""
    if not _EDGES:
        from scipy.special import ndtr

        edges = np.arange(1 - _BINS_EACH_SIDE, _BINS_EACH_SIDE) / _BINS_PER_STD
        _EDGES.append(ndtr(edges))
    return _EDGES[0]


_EDGES: Final[list[FloatArray]] = []
