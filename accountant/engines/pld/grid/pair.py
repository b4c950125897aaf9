"""Pairs of distributions (P, Q), known through the privacy loss log(P/Q).

A pair (P, Q) is known to the engine through its loss log(P/Q): how much P and Q mass has which
loss.  It has a continuous part, whose mass is known by loss interval, and atoms, whose outcomes
are known one by one.  Bounds are for the direction P against Q; `reverse` gives the other.

Pairs are also combined here (joined at loss 0, mixed with a visible component, scaled to measures),
and made of bounds on their hockey sticks at some orders, by the chords between those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ....arrays import BoolArray, FloatArray
from .pair_parts import AtomPair, ContinuousPart, PiecewisePart, ScaledPart, WeightedParts


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair of distributions, seen through the loss log(P/Q).

    `grid_atoms` are losses that should lie on the grid: heavy atoms, or an end of the support.
    `support_end` is a loss at which the support ends while mass gathers there, and on which side:
    -1, +1.
    """

    continuous: ContinuousPart | None
    atoms: AtomPair | None
    grid_atoms: tuple[float, ...] = ()
    support_end: tuple[float, float] | None = None

    @classmethod
    def of_outcomes(cls, atoms: AtomPair) -> Pair:
        """Return a pair without a continuous part."""
        return cls(None, atoms, atoms.heaviest_losses() if atoms.has_heavy_atoms else ())

    def reverse(self) -> Pair:
        """Return the pair (Q, P)."""
        return Pair(
            self.continuous.reverse() if self.continuous else None,
            self.atoms.reverse() if self.atoms else None,
            tuple(-atom for atom in self.grid_atoms),
            (-self.support_end[0], -self.support_end[1]) if self.support_end else None,
        )

    @property
    def infinite_mass(self) -> float:
        """P mass at an infinite loss."""
        return self.atoms.infinite_mass if self.atoms else 0.0

    @property
    def omitted_mass(self) -> float:
        """Bound on the P mass of omitted outcomes, which may have any loss."""
        return self.atoms.omitted_mass if self.atoms else 0.0

    @property
    def largest_loss(self) -> float:
        """A bound on every loss, infinite where there is none."""
        if self.omitted_mass > 0.0 or (self.atoms is not None and self.atoms.has_infinite_losses):
            return math.inf
        ends = []
        if self.atoms is not None and self.atoms.losses.size:
            ends.append(float(self.atoms.losses[-1]))
        if self.continuous is not None:
            bounded = self.support_end is not None and self.support_end[1] > 0.0
            ends.append(
                self.support_end[0]
                if self.support_end and bounded
                else self.continuous.largest_loss
            )
        return max(ends, default=0.0) + 4.0 * self.edge_error(1e-30)

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Return (low, high) with P(loss < low) and P(high < loss < inf) of about `tail`."""
        ranges = [part.loss_range(tail) for part in (self.continuous, self.atoms) if part]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def mass_error(self, tail: float) -> float:
        """Return the relative error of the masses inside `loss_range(tail)`."""
        return max(part.mass_error(tail) for part in (self.continuous, self.atoms) if part)

    def edge_error(self, tail: float) -> float:
        """Return by how much a loss may differ from the one that was computed."""
        return max(part.edge_error(tail) for part in (self.continuous, self.atoms) if part)

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses that stand for the pair, down to a mass of `tail`."""
        points = [part.quadrature_points(tail) for part in (self.continuous, self.atoms) if part]
        return (
            np.concatenate([losses for losses, _ in points]),
            np.concatenate([log_p for _, log_p in points]),
        )


class LaterPair(Pair):
    """A pair that is made when it is first looked at: mostly one that is fitted takes its place."""

    _made: Callable[[], Pair]

    def __init__(self, make: Callable[[], Pair]) -> None:
        object.__setattr__(self, "_made", cache(make))

    @property
    def continuous(self) -> ContinuousPart | None:
        """The continuous part, where there is one."""
        return self._made().continuous

    @property
    def atoms(self) -> AtomPair | None:
        """The outcomes that are known one by one, where there are any."""
        return self._made().atoms

    @property
    def grid_atoms(self) -> tuple[float, ...]:
        """Losses that should lie on the grid."""
        return self._made().grid_atoms

    @property
    def support_end(self) -> tuple[float, float] | None:
        """A loss at which the support ends while mass gathers there, and on which side."""
        return self._made().support_end


_ERROR_TAIL = 1e-30
"""Tail at which errors of masses near loss 0 are read off."""


def two_sided(negative: Pair, positive: Pair) -> Pair:
    """Return the pair whose hockey stick is that of `positive` at orders 1 and above, and that of
    `negative` below 1.

    The two must agree at order 1 and meet there in a convex way.  With h(1) the common total
    variation, the P mass at positive losses is P+(loss > 0), at negative losses P-(loss < 0), and
    the rest of the P mass, which equals the rest of the Q mass, has loss 0.
    """
    outcomes = np.concatenate((_outcomes(negative, -1.0), _outcomes(positive, 1.0)), axis=1)
    # P mass of the atoms, then of the continuous parts on both sides of loss 0.
    masses = float(np.exp(outcomes[0]).sum())
    continuous = None
    error = max(negative.mass_error(_ERROR_TAIL), positive.mass_error(_ERROR_TAIL))
    if positive.continuous is not None and negative.continuous is not None:
        continuous = PiecewisePart(negative.continuous, positive.continuous)
        masses += float(np.exp(continuous.negative.log_masses(np.zeros(1))[0][0]))
        masses += float(np.exp(continuous.positive.log_masses(np.zeros(1))[0][-1]))
    # Too much mass at loss 0 keeps an upper bound one.
    # What is missing to mass 1 has loss 0.
    rest = max(1.0 - masses, 0.0) + (2.0 + masses) * error
    middle = np.full((2, 1), math.log(min(rest, 1.0)))
    log_p, log_q = np.concatenate((outcomes, middle), axis=1)
    atoms = AtomPair(
        log_p,
        log_q,
        max(negative.omitted_mass, positive.omitted_mass),
        rounding=max(_rounding(negative), _rounding(positive)),
    )
    return Pair(continuous, atoms, (0.0,))


def _outcomes(pair: Pair, sign: float) -> FloatArray:
    """Return log P and log Q, as rows, of the outcomes whose loss has this sign."""
    if pair.atoms is None:
        return np.empty((2, 0))
    log_p, log_q = pair.atoms.log_p, pair.atoms.log_q
    has_sign = log_p > log_q if sign > 0.0 else log_p < log_q
    return np.stack((log_p[has_sign], log_q[has_sign]))


def _rounding(pair: Pair) -> float:
    return pair.atoms.rounding if pair.atoms is not None else 0.0


def mixture_of_pairs(weighted: Sequence[tuple[float, Pair]]) -> Pair:
    """Return the mixture of pairs whose component is visible.

    `weighted` holds probabilities and pairs.  Its hockey stick is the weighted sum of
    theirs; probabilities that add up to more than 1 give an upper bound.
    """
    pairs = [pair for weight, pair in weighted if weight > 0.0]
    logs = [math.log(weight) for weight, _ in weighted if weight > 0.0]
    continuous = [
        (log, pair.continuous)
        for log, pair in zip(logs, pairs, strict=True)
        if pair.continuous is not None
    ]
    atoms = [
        (log, pair.atoms) for log, pair in zip(logs, pairs, strict=True) if pair.atoms is not None
    ]
    # Parts that all end at one point keep it; otherwise every part's atoms should lie on the
    # grid.
    ends = [pair.support_end for pair in pairs if pair.support_end is not None]
    blend = WeightedParts(
        tuple(log for log, _ in continuous), tuple(part for _, part in continuous)
    )
    outcomes = None
    if atoms:
        outcomes = AtomPair(
            np.concatenate([log + part.log_p for log, part in atoms]),
            np.concatenate([log + part.log_q for log, part in atoms]),
            sum(math.exp(log) * part.omitted_mass for log, part in atoms),
            rounding=max(part.rounding for _, part in atoms),
        )
    end = min(ends) if len(ends) == len(pairs) else None
    grid_atoms = (
        tuple(atom for pair in pairs for atom in pair.grid_atoms) if end is None else end[:1]
    )
    return Pair(blend if continuous else None, outcomes, grid_atoms, end)


def scaled_measures(pair: Pair, p_weight: float, q_weight: float, error: float) -> Pair:
    """Return the measures `p_weight` P and `q_weight` Q of a pair, as one part of a choice.

    `error` bounds the relative errors of both weights, and of the weights inside the pair.  The
    hockey stick of a sum of measures is at most the sum of theirs.
    """
    log_p, log_q = math.log(p_weight), math.log(q_weight)
    offset = log_p - log_q
    atoms = None
    if pair.atoms is not None:
        atoms = AtomPair(
            pair.atoms.log_p + log_p,
            pair.atoms.log_q + log_q,
            pair.atoms.omitted_mass * max(p_weight, q_weight),
            pair.atoms.has_heavy_atoms,
            # The losses are off by both weights.
            pair.atoms.rounding + 2.0 * error,
        )
    return Pair(
        ScaledPart(pair.continuous, log_p, log_q, error) if pair.continuous is not None else None,
        atoms,
        tuple(atom + offset for atom in pair.grid_atoms),
        (pair.support_end[0] + offset, pair.support_end[1])
        if pair.support_end is not None
        else None,
    )


PROFILE_ROUNDING = 1e-12
"""Relative error of the masses that are read off a profile."""


MIN_SPACING = 1e-9
"""Orders that are closer together than this share of them are one."""


def pair_of_profile(losses: FloatArray, sticks: FloatArray) -> Pair:
    """Return a pair whose hockey stick at orders of at least 1 lies above a convex profile.

    `losses` ascend from 0, and `sticks` are bounds on the profile at the orders e^losses, from
    above.  Between them the pair has chords, which lie above a convex function, and what is left
    at the last order has an infinite loss.  Only positive losses of the pair mean anything.
    """
    kept = _apart(losses)
    losses, sticks = losses[kept], sticks[kept]
    orders = np.exp(losses)
    # From the last order down: a slope that falls short of the one behind it is raised to it, so
    # that rounded values still make a convex profile, which is nowhere below them.
    slopes = np.zeros(losses.size)
    value, slope = float(sticks[-1]), 0.0
    for k in range(losses.size - 2, -1, -1):
        width = float(orders[k + 1] - orders[k])
        slope = max(slope, (float(sticks[k]) - value) / width)
        value += slope * width
        slopes[k] = slope
    # Q has the mass at order k by which the profile bends there.
    q = np.concatenate((slopes[:1], slopes[:-1])) - slopes
    p = orders * q
    seen = q > 0.0
    with np.errstate(divide="ignore"):
        log_p = np.log(np.concatenate((p[seen], sticks[-1:])))
        log_q = np.log(np.concatenate((q[seen], [0.0])))
    return Pair.of_outcomes(
        AtomPair(log_p, log_q, has_heavy_atoms=False, rounding=PROFILE_ROUNDING)
    )


def _apart(losses: FloatArray) -> BoolArray:
    """Return which losses to keep, the first and the last among them, so that none are close."""
    cells = np.floor(losses / MIN_SPACING)
    kept = np.append(True, np.diff(cells) > 1.0)
    kept[-1] = True
    if kept.size > 2 and losses[-1] - losses[-2] < MIN_SPACING:
        kept[1:-1] &= losses[-1] - losses[1:-1] >= MIN_SPACING
    return kept
