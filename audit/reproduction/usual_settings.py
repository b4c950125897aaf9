"""Settings that many runs have: a number printed beside a command may be that of another one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ..description.run_settings import RunSettings
from .accounted_phases import phases_of
from .reproduction import Change

_NOISES: Final = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0, 2.5, 3.0, 4.0)
_BATCHES: Final = (16, 32, 64, 100, 128, 200, 250, 256, 500, 512, 600, 1000, 1024, 2048, 4096)
_EPOCHS: Final = (1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 45, 50, 60, 80, 90, 100, 200)
_RECORDS: Final = (10_000, 25_000, 50_000, 60_000, 100_000)


def usual_settings(settings: RunSettings) -> Iterator[tuple[Change, RunSettings, str]]:
    """Yield single usual values in the place of a described one, with the change and words for it.

    For settings of a single phase.  Epochs are kept when batch or records change.
    """
    (phase,) = phases_of(settings)
    for noise in _NOISES:
        if noise != phase.noise_multiplier:
            says = f"the noise multiplier {noise:g}, not {phase.noise_multiplier:.4g}"
            yield "other-noise", replace(settings, noise_multiplier=noise), says
    if phase.rate >= 1.0:
        return
    epochs = settings.epochs or phase.steps * phase.rate
    for count in _EPOCHS:
        steps = math.ceil(count / phase.rate - 1e-9)
        if steps != phase.steps:
            change: Change = "fewer-steps" if steps < phase.steps else "more-steps"
            says = f"{count} epochs, not {epochs:.4g}"
            yield change, replace(settings, steps=steps, epochs=None), says
    if settings.records is None or settings.batch is None:
        return
    for batch in _BATCHES:
        if batch != settings.batch and batch < settings.records:
            changed = _resampled(settings, batch, settings.records, epochs)
            yield "other-batch", changed, f"a batch of {batch:,}, not {settings.batch:,}"
    for records in _RECORDS:
        if records != settings.records and settings.batch < records:
            changed = _resampled(settings, settings.batch, records, epochs)
            yield "other-records", changed, f"{records:,} records, not {settings.records:,}"


def _resampled(settings: RunSettings, batch: int, records: int, epochs: float) -> RunSettings:
    steps = max(1, math.ceil(epochs * records / batch - 1e-9))
    return replace(
        settings, batch=batch, records=records, rate=batch / records, steps=steps, epochs=None
    )
