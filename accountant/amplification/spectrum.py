"""The characteristic function of a tilted variable on a lattice, and a sum of it over few nodes.

Notation as in `sums`.  What is bounded here:

* Every output of a Cooley-Tukey transform is a sum along log2 N levels of butterflies; a level
  adds to it at most a few units of rounding times the 1-norm of the input, here 1 (16 u a level).
* For long sums f^n vanishes at most nodes, and only the others are computed.  With variance v and
  span D (in lattice points) of the tilted X, |f(a)|^2 = E[cos a(X - X')], hence
      |f(a)|^2 <= 1 - (4 / pi^2) v a^2   for 0 <= a <= pi / D, by 1 - cos u >= 2 u^2 / pi^2;
      |f(a)|^2 <= chord + v h^2 / 4      between points h apart, as no second derivative exceeds 2v;
  these bound what is not computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.fft import next_fast_len, rfft

from ..arrays import ComplexArray, FloatArray, IntArray

UNIT_ROUNDOFF: Final = 2.0**-53

CHARACTERISTIC_OVERSAMPLING: Final = 8
"""Points per lattice point of X on which its characteristic function is looked at."""

MAX_SPECTRUM_TERMS: Final = 400_000
"""Most terms, nodes times points of X, that are summed one by one."""

NODE_CUTOFF_EXPONENT: Final = 45.0
"""A node counts where |f|^n is above e^-45."""


def relative_rounding(values: FloatArray, log_masses: FloatArray, tilt: float) -> float:
    """Return a bound on the relative error of a tilted mass."""
    sizes = float(np.abs(log_masses).max()) + tilt * float(np.abs(values).max())
    return UNIT_ROUNDOFF * (64.0 + 8.0 * sizes)


@dataclass(frozen=True, eq=False)
class Lattice:
    """The tilted X on the points `width` * `indices`, and how many `points` make a period."""

    indices: IntArray
    weights: FloatArray  # sum to 1; an index may occur several times
    width: float
    step: float  # tilt times width
    points: int
    log_moment: float
    rounding: float  # relative error of each tilted mass, and of the moment
    count: int

    @classmethod
    def of(
        cls,
        values: FloatArray,
        log_masses: FloatArray,
        count: int,
        tilt: float,
        width: float,
        points: int,
    ) -> Lattice:
        """Spread each value onto the two lattice points next to it, and tilt.

        The quotient is raised by more than its rounding error, so X only moves up; what is left
        after `floor` is exact.
        """
        quotient = values / width
        quotient += 4.0 * UNIT_ROUNDOFF * np.abs(quotient)
        low = np.floor(quotient)
        share = quotient - low
        step = tilt * width
        indices = np.concatenate((low, low + 1.0))
        with np.errstate(divide="ignore"):
            logs = np.concatenate((log_masses + np.log1p(-share), log_masses + np.log(share)))
        finite = np.isfinite(logs)
        indices, logs = indices[finite], logs[finite]
        exponents = logs + step * indices
        peak = float(exponents.max())
        # What would vanish stays at a size that does not matter, and never below the truth.
        weights = np.exp(np.maximum(exponents - peak, -700.0))
        total = float(weights.sum())
        sizes = float(np.abs(logs).max()) + step * float(np.abs(indices).max())
        rounding = UNIT_ROUNDOFF * (64.0 + 8.0 * sizes + 2.0 * logs.size)
        return cls(
            indices.astype(np.int64),
            weights / total,
            width,
            step,
            points,
            peak + math.log(total),
            relative_rounding(values, log_masses, tilt) + rounding,
            count,
        )

    @property
    def log_scale(self) -> float:
        """Return log of M(t)^n, rounded up by the error of the masses."""
        return self.count * (self.log_moment + self.rounding)

    @property
    def centre(self) -> int:
        """The index nearest to the tilted mean."""
        return round(float((self.weights * self.indices).sum()))

    def from_all_nodes(self) -> float:
        """Return log of an upper bound on E_t[g(S)], by one transform over a whole period."""
        positions = (self.indices - self.centre) % self.points
        folded = np.bincount(positions, self.weights, minlength=self.points)
        transform = rfft(folded)
        twice = np.full(transform.size, 2.0)
        twice[0] = 1.0
        if self.points % 2 == 0:
            twice[-1] = 1.0
        error = 16.0 * UNIT_ROUNDOFF * math.log2(self.points)
        nodes = np.arange(transform.size)
        return self._inverted(transform, nodes, twice, error, 0.0)

    def from_few_nodes(self) -> float:
        """Return log of an upper bound on E_t[g(S)] from few nodes; inf where too many count."""
        centred = self.indices - self.centre
        first = int(centred.min())
        dense = np.bincount(centred - first, self.weights).astype(np.float64)
        nodes = self._relevant_nodes(dense)
        occupied = np.flatnonzero(dense)
        if nodes.size * occupied.size > MAX_SPECTRUM_TERMS:
            return math.inf
        angles = 2.0 * math.pi / self.points * nodes
        turns = angles[:, None] * (occupied + float(first))
        transform = (np.exp(-1j * turns) * dense[occupied]).sum(axis=1)
        twice = np.where((nodes == 0) | (2 * nodes == self.points), 1.0, 2.0)
        turned = math.pi * max(-first, first + dense.size)
        error = UNIT_ROUNDOFF * (64.0 + math.log2(occupied.size) + turned)
        omitted = math.exp(5.0 - NODE_CUTOFF_EXPONENT + 1e-14 * self.count)
        return self._inverted(transform, nodes, twice, error, omitted)

    def _relevant_nodes(self, dense: FloatArray) -> IntArray:
        """Return the nodes up to N / 2 outside of which |f|^n is at most e^(5 - 45)."""
        n, span = float(self.count), dense.size - 1
        positions = np.arange(dense.size, dtype=np.float64)
        mean = float((dense * positions).sum())
        variance = float((dense * (positions - mean) ** 2).sum())
        size = next_fast_len(CHARACTERISTIC_OVERSAMPLING * dense.size, real=True)
        spacing = 2.0 * math.pi / size
        modulus = np.abs(rfft(dense, size)) + 16.0 * UNIT_ROUNDOFF * math.log2(size)
        modulus = np.append(modulus, modulus[-1])  # beyond pi, by symmetry
        square = np.maximum(modulus[:-1], modulus[1:]) ** 2 + 0.2501 * variance * spacing**2
        cells = np.flatnonzero(square > math.exp(2.0 * (5.0 - NODE_CUTOFF_EXPONENT) / n))
        # Cell m holds the nodes with m <= node * size / points <= m + 1; the ends are in both.
        starts = cells * self.points // size
        stops = np.minimum((cells + 1) * self.points // size + 1, self.points // 2)
        # Up to pi / span the first bound tells where |f|^n is below e^-45.
        end = math.sqrt(NODE_CUTOFF_EXPONENT / (2.0 / math.pi**2 * n * variance * 0.999))
        last = math.floor(min(self.points * end / (2.0 * math.pi), 2.0**62))
        near_zero = (cells + 1) * spacing * span < math.pi
        stops = np.where(near_zero, np.minimum(stops, last), stops)
        starts[1:] = np.maximum(starts[1:], stops[:-1] + 1)  # each node once, in order
        lengths = np.maximum(stops - starts + 1, 0)
        if float(lengths.sum()) > MAX_SPECTRUM_TERMS:
            return np.arange(MAX_SPECTRUM_TERMS + 1)
        offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(np.repeat(starts, lengths) + offsets)

    def _inverted(
        self,
        transform: ComplexArray,
        nodes: IntArray,
        multiplicity: FloatArray,
        error: float,
        omitted: float,
    ) -> float:
        """Return log of (1/N) sum_k f_k^n w r_k / (1 - r_k)^2, with all errors added.

        `transform` holds f at the `nodes`, each off by at most `error`, times a phase that
        `centre` accounts for; `omitted` bounds |f|^n at all nodes that are not there.
        """
        n, points = self.count, self.points
        size = np.abs(transform)
        relevant = size > math.exp(-NODE_CUTOFF_EXPONENT / n)
        left_out = size[~relevant]
        if left_out.size:
            largest = n * math.log(float(left_out.max()) + error)
            omitted = max(omitted, math.exp(min(largest, 700.0)))
        size, transform = size[relevant], transform[relevant]
        nodes, multiplicity = nodes[relevant], multiplicity[relevant]

        angles = 2.0 * math.pi / points * nodes
        # 1 - r, where r = e^(-step + i angle), without cancelling.
        fall, half = math.exp(-self.step), np.sin(0.5 * angles)
        rest = -math.expm1(-self.step) + 2.0 * fall * half**2 - 1j * fall * np.sin(angles)
        kernel = self.width * fall * np.exp(1j * angles) / rest**2 * multiplicity / points
        turned = (n * self.centre) % points * nodes % points
        power = np.exp(n * np.log(transform) - 2j * math.pi / points * turned)
        relative = np.expm1(n * (error / size + 16.0 * UNIT_ROUNDOFF) + 1e-13)
        off = np.abs(kernel) * np.abs(power) * relative
        total = float((kernel * power).real.sum() + off.sum())
        if omitted > 0.0:
            wrap = math.exp(-self.step * points)
            kernel_sum = (
                self.width * fall * (1.0 + wrap) / -math.expm1(-2.0 * self.step) / (1.0 - wrap)
            )
            total += kernel_sum * omitted
        return math.log(total) + 1e-13 if total > 0.0 else math.inf
