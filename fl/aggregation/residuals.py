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
And statistics of fewer than `FEWEST` values, as the square of one value is that value: these have a
fingerprint and nothing else.  Even so every number here is a function of what was there before the
noise.  Who knows all data but one user's can test a guess of it against any of them, so no
guarantee holds against the reader of a sidecar; but it does not hand them the sum.

What is kept in memory for the next round, the last residuals, is what the silos had there anyway.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant import records
from ...accountant.randomness import Secret

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

ITEM: Final = "residuals"
"""The name of the sealed item."""

SAMPLE: Final = 2**11
"""How many values of one residual are looked at, so that large models are not slowed down."""

WIDE: Final = 2**16
"""How many values are squared and summed, which costs little."""

FEWEST: Final = 8
"""Of fewer values no statistic is kept."""

_FINE: Final = 32
"""Bins of the distribution for each standard deviation."""

_MIDDLE: Final = 8 * _FINE
"""Bins on either side: up to 8 standard deviations."""

_NO_BINS: Final = np.zeros(2 * _MIDDLE, np.int64)


class Residuals:
    """What a run remembers of its noise from round to round, in memory; one for one process."""

    def __init__(self) -> None:
        self._key = Secret(os.urandom(32))
        self.segment = os.urandom(8).hex()
        self._last: dict[int, Floats] = {}
        self._bins: dict[str, Integers] = {}

    def watch(self, noise: records.Noise) -> Watch:
        """Return what looks at one release, whose intent states this noise."""
        return Watch(self, noise)

    def since(self, silos: Sequence[int], samples: Floats) -> list[float | None]:
        """Return the cosine of each sample to its silo's last one, and keep these instead."""
        last = [self._last.get(silo) for silo in silos]
        self._last.update(zip(silos, samples, strict=True))
        if all(one is not None and one.shape == samples.shape[1:] for one in last):
            return _cosines(np.array(last), samples)
        return [None] * len(silos)

    def distances(self, names: Sequence[str], samples: Floats) -> tuple[list[float], list[int]]:
        """Return how far all values of each name are from N(0, 1), with these, and how many.

        `samples` (names, n) are standardised.  The largest distance at the edges of bins: never
        above that of Kolmogorov and Smirnov.
        """
        place = np.minimum(np.maximum(samples * _FINE + _MIDDLE, 0.0), 2 * _MIDDLE - 1)
        place = place.astype(np.int64) + 2 * _MIDDLE * np.arange(len(names))[:, None]
        found = np.bincount(place.ravel(), minlength=2 * _MIDDLE * len(names))
        bins = found.reshape(len(names), 2 * _MIDDLE)
        bins = bins + np.array([self._bins.get(name, _NO_BINS) for name in names])
        self._bins.update(zip(names, bins, strict=True))
        below = np.cumsum(bins, axis=1)
        numbers = below[:, -1:]
        away = np.abs(below[:, :-1] / numbers - _normal()).max(axis=1)
        return away.tolist(), numbers[:, 0].tolist()

    def fingerprint(self, values: NDArray[Any]) -> str:
        """Return a hash of values under the key of this run, in hex."""
        whole = np.ascontiguousarray(values)
        return hashlib.blake2b(whole.data, key=self._key, digest_size=16).hexdigest()


class Watch:
    """Looks at the residuals of one release, and says what may be sealed of them."""

    def __init__(self, kept: Residuals, noise: records.Noise) -> None:
        self._kept, self._noise = kept, noise
        self._shares: dict[int, _Looked] = {}
        self._whole: tuple[_Looked, list[int]] | None = None

    def share(self, silo: int, residual: NDArray[Any], unit: float) -> None:
        """Look at one silo's residual, in steps of `unit`: (values,), or (sums, values).

        Where a round has several sums, several rows may stand for them, in their order.  Residuals
        of one release have one shape.
        """
        self._shares[silo] = _Looked.at(residual, unit)

    def whole(self, residual: NDArray[Any], unit: float, silos: Sequence[int]) -> None:
        """Look at what arrived of the silos' noise in the whole sum: (values,)."""
        self._whole = _Looked.at(residual, unit), list(silos)

    def items(self) -> dict[str, object]:
        """Return the sealed item; for the sidecar only."""
        silos = sorted(self._shares)
        looked = [self._shares[silo] for silo in silos]
        return {
            ITEM: {
                "segment": self._kept.segment,
                "std": self._noise.share_std,
                "silos": silos,
                "fingerprints": [self._kept.fingerprint(one.steps) for one in looked],
                "equal_sums": [one.equal for one in looked],
                **(self._statistics(silos, looked) if looked else {}),
            }
        }

    def _statistics(self, silos: list[int], looked: Sequence[_Looked]) -> dict[str, object]:
        """Return what is sealed of the shares, each statistic as a list over silos, and the sum."""
        first = looked[0]
        found: dict[str, object] = {
            "sums": len(first.sample),
            "values": first.values,
            "n": first.sample.size,
            "whole": None if self._whole is None else _arrived(*self._whole),
        }
        if first.sample.size < FEWEST:
            return found
        names = [f"silo-{silo}" for silo in silos]
        table = np.array([one.sample.ravel() for one in looked])
        standardised = table / self._noise.share_std
        if self._whole is not None:
            whole, arrived = self._whole
            names.append(f"whole-{len(arrived)}")
            sample = whole.sample.reshape(1, -1)
            deviation = self._noise.share_std * math.sqrt(len(arrived))
            standardised = np.vstack((standardised, sample / deviation))
        away, numbers = self._kept.distances(names, standardised)
        if self._whole is not None:
            found["whole"] = {
                **_arrived(whole, arrived),
                "zeros": whole.zeros,
                "squares": whole.squares,
                "squares_n": whole.squares_n,
                "ks": away.pop(),
                "ks_n": numbers.pop(),
            }
        sums = first.pairs
        halves = [table.reshape(len(silos), *first.sample.shape)[:, i:sums:2] for i in (0, 1)]
        size = halves[0][0].size
        return {
            **found,
            "zeros": [one.zeros for one in looked],
            "squares": [one.squares for one in looked],
            "squares_n": [one.squares_n for one in looked],
            "ks": away,
            "ks_n": numbers,
            "lag": self._kept.since(silos, table),
            "within": _cosines(*halves) if size >= FEWEST else [None] * len(silos),
            "within_n": size,
            "alike": _alike(silos, table),
        }


@dataclass(frozen=True, eq=False)
class _Looked:
    """What was looked at of one residual: evenly spaced values of each of its sums.

    `steps` are integers (sums, values), `sample` the same in units; `squares` is of more values,
    and `zeros` of all.  `equal` sums have the same noise as an earlier one.
    """

    steps: NDArray[Any]
    sample: Floats
    values: int
    zeros: int
    equal: int
    squares: float
    squares_n: int

    @classmethod
    def at(cls, residual: NDArray[Any], unit: float) -> _Looked:
        table = residual.reshape(-1, residual.shape[-1])
        steps = table[:, :: max(1, -(-table.size // SAMPLE))]
        equal = len(steps) - len({row.tobytes() for row in steps}) if len(steps) > 1 else 0
        zeros = table.size - int(np.count_nonzero(table))
        sample = np.asarray(steps * unit, np.float64)
        wide = table[:, :: max(1, -(-table.size // WIDE))] * unit
        squares = float(np.einsum("ij,ij->", wide, wide))
        return cls(steps, sample, table.size, zeros, equal, squares, wide.size)

    @property
    def pairs(self) -> int:
        """How many sums stand in pairs."""
        return len(self.sample) // 2 * 2


def _arrived(whole: _Looked, silos: list[int]) -> dict[str, object]:
    """Return of whose noise a sum is made, and how much of it was looked at."""
    return {"silos": silos, "values": whole.values, "n": whole.sample.size}


def _inner(one: Floats, other: Floats) -> Floats:
    """Return the inner product of each row of one table with that of another."""
    return np.asarray(np.einsum("ij,ij->i", one, other))


def _cosines(one: Floats, other: Floats) -> list[float | None]:
    """Return the cosine of the angle between the rows of two tables; None where one is zero."""
    first, second = (table.reshape(len(table), -1) for table in (one, other))
    sizes = np.sqrt(_inner(first, first) * _inner(second, second)).tolist()
    inner = _inner(first, second).tolist()
    return [a / b if b else None for a, b in zip(inner, sizes, strict=True)]


def _alike(silos: Sequence[int], samples: Floats) -> dict[str, object] | None:
    """Return the two silos whose noise is most alike."""
    norms = np.sqrt(_inner(samples, samples))
    if len(silos) < 2 or not norms.all():
        return None
    found = np.triu((samples @ samples.T) / np.outer(norms, norms), 1)
    first, second = divmod(int(np.argmax(np.abs(found))), len(silos))
    return {"silos": [silos[first], silos[second]], "cosine": float(found[first, second])}


def every(sums: int, width: int) -> int:
    """Return k, so that every k-th of so many sums is enough to look at.

    >>> every(10, 31), every(100_000, 31), every(4, 1_000_000)
    (1, 1514, 4)
    """
    return min(sums, max(1, -(-sums * width // SAMPLE)))


def _normal() -> Floats:
    """Return the probability of N(0, 1) below each edge between two bins."""
    if not _EDGES:
        from scipy.special import ndtr

        edges = np.arange(1 - _MIDDLE, _MIDDLE) / _FINE
        _EDGES.append(ndtr(edges))
    return _EDGES[0]


_EDGES: Final[list[Floats]] = []
