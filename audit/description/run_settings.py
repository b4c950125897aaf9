"""The settings of a described run, resolved: what recomputations and bounds work with."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .agreement import WorkingFacts
from .run_description import ExtraRelease, Phase, RunDescription
from .schedule_facts import batches_per_epoch


def settings_of(description: RunDescription) -> RunSettings:
    """Return the settings of a described run, with None for what nothing says.

    The facts that `describe` derived are in the description already; nothing is guessed here.
    Where phases vary, they stand for noise and rate, which are None.
    """
    facts = WorkingFacts(description.facts)
    batches = batches_per_epoch(facts)
    phases = _phases(facts)
    noise, rate = facts.number("noise.noise_multiplier"), facts.number("sampling.rate")
    return RunSettings(
        family=facts.word("noise.family", "gaussian"),
        noise_multiplier=None if len({phase.noise_multiplier for phase in phases}) > 1 else noise,
        neighbours=facts.word("claim.neighbours", "add-remove"),
        unit=facts.word("claim.unit", "record"),
        delta=facts.number("claim.delta"),
        method=facts.word("sampling.method", "unknown"),
        rate=None if len({phase.rate for phase in phases}) > 1 else rate,
        batch=facts.count("sampling.batch"),
        records=facts.count("data.records"),
        users=facts.count("data.users"),
        silos=facts.count("data.silos"),
        records_per_user=facts.count("data.records_per_user"),
        clients_rate=facts.number("sampling.clients_rate"),
        steps=facts.count("schedule.steps"),
        epochs=facts.number("schedule.epochs"),
        steps_per_epoch=None if batches is None else max(math.ceil(batches), 1),
        microbatches=facts.count("schedule.microbatches") or 1,
        accumulation=facts.count("schedule.accumulation") or 1,
        phases=phases,
        restarts=facts.count("schedule.restarts") or 1,
        horizon_days=facts.number("schedule.horizon_days"),
        renews_every_days=facts.number("schedule.renews_every_days"),
        releases=description.get("releases", tuple) or (),
        records_per_epoch=facts.count("schedule.records_per_epoch"),
        accumulation_of=description.get("schedule.accumulation_of", str),
        clip_norm=description.get("noise.clip_norm", str),
        clip_bounds=description.get("noise.clip_bounds", str),
        dimensions=facts.count("noise.dimensions"),
        sampled=description.get("sampling.sampled", str),
        weighted_draws=description.get("sampling.weighted_draws", str),
    )


def _phases(facts: WorkingFacts) -> tuple[Phase, ...]:
    """Return the phases; a rate that all share is the exact one, where that is known."""
    phases, rate = facts.phases(), facts.number("sampling.rate")
    half_unit = facts.half_unit("schedule.phases")
    if rate is None or len({phase.rate for phase in phases}) != 1:
        return phases
    if abs(phases[0].rate - rate) > half_unit:
        return phases
    return tuple(replace(phase, rate=rate) for phase in phases)


@dataclass(frozen=True)
class RunSettings:
    """Noise, sampling and schedule of a run; None stands for what is not known.

    All are resolved: a noise multiplier is std / clip where those were given, a rate is batch /
    records, and `steps` is epochs x records / batch, rounded up.  `noise_multiplier` is relative
    to the bound of one unit, as privplan's events have it, and as the description states it:
    microbatches and accumulation are not worked into it.  `method` is a word of
    `sampling.method`; `unknown` where nothing says it.

    `steps_per_epoch` is ceil(records_per_epoch / batch), or ceil(1 / rate).  Where `phases` vary,
    they alone say noise and rate, and `noise_multiplier` or `rate` is None; `steps` is their sum.
    A noise multiplier of 0 is no noise at all.  The last six are words of the keys of those names.
    """

    family: str = "gaussian"
    noise_multiplier: float | None = None
    neighbours: str = "add-remove"
    unit: str = "record"
    delta: float | None = None
    method: str = "unknown"
    rate: float | None = None
    batch: int | None = None
    records: int | None = None
    users: int | None = None
    silos: int | None = None
    records_per_user: int | None = None
    clients_rate: float | None = None
    steps: int | None = None
    epochs: float | None = None
    steps_per_epoch: int | None = None
    microbatches: int = 1
    accumulation: int = 1
    phases: tuple[Phase, ...] = ()
    restarts: int = 1
    horizon_days: float | None = None
    renews_every_days: float | None = None
    releases: tuple[ExtraRelease, ...] = ()
    records_per_epoch: int | None = None
    accumulation_of: str | None = None
    clip_norm: str | None = None
    clip_bounds: str | None = None
    dimensions: int | None = None
    sampled: str | None = None
    weighted_draws: str | None = None
