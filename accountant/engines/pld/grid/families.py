"""Families of Gaussian pairs, evaluated at once: one row for each noise and sampling rate.

A schedule that changes noise or rate at every step has as many pairs as steps.  Their formulas are
those of `MixturePair`, evaluated here for all rows in one array, on one row of edges each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ....arrays import BoolArray, FloatArray, IntArray
from .mixtures import (
    MixturePair,
    OppositeGaussians,
    SampledShift,
    log_excess,
    log_mixture,
    opposite_position,
)
from .noise import UNIT_ROUNDOFF, GaussianNoise, log_normal_masses
from .pair import Pair

MIN_FAMILY_PAIRS: Final = 16
"""Fewer pairs of a kind than this are treated one by one."""

MAX_FAMILY_ROWS: Final = 128
"""Most rows of one family: more are cut into several, so that their arrays stay in the cache."""

CountedPair = tuple[Pair, int]


@dataclass(frozen=True, eq=False)
class Family:
    """Pairs whose parameters are columns: row i has noise `scale[i]` and sampling rate `rate[i]`.

    The loss is that of (1-q) N(0) + q N(1) against N(0), or against (1-q) N(0) + q N(-1) when
    `opposite`.  When `swapped`, each pair stands for its reverse.  `members` are the pairs
    themselves, with how often each is composed.
    """

    members: tuple[CountedPair, ...]
    scale: FloatArray
    rate: FloatArray
    opposite: bool
    swapped: bool

    def subset(self, chosen: BoolArray) -> Family:
        """Return the family of some of the rows."""
        members = tuple(m for m, is_chosen in zip(self.members, chosen, strict=True) if is_chosen)
        scale, rate = self.scale[chosen], self.rate[chosen]
        return Family(members, scale, rate, self.opposite, self.swapped)

    @property
    def counts(self) -> IntArray:
        """How often each row is composed."""
        return np.array([count for _, count in self.members], dtype=np.int64)

    @property
    def has_end_atom(self) -> bool:
        """Whether the losses end at that of a unit not drawn, where mass gathers."""
        return not self.opposite and bool(self.rate[0, 0] < 1.0)

    @property
    def end_loss(self) -> FloatArray:
        """The end of the losses when `has_end_atom`: log(1 - q), or its negative when swapped."""
        end: FloatArray = np.log1p(-self.rate)
        return -end if self.swapped else end

    def reach(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return positions (low, high) beyond which P has mass at most `tail` on each side."""
        radius = self.scale * math.sqrt(2.0 * max(-math.log(2.0 * tail), 0.0))
        if not self.swapped:
            return -radius, 1.0 + radius
        return (-1.0 - radius if self.opposite else -radius), radius

    def loss(self, x: FloatArray) -> FloatArray:
        """Return the loss at positions; it falls as x grows when `swapped`."""
        loss = log_mixture(self.rate, self._ratio(x))
        if self.opposite:
            loss = loss - log_mixture(self.rate, self._ratio(-x))
        return -loss if self.swapped else loss

    def position(self, loss: FloatArray) -> FloatArray:
        """Return the positions at which the loss is reached, possibly infinite."""
        plain = -loss if self.swapped else loss
        if self.opposite:
            return opposite_position(self.rate, self.scale, plain)
        return log_excess(self.rate, plain) * self.scale**2 + 0.5

    def _ratio(self, x: FloatArray) -> FloatArray:
        log_ratio: FloatArray = (x - 0.5) / self.scale**2
        return log_ratio

    def log_masses(
        self, edges: FloatArray, least: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return log P and log Q masses of (-inf, e0], (e0, e1], ..., (en, inf) of the loss.

        Mass at positions below `least` does not count.
        """
        # Positions of the edges, shape (rows, edges + 2), ascending whatever rounding does.
        x = self.position(edges)
        if self.swapped:
            x = x[..., ::-1]
        lowest = np.full_like(self.scale, -np.inf) if least is None else least
        x = np.concatenate((lowest, np.maximum(x, lowest), np.full_like(lowest, np.inf)), axis=-1)
        p, q = self.masses_between(np.maximum.accumulate(x, axis=-1))
        return (q[..., ::-1], p[..., ::-1]) if self.swapped else (p, q)

    def masses_between(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log masses of (1-q) N(0) + q N(1), and of the other, between positions."""
        # Shape (rows, intervals), each to full relative accuracy.
        absent = log_normal_masses(x / self.scale)
        p = self._blend(absent, log_normal_masses((x - 1.0) / self.scale))
        if not self.opposite:
            return p, absent
        return p, self._blend(absent, log_normal_masses((x + 1.0) / self.scale))

    def masses_below(self, position: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return, as columns, the log P and log Q masses below a position."""
        x = np.concatenate((np.full_like(position, -np.inf), position), axis=-1)
        p, q = self.masses_between(x)
        return (q, p) if self.swapped else (p, q)

    def _blend(self, absent: FloatArray, present: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            blended: FloatArray = np.logaddexp(
                np.log1p(-self.rate) + absent, np.log(self.rate) + present
            )
        return blended

    # Rounding: the same bounds as those of MixturePair.

    def mass_error(self, tail: float) -> FloatArray:
        """Return, as a column, the relative error of the masses inside the reach of `tail`."""
        z = self._largest(tail) / self.scale
        error: FloatArray = 1e-13 + 4 * UNIT_ROUNDOFF * z * z
        return error

    def edge_error(self, tail: float) -> FloatArray:
        """Return, as a column, by how much the loss at an edge may differ from the edge."""
        low, high = self.reach(tail)
        ends = self.loss(np.concatenate((low, high), axis=-1))
        slope = self._slope(ends).max(axis=-1, keepdims=True)
        largest = np.abs(ends).max(axis=-1, keepdims=True)
        size = 1.0 + largest - np.log(self.rate) + slope * (1.0 + self._largest(tail))
        error: FloatArray = 8 * UNIT_ROUNDOFF * size
        return error

    def edge_mismatch(self, edges: FloatArray) -> FloatArray:
        """Return by how much, as a loss, the edges used for P and those used for Q may differ."""
        x = self.position(edges)
        reach = np.where(np.isfinite(x), np.abs(x) + 1.0, 0.0)
        mismatch: FloatArray = 4 * UNIT_ROUNDOFF * self._slope(edges) * reach
        return mismatch

    def _largest(self, tail: float) -> FloatArray:
        low, high = self.reach(tail)
        largest: FloatArray = 2.0 + np.maximum(np.abs(low), np.abs(high))
        return largest

    def _slope(self, loss: FloatArray) -> FloatArray:
        """Return an upper bound on d loss / dx where the loss has this value."""
        lipschitz_bound = 1.0 / self.scale**2
        if self.opposite:
            return np.broadcast_to(2.0 * lipschitz_bound, loss.shape)
        plain = -loss if self.swapped else loss
        with np.errstate(divide="ignore"):
            share = -np.expm1(np.log1p(-self.rate) - plain)
        slope: FloatArray = np.clip(share, 0.0, 1.0) * lipschitz_bound
        return slope


def families(pairs: Sequence[CountedPair]) -> tuple[list[Family], list[CountedPair]]:
    """Return the families that the pairs fall into, and the pairs that stay by themselves."""
    # Pairs of one kind differ in noise and rate only.
    kinds: dict[tuple[bool, bool, bool], list[CountedPair]] = {}
    single: list[CountedPair] = []
    for pair, count in pairs:
        kind = _kind(pair)
        if kind is None:
            single.append((pair, count))
        else:
            kinds.setdefault(kind, []).append((pair, count))
    families = []
    for (opposite, swapped, _), members in kinds.items():
        if len(members) < MIN_FAMILY_PAIRS:
            single += members
            continue
        scale, rate = np.array([_parameters(pair) for pair, _ in members]).T
        order = np.argsort(_log_ratio_variance(scale, rate), kind="stable")
        # Rows that tell alike need like numbers of points.
        for rows in np.array_split(order, -(-order.size // MAX_FAMILY_ROWS)):
            subset = tuple(members[index] for index in rows)
            columns = scale[rows, None], rate[rows, None]
            families.append(Family(subset, *columns, opposite, swapped))
    return families, single


def _log_ratio_variance(scale: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the log of the variance of the likelihood ratio, q^2 (e^(1/s^2) - 1)."""
    inverse = 1.0 / scale**2
    log_variance: FloatArray = 2.0 * np.log(rate) + inverse + np.log(-np.expm1(-inverse))
    return log_variance


def _kind(pair: Pair) -> tuple[bool, bool, bool] | None:
    """Return whether a pair is opposite, swapped and sampled; None if it is of another kind."""
    continuous = pair.continuous
    if pair.atoms is not None or not isinstance(continuous, MixturePair):
        return None
    loss_map = continuous.loss_map
    if not isinstance(loss_map, (SampledShift, OppositeGaussians)):
        return None
    if not isinstance(continuous.noise, GaussianNoise) or loss_map.noise is not continuous.noise:
        return None
    rest, rate = 1.0 - loss_map.rate, loss_map.rate
    opposite = isinstance(loss_map, OppositeGaussians)
    added = (0.0, 1.0), (rest, rate), (1.0, 0.0)
    replaced = (0.0, 1.0, -1.0), (rest, rate, 0.0), (rest, 0.0, rate)
    mixed = continuous.centres, continuous.p_weights, continuous.q_weights
    if mixed != (replaced if opposite else added):
        return None
    return opposite, continuous.swapped, rate < 1.0


def _parameters(pair: Pair) -> tuple[float, float]:
    assert isinstance(pair.continuous, MixturePair)
    loss_map = pair.continuous.loss_map
    assert isinstance(loss_map, (SampledShift, OppositeGaussians))
    return loss_map.noise.scale, loss_map.rate
