"""Dominated mechanisms, and the table from event types to the functions that return them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ... import events as ev
from ...composition import Leaf
from ...guarantee import Neighbours, Step
from ..base import Registry
from .pair import Pair

MIN_NOISE_MULTIPLIER = 1e-30
"""Smallest noise multiplier, and inverse of the largest, whose squares are still numbers."""

MIN_SAMPLING_RATE = 1e-100
"""Below this sampling rate a unit that is drawn counts as laid open: the difference is nothing."""

MAX_SUPPORT_SIZE = 4_000_000
"""Most outcomes of a discrete mechanism that are listed one by one."""


@dataclass(frozen=True)
class DominatedMechanism:
    """A mechanism with a pair that dominates it and, where known, pairs that it attains.

    `pair` dominates it in the direction (with, without); `lower_pair`, where there is one, is
    the pair of two fixed neighbouring data sets.  When `symmetric`, the other direction is the
    same.  The mechanism is dominated by `power` independent copies of `pair`, and attains as
    many of `lower_pair`, or `lower_power` of them where that is given.  `fitted(delta)`, where
    there is one, is the same mechanism seen as fits a question about this delta: its pair, power,
    `beside` and first step take the place of those here.  `other_lower_pairs` are those of
    other fixed data sets, which may show more or less than `lower_pair`, by the question.
    `beside` are other pairs, each with its own power, that are composed with `pair` in each run:
    only all of them together dominate the mechanism, so whoever takes `pair` alone must refuse
    where there are any (mechanism_algebra.py).  `lower_beside` is attained together with each
    `lower_pair`, not with the others.  `class_pair` is for an event that names a class of
    mechanisms: the pair that the worst of them attains.
    """

    pair: Pair
    lower_pair: Pair | None
    symmetric: bool
    steps: tuple[Step, ...]
    power: int = 1
    lower_power: int | None = None
    fitted: Callable[[float], DominatedMechanism] | None = None
    other_lower_pairs: tuple[Pair, ...] = ()
    beside: tuple[tuple[Pair, int], ...] = ()
    class_pair: Pair | None = None
    lower_beside: Pair | None = None


pairs: Registry[DominatedMechanism] = Registry(
    "pld",
    {
        ev.Approximate: ".bare",
        ev.ClientSampled: ".client_sampled",
        ev.DiscreteGaussian: ".integer_sums",
        ev.DiscreteLaplace: ".integer_sums",
        ev.Exponential: ".bare",
        ev.FixedSize: ".fixed_size",
        ev.Gaussian: ".noisy_sums",
        ev.GaussianMixture: ".gaussian_mixtures",
        ev.Group: ".groups",
        ev.Laplace: ".noisy_sums",
        ev.Local: ".bare",
        ev.MatrixGaussian: ".noisy_sums",
        ev.NoGuarantee: ".bare",
        ev.Poisson: ".poisson_dispatch",
        ev.Pure: ".bare",
        ev.RandomAllocation: ".allocation",
        ev.RandomizedResponse: ".bare",
        ev.SampledShuffle: ".sampled_shuffle",
        ev.Shuffle: ".shuffled",
        ev.ShuffledBatches: ".batches",
        ev.ThresholdSelection: ".selections",
        ev.TruncatedDiscreteGaussian: ".integer_sums",
        ev.TruncatedGeometricSelection: ".selections",
        ev.TruncatedPoisson: ".truncated",
        ev.WithReplacement: ".with_replacement",
    },
    __package__,
)
"""Event type -> the function that returns its dominating pair.

The module of a type is loaded when the first event of that type is met.
"""


def leaf_pairs(leaf: Leaf, neighbours: Neighbours) -> DominatedMechanism:
    """Return the mechanism of a leaf: of a group of bare numbers that of its chain."""
    return pairs(leaf.event if leaf.chain is None else leaf.chain, neighbours)
