"""How often a shuffled loader brings a record: passes and their batches, at both open ends.

A loader may keep a smaller last batch or drop it; an epoch may be less than a pass, or several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ..description.run_description import Phase
from .checked_run import CheckedRun
from .noise_draws import LackingFacts

ROUNDING: Final = 1e-9
"""Relative error by which a count of epochs or batches may miss an integer."""


@dataclass(frozen=True)
class LeastPasses:
    """What certainly happened in one reading: `passes` over the data in `batches` batches each.

    `kept` is the probability that a pass does not drop a record with its last batch.  Where the
    batches do not all come from whole passes (`whole` is False) each pass shows one batch only.
    """

    batches: int
    passes: int
    kept: float = 1.0
    whole: bool = True


@dataclass(frozen=True)
class LoaderPasses:
    """At most `most_passes` of `fewest_batches` batches, a record up to `times` in a draw."""

    fewest_batches: int
    most_passes: int
    times: int
    least: tuple[LeastPasses, ...]


def passes_of(run: CheckedRun, phase: Phase) -> LoaderPasses:
    """Return how often a phase with a shuffled loader brings a record, at most and at least.

    Raises `LackingFacts` where an epoch has a stated size and the data has none.
    """
    least_batches, most_batches = run.batches_in_draw
    records, of_epoch = run.units, run.settings.records_per_epoch
    if of_epoch is not None and records is None:
        raise LackingFacts("data.records")
    share = 1.0 if of_epoch is None or records is None else of_epoch / records
    rate = phase.rate * most_batches / min(share, 1.0)
    if "sampling.rate" in run.stated:
        # A rate may be that of an epoch's records, too.
        rate *= max(share, 1.0)
    least = _least(run, phase, share, (phase.rate - run.rate_slack) * least_batches)
    if rate > 1.0 + ROUNDING:
        # A draw goes over more than all records, and may begin and end within a pass.
        return LoaderPasses(1, phase.steps, math.ceil(rate * (1.0 - ROUNDING)) + 1, least)
    fewest = max(1, math.floor(1.0 / rate * (1.0 + ROUNDING)))
    return LoaderPasses(fewest, _most_passes(run, phase, share, fewest), 1, least)


def stated_epochs(run: CheckedRun) -> float | None:
    """Return the epochs that somebody stated of the whole run; None where they are derived."""
    several = bool(run.settings.phases) or run.event is not None
    if several or "schedule.epochs" not in run.stated:
        return None
    return run.settings.epochs


def _epochs_are_passes(run: CheckedRun) -> bool:
    """Return whether epochs are passes of all steps, and not those of each client in a round."""
    settings = run.settings
    return settings.clients_rate in (None, 1.0) and settings.unit == "record"


def _most_passes(run: CheckedRun, phase: Phase, share: float, fewest: int) -> int:
    by_steps = math.ceil(phase.steps / fewest)
    epochs = stated_epochs(run)
    if len(run.settings.phases) > 1:
        # A phase may begin within a pass, and touch one more.
        by_steps += 1
    if epochs is None:
        return by_steps
    # An epoch of more records than there are goes over them several times.
    by_epochs = math.ceil(epochs * (1.0 - ROUNDING)) * max(1, math.ceil(share * (1.0 - ROUNDING)))
    if not _epochs_are_passes(run):
        return max(by_steps, by_epochs)
    if run.steps_are_counted:
        longest = max(1, math.ceil(share / (phase.rate * run.batches_in_draw[0])))
        fits = phase.steps <= math.ceil(epochs) * longest
        return by_epochs if fits else max(by_steps, by_epochs)
    return by_epochs


def _least(run: CheckedRun, phase: Phase, share: float, rate: float) -> tuple[LeastPasses, ...]:
    batches = 1.0 / min(rate, 1.0)
    kept = max(1, math.ceil(batches * (1.0 - ROUNDING)))
    dropping = max(1, math.floor(batches * (1.0 + ROUNDING)))
    stays = min(1.0, dropping * rate)
    if kept == dropping:
        stays = _kept_by_loader(run, dropping)
    epochs = stated_epochs(run)
    steps = phase.steps if run.steps_are_counted or epochs is None else None
    # A phase that begins within a pass completes one fewer.
    cut = 1 if len(run.settings.phases) > 1 else 0
    readings = [LeastPasses(kept, max(0, _passes(steps, epochs, kept) - cut))]
    if stays < 1.0:
        fewest = max(0, _passes(steps, epochs, dropping) - cut)
        readings.append(LeastPasses(dropping, fewest, stays))
        # Where steps and epochs are both stated, they can tell which it was.
        told = [each for each in readings if steps == each.batches * (epochs or 0.0)]
        readings = told[:1] or readings
    if abs(share - 1.0) > ROUNDING:
        drops = stays < 1.0 and abs(share - stays) <= ROUNDING
        if drops:
            return (readings[-1],)
        passes = math.floor((epochs or 0.0) * share * (1.0 + ROUNDING)) if share < 1.0 else 0
        return (LeastPasses(kept, max(1, passes), whole=False),)
    return tuple(readings)


def _kept_by_loader(run: CheckedRun, batches: int) -> float:
    """Return how probably a pass of so many batches brings a record, by what is known of both.

    A rate of one over the batches of a loader may be that of one that drops the rest.
    """
    records, batch = run.units, run.settings.batch
    if "sampling.rate" not in run.stated:
        return 1.0
    if records is None or "sampling.batch" not in run.stated or batch is None:
        return batches / (batches + 1.0) if batches > 1 else 1.0
    return min(1.0, batches * batch * run.batches_in_draw[0] / records)


def _passes(steps: int | None, epochs: float | None, batches: int) -> int:
    """Return the whole passes that epochs and steps, where they are stated, both allow."""
    by_steps = math.inf if steps is None else steps // batches
    if epochs is None:
        return int(by_steps)
    whole = math.floor(epochs * (1.0 + ROUNDING))
    # An incomplete last pass is a matter of rounding.
    return whole if by_steps >= whole - 1 else int(by_steps)
