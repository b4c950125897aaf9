"""Many pairs of one kind at once: sums with Gaussian noise, one row for each noise and rate.

A schedule that changes noise or rate at every step has as many pairs as steps.  Their formulas are
those of `MixturePair`, evaluated here for all rows in one array, on one row of edges each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .links import OppositeGaussians, SampledShift, log_excess, log_mixture, opposite_position
from .mixtures import MixturePair
from .noise import UNIT_ROUNDOFF, Array, GaussianNoise, log_normal_masses
from .pair import Pair

FEWEST: Final = 16
"""Fewer pairs of a kind than this are treated one by one."""

LARGEST: Final = 128
"""Most rows of one family: more are cut into several, so that their arrays stay in the cache."""

Weighted = tuple[Pair, int]


@dataclass(frozen=True, eq=False)
class Family:
    """Pairs whose parameters are columns: row i has noise `scale[i]` and sampling rate `rate[i]`.

    The loss is that of (1-q) N(0) + q N(1) against N(0), or against (1-q) N(0) + q N(-1) when
    `opposite`.  When `swapped`, each pair stands for its reverse.  `members` are the pairs
    themselves, with how often each is composed.
    """

    members: tuple[Weighted, ...]
    scale: Array
    rate: Array
    opposite: bool
    swapped: bool

    def some(self, chosen: NDArray[np.bool_]) -> Family:
        """Return the family of some of the rows."""
        members = tuple(m for m, kept in zip(self.members, chosen, strict=True) if kept)
        scale, rate = self.scale[chosen], self.rate[chosen]
        return Family(members, scale, rate, self.opposite, self.swapped)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each row is composed."""
        return np.array([count for _, count in self.members], dtype=np.int64)

    @property
    def crowded(self) -> bool:
        """Whether the losses end at that of a unit not drawn, where mass crowds."""
        return not self.opposite and bool(self.rate[0, 0] < 1.0)

    @property
    def not_drawn(self) -> Array:
        """The end of the losses when `crowded`: log(1 - q), or its negative when swapped."""
        end: Array = np.log1p(-self.rate)
        return -end if self.swapped else end

    def reach(self, tail: float) -> tuple[Array, Array]:
        """Return positions (low, high) beyond which P has mass at most `tail` on each side."""
        radius = self.scale * math.sqrt(2.0 * max(-math.log(2.0 * tail), 0.0))
        if not self.swapped:
            return -radius, 1.0 + radius
        return (-1.0 - radius if self.opposite else -radius), radius

    def loss(self, x: Array) -> Array:
        """Return the loss at positions; it falls as x grows when `swapped`."""
        loss = log_mixture(self.rate, self._ratio(x))
        if self.opposite:
            loss = loss - log_mixture(self.rate, self._ratio(-x))
        return -loss if self.swapped else loss

    def position(self, loss: Array) -> Array:
        """Return the positions at which the loss is reached, possibly infinite."""
        plain = -loss if self.swapped else loss
        if self.opposite:
            return opposite_position(self.rate, self.scale, plain)
        return log_excess(self.rate, plain) * self.scale**2 + 0.5

    def _ratio(self, x: Array) -> Array:
        log_ratio: Array = (x - 0.5) / self.scale**2
        return log_ratio

    def log_masses(self, edges: Array, least: Array | None = None) -> tuple[Array, Array]:
        """Return log P and log Q masses of (-inf, e0], (e0, e1], ..., (en, inf) of the loss.

        Mass at positions below `least` does not count.
        """
        x = self.position(edges)
        if self.swapped:
            x = x[..., ::-1]
        lowest = np.full_like(self.scale, -np.inf) if least is None else least
        x = np.concatenate((lowest, np.maximum(x, lowest), np.full_like(lowest, np.inf)), axis=-1)
        p, q = self.masses_between(np.maximum.accumulate(x, axis=-1))
        return (q[..., ::-1], p[..., ::-1]) if self.swapped else (p, q)

    def masses_between(self, x: Array) -> tuple[Array, Array]:
        """Return the log masses of (1-q) N(0) + q N(1), and of the other, between positions."""
        absent = log_normal_masses(x / self.scale)
        p = self._blend(absent, log_normal_masses((x - 1.0) / self.scale))
        if not self.opposite:
            return p, absent
        return p, self._blend(absent, log_normal_masses((x + 1.0) / self.scale))

    def masses_below(self, position: Array) -> tuple[Array, Array]:
        """Return, as columns, the log P and log Q masses below a position."""
        x = np.concatenate((np.full_like(position, -np.inf), position), axis=-1)
        p, q = self.masses_between(x)
        return (q, p) if self.swapped else (p, q)

    def _blend(self, absent: Array, present: Array) -> Array:
        with np.errstate(divide="ignore"):
            blended: Array = np.logaddexp(
                np.log1p(-self.rate) + absent, np.log(self.rate) + present
            )
        return blended

    # Rounding: the same bounds as those of MixturePair.

    def mass_error(self, tail: float) -> Array:
        """Return, as a column, the relative error of the masses inside the reach of `tail`."""
        z = self._largest(tail) / self.scale
        error: Array = 1e-13 + 4 * UNIT_ROUNDOFF * z * z
        return error

    def edge_error(self, tail: float) -> Array:
        """Return, as a column, by how much the loss at an edge may differ from the edge."""
        low, high = self.reach(tail)
        ends = self.loss(np.concatenate((low, high), axis=-1))
        slope = self._slope(ends).max(axis=-1, keepdims=True)
        largest = np.abs(ends).max(axis=-1, keepdims=True)
        size = 1.0 + largest - np.log(self.rate) + slope * (1.0 + self._largest(tail))
        error: Array = 8 * UNIT_ROUNDOFF * size
        return error

    def edge_mismatch(self, edges: Array) -> Array:
        """Return by how much, as a loss, the edges used for P and those used for Q may differ."""
        x = self.position(edges)
        reach = np.where(np.isfinite(x), np.abs(x) + 1.0, 0.0)
        mismatch: Array = 4 * UNIT_ROUNDOFF * self._slope(edges) * reach
        return mismatch

    def _largest(self, tail: float) -> Array:
        low, high = self.reach(tail)
        largest: Array = 2.0 + np.maximum(np.abs(low), np.abs(high))
        return largest

    def _slope(self, loss: Array) -> Array:
        """Return an upper bound on d loss / dx where the loss has this value."""
        steepest = 1.0 / self.scale**2
        if self.opposite:
            return np.broadcast_to(2.0 * steepest, loss.shape)
        plain = -loss if self.swapped else loss
        with np.errstate(divide="ignore"):
            share = -np.expm1(np.log1p(-self.rate) - plain)
        slope: Array = np.clip(share, 0.0, 1.0) * steepest
        return slope


def families(pairs: Sequence[Weighted]) -> tuple[list[Family], list[Weighted]]:
    """Return the families that the pairs fall into, and the pairs that stay by themselves."""
    kinds: dict[tuple[bool, bool, bool], list[Weighted]] = {}
    single: list[Weighted] = []
    for pair, count in pairs:
        kind = _kind(pair)
        if kind is None:
            single.append((pair, count))
        else:
            kinds.setdefault(kind, []).append((pair, count))
    together = []
    for (opposite, swapped, _), members in kinds.items():
        if len(members) < FEWEST:
            single += members
            continue
        scale, rate = np.array([_parameters(pair) for pair, _ in members]).T
        order = np.argsort(_telling(scale, rate), kind="stable")
        # Rows that tell alike need like numbers of points.
        for rows in np.array_split(order, -(-order.size // LARGEST)):
            some = tuple(members[index] for index in rows)
            columns = scale[rows, None], rate[rows, None]
            together.append(Family(some, *columns, opposite, swapped))
    return together, single


def _telling(scale: Array, rate: Array) -> Array:
    """Return the log of the variance of the likelihood ratio, q^2 (e^(1/s^2) - 1)."""
    inverse = 1.0 / scale**2
    log_variance: Array = 2.0 * np.log(rate) + inverse + np.log(-np.expm1(-inverse))
    return log_variance


def _kind(pair: Pair) -> tuple[bool, bool, bool] | None:
    """Return whether a pair is opposite, swapped and sampled; None if it is of another kind."""
    smooth = pair.smooth
    if pair.exact is not None or not isinstance(smooth, MixturePair):
        return None
    link = smooth.link
    if not isinstance(link, (SampledShift, OppositeGaussians)):
        return None
    if not isinstance(smooth.noise, GaussianNoise) or link.noise is not smooth.noise:
        return None
    rest, rate = 1.0 - link.rate, link.rate
    opposite = isinstance(link, OppositeGaussians)
    added = (0.0, 1.0), (rest, rate), (1.0, 0.0)
    replaced = (0.0, 1.0, -1.0), (rest, rate, 0.0), (rest, 0.0, rate)
    mixed = smooth.centres, smooth.p_weights, smooth.q_weights
    if mixed != (replaced if opposite else added):
        return None
    return opposite, smooth.swapped, rate < 1.0


def _parameters(pair: Pair) -> tuple[float, float]:
    assert isinstance(pair.smooth, MixturePair)
    link = pair.smooth.link
    assert isinstance(link, (SampledShift, OppositeGaussians))
    return link.noise.scale, link.rate
