"""The directions in which a composition must be bounded, and where each is expected to lie.

The derivation of an answer of this engine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .... import events as ev
from ....composition import Composition, Leaf
from ....guarantee import Neighbours, Step, unique_steps
from ....schedules import shown, sketched
from ..grid.families import families
from ..grid.pair import Pair
from ..pairs.registry import DominatedMechanism, leaf_pairs
from .estimate import SaddlePoint, SaddlePointEstimate
from .questions import MIN_CERTIFIED_DELTA, WIDE_LOSS_DEVIATION, Question

CountedPairs = Sequence[tuple[Pair, int]]
EstimatedPairs = tuple[CountedPairs, SaddlePointEstimate]

MAX_COMPOSED_OTHERS: Final = 2
"""Most sets of pairs that are composed for a lower end, besides the first."""

SCHEDULE_ACCURACY_FACTORS: Final = ((64, 4.0), (2_000, 6.0))
"""With more different releases than the first number time counts, and `accuracy` is so many times
as large; the ends stay within some 6e-4 of each other."""

ESTIMATE_DELTAS: Final = (1e-3, 1e-9, 1e-20, 1e-50, 1e-110, MIN_CERTIFIED_DELTA)
"""Deltas down to which estimates are made good; a few, so that two questions about one point, its
epsilon and its delta, start from the same estimates."""

ROUNDING_STEPS: Final = 32.0
"""How finely `quantized_saddle` rounds: steps in a factor of e, and in one standard deviation."""


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction of the composition: pairs that dominate it, and those known to be attained.

    Each side has its estimate, for they may lie far apart.  `other_lower_pairs` are sets of pairs
    of other data sets, each with its estimate, which may show more.  `adapted` says whether some
    pair was fitted to the delta that is asked about.
    """

    dominating: CountedPairs
    lower_pairs: CountedPairs
    estimate: SaddlePointEstimate
    lower_estimate: SaddlePointEstimate
    adapted: bool
    other_lower_pairs: tuple[EstimatedPairs, ...] = ()

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return sum(count for _, count in self.dominating)

    def lower_candidates(self, question: Question) -> tuple[EstimatedPairs, ...]:
        """What lower bounds may be made from, the largest of which counts: the first pairs, and of
        the others those that seem to show most."""
        first = ((self.lower_pairs, self.lower_estimate),) if self.lower_pairs else ()
        others = self.other_lower_pairs
        if len(others) > MAX_COMPOSED_OTHERS:
            sizes = [question.size(question.saddle(estimate)) for _, estimate in others]
            best = sorted(range(len(others)), key=lambda index: -sizes[index])
            others = tuple(others[index] for index in best[:MAX_COMPOSED_OTHERS])
        return (*first, *others)

    @property
    def largest_loss(self) -> float:
        """A bound on the sum of all losses; beyond it delta is 0."""
        return sum(count * pair.largest_loss for pair, count in self.dominating)

    @property
    def is_tight(self) -> bool:
        """Whether a lower bound covers every leaf by the very pair that dominates it."""
        return len(self.lower_pairs) == len(self.dominating) and all(
            a is d for (a, _), (d, _) in zip(self.lower_pairs, self.dominating, strict=True)
        )


def estimate_level(delta: float) -> float:
    """Return the delta of `ESTIMATE_DELTAS` down to which estimates are made good for this one."""
    return next((each for each in ESTIMATE_DELTAS if each <= delta), ESTIMATE_DELTAS[-1])


def directions_of(
    composition: Composition, neighbours: Neighbours, delta: float
) -> tuple[Direction, ...]:
    """Return the directions that must be bounded: one if every pair is its own reverse.

    Mechanisms are fitted to `delta`, and estimates are good down to it.
    """
    mechanisms = _mechanisms(composition, neighbours, delta)
    sketched_leaves = sketched(composition)
    sketch = (
        mechanisms
        if len(sketched_leaves) == len(composition)
        else _mechanisms(sketched_leaves, neighbours, delta)
    )
    forward = _direction(mechanisms, sketch, delta, reverse=False)
    if all(mechanism.symmetric for mechanism, _ in mechanisms):
        return (forward,)
    return forward, _direction(mechanisms, sketch, delta, reverse=True)


def _mechanisms(
    composition: Composition, neighbours: Neighbours, delta: float
) -> list[tuple[DominatedMechanism, int]]:
    """Return the mechanism of every leaf, and how often it runs."""
    return [
        (_with_lower_pairs(mechanism, leaf), leaf.count)
        for leaf, mechanism in zip(composition, fitted(composition, neighbours, delta), strict=True)
    ]


def _with_lower_pairs(mechanism: DominatedMechanism, leaf: Leaf) -> DominatedMechanism:
    """Return the mechanism with the lower pairs that this leaf may use."""
    if not leaf.fully_observed:
        return replace(mechanism, attained=())
    if leaf.worst_of_class and mechanism.class_pair is not None:
        worst = ((mechanism.class_pair, mechanism.dominating[0][1]),)
        return replace(mechanism, attained=(worst, *mechanism.attained[1:]))
    return mechanism


def fitted(
    composition: Composition, neighbours: Neighbours, delta: float, rounds: int | None = None
) -> list[DominatedMechanism]:
    """Return the mechanism of every leaf, as fits a question about `delta` of them all.

    `rounds` is how many releases there are in all, where the leaves are only some of them.
    """
    rounds = composition.releases if rounds is None else rounds
    mechanisms = []
    for leaf in composition:
        mechanism = leaf_pairs(leaf, neighbours)
        if mechanism.fitted is not None:
            other = mechanism.fitted(delta / rounds)
            steps = (other.steps[0], *mechanism.steps[1:])
            mechanism = replace(mechanism, dominating=other.dominating, steps=steps)
        mechanisms.append(mechanism)
    return mechanisms


def _direction(
    mechanisms: Sequence[tuple[DominatedMechanism, int]],
    sketch: Sequence[tuple[DominatedMechanism, int]],
    delta: float,
    reverse: bool,
) -> Direction:
    """Return a direction of what is known; its estimates look at the sketch of it only."""
    dominating = _dominating(mechanisms, reverse)
    sketched_pairs = dominating if sketch is mechanisms else _dominating(sketch, reverse)
    estimate = SaddlePointEstimate.of(sketched_pairs, estimate_level(delta))
    adapted = any(mechanism.fitted is not None for mechanism, _ in mechanisms)
    lower_pairs = _lower_pairs(mechanisms, dominating, reverse)
    same_pairs = all(a is d for (a, _), (d, _) in zip(lower_pairs, dominating, strict=False))
    if not lower_pairs or (same_pairs and len(lower_pairs) == len(dominating)):
        return Direction(dominating, lower_pairs, estimate, estimate, adapted)
    lower_estimate = SaddlePointEstimate.of(
        _lower_pairs(sketch, sketched_pairs, reverse), estimate_level(delta)
    )
    others = []
    for index in range(1, max(len(mechanism.attained) for mechanism, _ in mechanisms)):
        estimated = SaddlePointEstimate.of(
            _lower_pairs(sketch, sketched_pairs, reverse, index), estimate_level(delta)
        )
        others.append((_lower_pairs(mechanisms, dominating, reverse, index), estimated))
    return Direction(dominating, lower_pairs, estimate, lower_estimate, adapted, tuple(others))


def _dominating(
    mechanisms: Sequence[tuple[DominatedMechanism, int]], reverse: bool
) -> list[tuple[Pair, int]]:
    """Return the pairs that dominate, with their counts: one for each mechanism, then the pairs
    with some of them."""
    counted = [(mechanism.dominating[:1], count) for mechanism, count in mechanisms]
    counted += [(mechanism.dominating[1:], count) for mechanism, count in mechanisms]
    return [
        (pair.reverse() if reverse else pair, count * copies)
        for together, count in counted
        for pair, copies in together
    ]


def _lower_pairs(
    mechanisms: Sequence[tuple[DominatedMechanism, int]],
    dominating: CountedPairs,
    reverse: bool,
    index: int = 0,
) -> list[tuple[Pair, int]]:
    """Return the pairs that are attained, with their counts: of what each mechanism attains those
    with this index, or the last.

    One that dominates too is the very object of `dominating`.
    """
    lower_pairs = []
    first_pairs = dominating[: len(mechanisms)]  # the rest go with them
    for (mechanism, count), (dominating_pair, _) in zip(mechanisms, first_pairs, strict=True):
        attained = mechanism.attained[index:][:1] or mechanism.attained[-1:]
        for pair, copies in itertools.chain.from_iterable(attained):
            if pair is mechanism.pair:
                lower_pairs.append((dominating_pair, count * copies))
            else:
                lower_pairs.append((pair.reverse() if reverse else pair, count * copies))
    return lower_pairs


def initial_width(direction: Direction, saddle: SaddlePoint, accuracy: float) -> float:
    """Return the grid width at which both pmfs together cost about `accuracy` * epsilon.

    A grid of width w adds at most n t (1 + t) w^2 / 12 to the cumulant at tilt t, hence
    n (1 + t) w^2 / 12 to epsilon, and the lower pmf loses no more.
    """
    rounds = direction.rounds
    spread = math.sqrt(max(saddle.variance, saddle.plain_variance))
    if spread == 0.0:
        return 0.25
    # Next to the largest possible loss the tilt grows without end, and says nothing about grids.
    tilt = min(saddle.tilt, 40.0 / spread)
    # What lies in the bulk of widely spread losses is no better known than they are spread.
    plain = math.sqrt(saddle.plain_variance)
    size = max(saddle.epsilon, 0.05 * spread, 0.5 * plain if plain > WIDE_LOSS_DEVIATION else 0.0)
    accuracy *= max(
        (wider for many, wider in SCHEDULE_ACCURACY_FACTORS if len(direction.dominating) > many),
        default=1.0,
    )
    width = math.sqrt(6.0 * accuracy * size / (rounds * (1.0 + tilt)))
    return max(min(width, 0.5 * spread / math.sqrt(rounds), 0.25), 1e-300)


def grid_points_needed(direction: Direction, saddle: SaddlePoint, width: float) -> float:
    """Return about how many grid points a composition takes: those of its pmfs and of their sum."""
    spread = math.sqrt(max(saddle.variance, saddle.plain_variance))
    _, single = families(direction.dominating)  # rows take few points each
    ranges = [pair.loss_range(1e-12) for pair, _ in single]
    return (16.0 * spread + sum(high - low for low, high in ranges)) / width


def quantized_saddle(saddle: SaddlePoint) -> SaddlePoint:
    """Return a saddle nearby, the same one for all that are hardly apart.

    Grids are chosen by it: the question for epsilon and the question for delta at one point then
    share a grid, although their own saddles differ in late digits.  Its log delta is left at 0: no
    grid depends on it.
    """
    variance = _quantized(saddle.variance)
    unit = math.sqrt(variance) / ROUNDING_STEPS
    epsilon = unit * round(saddle.epsilon / unit) if unit > 0.0 else saddle.epsilon
    return replace(
        saddle,
        epsilon=epsilon,
        log_delta=0.0,
        tilt=_quantized(saddle.tilt),
        variance=variance,
        plain_variance=_quantized(saddle.plain_variance),
    )


def quantized_delta(delta: float) -> float:
    """Return the power of 4 at or below a delta, by the same intent as `quantized_saddle`."""
    return 4.0 ** math.floor(math.log(delta) / math.log(4.0))


def _quantized(value: float) -> float:
    if not 0.0 < value < math.inf:
        return value
    return math.exp(round(math.log(value) * ROUNDING_STEPS) / ROUNDING_STEPS)


def participation(composition: Composition) -> float:
    """Return a bound on the probability that a unit is drawn at all, which delta never exceeds."""
    spared = sum(leaf.count * _log_spared(leaf.event) for leaf in composition)
    return -math.expm1(spared) * (1.0 + 1e-12)


def _log_spared(event: ev.Event) -> float:
    """Return the log of the probability that a unit takes no part in one release."""
    if isinstance(event, ev.Group):
        inner = event.event
        if isinstance(inner, ev.FixedSize):  # one by one, from what is left of the population
            left = max(inner.population - event.size + 1, inner.batch)
            return event.size * _log_rest(inner.batch / left)
        if isinstance(inner, ev.WithReplacement):
            return inner.batch * _log_rest(min(event.size / inner.population, 1.0))
        return event.size * _log_spared(inner)
    if isinstance(event, ev.FixedSize):
        return _log_rest(event.batch / event.population)
    if isinstance(event, (ev.Poisson, ev.TruncatedPoisson)):
        return _log_rest(event.rate)
    if isinstance(event, ev.WithReplacement):
        return event.batch * _log_rest(1.0 / event.population)
    if isinstance(event, ev.ClientSampled):
        return _log_rest(event.clients_rate * min(participation(Composition.of(event.event)), 1.0))
    return -math.inf


def _log_rest(rate: float) -> float:
    return math.log1p(-rate) if rate < 1.0 else -math.inf


def participation_steps(composition: Composition, neighbours: Neighbours) -> tuple[Step, ...]:
    for leaf in composition:
        leaf_pairs(leaf, neighbours)  # refuses what is not understood
    step = Step(
        "sampling",
        f"A unit is drawn at all with probability at most {abs(participation(composition)):.3g}. "
        "Delta is no smaller, so epsilon is 0.",
        "total variation distance of the two outputs",
        ("each unit joins each sample independently", f"neighbours: {neighbours}"),
    )
    return (step,)


def composed_steps(
    composition: Composition, neighbours: Neighbours, widths: Sequence[float], delta: float
) -> tuple[Step, ...]:
    rounds = composition.releases
    listed, summaries = shown(composition)
    each = fitted(listed, neighbours, delta, rounds)
    steps = [*(step for mechanism in each for step in mechanism.steps), *summaries]
    how_many = f"{rounds:,} rounds" if rounds > 1 else "1 round"
    grids = " and ".join(f"{width:.3g}" for width in widths)
    many = ", one for each direction" if len(widths) > 1 else ""
    steps.append(
        Step(
            "composition",
            f"{how_many} by a tilted Fourier transform; loss grid of width {grids}{many}.",
            "upper end: connect the dots, arXiv 2207.04380; "
            "lower end: lowered chords (lower_hull.py)",
            (
                "truncated tails, folding and rounding are added to the upper end and "
                "subtracted from the lower end",
            ),
        )
    )
    steps.append(
        Step(
            "conversion",
            "delta(eps) = E[(1 - e^(eps - S))+], S the sum of the losses; the worse direction "
            "counts.",
            "Zhu, Dong, Wang 2022, arXiv 2106.08567",
            ("the pair of every round dominates it whatever earlier rounds released",),
        )
    )
    return unique_steps(steps)


def worst_at(directions: Sequence[Direction], epsilon: float) -> tuple[SaddlePoint, Direction]:
    """Return the direction with about the largest delta at an epsilon, after its saddle."""
    candidates = [(direction.estimate.delta(epsilon), direction) for direction in directions]
    return max(candidates, key=lambda each: each[0].log_delta)


def worst_first(
    question: Question, directions: Sequence[Direction]
) -> list[tuple[Direction, SaddlePoint]]:
    """Return the directions with their saddles, the one with the largest answer first."""
    candidates = [(direction, question.saddle(direction.estimate)) for direction in directions]
    return sorted(candidates, key=lambda each: -question.size(each[1]))
