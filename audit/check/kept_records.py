"""How often a record is in batches: where a last one is dropped, and drawn with replacement."""

from __future__ import annotations

import math
from typing import Final

from ..description.run_description import Phase
from .checked_run import PASSES_TOLERANCE
from .pinned_run import PinnedRun

ROUNDING: Final = 1e-9
"""Relative error by which a count of epochs or batches may miss an integer."""


def kept_at_digits(run: PinnedRun, phase: Phase, most: float) -> float:
    """Return the least share of all in whole draws, over rates that are printed as that of a run.

    They make up to `most` draws of a pass, and a loader drops what is left over: most of it just
    before a whole number of draws, so that the share may be least between the ends of the digits.
    """
    half = _open_by(run, phase)
    if half == 0.0:
        return 1.0
    fewest = max(1.0, most * phase.rate / (phase.rate + 2.0 * half))
    whole = math.floor(fewest * (1.0 + ROUNDING)) + 1
    last = max(1.0, most)
    return (whole - 1) / whole if whole <= last * (1.0 + ROUNDING) else math.floor(last) / last


def _open_by(run: PinnedRun, phase: Phase) -> float:
    """Return half of the last digit of a phase's rate, where that is pinned at the lower end."""
    if not run.settings.phases:
        known = batch_share(run, phase.rate) is not None
        return 0.0 if known else run.half_unit("sampling.rate") * run.rate_factor
    half = run.half_unit("schedule.phases")
    # A rate that was chosen as it is printed was not moved, and is a whole number of units.
    units = phase.rate / run.rate_factor / (2.0 * half) if half else 0.0
    return half * run.rate_factor if abs(units - round(units)) > 0.25 else 0.0


def kept_by_loader(run: PinnedRun, phase: Phase, rate: float) -> float:
    """Return how probably a pass in draws of `rate` brings a record, by what is known of both."""
    group, draws = run.settings.accumulation, 1.0 / rate
    share = batch_share(run, phase.rate)
    if share is None:
        whole = abs(draws - round(draws)) <= ROUNDING * draws
        batches = round(draws) if whole else round(group * draws)
        return batches / (batches + 1.0)
    # A batch may be that of the loader, or all of a draw.
    certain = (
        max(1, math.floor(1.0 / each * (1.0 + ROUNDING))) * each for each in (share, share / group)
    )
    return min(1.0, share / phase.rate, *certain)


def rate_is_said(run: PinnedRun) -> bool:
    """Return whether somebody said a rate, in whatever words: it does not follow from a batch."""
    by_event = run.event is not None or run.from_event
    said = "sampling.rate" in run.stated and not run.rate_follows
    return said or bool(run.settings.phases) or by_event


def batch_share(run: PinnedRun, rate: float) -> float | None:
    """Return the batch as a share of all units, as both were counted; None where they were not.

    Where batches are accumulated, it is the share of all of them if `rate` is that of all.
    """
    records, batch = run.drawn_from, run.settings.batch
    if records is None or batch is None or "sampling.batch" not in run.stated:
        return None
    share = batch / records
    together = share * run.settings.accumulation
    return together if abs(together - rate) <= PASSES_TOLERANCE * rate else share


TAIL_SHARE: Final = 0.1
"""The share of delta that pays for batches in which a record occurs more often than is counted."""


def most_occurrences(batch: int, records: int, steps: int, delta: float) -> tuple[int, float]:
    """Return a number m, and the probability that a record is in some batch more than m times.

    A record is in a batch of `batch` draws Binomial(batch, 1/records) times.  The probability is
    summed over `steps` batches and is at most a tenth of `delta`, unless m is `batch`.

    >>> most_occurrences(256, 60000, 3516, 1e-5)[0]
    3
    """
    from scipy.stats import binom

    for most in range(1, batch):
        tail = float(binom.sf(most, batch, 1.0 / records)) * steps
        if tail <= TAIL_SHARE * delta:
            return most, tail
    return batch, 0.0
