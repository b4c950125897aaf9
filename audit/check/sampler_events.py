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
from ...accountant.errors import Unsupported
from ...accountant.guarantee import Neighbours, as_neighbours
from .bounding_event import BoundingEvent, LowerEnd, PhaseDraws, RunEvents
from .checked_run import CheckedRun
from .kept_records import ROUNDING, most_occurrences
from .loader_passes import LeastPasses, LoaderPasses, passes_of
from .noise_draws import LackingFacts, farther

Sampler = Callable[[CheckedRun, PhaseDraws], RunEvents]


POPULATION_KEYS: Final = {"record": "data.records", "user": "data.users", "silo": "data.silos"}
"""Which key says how many units there are."""

LARGEST_TESTED_DELTA: Final = 1e-4
"""Up to this delta the test on large sums is the stronger of the two directions."""


def relation_of(run: CheckedRun) -> Neighbours:
    return as_neighbours(run.settings.neighbours)


def _upper_relation(run: CheckedRun) -> Neighbours:
    """Return the relation of a sampled upper event: what is clipped with zero is no zero."""
    together = run.settings.microbatches > 1 and run.settings.neighbours == "zero-out"
    return "replace-one" if together else relation_of(run)


def _attained_in_one_step(draws: PhaseDraws) -> ev.Event:
    """Return what a single step shows: the unit in it with its rate, and zeros besides."""
    return ev.Poisson(draws.lower_rate, draws.lower)


def _in_separate_batches(draws: PhaseDraws, draw: ev.Event) -> ev.Event:
    """Return steps whose batches are drawn independently: each of them may have the record."""
    return ev.Repeat(draws.phase.steps, ev.Group(draws.batches, ev.Poisson(draws.phase.rate, draw)))


def _poisson(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return Poisson samples: one in each noise draw, or several that are drawn independently."""
    steps = draws.phase.steps
    upper: ev.Event = ev.Repeat(steps, ev.Poisson(draws.rate, draws.upper))
    lower: ev.Event = ev.Repeat(steps, ev.Poisson(draws.lower_rate, draws.lower))
    if draws.batches > 1:
        upper = _in_separate_batches(draws, draws.upper)
        parts = ev.Group(draws.batches, ev.Poisson(draws.lower_rate, draws.lower))
        lower = ev.Repeat(steps, parts)
    return RunEvents(
        (BoundingEvent(upper, _upper_relation(run)),), ((BoundingEvent(lower, relation_of(run)),),)
    )


def _allocated(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return passes in each of which a record is in one batch, drawn by itself: it moves no other.

    Nothing is counted as amplified above.
    """
    passes = passes_of(run, draws.phase)
    upper = ev.Repeat(passes.most_passes, farther(draws.upper, max(passes.times, draws.batches)))
    return RunEvents(
        (BoundingEvent(upper, relation_of(run)),),
        tuple(_least_allocated(run, draws, _within_passes(passes, each)) for each in passes.least),
    )


def _least_allocated(run: CheckedRun, draws: PhaseDraws, least: LeastPasses) -> LowerEnd:
    """Return what a reading of allocated passes shows: all batches of a pass, or its first one."""
    records = run.settings.records_per_user or 1
    several = run.settings.unit == "user" and records > 1
    if several or least.passes == 0:
        once = ev.Poisson(min(draws.lower_rate, least.drawn) / records, draws.lower)
        return (BoundingEvent(once, "add-remove", alone=several),)
    present = least.kept**least.passes
    hidden: ev.Event = ev.RandomAllocation(least.batches, 1, draws.lower)
    if not least.whole:
        present, hidden = 1.0, ev.Poisson(least.kept / least.batches, draws.lower)
    return (BoundingEvent(ev.Repeat(least.passes, hidden), "add-remove", present=present),)


def full(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    steps, relation = draws.phase.steps, relation_of(run)
    return RunEvents(
        (BoundingEvent(ev.Repeat(steps, farther(draws.upper, draws.batches)), relation),),
        ((BoundingEvent(ev.Repeat(steps, draws.lower), relation),),),
    )


def _shuffled(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return epochs of shuffled batches: rounded up for the upper event, down for the lower."""
    passes = passes_of(run, draws.phase)
    relation = relation_of(run)
    draw = farther(draws.upper, passes.times)
    if passes.times > 1 and relation == "add-remove":
        # With one record less, all later draws begin and end elsewhere.
        draw = ev.NoGuarantee("a noise draw takes more than one pass of a shuffled loader")
    fewest, come_and_go = passes.fewest_batches, relation == "add-remove"
    # Where a record more or less fills up a batch, or follows into another, another one moves.
    filled = max(2, fewest) if come_and_go and not passes.single else fewest
    upper: ev.Event = ev.Repeat(passes.most_passes, ev.ShuffledBatches(filled, draw))
    if passes.spans:
        upper = _across_passes(draw, passes.most_passes, come_and_go=come_and_go)
    alike = ", as many with a record more or less," if come_and_go else ""
    conditions = [
        f"An epoch has {fewest:,} batch{'' if fewest == 1 else 'es'} or more{alike} "
        "in a fresh random order that nobody sees."
    ]
    if come_and_go and passes.single:
        conditions = ["An epoch is one batch of all records, with a record more or less as well."]
    if passes.spans:
        conditions.append("A noise draw may take the last batches of an epoch with the next.")
    share = run.settings.records_per_epoch
    if share is not None and run.units is not None and share > run.units:
        conditions.append("An epoch is whole passes over all records, one after another.")
    return RunEvents(
        (BoundingEvent(upper, relation),),
        tuple(_least_passes(run, draws, _within_passes(passes, each)) for each in passes.least),
        tuple(conditions),
    )


def _across_passes(draw: ev.Event, passes: int, *, come_and_go: bool) -> ev.Event:
    """Return what no shuffle of so many passes exceeds, where a draw may take batches of two.

    A pass brings a record to one draw, so a draw has it up to twice: c_1 + c_2 + ... <= passes and
    c_j <= 2 leave sum c_j^2 <= 2 passes.  Where a record comes or goes another one takes its stead:
    a pass moves one draw by up to 2 and another by 1, so by (a + b)^2 <= 2 a^2 + 2 b^2 the squares
    sum to 10 passes at most.  The worst order of all is counted, by joint convexity.
    """
    if isinstance(draw, ev.Gaussian):
        squares = 10.0 if come_and_go else 2.0
        return ev.Repeat(passes, ev.Gaussian(draw.noise_multiplier / math.sqrt(squares)))
    if come_and_go:
        return ev.Repeat(2 * passes, farther(draw, 4))
    return ev.Repeat(passes, farther(draw, 2))


def _within_passes(passes: LoaderPasses, least: LeastPasses) -> LeastPasses:
    """Return what draws show that take batches of one pass alone, where others may take of two.

    Draws at known places show a record independently in every pass; others are left out.
    """
    if not passes.spans:
        return least
    return replace(least, passes=least.passes if passes.inside else 0, whole=False)


def _least_passes(run: CheckedRun, draws: PhaseDraws, least: LeastPasses) -> LowerEnd:
    """Return what a reading shows: all batches of its passes, or one of each pass.

    With zeros besides, the batch that a record is in is hidden among all: random allocation.  A
    loader that drops what is left keeps batches of one size, so beside records at the other
    bound (or at zero, where the neighbour is zero) one batch moves; and only if the record is kept.
    """
    relation = relation_of(run)
    records = run.settings.records_per_user or 1
    if run.settings.unit == "user" and records > 1:
        # Records of a user are drawn without replacement, so not independently: one shows anything.
        rate = min(draws.lower_rate, least.drawn) / records
        return (BoundingEvent(ev.Poisson(rate, draws.lower), "add-remove", alone=True),)
    if least.passes == 0:
        once = ev.Poisson(min(draws.lower_rate, least.drawn), draws.lower)
        return (BoundingEvent(once, "add-remove"),)
    first_batch = ev.Poisson(least.kept / least.batches, draws.lower)
    first_batches = ev.Repeat(least.passes, first_batch)
    if not least.whole:
        if run.units is not None:
            batch = max(1, math.floor(draws.lower_rate * run.units * (1.0 + ROUNDING)))
            rate = least.kept * min(draws.lower_rate, presence(batch, run.units))
            first_batches = ev.Repeat(least.passes, ev.Poisson(rate, draws.lower))
        return (BoundingEvent(first_batches, "add-remove"),)
    if least.kept < 1.0:
        draw = draws.lower if relation == "zero-out" else _twice(draws.lower)
        hidden = ev.RandomAllocation(least.batches, 1, draw)
        present = least.kept**least.passes
        largest: LowerEnd = ()
        small = draws.delta <= LARGEST_TESTED_DELTA
        if relation == "zero-out" and isinstance(draw, ev.Gaussian) and small:
            # The largest sum of a pass has a monotone likelihood ratio, so the test is on large
            # sums, which passes without the record make no more probable.
            whole = ev.Repeat(least.passes, ev.ShuffledBatches(least.batches, draw))
            largest = (BoundingEvent(whole, relation, present=present),)
        return (
            *largest,
            BoundingEvent(ev.Repeat(least.passes, hidden), "add-remove", present=present),
            BoundingEvent(first_batches, "add-remove"),
        )
    shuffled = ev.Repeat(least.passes, ev.ShuffledBatches(least.batches, draws.lower))
    alone = ev.Repeat(least.passes, ev.RandomAllocation(least.batches, 1, draws.lower))
    return (BoundingEvent(shuffled, relation), BoundingEvent(alone, "add-remove"))


def _twice(draw: ev.Event) -> ev.Event:
    try:
        return farther(draw, 2)
    except Unsupported:
        return draw


def _fixed_size(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
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
    run: CheckedRun, draws: PhaseDraws, sizes: tuple[int, ...]
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


def _least_fixed(run: CheckedRun, draws: PhaseDraws, size: int) -> LowerEnd:
    """Return what fixed batches of `size` units show: one in a noise draw, or several."""
    batch = math.floor(draws.lower_rate * size * (1.0 + ROUNDING))
    if batch == 0:
        return (BoundingEvent(_attained_in_one_step(draws), "add-remove"),)
    steps, relation = draws.phase.steps, relation_of(run)
    if draws.batches == 1:
        fixed = ev.Repeat(steps, ev.FixedSize(batch, size, draws.lower))
        return (BoundingEvent(fixed, relation),)
    # Beside records at the other bound, each presence moves the sum from one to the other.
    draw = draws.lower if relation == "zero-out" else _twice(draws.lower)
    parts = ev.Group(draws.batches, ev.Poisson(batch / size, draw))
    return (BoundingEvent(ev.Repeat(steps, parts), "add-remove"),)


def _populations(run: CheckedRun) -> tuple[int, ...]:
    """Return what batches may be drawn from: units, or all records of users who have several."""
    settings = run.settings
    sizes = [run.units]
    if settings.unit == "user" and settings.sampled == "records" and settings.records is not None:
        sizes = [settings.records]
    elif settings.unit == "user" and settings.records_per_user is not None:
        sizes.append(settings.records)
    return tuple(dict.fromkeys(size for size in sizes if size is not None))


def _lacking_population(run: CheckedRun, lower: tuple[LowerEnd, ...]) -> RunEvents:
    """Return what is known of batches whose population nobody counted: the lower end alone."""
    key = POPULATION_KEYS[run.settings.unit]
    if run.settings.unit == "user" and (run.settings.records_per_user or 1) > 1:
        raise LackingFacts(key)
    none = ev.NoGuarantee("nobody said how many records a batch is drawn from")
    return RunEvents((BoundingEvent(none, relation_of(run)),), lower, lacking=(key,))


def batch_of(size: int, rate: float) -> int:
    """Return the units of a batch, rounded up."""
    return min(size, max(1, math.ceil(rate * size * (1.0 - ROUNDING))))


def _with_replacement(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return batches that are drawn with replacement, of units; rounded outward.

    Where a unit has several records, and for what is no single release, a batch counts as moved by
    as many bounds as the unit was drawn into it.
    """
    if run.units is None:
        present = BoundingEvent(_present(run, draws, draws.lower_rate), "add-remove")
        return _lacking_population(run, ((present,),))
    if run.settings.unit == "user" and run.settings.sampled == "records":
        return _not_amplified(run, draws, run.settings.records or run.units)
    if not (run.settings.records_per_user is None and isinstance(draws.upper, _SINGLE_RELEASES)):
        return _not_amplified(run, draws, run.units)
    steps, relation = draws.phase.steps, relation_of(run)
    most = max(1, math.ceil(draws.phase.rate * run.units * (1.0 - ROUNDING)))
    upper = ev.Repeat(steps, ev.WithReplacement(most, run.units, draws.upper))
    hidden = BoundingEvent(_present(run, draws, draws.lower_rate), "add-remove")
    least: LowerEnd = (hidden,)
    fewest = math.floor(draws.lower_rate * run.units * (1.0 + ROUNDING))
    if fewest > 0:
        drawn = ev.Repeat(steps, ev.WithReplacement(fewest, run.units, draws.lower))
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


def _not_amplified(run: CheckedRun, draws: PhaseDraws, units: int) -> RunEvents:
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


def _present(run: CheckedRun, draws: PhaseDraws, rate: float) -> ev.Event:
    """Return steps that a record is in with the probability of one or more of a batch's draws."""
    if run.units is not None and math.floor(rate * run.units * (1.0 + ROUNDING)) == 0:
        return _attained_in_one_step(draws)
    return ev.Repeat(draws.phase.steps, ev.Poisson(presence_in(run, rate), draws.lower))


def presence_in(run: CheckedRun, rate: float) -> float:
    """Return the probability that a batch, drawn with replacement, has a record at least once."""
    if run.units is None:
        # 1 - (1 - 1/n)^(rate n) is never below that, whatever n is.
        return -math.expm1(-rate)
    batch = math.floor(rate * run.units * (1.0 + ROUNDING))
    return min(rate, presence(batch, run.units)) if batch > 0 else rate


def _weighted(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return sums without amplification: the heaviest record may be in every batch.

    A draw by weights without the record is the same draw with one other record in its stead, so a
    sum moves by two norms at most; with replacement, as often as the batch is long.  Some record is
    in a batch at least as often as the mean.
    """
    relation = relation_of(run)
    # An event under replace-one moves twice already.
    moved = draws.batches * (2 if relation == "add-remove" else 1)
    says = "A record is at most once in a batch; nothing is counted as amplified."
    present = BoundingEvent(_present(run, draws, draws.lower_rate), "add-remove")
    if run.settings.weighted_draws == "with-replacement":
        if run.population is None:
            return _lacking_population(run, ((present,),))
        moved *= batch_of(run.population, draws.rate)
        says = "The heaviest record may fill a batch; nothing is counted as amplified."
    return RunEvents(
        (BoundingEvent(ev.Repeat(draws.phase.steps, farther(draws.upper, moved)), relation),),
        ((present,),),
        (says,),
    )


METHODS: Final[dict[str, Sampler]] = {
    "poisson": _poisson,
    "shuffled": _shuffled,
    "fixed-size": _fixed_size,
    "with-replacement": _with_replacement,
    "weighted": _weighted,
    "random-allocation": _allocated,
    "full": full,
}
