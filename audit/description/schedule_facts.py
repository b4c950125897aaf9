"""Steps and epochs: each from the other, and held against each other."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.validate import LARGEST_COUNT
from .agreement import WorkingFacts, shown
from .sampling_facts import BATCH, OF_UNIT, RATE, population_key

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

    Where clients are sampled, or batches are made of users or silos, people count the passes that
    each makes over its records in one round; these tell nothing of the rounds.
    """
    clients = working.number("sampling.clients_rate")
    return (clients is None or clients == 1.0) and population_key(working) not in OF_UNIT.values()


def _compare(working: WorkingFacts, epochs: float, steps: int, batches: Fraction) -> None:
    """Allow every usual way to count: an incomplete batch kept, dropped or carried over."""
    half_unit = Fraction(working.half_unit(EPOCHS))
    passes = Fraction(repr(epochs))
    counts = {steps, steps * (working.count("schedule.restarts") or 1)}
    for accumulated in {1, working.count("schedule.accumulation") or 1}:
        draws = batches / accumulated
        least = math.floor((passes - half_unit) * max(math.floor(draws), 1))
        if draws < 1:
            least = math.floor((passes - half_unit) * draws)
        most = math.ceil((passes + half_unit) * math.ceil(draws))
        rounding = _rounding(working, passes, batches)
        if any(least - rounding <= count <= most + rounding for count in counts):
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


def _rounding(working: WorkingFacts, passes: Fraction, batches: Fraction) -> Fraction:
    """Return by how many steps the printed digits of a rate leave the answer open."""
    rate, half_unit = working.number(RATE), working.half_unit(RATE)
    if BATCH in working and epoch_size(working) is not None:
        return Fraction(0)
    if rate is None or half_unit == 0.0 or half_unit >= rate:
        return Fraction(0)
    # A float of a rate can lie above the exact quotient by its own rounding.
    open_by = passes * (Fraction(1) / (Fraction(rate) - Fraction(half_unit)) - batches)
    return max(Fraction(0), open_by)


def _text(batches: Fraction) -> str:
    return f"{batches.numerator:,}" if batches.denominator == 1 else f"{float(batches):,.2f}"
