"""Phases that end within a pass of a shuffled loader: which of them show a record by themselves.

A record is in one batch of a pass, so phases that share a pass do not show it independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from ..description.run_description import Phase
from .checked_run import CheckedRun
from .loader_passes import ROUNDING, passes_of


def independent_phases(
    run: CheckedRun, phases: Sequence[Phase], *, of_full_draws: bool = False
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


def in_pairs(run: CheckedRun, phases: Sequence[Phase]) -> tuple[Phase, ...]:
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


def _may_be_small(run: CheckedRun, phase: Phase) -> bool:
    return not all(each.alike for each in passes_of(run, phase).least)


def _weakness(phase: Phase) -> tuple[float, float]:
    return phase.noise_multiplier, -phase.rate


def _starts(phases: Sequence[Phase]) -> list[float]:
    """Return the passes before each phase, at least: those of a loader that keeps all batches."""
    passes = (phase.steps / math.ceil((1.0 - ROUNDING) / phase.rate) for phase in phases)
    return [0.0, *accumulate(passes)][:-1]
