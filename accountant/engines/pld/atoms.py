"""Pairs on finitely many outcomes: discrete noise, randomized response, bare guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...arrays import FloatArray
from .noise import UNIT_ROUNDOFF

MAX_QUADRATURE_POINTS = 5000


@dataclass(frozen=True, eq=False)
class AtomPair:
    """A pair on finitely many outcomes, given by log P and log Q of each.

    `has_heavy_atoms` says that the losses are few and heavy, so that the grid should meet them.
    `omitted_mass` bounds the P mass of outcomes that were left out; they may have any loss.
    `rounding` bounds the relative error of the probabilities, and the error of the losses, beyond
    that of rounded logarithms.
    """

    log_p: FloatArray
    log_q: FloatArray
    omitted_mass: float = 0.0
    has_heavy_atoms: bool = True
    rounding: float = 0.0

    @cached_property
    def _finite(self) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P of the outcomes with P and Q mass, by ascending loss."""
        both = np.isfinite(self.log_p) & np.isfinite(self.log_q)
        losses = self.log_p[both] - self.log_q[both]
        # Infinite losses have a mass of their own, `infinite_mass`; -inf carries no P mass.
        order = np.argsort(losses, kind="stable")
        return losses[order], self.log_p[both][order]

    @property
    def losses(self) -> FloatArray:
        """The finite losses, ascending."""
        return self._finite[0]

    @cached_property
    def masses(self) -> FloatArray:
        """The P masses of `losses`."""
        result: FloatArray = np.exp(self._finite[1])
        return result

    @cached_property
    def has_infinite_losses(self) -> bool:
        """Whether an outcome has P mass, however small, and no Q mass."""
        return bool((np.isfinite(self.log_p) & np.isneginf(self.log_q)).any())

    @cached_property
    def infinite_mass(self) -> float:
        """P mass of the outcomes without Q mass; 0 where it underflows."""
        # Outcomes with P mass and without Q mass: their loss is infinite.
        only_p = np.isfinite(self.log_p) & np.isneginf(self.log_q)
        return min(float(np.exp(self.log_p[only_p]).sum()), 1.0)

    def loss_range(self, tail: float) -> tuple[float, float]:
        losses, mass = self.losses, self.masses
        if losses.size == 0:
            return 0.0, 0.0
        # The first loss from below, and from above, at which the mass passed exceeds `tail`.
        low = min(int(np.searchsorted(np.cumsum(mass), tail)), losses.size - 1)
        high = min(int(np.searchsorted(np.cumsum(mass[::-1]), tail)), losses.size - 1)
        return float(losses[low]), float(max(losses[::-1][high], losses[low]))

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return at most `MAX_QUADRATURE_POINTS` losses and log P masses that stand for all."""
        losses, log_p = self._finite
        if losses.size <= MAX_QUADRATURE_POINTS:
            return losses, log_p
        # Neighbours are merged into their mean loss.  Estimates use this, never a bound.
        starts = np.linspace(0, losses.size, MAX_QUADRATURE_POINTS, endpoint=False).astype(np.intp)
        summed = np.add.reduceat(self.masses, starts)
        weighted = np.add.reduceat(self.masses * losses, starts)
        positive = summed > 0.0
        return weighted[positive] / summed[positive], np.log(summed[positive])

    def reverse(self) -> AtomPair:
        """Return the pair (Q, P)."""
        return AtomPair(
            self.log_q, self.log_p, self.omitted_mass, self.has_heavy_atoms, self.rounding
        )

    def mass_error(self, tail: float) -> float:  # noqa: ARG002
        """Return the relative error of a mass: of the logarithms, and of summing them."""
        return 1e-13 + self.rounding + 4 * UNIT_ROUNDOFF * self._largest_log

    def edge_error(self, tail: float) -> float:  # noqa: ARG002
        """Return the rounding error of a loss."""
        return self.rounding + 4 * UNIT_ROUNDOFF * self._largest_log

    @cached_property
    def _largest_log(self) -> float:
        losses, log_p = self._finite
        if losses.size == 0:
            return 1.0
        return float(1.0 + np.abs(log_p).max() + np.abs(losses).max())

    def heaviest_losses(self) -> tuple[float, ...]:
        """Return the losses of the four heaviest outcomes, ascending."""
        losses, log_p = self._finite
        chosen = np.sort(np.argsort(-log_p, kind="stable")[:4])
        return tuple(dict.fromkeys(float(losses[index]) for index in chosen))
