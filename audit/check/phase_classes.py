"""Schedules of many phases as few: each class of phases bounded by the worst and by the best of it.

An accountant convolves one distribution for each different phase, and a scheduler that changes the
noise in every step leaves thousands.  Phases of nearly the same noise and rate are taken together:
for an upper end with the least noise and the highest rate among them, for a lower end with the
most noise and the lowest rate.  More noise is post-processing, and a sample at a lower rate is a
mixture with what does not show the unit, so neither end crosses the truth; steps of independent
draws may stand in any order.

Batches of a shuffled pass are not independent.  There only phases that follow one another are
taken together, and for each such series, which may begin and end within a pass, a pass is added at
the upper end and two are left out at the lower one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from ..description.run_description import Phase

MANY: Final = 100
"""Most different phases that are accounted one by one."""

PHASE_CLASSES: Final = 100
"""About how many classes stand for more."""

MOST_PHASE_WORK: Final = 500
"""Most units of work (`accountant/work_limit.py`) of one event of phases: some 3 seconds."""

SERIES: Final = 1
"""How many series stand for more phases of shuffled passes: each takes many seconds."""

LONGEST_PHASE: Final = 10**8
"""Most steps of a phase that a lower end is computed from: those of its beginning."""

LEAST: Final = 1e-3
"""Noise below this is in one class: on a logarithmic scale it would fill all others."""


@dataclass(frozen=True)
class PhaseEnds:
    """The phases that a run cannot exceed, and those that it cannot fall below."""

    upper: tuple[Phase, ...]
    lower: tuple[Phase, ...]


def ends_of(phases: tuple[Phase, ...], *, in_passes: bool, many: int = MANY) -> PhaseEnds:
    """Return phases for both ends; those of the schedule where it has few different ones.

    `in_passes` says that batches are those of shuffled passes.  `many`, from 1, is how many
    different phases are accounted one by one, and about how many classes stand for more: fewer
    where each takes long.

    >>> ends_of((Phase(1.0, 0.1, 5), Phase(2.0, 0.1, 3), Phase(1.0, 0.1, 2)), in_passes=False).upper
    (Phase(noise_multiplier=1.0, rate=0.1, steps=7), Phase(noise_multiplier=2.0, rate=0.1, steps=3))
    """
    if in_passes:
        if len(phases) <= many:
            return PhaseEnds(phases, _begun(phases))
        series = _series(phases)
        return PhaseEnds(
            tuple(_end(each, min, max, passes=1) for each in series),
            _begun(tuple(_end(each, max, min, passes=-2) for each in series)),
        )
    merged = merged_in_any_order(phases)
    if len(merged) <= many:
        return PhaseEnds(merged, _begun(merged))
    classes = classes_of(merged, min(many, PHASE_CLASSES))
    return PhaseEnds(
        tuple(_end(each, min, max) for each in classes),
        _begun(tuple(_end(each, max, min) for each in classes)),
    )


def _begun(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Return what is released by the beginning of phases, where they are longer than that.

    Lower ends of the engines give out at more steps, and fewer releases show no more.
    """
    return tuple(replace(phase, steps=min(phase.steps, LONGEST_PHASE)) for phase in phases)


def merged_in_any_order(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Return phases with the steps of equal ones added, in the order of their first steps."""
    steps: dict[tuple[float, float], int] = {}
    for phase in phases:
        key = (phase.noise_multiplier, phase.rate)
        steps[key] = steps.get(key, 0) + phase.steps
    return tuple(Phase(noise, rate, count) for (noise, rate), count in steps.items())


def classes_of(phases: Sequence[Phase], count: int = PHASE_CLASSES) -> list[list[Phase]]:
    """Return phases in about `count` classes of nearly the same noise and rate."""
    floor = min((p.noise_multiplier for p in phases if p.noise_multiplier >= LEAST), default=LEAST)
    noises = [max(phase.noise_multiplier, floor) for phase in phases]
    rates = [phase.rate for phase in phases]
    # The fewer different rates there are, the more classes are left to the noise.
    of_rate = min(len(set(rates)), count if len(set(noises)) == 1 else math.isqrt(count))
    by_noise, by_rate = _cells(noises, count // of_rate), _cells(rates, of_rate)
    classes: dict[tuple[int, int, bool], list[Phase]] = {}
    for phase, noise, rate in zip(phases, by_noise, by_rate, strict=True):
        without = phase.noise_multiplier < LEAST
        classes.setdefault((noise, rate, without), []).append(phase)
    return list(classes.values())


def _cells(values: Sequence[float], count: int) -> list[int]:
    """Return the cell of each value, of `count` on a logarithmic scale from least to most."""
    least, most = math.log(min(values)), math.log(max(values))
    width = (most - least) / count
    if width <= 0.0:
        return [0] * len(values)
    return [min(count - 1, int((math.log(value) - least) / width)) for value in values]


def _series(phases: tuple[Phase, ...]) -> list[tuple[Phase, ...]]:
    """Return phases in order, in `SERIES` series of as many each."""
    cuts = [len(phases) * index // SERIES for index in range(SERIES + 1)]
    return [phases[start:end] for start, end in pairwise(cuts)]


def _end(
    phases: Sequence[Phase],
    of_noise: Callable[[list[float]], float],
    of_rate: Callable[[list[float]], float],
    *,
    passes: int = 0,
) -> Phase:
    noise = of_noise([phase.noise_multiplier for phase in phases])
    rate = of_rate([phase.rate for phase in phases])
    steps = sum(phase.steps for phase in phases) + passes * math.ceil(1.0 / rate)
    return Phase(noise, rate, max(1, steps))
