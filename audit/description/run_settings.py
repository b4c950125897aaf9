"""The settings of a described run, resolved: what recomputations and bounds work with."""

from __future__ import annotations

from dataclasses import dataclass

from .run_description import ExtraRelease, Phase


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
