"""What an answer owes to the event as a whole: a lower end no engine has, and why it is wide.

One function for each cause; each says nothing where it does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ... import events as ev
from ...composition import Leaf, leaves
from ...errors import EnginesDisagree
from ...guarantee import Bounds, Neighbours, unique_steps
from ..base import Answer
from .batches import warnings_for
from .best import best_of_lower
from .cap import WIDE, said_of_cap


@dataclass(frozen=True)
class Asked:
    """A question about an event, and the bounds that answer it; `delta` or `epsilon` was given."""

    event: ev.Event
    parts: Sequence[Leaf]
    neighbours: Neighbours
    bounds: Bounds
    delta: float | None
    epsilon: float | None

    def kinds(self) -> set[type[ev.Event]]:
        """Return the types of the leaves, and of what stands inside them."""
        found = set()
        for leaf in self.parts:
            inner: ev.Event | None = leaf.event
            while inner is not None:
                found.add(type(inner))
                inner = getattr(inner, "event", None)
        return found

    def apart(self) -> str | None:
        """Return how far apart the ends are, in words; None where they are near each other."""
        lower, upper = self.bounds.lower, self.bounds.upper
        if not upper > WIDE * lower or math.isinf(upper):
            return None
        if lower == 0.0:
            return "The lower end is 0"
        return f"The ends are apart by a factor of {upper / lower:.3g}"


def with_caveats(
    event: ev.Event,
    answer: Answer,
    neighbours: Neighbours,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> Answer:
    """Return an answer with the lower end of a random search, and with all that is to be said.

    Raises `EnginesDisagree` where that end lies above the upper one.
    """
    answer = _raised(event, answer, neighbours, delta, epsilon)
    asked = Asked(event, leaves(event), neighbours, answer.bounds, delta, epsilon)
    said = tuple(text for cause in CAUSES for text in cause(asked))
    return replace(answer, warnings=(*answer.warnings, *said))


def _raised(
    event: ev.Event,
    answer: Answer,
    neighbours: Neighbours,
    delta: float | None,
    epsilon: float | None,
) -> Answer:
    if ev.BestOf not in {type(leaf.event) for leaf in leaves(event)}:
        return answer
    found = best_of_lower(event, neighbours, delta=delta, epsilon=epsilon)
    if found is None or found[0] <= answer.bounds.lower:
        return answer
    lower, step = found
    if lower > answer.bounds.upper:
        raise EnginesDisagree(
            f"A search with this random number of runs shows at least {lower:.9g}, and the upper "
            f"end is {answer.bounds.upper:.9g}.",
            "Both cannot be true, so one of them is wrong and no number is given.",
            "Please report this event to the authors of privplan.",
        )
    bounds = Bounds(lower, answer.bounds.upper)
    return replace(answer, bounds=bounds, steps=unique_steps((*answer.steps, step)))


# --- causes ---------------------------------------------------------------------------------------


def _claimed_of_batches(asked: Asked) -> tuple[str, ...]:
    return warnings_for(
        asked.event,
        asked.neighbours,
        delta=asked.delta,
        epsilon=asked.epsilon,
        lower=asked.bounds.lower,
    )


def _shuffled_batches(asked: Asked) -> tuple[str, ...]:
    apart = asked.apart()
    if apart is None or ev.ShuffledBatches not in asked.kinds():
        return ()
    return (
        f"{apart}: it is not known how much the random order of shuffled batches hides. The upper "
        "end counts it as known, and is believed loose; the lower end is that of one pair of data "
        "sets and one test.",
    )


def _allocation(asked: Asked) -> tuple[str, ...]:
    apart = asked.apart()
    found = [leaf.event for leaf in asked.parts if isinstance(leaf.event, ev.RandomAllocation)]
    if apart is None or not any(each.chosen < each.steps for each in found):
        return ()
    if asked.neighbours == "replace-one":
        why = (
            "under replace-one the upper end sets what the old value shows and what the new one "
            "shows against each other as badly as can be, which no known data set does"
        )
    else:
        why = "the upper end counts in which part of the run each of a unit's steps falls as known"
    return (
        f"{apart}: random allocation has no exact value here. The upper end is believed loose: "
        f"{why}.",
    )


def _shuffled(asked: Asked) -> tuple[str, ...]:
    apart = asked.apart()
    if apart is None or not asked.kinds() & {ev.Shuffle, ev.SampledShuffle}:
        return ()
    return (
        f"{apart}: it is not known how well shuffled messages hide one among them. The upper end "
        "is believed loose: it lets a message hide only among those that owe nothing to their "
        "senders. The lower end is that of one test on one pair of data sets.",
    )


def _random_search(asked: Asked) -> tuple[str, ...]:
    apart = asked.apart()
    if apart is None or ev.BestOf not in asked.kinds():
        return ()
    if asked.bounds.lower == 0.0:
        return ("The lower end is 0: none is known for the best of a random number of these runs.",)
    return (
        f"{apart}: what the best of a random number of runs reveals has no exact value here, and "
        "which end is loose is not known. The lower end is that of one order on the outputs; the "
        "upper end holds for every order.",
    )


def _cap(asked: Asked) -> tuple[str, ...]:
    return said_of_cap(
        asked.event,
        asked.neighbours,
        asked.bounds,
        delta=asked.delta,
        epsilon=asked.epsilon,
    )


CAUSES: Final[tuple[Callable[[Asked], tuple[str, ...]], ...]] = (
    _claimed_of_batches,
    _shuffled_batches,
    _allocation,
    _shuffled,
    _random_search,
    _cap,
)
"""All that may be said, each cause by itself."""
