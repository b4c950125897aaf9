"""Dominated mechanisms, the table of functions that return them, and mechanisms made of others.

A mechanism may have pairs besides its first, several copies of each, and a form for every delta.
Whatever stands for several releases, or for one of which less is known, is made here, so that none
of that is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


CountedPairs = tuple[tuple[Pair, int], ...]
"""Pairs that are composed in each run, each with its number of independent copies."""


@dataclass(frozen=True)
class DominatedMechanism:
    """A mechanism with the pairs that dominate it and, where known, those that it attains.

    `dominating` dominate it in the direction (with, without), only all of them together: whoever
    takes the first alone must refuse where there are more, or several copies.  Each of `attained`
    is what two fixed neighbouring data sets show; which of them shows most depends on the question.
    When `symmetric`, the other direction is the same.  `fitted(delta)`, where there is one, is the
    same mechanism seen as fits a question about this delta: its dominating pairs and first step
    take the place of those here.  `class_pair` is for an event that names a class of mechanisms:
    the pair that the worst of them attains, as many times as `pair`.
    """

    dominating: CountedPairs
    attained: tuple[CountedPairs, ...]
    symmetric: bool
    steps: tuple[Step, ...]
    fitted: Callable[[float], DominatedMechanism] | None = None
    class_pair: Pair | None = None

    @classmethod
    def of(
        cls,
        pair: Pair,
        attained: Iterable[Pair | None],
        symmetric: bool,
        steps: tuple[Step, ...],
        class_pair: Pair | None = None,
    ) -> DominatedMechanism:
        """Return a mechanism that one pair dominates, and that attains some, where not None."""
        return cls(((pair, 1),), each_alone(attained), symmetric, steps, class_pair=class_pair)

    @property
    def pair(self) -> Pair:
        """The first pair that dominates."""
        return self.dominating[0][0]

    @property
    def lower_pair(self) -> Pair | None:
        """The first pair that is attained, where any is known."""
        return self.attained[0][0][0] if self.attained else None


def each_alone(attained: Iterable[Pair | None], copies: int = 1) -> tuple[CountedPairs, ...]:
    """Return what is attained by each of some pairs, where not None, without the others."""
    return tuple(((pair, copies),) for pair in attained if pair is not None)


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
    """Return the mechanism of a leaf: of a group of stated numbers that of its chain."""
    return pairs(leaf.event if leaf.chain is None else leaf.chain, neighbours)


def repeated(mechanism: DominatedMechanism, count: int) -> DominatedMechanism:
    """Return `count` independent releases, all seen, as one mechanism, from above and below."""
    fitted = mechanism.fitted
    return replace(
        mechanism,
        dominating=_times(mechanism.dominating, count),
        attained=tuple(_times(each, count) for each in mechanism.attained),
        fitted=None if fitted is None else lambda delta: repeated(fitted(delta / count), count),
    )


def _times(counted: CountedPairs, count: int) -> CountedPairs:
    return tuple((pair, copies * count) for pair, copies in counted)


def composed(first: DominatedMechanism, second: DominatedMechanism) -> DominatedMechanism:
    """Return both releases, composed, from above only."""

    def fitted(delta: float) -> DominatedMechanism:
        return composed(_fitted(first, 0.5 * delta), _fitted(second, 0.5 * delta))

    return DominatedMechanism(
        first.dominating + second.dominating,
        (),
        first.symmetric and second.symmetric,
        (*first.steps, *second.steps),
        None if first.fitted is None and second.fitted is None else fitted,
    )


def from_above(mechanism: DominatedMechanism) -> DominatedMechanism:
    """Return the mechanism with nothing that is attained."""
    fitted = mechanism.fitted
    above = None if fitted is None else lambda delta: from_above(fitted(delta))
    return replace(mechanism, attained=(), class_pair=None, fitted=above)


def is_single_pair(mechanism: DominatedMechanism) -> bool:
    """Return whether one copy of `pair` dominates the mechanism by itself."""
    return [copies for _, copies in mechanism.dominating] == [1]


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
