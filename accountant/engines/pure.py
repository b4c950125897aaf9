"""The pure engine: epsilon at delta 0, where losses have a bound.

At delta 0 epsilon is the largest loss, in the worse direction.  Whatever was released before, a
release loses at most its largest loss in each direction, so largest losses add up, direction by
direction; and where each is attained by a pair of data sets, so is their sum.  Gaussian noise has
no largest loss, so its epsilon is infinite at delta 0.

Source: Dwork, McSherry, Nissim, Smith 2006 (composition at delta 0); the single releases:
largest_losses.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from .. import events as ev
from .. import validate
from ..composition import Composition, Leaf
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step, unique_steps
from ..schedules import shown
from .base import Answer
from .largest_losses import LargestLosses, largest_losses
from .loss_ranges import Range, amplified, lessened


@dataclass(frozen=True)
class PureEngine:
    """Sums of largest losses, from both sides."""

    name: str = "pure"

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at delta 0, in nats; infinite where there is none.

        Raises `Unsupported` for a delta above 0, and for a leaf whose largest loss is not known.
        """
        if validate.probability(delta=delta) > 0.0:
            raise Unsupported(
                f"The pure engine answers at delta 0 only; {delta:g} was asked.",
                next_step="Leave the choice of the engine to privplan.",
            )
        losses = [(_losses(leaf, neighbours), leaf) for leaf in composition]
        return Answer(_worse_sum(losses), _steps(composition, neighbours), _warnings(losses))

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return delta 0 at an epsilon that the largest losses do not exceed.

        Raises `Unsupported` at any smaller epsilon.
        """
        epsilon = validate.non_negative(epsilon=epsilon)
        answer = self.epsilon(composition, 0.0, neighbours)
        if epsilon < answer.bounds.upper:
            raise Unsupported(
                "The pure engine answers at delta 0 only, and delta is above 0 here.",
                f"The largest loss is {answer.bounds.upper:.6g}, and epsilon {epsilon:.6g}.",
                "Leave the choice of the engine to privplan.",
            )
        return Answer(Bounds.exactly(0.0), answer.steps, answer.warnings)


def largest_sum(composition: Composition, neighbours: Neighbours) -> Bounds:
    """Return bounds on the largest loss of all leaves together: from there on delta is 0.

    Raises `Unsupported` for a leaf whose largest loss is not known.
    """
    return _worse_sum([(_losses(leaf, neighbours), leaf) for leaf in composition])


def _losses(leaf: Leaf, neighbours: Neighbours) -> LargestLosses:
    """Return the largest losses of a leaf; randomized response attains those of stated numbers."""
    losses = largest_losses(leaf.event, neighbours)
    if not leaf.worst_of_class:
        return losses
    event = leaf.event
    if isinstance(event, (ev.Pure, ev.Local, ev.Approximate)):
        attained = losses.worse.upper
        if isinstance(event, ev.Approximate) and event.delta > 0.0:
            attained = math.inf  # the worst of them may reveal everything
        elif leaf.chain is not None:
            record = Fraction(leaf.chain.event.epsilon)  # type: ignore[attr-defined]
            if Fraction(attained) > leaf.chain.size * record:
                attained = math.nextafter(attained, 0.0)
        return LargestLosses.alike(Range(attained, attained), losses.statement)
    inside = event.event if isinstance(event, (ev.Poisson, ev.FixedSize)) else None
    if not isinstance(inside, (ev.Pure, ev.Local)):
        return losses
    worst = Range(inside.epsilon, inside.epsilon)
    # By randomized response about whether the unit is in the sample.
    if isinstance(event, ev.Poisson) and neighbours == "add-remove":
        added, removed = amplified(event.rate, worst), lessened(event.rate, worst)
        return replace(losses, added=added, removed=removed)
    if isinstance(event, ev.FixedSize) and neighbours == "replace-one":
        shown_value = amplified(event.batch / event.population, worst)
        return LargestLosses.alike(shown_value, losses.statement)
    return losses


def _worse_sum(losses: Sequence[tuple[LargestLosses, Leaf]]) -> Bounds:
    added = _sum([(each.added, leaf) for each, leaf in losses])
    removed = _sum([(each.removed, leaf) for each, leaf in losses])
    return Bounds(max(added.lower, removed.lower), max(added.upper, removed.upper))


def _sum(ranges: Sequence[tuple[Range, Leaf]]) -> Range:
    """Return the range of all losses together; what is not seen counts in the upper end only."""
    lower = [(loss.lower, leaf.count) for loss, leaf in ranges if leaf.fully_observed]
    upper = [(loss.upper, leaf.count) for loss, leaf in ranges]
    return Range(_total(lower, -math.inf), _total(upper, math.inf))


def _total(counted: Sequence[tuple[float, int]], towards: float) -> float:
    """Return the sum of the counted values, exact and then rounded towards an infinity."""
    if any(value == math.inf for value, _ in counted):
        return math.inf
    exact = sum((Fraction(value) * count for value, count in counted), Fraction(0))
    try:
        total = float(exact)
    except OverflowError:
        return math.inf if towards > 0.0 else math.nextafter(math.inf, 0.0)
    wrong_side = Fraction(total) < exact if towards > 0.0 else Fraction(total) > exact
    return math.nextafter(total, towards) if wrong_side else total


def _warnings(losses: Sequence[tuple[LargestLosses, Leaf]]) -> tuple[str, ...]:
    # A statement names what is sampled first, and that is what has no bound.
    unbounded = dict.fromkeys(
        each.statement.split(";")[0].rstrip(".") + "."
        for each, _ in losses
        if math.isinf(each.worse.upper)
    )
    if not unbounded:
        return ()
    reasons = " ".join(list(unbounded)[:3])
    return (f"{reasons} So no epsilon holds at delta 0: ask at a delta above 0.",)


def _steps(composition: Composition, neighbours: Neighbours) -> tuple[Step, ...]:
    listed, summaries = shown(composition)
    single = [
        Step(
            "mechanism",
            largest_losses(leaf.event, neighbours).statement,
            "derived in engines/largest_losses.py",
            (f"neighbours: {neighbours}",),
        )
        for leaf in listed
    ]
    composed = Step(
        "composition",
        "At delta 0 epsilon is the largest loss; largest losses add up in each direction, and the "
        "worse direction counts.",
        "Dwork, McSherry, Nissim, Smith 2006; derived in engines/pure.py",
        ("each release's largest loss holds whatever earlier ones released",),
    )
    return unique_steps((*single, *summaries, composed))
