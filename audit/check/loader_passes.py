"""How often a shuffled loader brings a record: passes and their batches, at both open ends.

A loader may keep a smaller last batch or drop it; an epoch may be less than a pass, or several.

Phases that end within a pass of a shuffled loader: which of them show a record by themselves.

A record is in one batch of a pass, so phases that share a pass do not show it independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from ..description.run_description import Phase
from .flattening import as_stated_draws
from .kept_records import ROUNDING, kept_at_digits, kept_by_loader, rate_is_said
from .noise_draws import LackingFacts
from .pinned_run import PinnedRun


def independent_phases(
    run: PinnedRun, phases: Sequence[Phase], *, of_full_draws: bool = False
) -> list[int]:
    """Return the indices of phases that show a record independently of each other, in order.

    Those that complete a pass do.  Of the others some are chosen, those with most to show first,
    whose first steps are a whole pass apart; `of_full_draws` leaves out a single step that may be
    the last of a pass, which may be small.
    """
    least = [passes_of(run, phase).least for phase in phases]
    incomplete = {
        index for index, ways in enumerate(least) if min(each.passes for each in ways) == 0
    }
    small = {
        index
        for index in incomplete
        if index > 0 and phases[index].steps == 1 and _may_be_small(run, phases[index])
    }
    candidates = incomplete - small if of_full_draws else incomplete
    starts = _starts(phases)
    chosen: list[int] = []
    for index in sorted(candidates, key=lambda index: _weakness(phases[index])):
        if all(abs(starts[index] - starts[other]) >= 1.0 - ROUNDING for other in chosen):
            chosen.append(index)
    return [index for index in range(len(phases)) if index not in incomplete or index in chosen]


def in_pairs(run: PinnedRun, phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Return phases with neighbours of a single step each taken together, at the weaker of both.

    The last draw of a pass may be small, and a single step may be that one; of two steps one is
    not.  More noise is post-processing.
    """
    taken: list[Phase] = []
    for phase in phases:
        # The first step of a run begins a pass, and stays by itself.
        before = taken[-1] if len(taken) > 1 else None
        alone = before is not None and before.steps == phase.steps == 1
        if before is not None and alone and before.rate == phase.rate and _may_be_small(run, phase):
            noise = max(before.noise_multiplier, phase.noise_multiplier)
            taken[-1] = Phase(noise, phase.rate, 2)
        else:
            taken.append(phase)
    return tuple(taken)


def _may_be_small(run: PinnedRun, phase: Phase) -> bool:
    return not all(each.alike for each in passes_of(run, phase).least)


def _weakness(phase: Phase) -> tuple[float, float]:
    return phase.noise_multiplier, -phase.rate


def _starts(phases: Sequence[Phase]) -> list[float]:
    """Return the passes before each phase, at least: those of a loader that keeps all batches."""
    passes = (phase.steps / math.ceil((1.0 - ROUNDING) / phase.rate) for phase in phases)
    return [0.0, *accumulate(passes)][:-1]


_IN_PARTS: Final = 0.75
"""The least probability that one of two parts with u > 1 of a pass each in sum brings a record:
1 - (1 - i)(1 - j) with i + j = u is u - u^2 / 4 or more, and u can be taken in (1, 2]."""


@dataclass(frozen=True)
class LeastPasses:
    """What certainly happened in one reading: `passes` over the data in `batches` batches each.

    `kept` is the probability that a pass does not drop a record with its last batch, and `drawn`
    that a full draw has it; the last draw of a pass may have less, unless draws are `alike`.  Where
    the batches do not all come from whole passes (`whole` is False) each pass shows one batch only.
    """

    batches: int
    passes: int
    kept: float = 1.0
    drawn: float = 1.0
    alike: bool = True
    whole: bool = True


@dataclass(frozen=True)
class LoaderPasses:
    """At most `most_passes` of `fewest_batches` batches, a record up to `times` in a draw.

    `single` says that a pass is certainly one batch of all records, of which none is dropped.
    `spans` says that a draw may take the last batches of one pass with the first of the next, and
    `inside` that some draw of every pass takes batches of that pass alone even so.
    """

    fewest_batches: int
    most_passes: int
    times: int
    least: tuple[LeastPasses, ...]
    single: bool = False
    spans: bool = False
    inside: bool = True


def passes_of(run: PinnedRun, phase: Phase) -> LoaderPasses:
    """Return how often a phase with a shuffled loader brings a record, at most and at least.

    Raises `LackingFacts` where an epoch has a stated size and the data has none.
    """
    records, of_epoch = run.drawn_from, run.settings.records_per_epoch
    if of_epoch is not None and records is None:
        raise LackingFacts("data.records")
    share = 1.0 if of_epoch is None or records is None else of_epoch / records
    rate = phase.rate / min(share, 1.0)
    if "sampling.rate" in run.stated and not run.rate_follows:
        # A rate may be that of an epoch's records, too.
        rate *= max(share, 1.0)
    least = _least(run, phase, share, phase.rate)
    if rate > 1.0 + ROUNDING:
        # A draw goes over more than all records, and may begin and end within a pass.
        return LoaderPasses(1, phase.steps, math.ceil(rate * (1.0 - ROUNDING)) + 1, least)
    fewest = max(1, math.floor(1.0 / rate * (1.0 + ROUNDING)))
    most = _most_passes(run, phase, share, fewest)
    spans, inside = _spans(run, phase.rate)
    if spans and run.steps_are_counted:
        least = tuple(_completed(run, phase, each) for each in least)
    return LoaderPasses(fewest, most, 1, least, _is_single(run, rate), spans, inside)


def _completed(run: PinnedRun, phase: Phase, least: LeastPasses) -> LeastPasses:
    """Return no more passes than so many draws complete that take batches of two."""
    group = run.settings.accumulation
    batches = math.ceil(group / phase.rate * (1.0 - ROUNDING))
    return replace(least, passes=min(least.passes, phase.steps * group // batches))


def _spans(run: PinnedRun, rate: float) -> tuple[bool, bool]:
    """Return whether a draw may take batches of two passes, and whether another one never does.

    It cannot where the batches of a pass are counted, and are whole groups.
    """
    group = run.settings.accumulation
    if group == 1:
        return False, True
    batches = group / rate
    most = math.ceil(batches * (1.0 - ROUNDING))
    full = math.floor(batches * (1.0 + ROUNDING))
    whole = most == full and full % group == 0 and not rate_is_said(run)
    return not whole, full - 1 >= 2 * group - 1


def _is_single(run: PinnedRun, rate: float) -> bool:
    """Return whether a pass is certainly one batch: of all records, as somebody counted them."""
    settings = run.settings
    counted = {"sampling.batch", "data.records"} <= run.stated and settings.batch is not None
    if rate < 1.0 - ROUNDING or not counted or settings.accumulation > 1:
        return False
    epoch = settings.records_per_epoch
    return settings.batch == settings.records == run.units and epoch in (None, settings.records)


def _has_several_phases(run: PinnedRun) -> bool:
    if run.event is not None:
        return len(as_stated_draws(run.event) or ()) > 1
    return len(run.settings.phases) > 1


def stated_epochs(run: PinnedRun) -> float | None:
    """Return the epochs that somebody stated of the whole run, if they are passes of its steps.

    None where they are derived, and where each client, user or silo may make them in a round.
    """
    several = bool(run.settings.phases) or run.event is not None
    if several or "schedule.epochs" not in run.stated or not _epochs_are_passes(run):
        return None
    return run.settings.epochs


def _epochs_are_passes(run: PinnedRun) -> bool:
    settings = run.settings
    if settings.clients_rate not in (None, 1.0):
        return False
    single = settings.unit == "user" and settings.records_per_user == 1
    of_records = settings.unit == "record" and settings.sampled != "users"
    return of_records or single or settings.sampled == "records"


def _most_passes(run: PinnedRun, phase: Phase, share: float, fewest: int) -> int:
    by_steps = math.ceil(phase.steps / fewest)
    epochs = stated_epochs(run)
    if _has_several_phases(run):
        # A phase may begin within a pass, and touch one more.
        by_steps += 1
    if epochs is None:
        return by_steps
    # An epoch of more records than there are goes over them several times.
    by_epochs = math.ceil(epochs * (1.0 - ROUNDING)) * max(1, math.ceil(share * (1.0 - ROUNDING)))
    if run.steps_are_counted:
        longest = max(1, math.ceil(share / phase.rate))
        fits = phase.steps <= math.ceil(epochs) * longest
        return by_epochs if fits else max(by_steps, by_epochs)
    return by_epochs


def _least(run: PinnedRun, phase: Phase, share: float, rate: float) -> tuple[LeastPasses, ...]:
    """Return what happened in each reading of a loader whose draws are `rate` of all records.

    A loader keeps its last batch or drops it, and of several batches in a draw those that are left
    over in a pass get a draw of their own or none.
    """
    epochs = stated_epochs(run)
    steps = phase.steps if run.steps_are_counted or epochs is None else None
    ways = _ways_through(run, phase, rate)
    # A rate may be that of an epoch's records.
    partial = min(1.0, share) if rate_is_said(run) else 1.0
    # A phase that begins within a pass completes one fewer.
    cut = 1 if _has_several_phases(run) else 0
    if rate > 1.0 + ROUNDING:
        # Each draw has every record, of one pass or of two.
        by_epochs = math.inf if epochs is None else math.floor(epochs / rate * (1.0 + ROUNDING))
        draws = max(0, int(min(by_epochs, math.inf if steps is None else steps)) - cut)
        # A draw that ends one pass and begins another may lack a record in either.
        drawn = min(_IN_PARTS, *(each.drawn for each in ways))
        if abs(share - 1.0) > ROUNDING:
            return (LeastPasses(1, 0, drawn=drawn * partial),)
        # Of a loader that drops records, two draws hold a whole pass, in one of them or in both.
        halves = [LeastPasses(2, draws // 2, each.kept, drawn) for each in ways if each.kept < 1.0]
        return (LeastPasses(1, draws, drawn=drawn), *halves)
    readings = [
        replace(each, passes=max(0, _passes(steps, epochs, each.batches) - cut)) for each in ways
    ]
    # Where steps and epochs are both stated, they can tell which it was.
    told = [each for each in readings if steps == each.batches * (epochs or 0.0)]
    readings = told or readings
    if abs(share - 1.0) > ROUNDING:
        drops = [
            each for each in readings if each.kept < 1.0 and abs(share - each.kept) <= ROUNDING
        ]
        if drops:
            return tuple(drops)
        passes = math.floor((epochs or 0.0) * share * (1.0 + ROUNDING)) if share < 1.0 else 0
        least = partial * min(each.drawn for each in ways) / rate
        return (replace(ways[0], passes=max(1, passes), kept=least, whole=False),)
    return tuple(readings)


def _ways_through(run: PinnedRun, phase: Phase, rate: float) -> tuple[LeastPasses, ...]:
    """Return one pass of each loader whose draws are `rate` of all records.

    The first keeps everything, the second drops its last batch and keeps all groups of batches, the
    third releases full groups only.
    """
    group = run.settings.accumulation
    batches, said = group / rate, 1.0
    most = max(1, math.ceil(batches * (1.0 - ROUNDING)))
    full = max(1, math.floor(batches * (1.0 + ROUNDING)))
    exact = not rate_is_said(run)
    if most == full and not exact:
        # A rate of one over the batches of a loader may be that of one that drops the rest.
        said = kept_by_loader(run, phase, rate)
    draws = -(-most // group)
    even = exact and most == full and full % group == 0
    ways = [LeastPasses(draws, 1, 1.0, min(1.0, rate), even or draws == 1)]
    kept, drawn = min(1.0, full * rate / group) * said, min(1.0, rate * said)
    kept = min(kept, kept_at_digits(run, phase, batches))
    groups = full // group
    if kept < 1.0:
        alike = group == 1 or (exact and full % group == 0)
        flushed = -(-full // group)
        ways.append(LeastPasses(flushed, 1, kept, min(kept, drawn), alike or flushed == 1))
    of_groups = kept_at_digits(run, phase, batches / group)
    if 0 < groups < -(-full // group) or 0 < groups < draws or (groups > 0 and of_groups < 1.0):
        of_groups = min(of_groups, kept * groups * group / full)
        ways.append(LeastPasses(groups, 1, of_groups, drawn))
    return tuple(dict.fromkeys(ways))


def _passes(steps: int | None, epochs: float | None, batches: int) -> int:
    """Return the whole passes that epochs and steps, where they are stated, both allow."""
    by_steps = math.inf if steps is None else steps // batches
    if epochs is None:
        return int(by_steps)
    whole = math.floor(epochs * (1.0 + ROUNDING))
    # An incomplete last pass is a matter of rounding.
    return whole if by_steps >= whole - 1 else int(by_steps)
