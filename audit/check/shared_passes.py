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


def independent_phases(run: CheckedRun, phases: Sequence[Phase]) -> list[int]:
    """Return the indices of phases that show a record independently of each other, in order.

    Those that complete a pass do.  Of the others some are chosen, those with most to show first,
    whose first steps are a whole pass apart.
    """
    incomplete = {
        index
        for index, phase in enumerate(phases)
        if min(each.passes for each in passes_of(run, phase).least) == 0
    }
    starts = _starts(run, phases)
    chosen: list[int] = []
    for index in sorted(incomplete, key=lambda index: _weakness(phases[index])):
        if all(abs(starts[index] - starts[other]) >= 1.0 - ROUNDING for other in chosen):
            chosen.append(index)
    return [index for index in range(len(phases)) if index not in incomplete or index in chosen]


def _weakness(phase: Phase) -> tuple[float, float]:
    return phase.noise_multiplier, -phase.rate


def _starts(run: CheckedRun, phases: Sequence[Phase]) -> list[float]:
    """Return the passes before each phase, at least: those of a loader that keeps all batches."""
    fewest = run.batches_in_draw[0]
    passes = (phase.steps / math.ceil((1.0 - ROUNDING) / (phase.rate * fewest)) for phase in phases)
    return [0.0, *accumulate(passes)][:-1]
