"""Warnings about an event as a whole, and the lower bound of a random search.

One function for each cause; each says nothing where it does not apply.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from .... import events as ev
from ....composition import Composition
from ....errors import counted
from ....event_tree import group_sizes
from ....guarantee import Bounds, Neighbours, Step, agreed, unique_steps
from ....sensitivity.matrix import sensitivity_bounds, strategy_steps
from ...base import Answer
from ...correlated_noise import HIDDEN_BIN, rests_on
from .best_of_runs import best_of_lower
from .cap import WIDE_INTERVAL_RATIO, cap_warnings
from .claimed_batches import batch_warnings


@dataclass(frozen=True)
class AccountQuery:
    """A question about an event, with the bounds that answer it, and by which steps.

    Either `delta` or `epsilon` was given; `quantity` names what is bounded, where that is neither.
    """

    event: ev.Event
    composition: Composition
    neighbours: Neighbours
    bounds: Bounds
    delta: float | None
    epsilon: float | None
    quantity: str = ""
    steps: tuple[Step, ...] = ()

    def gap_text(self) -> str | None:
        """Return the gap between the bounds in words, None where they are close."""
        lower, upper = self.bounds.lower, self.bounds.upper
        if not upper > WIDE_INTERVAL_RATIO * lower or math.isinf(upper):
            return None
        of = f" of {self.quantity}" if self.quantity else ""
        if lower == 0.0:
            return f"The lower end{of} is 0"
        return f"The ends{of} are apart by a factor of {upper / lower:.3g}"


def with_caveats(
    event: ev.Event,
    composition: Composition,
    answer: Answer,
    neighbours: Neighbours,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> Answer:
    """Return an answer with the lower bound of a random search and with all warnings.

    Raises `EnginesDisagree` where that end lies above the upper one.
    """
    answer = _with_search_bound(composition, answer, neighbours, delta, epsilon)
    query = AccountQuery(
        event, composition, neighbours, answer.bounds, delta, epsilon, steps=answer.steps
    )
    warnings = tuple(text for cause in CAUSES for text in cause(query))
    return replace(answer, warnings=(*answer.warnings, *warnings))


def risk_caveats(
    event: ev.Event, neighbours: Neighbours, bounds: Bounds, quantity: str
) -> tuple[str, ...]:
    """Return the warnings about an event of which an attack risk was asked, bounded by `bounds`.

    `quantity` names the risk in a sentence.  Warnings that speak of an epsilon at a delta are left
    out: nobody named any.
    """
    query = AccountQuery(
        event, Composition.of(event), neighbours, bounds, None, 0.0, quantity=quantity
    )
    causes = [cause for cause in CAUSES if cause not in ABOUT_EPSILON_AND_DELTA]
    return tuple(text for cause in causes for text in cause(query))


def _with_search_bound(
    composition: Composition,
    answer: Answer,
    neighbours: Neighbours,
    delta: float | None,
    epsilon: float | None,
) -> Answer:
    search_bound = best_of_lower(composition, neighbours, delta=delta, epsilon=epsilon)
    if search_bound is None or search_bound[0] <= answer.bounds.lower:
        return answer
    lower, step = search_bound
    bounds = agreed(lower, answer.bounds.upper, "A search with this random number of runs shows")
    return replace(answer, bounds=bounds, steps=unique_steps((*answer.steps, step)))


# --- causes ---------------------------------------------------------------------------------------


def _claimed_of_batches(query: AccountQuery) -> tuple[str, ...]:
    return batch_warnings(
        query.event,
        query.neighbours,
        delta=query.delta,
        epsilon=query.epsilon,
        lower=query.bounds.lower,
    )


def _apart_where(types: set[type[ev.Event]], why: str) -> Callable[[AccountQuery], tuple[str, ...]]:
    """Return the cause that says why the ends are apart where such an event is inside."""

    def cause(query: AccountQuery) -> tuple[str, ...]:
        gap_text = query.gap_text()
        if gap_text is None or not any(map(query.composition.inside, types)):
            return ()
        return (f"{gap_text}: {why}",)

    return cause


_shuffled_batches: Final = _apart_where(
    {ev.ShuffledBatches},
    "it is not known how much the random order of shuffled batches hides. The upper end counts it "
    "as known, and is believed loose; the lower end is that of one pair of data sets and one test.",
)

_shuffled: Final = _apart_where(
    {ev.Shuffle, ev.SampledShuffle},
    "it is not known how well shuffled messages hide one among them. The upper end is believed "
    "loose: it lets a message hide only among those that owe nothing to their senders. The lower "
    "end is that of one test on one pair of data sets.",
)

_draws: Final = _apart_where(
    {ev.WithReplacement},
    "draws with replacement have no exact value here. The upper end holds at every order, and no "
    "data set is known to attain all of them; the lower end is that of one pair of data sets.",
)


def _allocation(query: AccountQuery) -> tuple[str, ...]:
    gap_text = query.gap_text()
    allocations = [
        leaf.event for leaf in query.composition if isinstance(leaf.event, ev.RandomAllocation)
    ]
    if gap_text is None or not any(each.chosen < each.steps for each in allocations):
        return ()
    if query.neighbours == "replace-one":
        why = (
            "under replace-one the upper end sets what the old value shows and what the new one "
            "shows against each other as badly as can be, which no known data set does"
        )
    else:
        why = "the upper end counts in which part of the run each of a unit's steps falls as known"
    return (
        f"{gap_text}: "
        "random allocation has no exact value here. The upper end is believed loose: "
        f"{why}.",
    )


def _correlated(query: AccountQuery) -> tuple[str, ...]:
    """Return whose care the number rests on, and why its ends are apart where they are."""
    runs = query.composition.inside(ev.MatrixGaussian)
    rests = tuple(text for run in runs for text in _more_than_fit(run)) + tuple(
        f"It rests on this: {rests_on(run.participation)}.  Whoever runs it has to see to that."
        for run in runs
    )
    gap_text = query.gap_text()
    if gap_text is not None and any(isinstance(r.participation, ev.BallsInBins) for r in runs):
        hides = any(HIDDEN_BIN in step.conditions for step in query.steps)
        counted = (
            "looks at bins that overlap little, some at a time"
            if hides
            else ("counts every unit's bin as known")
        )
        lower = (
            ""
            if query.bounds.lower == 0.0
            else (
                "; the lower end is that of contributions of +1 in every round of the bin, where C "
                "has no negative entry"
            )
        )
        why = (
            f"{gap_text}: what a hidden bin hides has no exact value here.  The upper end "
            f"{counted}, and is believed loose{lower}."
        )
        return (*dict.fromkeys(rests), why)
    known = all(sensitivity_bounds(run.strategy, run.participation).exact for run in runs)
    if gap_text is None or known:
        return tuple(dict.fromkeys(rests))
    why = (
        f"{gap_text}: by how much a unit moves C x is only known between bounds here.  The lower "
        "end is that of vectors in fixed rounds; whether others are worse is not known."
    )
    return (*dict.fromkeys(rests), why)


def _more_than_fit(run: ev.MatrixGaussian) -> tuple[str, ...]:
    """Return that a separated participation names more rounds than the strategy has room for."""
    steps, participation = strategy_steps(run.strategy), run.participation
    if not isinstance(participation, ev.SeparatedParticipation):
        return ()
    fitting = -(-steps // participation.separation)
    if participation.most <= fitting:
        return ()
    return (
        f"`participation.most` is {participation.most:,}, and of {counted(steps, 'round')} at most "
        f"{fitting:,} fit that are {participation.separation:,} or more apart: {fitting:,} are "
        f"counted. Give {fitting:,}, or check the separation.",
    )


def _inside_a_client(query: AccountQuery) -> tuple[str, ...]:
    gap_text = query.gap_text()
    if gap_text is None or not any(
        isinstance(leaf.event, ev.ClientSampled) and Composition.of(leaf.event.event).releases > 1
        for leaf in query.composition
    ):
        return ()
    return (
        f"{gap_text}: "
        "the lower end is that of one pair of data sets in all releases of a client's round, the "
        "upper end holds for every pair.",
    )


def _random_search(query: AccountQuery) -> tuple[str, ...]:
    gap_text = query.gap_text()
    if gap_text is None or not query.composition.inside(ev.BestOf):
        return ()
    if query.bounds.lower == 0.0:
        return ("The lower end is 0: none is known for the best of a random number of these runs.",)
    return (
        f"{gap_text}: "
        "what the best of a random number of runs reveals has no exact value here, and "
        "which end is loose is not known. The lower end is that of one order on the outputs; the "
        "upper end holds for every order.",
    )


def _cap(query: AccountQuery) -> tuple[str, ...]:
    return cap_warnings(
        query.event,
        query.composition,
        query.neighbours,
        query.bounds,
        delta=query.delta,
        epsilon=query.epsilon,
    )


def _unprotected(query: AccountQuery) -> tuple[str, ...]:
    unprotected = query.composition.inside(ev.NoGuarantee)
    reasons = dict.fromkeys(each.reason.rstrip(".") for each in unprotected)
    if not reasons or (query.epsilon is None and math.isfinite(query.bounds.upper)):
        return ()
    listed = "; ".join(list(reasons)[:3])
    return (f"A release protects nobody whom it holds, so epsilon is infinite: {listed}.",)


def _groups_that_outgrow(query: AccountQuery) -> tuple[str, ...]:
    if not any(
        isinstance(leaf.event, ev.Approximate) and leaf.event.delta >= 1.0
        for leaf in query.composition
    ) or not (sizes := [size for size in group_sizes(query.event) if size > 1]):
        return ()
    # What a chain of records can be may still say something.
    if query.bounds.upper < (1.0 if query.delta is None else math.inf):
        return ()
    return (
        f"The delta that the lemma gives to a unit of {max(sizes):,} records is 1, so nothing is "
        "proven of it: the delta of one record times 1 + e^epsilon + e^(2 epsilon) + ..., a term "
        "for each record, is more than that. Ask about fewer records, or state the noise of the "
        "release.",
    )


def _renyi_values(query: AccountQuery) -> tuple[str, ...]:
    values = [event.values for event in query.composition.inside(ev.Renyi)]
    warnings = []
    if any(low > high for each in values for low, high in itertools.pairwise(each)):
        warnings.append(
            "The values of a `renyi` event fall as its orders rise, which no Renyi divergence "
            "does: the smaller value counts at the lower orders, too."
        )
    if any(0.0 in each for each in values):
        warnings.append(
            "A value of a `renyi` event is 0, which says that its output does not depend on the "
            "data at all; check that it is no divergence that was rounded down."
        )
    return tuple(warnings)


CAUSES: Final[tuple[Callable[[AccountQuery], tuple[str, ...]], ...]] = (
    _claimed_of_batches,
    _shuffled_batches,
    _allocation,
    _shuffled,
    _correlated,
    _draws,
    _inside_a_client,
    _random_search,
    _cap,
    _unprotected,
    _groups_that_outgrow,
    _renyi_values,
)
"""All that may be said, each cause by itself."""

ABOUT_EPSILON_AND_DELTA: Final = (_claimed_of_batches, _cap)
"""Causes whose words compare an epsilon, or a delta, with that of another sampler."""
