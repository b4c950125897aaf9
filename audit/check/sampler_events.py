"""What a way of drawing batches proves: one function for each, and for who is protected.

An upper event is one that the run cannot exceed under any reading that its description leaves
open; a lower event is attained by some data under all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...accountant import events as ev
from ...accountant.guarantee import Neighbours, as_neighbours
from ..description.run_description import Phase
from .bounding_event import BoundingEvent, PhaseDraws, RunEvents
from .checked_run import CheckedRun
from .noise_draws import LackingFacts, farther
from .with_replacement import most_occurrences, presence

ROUNDING: Final = 1e-9
"""Relative error by which a count of epochs or batches may miss an integer."""

Sampler = Callable[[CheckedRun, PhaseDraws], RunEvents]


def sampler_of(run: CheckedRun, method: str) -> Sampler:
    """Return what bounds a phase: by the way of drawing, and by who is protected."""
    settings = run.settings
    if settings.unit == "silo" and settings.clients_rate is None and of_records(run):
        return _silo
    batches_of_records = settings.clients_rate is None and of_records(run)
    if settings.unit == "user" and batches_of_records and settings.records_per_user is None:
        raise LackingFacts("data.records_per_user")
    clients = settings.clients_rate is not None and settings.rate is not None
    if clients and (settings.unit == "record" or settings.records_per_user is not None):
        return _client(_METHODS[method])
    return _METHODS[method]


def of_records(run: CheckedRun) -> bool:
    """Return whether batches are batches of records, though the unit is more than a record."""
    settings = run.settings
    units = run.units
    if units is None:
        return settings.records is not None or settings.unit == "silo"
    return settings.batch is not None and settings.batch > units


def _relation(run: CheckedRun) -> Neighbours:
    return as_neighbours(run.settings.neighbours)


def _attained_in_one_step(draws: PhaseDraws) -> ev.Event:
    """Return what a single step shows: the unit in it with its rate, and zeros besides."""
    return ev.Poisson(draws.lower_rate, draws.lower)


def _poisson(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    steps, relation = draws.phase.steps, _relation(run)
    upper = ev.Repeat(steps, ev.Poisson(draws.upper_rate, draws.upper))
    lower = ev.Repeat(steps, ev.Poisson(draws.lower_rate, draws.lower))
    return RunEvents(BoundingEvent(upper, relation), (BoundingEvent(lower, relation),))


def _full(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    steps, relation = draws.phase.steps, _relation(run)
    return RunEvents(
        BoundingEvent(ev.Repeat(steps, draws.upper), relation),
        (BoundingEvent(ev.Repeat(steps, draws.lower), relation),),
    )


def _shuffled(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return epochs of shuffled batches: rounded up for the upper event, down for the lower."""
    relation = _relation(run)
    batches = max(1, math.ceil(1.0 / draws.lower_rate * (1.0 - ROUNDING)))
    fewest = max(1, math.ceil(1.0 / draws.upper_rate * (1.0 - ROUNDING)))
    most_epochs, least_epochs = epochs_of(run, draws.phase, batches, fewest)
    upper = ev.Repeat(most_epochs, ev.ShuffledBatches(fewest, draws.upper))
    # With zeros besides, the batch that a record is in is hidden among all: random allocation.
    lower, alone = _attained_in_one_step(draws), _attained_in_one_step(draws)
    if least_epochs:
        lower = ev.Repeat(least_epochs, ev.ShuffledBatches(batches, draws.lower))
        alone = ev.Repeat(least_epochs, ev.RandomAllocation(batches, 1, draws.lower))
    return RunEvents(
        BoundingEvent(upper, relation),
        (BoundingEvent(lower, relation), BoundingEvent(alone, "add-remove")),
        (f"An epoch has {fewest:,} batches, each in a fresh random order that nobody sees.",),
    )


def epochs_of(run: CheckedRun, phase: Phase, batches: int, fewest: int) -> tuple[int, int]:
    """Return how many epochs there were at most, and how many whole ones at least."""
    epochs = run.settings.epochs
    if epochs is not None and not run.settings.phases:
        return math.ceil(epochs * (1.0 - ROUNDING)), math.floor(epochs * (1.0 + ROUNDING))
    return math.ceil(phase.steps / fewest), phase.steps // batches


def _fixed_size(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    relation = _relation(run)
    batch, records = batch_and_records(run, draws.lower_rate)
    most, _ = batch_and_records(run, draws.upper_rate)
    steps = draws.phase.steps
    return RunEvents(
        BoundingEvent(ev.Repeat(steps, ev.FixedSize(most, records, draws.upper)), relation),
        (BoundingEvent(ev.Repeat(steps, ev.FixedSize(batch, records, draws.lower)), relation),),
    )


def batch_and_records(run: CheckedRun, rate: float) -> tuple[int, int]:
    """Return the size of a batch and of the data; raise `LackingFacts` where these are unknown."""
    units = run.units
    if units is None:
        raise LackingFacts("data.records")
    return min(units, max(1, round(rate * units))), units


def _with_replacement(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return sums that a record moves as often as it was drawn, without amplification.

    Draws of the record are exchanged for draws of others, which moves each by two norms (by one
    under zero-out).  From below: with zeros besides, more occurrences only move the sum farther,
    so Poisson sampling at the rate of one or more of them is never above.
    """
    steps = draws.phase.steps
    batch, records = batch_and_records(run, draws.lower_rate)
    # All batches of a draw together are one longer batch.
    drawn, _ = batch_and_records(run, draws.upper_rate)
    most, tail = most_occurrences(drawn, records, steps, draws.delta)
    moved = most if run.settings.neighbours == "zero-out" else 2 * most
    upper = ev.Repeat(steps, farther(draws.upper, moved))
    lower = ev.Repeat(steps, ev.Poisson(presence(batch, records), draws.lower))
    return RunEvents(
        BoundingEvent(upper, "add-remove", tail),
        (BoundingEvent(lower, "add-remove"),),
        (
            f"A record is drawn at most {most} times into a batch, except with probability "
            f"{tail:.1e}, which is taken from delta; nothing is counted as amplified.",
        ),
    )


def _weighted(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return sums without amplification: the heaviest record may be in every batch.

    A draw by weights without the record is the same draw with one other record in its stead, so
    a sum moves by two norms at most.  Some record is in a batch at least as often as the mean.
    """
    steps = draws.phase.steps
    relation: Neighbours = "zero-out" if run.settings.neighbours == "zero-out" else "replace-one"
    # With replacement a mean number of draws is a little less than that probability of presence.
    rate = draws.lower_rate
    if run.units is not None:
        rate = min(rate, presence(batch_and_records(run, rate)[0], run.units))
    return RunEvents(
        BoundingEvent(ev.Repeat(steps, draws.upper), relation),
        (BoundingEvent(ev.Repeat(steps, ev.Poisson(rate, draws.lower)), "add-remove"),),
        ("A record is at most once in a batch; nothing is counted as amplified.",),
    )


def _silo(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
    """Return a silo that is there in every step: a sample of its records does not hide it."""
    whole = _full(run, draws)
    return replace(
        whole,
        lower=(BoundingEvent(_attained_in_one_step(draws), "add-remove"),),
        conditions=("A sample of records does not hide a silo: nothing is counted as amplified.",),
    )


def _client(method: Sampler) -> Sampler:
    """Return the client's releases in all rounds: a draw of clients hides nothing from itself.

    Both draws together hide a record in a single step with the product of the rates; from step
    to step the draw of clients need not be fresh, so only one step bounds it from below.
    """

    def events(run: CheckedRun, draws: PhaseDraws) -> RunEvents:
        each = method(run, draws)
        clients_rate = run.settings.clients_rate or 1.0
        rate = clients_rate * draws.lower_rate
        once = BoundingEvent(ev.Poisson(rate, draws.lower), "add-remove")
        return replace(
            each,
            lower=(once,),
            conditions=(
                *each.conditions,
                "A client may take part in every round: the draw of clients is not counted.",
            ),
        )

    return events


_METHODS: Final[dict[str, Sampler]] = {
    "poisson": _poisson,
    "shuffled": _shuffled,
    "fixed-size": _fixed_size,
    "with-replacement": _with_replacement,
    "weighted": _weighted,
    "full": _full,
}
