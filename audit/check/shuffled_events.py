"""Passes in random order: shuffled batches, and records that are allocated to one batch each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from ...accountant import events as ev
from ...accountant.amplification.occurrences import presence
from .bounding_event import BoundingEvent, LowerEnd, PhaseDraws, RunEvents
from .kept_records import ROUNDING
from .loader_passes import LeastPasses, LoaderPasses, passes_of
from .noise_draws import farther, twice_as_far
from .pinned_run import PinnedRun

LARGEST_TESTED_DELTA: Final = 1e-4
"""Up to this delta the test on large sums is the stronger of the two directions."""


def shuffled(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    """Return epochs of shuffled batches: rounded up for the upper event, down for the lower."""
    passes = passes_of(run, draws.phase)
    relation = run.relation
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
    if share is not None and run.drawn_from is not None and share > run.drawn_from:
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


def _least_passes(run: PinnedRun, draws: PhaseDraws, least: LeastPasses) -> LowerEnd:
    """Return what a reading shows: all batches of its passes, or one of each pass.

    With zeros besides, the batch that a record is in is hidden among all: random allocation.  A
    loader that drops what is left keeps batches of one size, so with records at the other
    bound (or at zero, where the neighbour is zero) one batch moves; and only if the record is kept.
    """
    relation = run.relation
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
        if run.drawn_from is not None:
            batch = max(1, math.floor(draws.lower_rate * run.drawn_from * (1.0 + ROUNDING)))
            rate = least.kept * min(draws.lower_rate, presence(batch, run.drawn_from))
            first_batches = ev.Repeat(least.passes, ev.Poisson(rate, draws.lower))
        return (BoundingEvent(first_batches, "add-remove"),)
    if least.kept < 1.0:
        draw = draws.lower if relation == "zero-out" else twice_as_far(draws.lower)
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


def allocated(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    """Return passes in each of which a record is in one batch, drawn by itself: it moves no other.

    Nothing is counted as amplified above.
    """
    passes = passes_of(run, draws.phase)
    upper = ev.Repeat(passes.most_passes, farther(draws.upper, max(passes.times, draws.batches)))
    return RunEvents(
        (BoundingEvent(upper, run.relation),),
        tuple(_least_allocated(run, draws, _within_passes(passes, each)) for each in passes.least),
    )


def _least_allocated(run: PinnedRun, draws: PhaseDraws, least: LeastPasses) -> LowerEnd:
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
