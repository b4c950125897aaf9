"""Statistics of the noise that was drawn, for a trusted auditor: is it the noise that was logged?

    residual  =  what a silo sent  -  its exact sum of clipped and weighted terms

It is taken outside of the mechanism, of integers, for every silo's share of the noise and for the
whole sum, so whatever the mechanism did, or the network on the way, shows in it.  What goes to the
sealed sidecar are a few numbers of each residual:

squares        the sum of squares of `squares_n` of its `values`, in units: over the variance in
               the log it is chi-squared
n              how many of them all else is of: all, or about `SAMPLE`, evenly spaced
zeros          how many of all values had no noise at all
ks             the largest distance between a distribution and that of N(0, `std`^2): that of `ks_n`
               values, of the same silo in all rounds since the run began, or went on
lag            the cosine of the angle to the same silo's last residual
within         that between every other sum of a round and the sums after them
alike          the largest such cosine between two silos
equal_sums     how many sums of a round had the noise of an earlier one
fingerprints   a hash under a key of this run's, kept in memory: equal noise has equal ones, and
               nobody, whoever has the sidecar, can tell from one what it is of

**What is not sealed, and why.**  The noise: whoever has it takes it off what was released, and
holds the exact sum.  A hash of it without a key: whoever guesses the data computes the residual,
and sees whether the guess is right.  A histogram: of a short vector it tells nearly every value.
And statistics of fewer than `MIN_VALUES` values, as the square of one value is that value: these
have a fingerprint and nothing else.  Even so every number here is a function of what was there
before the noise.  Who knows all data but one user's can test a guess of it against any of them, so
no guarantee holds against the reader of a sidecar; but it does not hand them the sum.

What is kept in memory for the next round, the last residuals, is what the silos had there anyway.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...accountant import records
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.randomness import Secret

ITEM: Final = "residuals"
"""The name of the sealed item."""

SAMPLE: Final = 2**11
"""How many values of one residual are looked at, so that large models are not slowed down."""

SQUARED_VALUES: Final = 2**16
"""How many values are squared and summed, which costs little."""

MIN_VALUES: Final = 8
"""Of fewer values no statistic is kept."""

_BINS_PER_STD: Final = 32
"""Bins of the distribution for each standard deviation."""

_BINS_EACH_SIDE: Final = 8 * _BINS_PER_STD
"""Bins on either side: up to 8 standard deviations."""

_NO_BINS: Final = np.zeros(2 * _BINS_EACH_SIDE, np.int64)


class Residuals:
    """What a run remembers of its noise from round to round, in memory; one for one process."""

    def __init__(self) -> None:
        self._key = Secret(os.urandom(32))
        self.segment = os.urandom(8).hex()
        self._last: dict[int, FloatArray] = {}
        self._bins: dict[str, IntArray] = {}

    def monitor(self, noise: records.Noise) -> ResidualMonitor:
        """Return the monitor of one release, whose intent states this noise."""
        return ResidualMonitor(self, noise)

    def since(self, silos: Sequence[int], samples: FloatArray) -> list[float | None]:
        """Return the cosine of each sample to its silo's last one, and keep these instead."""
        last = [self._last.get(silo) for silo in silos]
        self._last.update(zip(silos, samples, strict=True))
        if all(row is not None and row.shape == samples.shape[1:] for row in last):
            return _cosines(np.array(last), samples)
        return [None] * len(silos)

    def distances(self, names: Sequence[str], samples: FloatArray) -> tuple[list[float], list[int]]:
        """Return how far all values of each name are from N(0, 1), with these, and how many.

        `samples` (names, n) are standardised.  The largest distance at the edges of bins: never
        above that of Kolmogorov and Smirnov.
        """
        # The bin of each value, clipped to the outermost, in one line of bins for all names.
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

    def __init__(self, memory: Residuals, noise: records.Noise) -> None:
        self._memory, self._noise = memory, noise
        self._shares: dict[int, _ResidualSample] = {}
        self._whole: tuple[_ResidualSample, list[int]] | None = None

    def share(self, silo: int, residual: NDArray[Any], unit: float) -> None:
        """Look at one silo's residual, in steps of `unit`: (values,), or (sums, values).

        Where a round has several sums, several rows may stand for them, in their order.  Residuals
        of one release have one shape.
        """
        self._shares[silo] = _ResidualSample.at(residual, unit)

    def whole(self, residual: NDArray[Any], unit: float, silos: Sequence[int]) -> None:
        """Look at what arrived of the silos' noise in the whole sum: (values,)."""
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
        """Return what is sealed of the shares, each statistic as a list over silos, and the sum."""
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
        sums = first.pairs
        halves = [table.reshape(len(silos), *first.sample.shape)[:, i:sums:2] for i in (0, 1)]
        size = halves[0][0].size
        return {
            **statistics,
            "zeros": [share.zeros for share in samples],
            "squares": [share.squares for share in samples],
            "squares_n": [share.squares_n for share in samples],
            "ks": distances,
            "ks_n": counted,
            "lag": self._memory.since(silos, table),
            "within": _cosines(*halves) if size >= MIN_VALUES else [None] * len(silos),
            "within_n": size,
            "alike": _alike(silos, table),
        }


@dataclass(frozen=True, eq=False)
class _ResidualSample:
    """Evenly spaced values of each sum of one residual, and statistics of all of them.

    `steps` are integers (sums, values), `sample` the same in units; `squares` is of more values,
    and `zeros` of all.  `equal` sums have the same noise as an earlier one.
    """

    steps: NDArray[Any]
    sample: FloatArray
    values: int
    zeros: int
    equal: int
    squares: float
    squares_n: int

    @classmethod
    def at(cls, residual: NDArray[Any], unit: float) -> _ResidualSample:
        table = residual.reshape(-1, residual.shape[-1])
        steps = table[:, :: max(1, -(-table.size // SAMPLE))]
        equal = len(steps) - len({row.tobytes() for row in steps}) if len(steps) > 1 else 0
        zeros = table.size - int(np.count_nonzero(table))
        sample = np.asarray(steps * unit, np.float64)
        # More values are squared than are kept: a sum of squares is cheap, a sample is sealed.
        squared = table[:, :: max(1, -(-table.size // SQUARED_VALUES))] * unit
        squares = float(np.einsum("ij,ij->", squared, squared))
        return cls(steps, sample, table.size, zeros, equal, squares, squared.size)

    @property
    def pairs(self) -> int:
        """How many sums stand in pairs."""
        return len(self.sample) // 2 * 2


def _arrived(whole: _ResidualSample, silos: list[int]) -> dict[str, object]:
    """Return of whose noise a sum is made, and how much of it was looked at."""
    return {"silos": silos, "values": whole.values, "n": whole.sample.size}


def _inner(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the inner product of each row of one table with that of another."""
    return np.asarray(np.einsum("ij,ij->i", first, second))


def _cosines(left: FloatArray, right: FloatArray) -> list[float | None]:
    """Return the cosine of the angle between the rows of two tables; None where one is zero."""
    first, second = (table.reshape(len(table), -1) for table in (left, right))
    sizes = np.sqrt(_inner(first, first) * _inner(second, second)).tolist()
    inner = _inner(first, second).tolist()
    return [a / b if b else None for a, b in zip(inner, sizes, strict=True)]


def _alike(silos: Sequence[int], samples: FloatArray) -> dict[str, object] | None:
    """Return the two silos whose noise is most alike."""
    norms = np.sqrt(_inner(samples, samples))
    if len(silos) < 2 or not norms.all():
        return None
    cosines = np.triu((samples @ samples.T) / np.outer(norms, norms), 1)  # each pair once
    first, second = divmod(int(np.argmax(np.abs(cosines))), len(silos))
    return {"silos": [silos[first], silos[second]], "cosine": float(cosines[first, second])}


def every(sums: int, width: int) -> int:
    """Return k, so that every k-th of so many sums is enough to look at.

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
