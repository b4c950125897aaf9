"""Dominated mechanisms, the table of functions that return them, and mechanisms made of others.

A mechanism may have pairs beside its first, several copies of each, and a form for every delta.
Whatever stands for several releases, or for one of which less is known, is made here, so that none
of that is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .... import events as ev
from ....composition import Leaf
from ....errors import Unsupported
from ....guarantee import Neighbours, Step
from ...base import Registry
from ..grid.pair import Pair

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
    where there are any.  `lower_beside` is attained together with each
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
        ev.Approximate: ".outcomes",
        ev.ClientSampled: "..compose.client_sampled",
        ev.DiscreteGaussian: ".outcomes",
        ev.DiscreteLaplace: ".outcomes",
        ev.Exponential: ".outcomes",
        ev.FixedSize: ".fixed_size",
        ev.Gaussian: ".noisy_sums",
        ev.GaussianMixture: ".gaussian_mixtures",
        ev.Group: ".groups",
        ev.Laplace: ".noisy_sums",
        ev.Local: ".outcomes",
        ev.MatrixGaussian: ".noisy_sums",
        ev.NoGuarantee: ".outcomes",
        ev.Poisson: ".noisy_sums",
        ev.Pure: ".outcomes",
        ev.RandomAllocation: ".allocation",
        ev.RandomizedResponse: ".outcomes",
        ev.SampledShuffle: ".sampled_shuffle",
        ev.Shuffle: ".sampled_shuffle",
        ev.ShuffledBatches: ".batches",
        ev.ThresholdSelection: ".selections",
        ev.TruncatedDiscreteGaussian: ".outcomes",
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


def repeated(mechanism: DominatedMechanism, count: int) -> DominatedMechanism:
    """Return `count` independent releases, all seen, as one mechanism, from above and below."""
    fitted = mechanism.fitted
    lower_power = mechanism.power if mechanism.lower_power is None else mechanism.lower_power
    return replace(
        mechanism,
        power=mechanism.power * count,
        beside=tuple((pair, copies * count) for pair, copies in mechanism.beside),
        lower_power=lower_power * count,
        fitted=None if fitted is None else lambda delta: repeated(fitted(delta / count), count),
    )


def composed(first: DominatedMechanism, second: DominatedMechanism) -> DominatedMechanism:
    """Return both releases, composed, from above only."""

    def fitted(delta: float) -> DominatedMechanism:
        return composed(_fitted(first, 0.5 * delta), _fitted(second, 0.5 * delta))

    return DominatedMechanism(
        first.pair,
        None,
        first.symmetric and second.symmetric,
        (*first.steps, *second.steps),
        first.power,
        beside=(*first.beside, (second.pair, second.power), *second.beside),
        fitted=None if first.fitted is None and second.fitted is None else fitted,
    )


def from_above(mechanism: DominatedMechanism) -> DominatedMechanism:
    """Return the mechanism with nothing that is attained."""
    fitted = mechanism.fitted
    return replace(
        mechanism,
        lower_pair=None,
        lower_power=None,
        other_lower_pairs=(),
        lower_beside=None,
        class_pair=None,
        fitted=None if fitted is None else lambda delta: from_above(fitted(delta)),
    )


def is_single_pair(mechanism: DominatedMechanism) -> bool:
    """Return whether one copy of `pair` dominates the mechanism, with nothing beside it."""
    return mechanism.power == 1 and not mechanism.beside


def single_pair(mechanism: DominatedMechanism) -> Pair:
    """Return the one pair that dominates the mechanism; raises `Unsupported` for several."""
    if not is_single_pair(mechanism):
        raise Unsupported(
            "The pld engine cannot look at this release through a single pair.",
            "Its pair is one of several, or of many copies, that count together.",
            "Leave the choice of the engine to privplan.",
        )
    return mechanism.pair


def _fitted(mechanism: DominatedMechanism, delta: float) -> DominatedMechanism:
    return mechanism if mechanism.fitted is None else mechanism.fitted(delta)
