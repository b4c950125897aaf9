"""The phases that an accountant is fed with for a run's settings."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Final

from ...accountant import events as ev
from ..description.run_description import Phase
from ..description.run_settings import RunSettings

FAMILIES = ("gaussian", "discrete-gaussian", "laplace")
"""Families of noise for which accountants are computed here."""

FEW_PHASES: Final = 24
"""Most different phases that values are computed from; each takes some ten milliseconds."""


def phases_of(settings: RunSettings) -> tuple[Phase, ...]:
    """Return noise multiplier, rate and steps of each phase; empty where something is missing.

    Without a rate and without a sampler the release is taken as unsampled; microbatches and
    accumulation are not worked in, as accountants are not told of them.
    """
    if settings.phases:
        return settings.phases
    noise, steps, rate = settings.noise_multiplier, settings.steps, rate_of(settings)
    if not noise or noise <= 0.0 or rate is None:
        return ()
    if steps is None and settings.epochs is not None:
        steps = math.ceil(settings.epochs * (settings.steps_per_epoch or 1))
    return (Phase(noise, rate, steps),) if steps else ()


def with_few_phases(settings: RunSettings) -> RunSettings:
    """Return settings whose schedule has at most about `FEW_PHASES` different phases.

    Equal phases are added, and phases of nearly the same noise and rate become one, with the means
    of rate^2 / noise^2 and of rate^2 over their steps.  With a scheduler's smooth noise, values
    change by less than 0.1 %.
    """
    if len(settings.phases) <= FEW_PHASES:
        return settings
    in_order = [_mean(list(equal)) for _, equal in groupby(settings.phases, key=_noise_and_rate)]
    if len(in_order) <= FEW_PHASES:
        return replace(settings, phases=tuple(in_order))
    ordered = sorted(in_order, key=_noise_and_rate)
    merged = [_mean(list(equal)) for _, equal in groupby(ordered, key=_noise_and_rate)]
    if len(merged) > FEW_PHASES:
        cuts = [len(merged) * index // FEW_PHASES for index in range(FEW_PHASES + 1)]
        merged = [_mean(merged[start:end]) for start, end in pairwise(cuts)]
    return replace(settings, phases=tuple(merged))


def _noise_and_rate(phase: Phase) -> tuple[float, float]:
    return phase.noise_multiplier, phase.rate


def _mean(phases: list[Phase]) -> Phase:
    """Return one phase for several, which has the divergence that they have to second order."""
    if len(set(map(_noise_and_rate, phases))) == 1:
        return replace(phases[0], steps=sum(phase.steps for phase in phases))
    if phases[0].noise_multiplier <= 0.0:
        return replace(phases[0], steps=sum(phase.steps for phase in phases))
    steps = sum(phase.steps for phase in phases)
    squares = sum(phase.steps * phase.rate**2 for phase in phases) / steps
    ratios = sum(phase.steps * (phase.rate / phase.noise_multiplier) ** 2 for phase in phases)
    return Phase(math.sqrt(squares * steps / ratios), min(1.0, math.sqrt(squares)), steps)


def rate_of(settings: RunSettings) -> float | None:
    """Return the rate in (0, 1] that an accountant is told, or None."""
    if settings.method == "full":
        return 1.0
    rate = settings.rate
    if rate is None and settings.batch and settings.records:
        rate = settings.batch / settings.records
    if rate is None or settings.unit in ("user", "silo"):
        rate = settings.clients_rate if settings.clients_rate is not None else rate
    if rate is None:
        return 1.0 if settings.method == "unknown" else None
    return min(rate, 1.0) if rate > 0.0 else None


def once_an_epoch(settings: RunSettings) -> RunSettings | None:
    """Return the settings with every record in one unsampled release per epoch, if that differs."""
    phases = phases_of(settings)
    if not phases or all(phase.rate >= 1.0 for phase in phases):
        return None
    passes = tuple(
        Phase(phase.noise_multiplier, 1.0, max(1, math.ceil(_epochs(settings, phase) - 1e-6)))
        for phase in phases
    )
    first = passes[0]
    if len(passes) == 1:
        return replace(settings, phases=(), method="full", rate=1.0, steps=first.steps)
    return replace(settings, phases=passes, method="full")


def _epochs(settings: RunSettings, phase: Phase) -> float:
    """Return how often a phase goes through all records."""
    if settings.phases or not settings.steps_per_epoch:
        return phase.steps * phase.rate
    return phase.steps / settings.steps_per_epoch


def scaled_noise(settings: RunSettings, factor: float) -> RunSettings:
    """Return the settings with every noise multiplier times `factor`."""
    noise = settings.noise_multiplier
    return replace(
        settings,
        noise_multiplier=None if noise is None else noise * factor,
        phases=tuple(
            replace(phase, noise_multiplier=phase.noise_multiplier * factor)
            for phase in settings.phases
        ),
    )


def event_of(phases: tuple[Phase, ...], family: str) -> ev.Event:
    """Return the event of Poisson-sampled phases, one after the other."""
    parts: list[ev.Event] = []
    for phase in phases:
        noise: ev.Event = (
            ev.Laplace(phase.noise_multiplier)
            if family == "laplace"
            else ev.Gaussian(phase.noise_multiplier)
        )
        step = noise if phase.rate >= 1.0 else ev.Poisson(phase.rate, noise)
        parts.append(ev.Repeat(phase.steps, step))
    return parts[0] if len(parts) == 1 else ev.Compose(tuple(parts))
