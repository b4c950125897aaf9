"""What a way of drawing batches proves: one function for each.

An upper event is one that the run cannot exceed in one of the readings that its description
leaves open; a lower event is attained by some data in its reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...accountant import events as ev
from ...accountant.amplification.occurrences import presence
from ...accountant.guarantee import Neighbours
from .bounding_event import BoundingEvent, LowerEnd, PhaseDraws, RunEvents
from .kept_records import ROUNDING, most_occurrences
from .noise_draws import farther, twice_as_far
from .pinned_run import PinnedRun
from .shuffled_events import allocated, shuffled

Sampler = Callable[[PinnedRun, PhaseDraws], RunEvents]


POPULATION_KEYS: Final = {"record": "data.records", "user": "data.users", "silo": "data.silos"}
"""Which key says how many units there are."""


def _upper_relation(run: PinnedRun) -> Neighbours:
    """Return the relation of a sampled upper event: what is clipped with zero is no zero."""
    together = run.settings.microbatches > 1 and run.settings.neighbours == "zero-out"
    return "replace-one" if together else run.relation


def _attained_in_one_step(draws: PhaseDraws) -> ev.Event:
    """Return what a single step shows: the unit in it with its rate, and zeros besides."""
    return ev.Poisson(draws.lower_rate, draws.lower)


def _in_separate_batches(draws: PhaseDraws, draw: ev.Event) -> ev.Event:
    """Return steps whose batches are drawn independently: each of them may have the record."""
    return ev.Repeat(draws.phase.steps, ev.Group(draws.batches, ev.Poisson(draws.phase.rate, draw)))


def _poisson(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    """Return Poisson samples: one in each noise draw, or several that are drawn independently."""
    steps = draws.phase.steps
    seen = ev.ClientSampled if run.presence_is_seen else ev.Poisson
    upper: ev.Event = ev.Repeat(steps, seen(draws.rate, draws.upper))
    lower: ev.Event = ev.Repeat(steps, ev.Poisson(draws.lower_rate, draws.lower))
    if draws.batches > 1:
        upper = _in_separate_batches(draws, draws.upper)
        parts = ev.Group(draws.batches, ev.Poisson(draws.lower_rate, draws.lower))
        lower = ev.Repeat(steps, parts)
    return RunEvents(
        (BoundingEvent(upper, _upper_relation(run)),), ((BoundingEvent(lower, run.relation),),)
    )


def full(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    steps, relation = draws.phase.steps, run.relation
    return RunEvents(
        (BoundingEvent(ev.Repeat(steps, farther(draws.upper, draws.batches)), relation),),
        ((BoundingEvent(ev.Repeat(steps, draws.lower), relation),),),
    )


def _fixed_size(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    """Return batches of a fixed size, of units or of their records, rounded outward.

    Where several batches are in a draw, each may have the record, in another's stead.
    """
    steps, relation = draws.phase.steps, _upper_relation(run)
    sizes = _populations(run)
    if not sizes:
        # With zeros besides, a record is in each batch independently, at the stated rate.
        return _lacking_population(run, _poisson(run, draws).lower)
    uppers: list[ev.Event] = []
    lowers: list[LowerEnd] = []
    for size in sizes:
        uppers.append(ev.Repeat(steps, ev.FixedSize(batch_of(size, draws.rate), size, draws.upper)))
        lowers.append(_least_fixed(run, draws, size))
    if draws.batches > 1:
        uppers = [_in_several_fixed_batches(run, draws, sizes)]
    return RunEvents(tuple(BoundingEvent(event, relation) for event in uppers), tuple(lowers))


def _in_several_fixed_batches(
    run: PinnedRun, draws: PhaseDraws, sizes: tuple[int, ...]
) -> ev.Event:
    """Return steps that each sum several batches of a fixed size, drawn independently.

    In how many of them the record is has one law for both neighbours, whoever else is there, and
    other records fill the rest.  Given that, a step moves by as many norms (by twice as many where
    another one takes its stead), so that by joint convexity it loses no more than where any batch
    that has the record counts as all of them, and everybody sees whether there is one.  Of a user
    of several records a batch has any with at most the sum of their rates; the group around the
    event moves a step by all of them.
    """
    several = (run.settings.records_per_user or 1) if run.settings.unit == "user" else 1
    rate = several * max(batch_of(size, draws.rate) / size for size in sizes)
    any_batch = 1.0 if rate >= 1.0 else -math.expm1(draws.batches * math.log1p(-rate))
    moved = draws.batches * (2 if run.settings.neighbours == "add-remove" else 1)
    present = min(1.0, any_batch * (1.0 + ROUNDING))
    seen = ev.ClientSampled(present, farther(draws.upper, moved))
    return ev.Repeat(draws.phase.steps, seen)


def _least_fixed(run: PinnedRun, draws: PhaseDraws, size: int) -> LowerEnd:
    """Return what fixed batches of `size` units show: one in a noise draw, or several."""
    batch = math.floor(draws.lower_rate * size * (1.0 + ROUNDING))
    if batch == 0:
        return (BoundingEvent(_attained_in_one_step(draws), "add-remove"),)
    steps, relation = draws.phase.steps, run.relation
    if draws.batches == 1 and batch >= size and relation == "add-remove":
        # All of them are drawn, and of one record less there is no such batch.
        return (BoundingEvent(ev.Repeat(steps, draws.lower), relation),)
    if draws.batches == 1:
        fixed = ev.Repeat(steps, ev.FixedSize(batch, size, draws.lower))
        return (BoundingEvent(fixed, relation),)
    # With records at the other bound, each presence moves the sum from one to the other.
    draw = draws.lower if relation == "zero-out" else twice_as_far(draws.lower)
    parts = ev.Group(draws.batches, ev.Poisson(batch / size, draw))
    return (BoundingEvent(ev.Repeat(steps, parts), "add-remove"),)


def _populations(run: PinnedRun) -> tuple[int, ...]:
    """Return what batches may be drawn from: units, or all records of users who have several."""
    sizes = (run.drawn_from, run.design.counted)
    return tuple(dict.fromkeys(size for size in sizes if size is not None))


def _lacking_population(run: PinnedRun, lower: tuple[LowerEnd, ...]) -> RunEvents:
    """Return what is known of batches whose population nobody counted: the lower end alone."""
    key = POPULATION_KEYS[run.settings.unit]
    if run.settings.sampled == "records":
        key = "data.records"
    if run.settings.unit == "user" and (run.settings.records_per_user or 1) > 1:
        # A user of a single record is data, too.
        lower = tuple(tuple(replace(part, alone=True) for part in end) for end in lower)
    none = ev.NoGuarantee("nobody said how many records a batch is drawn from")
    return RunEvents((BoundingEvent(none, run.relation),), lower, lacking=(key,))


def batch_of(size: int, rate: float) -> int:
    """Return the units of a batch, rounded up."""
    return min(size, max(1, math.ceil(rate * size * (1.0 - ROUNDING))))


def _with_replacement(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    """Return batches that are drawn with replacement, of units; rounded outward.

    Where a unit has several records, and for what is no single release, a batch counts as moved by
    as many bounds as the unit was drawn into it.
    """
    if run.drawn_from is None:
        present = BoundingEvent(_present(run, draws, draws.lower_rate), "add-remove")
        return _lacking_population(run, ((present,),))
    several = (run.settings.records_per_user or 2) > 1
    if run.settings.unit == "user" and run.settings.sampled == "records" and several:
        return _not_amplified(run, draws, run.drawn_from)
    several = (run.settings.records_per_user or 1) > 1
    if several or not isinstance(draws.upper, _SINGLE_RELEASES):
        return _not_amplified(run, draws, run.drawn_from)
    steps, relation = draws.phase.steps, run.relation
    most = max(1, math.ceil(draws.phase.rate * run.drawn_from * (1.0 - ROUNDING)))
    upper = ev.Repeat(steps, ev.WithReplacement(most, run.drawn_from, draws.upper))
    hidden = BoundingEvent(_present(run, draws, draws.lower_rate), "add-remove")
    least: LowerEnd = (hidden,)
    fewest = math.floor(draws.lower_rate * run.drawn_from * (1.0 + ROUNDING))
    # What a user adds to a step may be clipped as a whole, however often it was drawn.
    of_user = run.settings.unit == "record" and run.design.clipped == "unit"
    whole = of_user or (run.settings.unit != "record" and run.settings.clip_bounds != "record")
    if fewest > 0 and not whole:
        drawn = ev.Repeat(steps, ev.WithReplacement(fewest, run.drawn_from, draws.lower))
        least = (BoundingEvent(drawn, relation), hidden)
    return RunEvents(
        (BoundingEvent(upper, _upper_relation(run)),),
        (least,),
        (
            "Batches are drawn with replacement: a record may be in one several times, each time "
            "in another's stead.",
        ),
    )


_SINGLE_RELEASES: Final = (ev.Gaussian, ev.Laplace, ev.DiscreteGaussian, ev.DiscreteLaplace)


def _not_amplified(run: PinnedRun, draws: PhaseDraws, units: int) -> RunEvents:
    """Return sums that a record moves as often as it was drawn, without amplification.

    Draws of the record are exchanged for draws of others, which moves each by two norms (by one
    under zero-out).  From below: with zeros besides, more occurrences only move the sum farther,
    so Poisson sampling at the rate of one or more of them is never above.
    """
    steps = draws.phase.steps
    drawn = max(1, math.ceil(draws.phase.rate * units * (1.0 - ROUNDING)))
    # Any of a user's records may be drawn more often than that.
    several = (run.settings.records_per_user or 1) if run.settings.unit == "user" else 1
    most, tail = most_occurrences(drawn, units, steps, draws.delta / several)
    tail *= several
    moved = most if run.settings.neighbours == "zero-out" else 2 * most
    upper = ev.Repeat(steps, farther(draws.upper, moved))
    return RunEvents(
        (BoundingEvent(upper, "add-remove", tail),),
        ((BoundingEvent(_present(run, draws, draws.lower_rate), "add-remove"),),),
        (
            f"Batches are drawn with replacement. A record is drawn at most {most} times into a "
            f"batch, except with probability {tail:.1e}, which is taken from delta; nothing is "
            "counted as amplified.",
        ),
    )


def _present(run: PinnedRun, draws: PhaseDraws, rate: float) -> ev.Event:
    """Return steps that a record is in with the probability of one or more of a batch's draws."""
    if run.drawn_from is not None and math.floor(rate * run.drawn_from * (1.0 + ROUNDING)) == 0:
        return _attained_in_one_step(draws)
    return ev.Repeat(draws.phase.steps, ev.Poisson(presence_in(run, rate), draws.lower))


def presence_in(run: PinnedRun, rate: float) -> float:
    """Return the probability that a batch, drawn with replacement, has a record at least once."""
    if run.drawn_from is None:
        # 1 - (1 - 1/n)^(rate n) is never below that, whatever n is.
        return -math.expm1(-rate)
    batch = math.floor(rate * run.drawn_from * (1.0 + ROUNDING))
    return min(rate, presence(batch, run.drawn_from)) if batch > 0 else rate


def _weighted(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    """Return sums without amplification: the heaviest record may be in every batch.

    A draw by weights without the record is the same draw with one other record in its stead, so a
    sum moves by two norms at most; with replacement, as often as the batch is long.  Some record is
    in a batch at least as often as the mean.
    """
    relation = run.relation
    # An event under replace-one moves twice already.
    moved = draws.batches * (2 if relation == "add-remove" else 1)
    says = "A record is at most once in a batch; nothing is counted as amplified."
    present = BoundingEvent(_present(run, draws, draws.lower_rate), "add-remove")
    if run.settings.weighted_draws == "with-replacement":
        if run.drawn_from is None:
            return _lacking_population(run, ((present,),))
        moved *= batch_of(run.drawn_from, draws.rate)
        says = "The heaviest record may fill a batch; nothing is counted as amplified."
    return RunEvents(
        (BoundingEvent(ev.Repeat(draws.phase.steps, farther(draws.upper, moved)), relation),),
        ((present,),),
        (says,),
    )


METHODS: Final[dict[str, Sampler]] = {
    "poisson": _poisson,
    "shuffled": shuffled,
    "fixed-size": _fixed_size,
    "with-replacement": _with_replacement,
    "weighted": _weighted,
    "random-allocation": allocated,
    "full": full,
}
