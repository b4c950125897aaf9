"""Whether the stated steps are those of the stated epochs."""

from __future__ import annotations

import math
from fractions import Fraction

from ..kept_records import ROUNDING
from ..pinned_run import PinnedRun


def steps_agree(run: PinnedRun, together: int, starts: Fraction = Fraction(1)) -> bool:
    """Return whether the stated steps, of so many starts, make the stated epochs.

    A noise draw takes `together` batches.  The last ones of an epoch may be dropped, kept or
    carried over into the next.
    """
    steps, epochs = run.settings.steps, run.settings.epochs
    if steps is None or epochs is None or not are_compared(run):
        return False
    fewest, most = _draws_of_an_epoch(run, together)
    half = Fraction(run.half_unit("schedule.epochs"))
    passes = Fraction(repr(epochs))
    least = max(1, math.floor((passes - half) * fewest))
    return least <= steps * starts <= max(1, math.ceil((passes + half) * most))


def are_compared(run: PinnedRun) -> bool:
    """Return whether steps and epochs are stated, and the epochs are passes of the steps.

    Where clients or users are sampled, epochs can be passes that each makes over its records.
    """
    settings = run.settings
    both = {"schedule.steps", "schedule.epochs"} <= run.stated and settings.rate is not None
    return both and not run.design.takes_wholes and settings.clients_rate in (None, 1.0)


def _draws_of_an_epoch(run: PinnedRun, together: int) -> tuple[Fraction, Fraction]:
    """Return the fewest and the most noise draws of an epoch."""
    settings = run.settings
    size, rate = settings.records_per_epoch or run.population, settings.rate or 1.0
    of_epoch, population = settings.records_per_epoch, run.population
    share = Fraction(1)
    if of_epoch is not None and population is not None:
        share = Fraction(of_epoch, population)
    if settings.method == "full":
        return min(Fraction(1), share), Fraction(max(1, math.ceil(share)))
    if settings.batch is not None and size is not None:
        low = high = Fraction(size, settings.batch)
    else:
        # The rate may be pinned at either end of its digits, and agree at the other.
        half = min(2.0 * run.half_unit("sampling.rate"), 0.5 * rate)
        # A quotient of floats can lie next to a whole number of batches.
        low = Fraction(1.0 / (rate + half) * (1.0 - 1e-9)) * min(Fraction(1), share)
        high = Fraction(1.0 / (rate - half) * (1.0 + 1e-9)) * max(Fraction(1), share)
    fewest = min(low / together, Fraction(max(1, math.floor(low) // together)))
    return fewest, Fraction(-(-math.ceil(high) // together))


def rates_of_steps(run: PinnedRun, low: float, high: float) -> tuple[float, float]:
    """Return the least and the largest rate of a range at which stated steps are stated epochs.

    With k = floor(1 / rate) batches, e epochs are from floor(e k) to ceil(e (k + 1)) steps.  Where
    no rate of the range is among these, all of it is left.
    """
    settings = run.settings
    steps, epochs = settings.steps, settings.epochs
    alone = settings.accumulation == 1 and settings.restarts == 1
    counted = settings.batch is not None and run.population is not None
    if steps is None or epochs is None or not alone or counted or not are_compared(run):
        return low, high
    if settings.method == "full" or settings.records_per_epoch is not None:
        return low, high
    half, passes = Fraction(run.half_unit("schedule.epochs")), Fraction(repr(epochs))
    least, most = low, high
    if passes > half:
        most_batches = math.ceil(Fraction(steps + 1) / (passes - half)) - 1
        least = max(low, (1.0 - ROUNDING) / (most_batches + 1))
    fewest_batches = math.floor(Fraction(steps - 1) / (passes + half))
    if fewest_batches > 0:
        most = min(high, (1.0 + ROUNDING) / fewest_batches)
    return (least, most) if least <= most else (low, high)
