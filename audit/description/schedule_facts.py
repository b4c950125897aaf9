"""The schedule: steps and epochs from each other.

What is stated twice is held against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.validate import LARGEST_COUNT
from .agreement import WorkingFacts, shown
from .sampling_facts import (
    BATCH,
    OF_UNIT,
    RATE,
    kinds_of_batch,
    population_is_counted,
    population_key,
)

STEPS: Final = "schedule.steps"
EPOCHS: Final = "schedule.epochs"
EPOCH_RECORDS: Final = "schedule.records_per_epoch"
WHOLE_TOLERANCE: Final = 1e-6
"""A quotient this near to a whole number, relatively, is that number."""


def batches_per_epoch(working: WorkingFacts) -> Fraction | None:
    """Return the noise draws of one epoch, not rounded: records / batch, or 1 / rate.

    A rate that a program computed as 1 / 235 is 235 batches again.
    """
    if working.word("sampling.method", "unknown") == "full":
        return Fraction(1)
    batch, size = working.count(BATCH), epoch_size(working)
    if batch is not None and size is not None:
        return Fraction(size, batch)
    rate = working.number(RATE)
    if rate is None:
        return None
    batches = 1.0 / rate
    whole = round(batches)
    near = abs(batches - whole) <= WHOLE_TOLERANCE * batches
    return Fraction(whole) if near else Fraction(batches)


def epoch_size(working: WorkingFacts) -> int | None:
    """Return how many records, or users, one epoch passes over."""
    size = working.count(EPOCH_RECORDS)
    if size is not None:
        return size
    key = population_key(working)
    if working.word("sampling.sampled", "") == "records":
        key = "data.records"
    return None if key is None else working.count(key)


def complete_schedule(working: WorkingFacts) -> None:
    """Derive steps or epochs, or name what contradicts them."""
    phases = working.phases()
    if phases:
        total = _few_enough(sum(phase.steps for phase in phases))
        working.derive(STEPS, total, "the sum of all phases")
        if working.count(STEPS) != total:
            says = (
                f"steps = {shown(working.count(STEPS))} and phases of {shown(total)} steps "
                "cannot both be true"
            )
            working.contradict(STEPS, says, STEPS, "schedule.phases")
    batches = batches_per_epoch(working)
    epochs, steps = working.number(EPOCHS), working.count(STEPS)
    if batches is None:
        return
    if steps is None and epochs is not None and _are_passes(working):
        draws = _few_enough(math.ceil(Fraction(repr(epochs)) * batches))
        working.derive(
            STEPS, draws, f"epochs x batches of one = {shown(epochs)} x {_text(batches)}"
        )
    elif epochs is None and steps is not None:
        passes = steps / math.ceil(batches)
        working.derive(
            EPOCHS, passes, f"steps / batches of an epoch = {shown(steps)} / {math.ceil(batches):,}"
        )
    elif epochs is not None and steps is not None and _are_passes(working):
        _compare(working, epochs, steps, batches)


def _few_enough(steps: int) -> int:
    """Return a number of steps; refuse one that no run makes."""
    if steps > LARGEST_COUNT:
        raise InvalidInput(
            "The schedule would have more than 10^18 steps.",
            "No run makes so many.",
            "Correct epochs, rate or phases.",
        )
    return steps


def _are_passes(working: WorkingFacts) -> bool:
    """Return whether epochs are passes of the steps over the data.

    Where clients are sampled, or users or silos are drawn, people count the passes that each makes
    over its records in one round; these tell nothing of the rounds.
    """
    clients = working.number("sampling.clients_rate")
    if clients is not None and clients != 1.0:
        return False
    sampled, unit = working.word("sampling.sampled", ""), working.word("claim.unit", "record")
    single = unit != "silo" and working.count("data.records_per_user") == 1
    if sampled == "records" or single:
        return True
    key = population_key(working)
    # Batches of records go over the records, whoever is protected.
    of_records = unit == "record" or key is not None
    return sampled != "users" and of_records and key not in OF_UNIT.values()


def _compare(working: WorkingFacts, epochs: float, steps: int, batches: Fraction) -> None:
    """Allow every usual way to count: an incomplete batch kept, dropped or carried over."""
    rate = working.facts.get(RATE)
    follows = rate is None or rate.provenance == "derived"
    if BATCH in working and follows and not population_is_counted(working):
        return  # nobody counted what epochs go over
    half_unit = Fraction(working.half_unit(EPOCHS))
    passes = Fraction(repr(epochs))
    # Steps may be those of one start, or of all; so may epochs.
    restarts = working.count("schedule.restarts") or 1
    counts = {Fraction(steps), Fraction(steps * restarts), Fraction(steps, restarts)}
    several = {1, working.count("schedule.accumulation") or 1}
    ranges = [_range_of_batches(working, batches), *_of_other_kinds(working)]
    for (fewest, largest), accumulated in product(ranges, several):
        low, high = fewest / accumulated, largest / accumulated
        least = math.floor((passes - half_unit) * (low if low < 1 else math.floor(low)))
        most = math.ceil((passes + half_unit) * math.ceil(high))
        if any(least <= count <= most for count in counts):
            return
    implied = math.ceil(passes * batches)
    is_counted = BATCH in working and epoch_size(working) is not None
    known = (BATCH, "data.records", EPOCH_RECORDS) if is_counted else (RATE,)
    working.contradict(
        STEPS,
        f"steps = {shown(steps)} and epochs = {shown(epochs)} ({implied:,} steps) "
        "cannot both be true",
        STEPS,
        EPOCHS,
        *(key for key in known if key in working),
    )


def _of_other_kinds(working: WorkingFacts) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the noise draws of an epoch over each of what a batch may be drawn from."""
    batch = working.count(BATCH)
    if batch is None or EPOCH_RECORDS in working:
        return
    for key in kinds_of_batch(working):
        size = working.count(key)
        if size is not None and size >= batch:
            yield Fraction(size, batch), Fraction(size, batch)


def _range_of_batches(working: WorkingFacts, batches: Fraction) -> tuple[Fraction, Fraction]:
    """Return the fewest and the most noise draws of an epoch that the facts allow, not rounded.

    The printed digits of a rate leave them open, and so does an epoch of other records than all.
    """
    low = high = batches
    rate, half_unit = working.number(RATE), working.half_unit(RATE)
    batch = working.facts.get(BATCH)
    counted = batch is not None and batch.provenance != "derived"
    if not (counted and epoch_size(working) is not None) and rate and 0.0 < half_unit < rate:
        # A float of a rate can lie next to the exact quotient by its own rounding.
        low = min(low, 1 / (Fraction(rate) + Fraction(half_unit)))
        high = max(high, 1 / (Fraction(rate) - Fraction(half_unit)))
    of_epoch, key = working.count(EPOCH_RECORDS), population_key(working)
    size = None if key is None else working.count(key)
    if of_epoch is not None and size is not None and not counted:
        share = Fraction(of_epoch, size)
        low, high = low * min(Fraction(1), share), high * max(Fraction(1), share)
    return low, high


def _text(batches: Fraction) -> str:
    return f"{batches.numerator:,}" if batches.denominator == 1 else f"{float(batches):,.2f}"
