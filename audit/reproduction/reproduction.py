"""A number that a common accountant gives, its settings, and the phases that it is fed with."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Literal

from ...accountant import events as ev
from ..description.run_description import Phase
from ..description.run_settings import RunSettings

Change = Literal[
    "none",
    "fewer-steps",
    "more-steps",
    "one-epoch",
    "one-round",
    "one-client",
    "delta-one-over-records",
    "delta-one-over-batches",
    "other-delta",
    "other-rate",
    "other-batch",
    "other-records",
    "other-noise",
    "other-relation",
    "accumulation",
    "microbatches",
    "clients-times-records",
    "no-amplification",
]
"""What was changed of the settings before an accountant gave the claimed number."""

SAME: Final[Change] = "none"

Method = Literal[
    "rdp",
    "rdp-classical",
    "pld",
    "prv",
    "clt",
    "zcdp",
    "textbook-gaussian",
    "simple-composition",
    "advanced-composition",
    "small-rate-approximation",
]
"""The kind of mathematics: `clt` and `small-rate-approximation` bound nothing, and
`textbook-gaussian` is a theorem for an epsilon below 1 only."""


@dataclass(frozen=True)
class AccountantValue:
    """What an `accountant` (in words) prints: a value between `low` and `high`; no guarantee."""

    accountant: str
    method: Method
    low: float
    high: float

    @property
    def value(self) -> float:
        """Return the middle of what it may print."""
        return 0.5 * (self.low + self.high)


@dataclass(frozen=True)
class Reproduction:
    """An `accountant` (in words) gives `epsilon` for `settings`, which prints as the claim does.

    `change` says what of the described settings is different in them, and `says` the same in one
    sentence for a person.  No guarantee: some accountants are approximations.
    """

    accountant: str
    epsilon: float
    settings: RunSettings
    change: Change
    says: str
    method: Method = "rdp"


FAMILIES = ("gaussian", "discrete-gaussian", "laplace")
"""Families of noise for which accountants are computed here."""

FEW_PHASES: Final = 100
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


def with_few_phases(settings: RunSettings) -> RunSettings | None:
    """Return settings whose schedule has at most `FEW_PHASES` phases, or None where it has more.

    Equal phases are added, those that follow one another first.
    """
    phases = settings.phases
    if len(phases) <= FEW_PHASES:
        return settings
    merged = [_added(list(equal)) for _, equal in groupby(phases, key=_noise_and_rate)]
    if len(merged) > FEW_PHASES:
        ordered = sorted(merged, key=_noise_and_rate)
        merged = [_added(list(equal)) for _, equal in groupby(ordered, key=_noise_and_rate)]
    return replace(settings, phases=tuple(merged)) if len(merged) <= FEW_PHASES else None


def _noise_and_rate(phase: Phase) -> tuple[float, float]:
    return phase.noise_multiplier, phase.rate


def _added(phases: list[Phase]) -> Phase:
    return replace(phases[0], steps=sum(phase.steps for phase in phases))


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
