"""Claims of zCDP and of Gaussian DP about sums with Gaussian noise."""

from __future__ import annotations

import math
from typing import Final

from ...accountant.guarantee import Bounds
from ..description.run_description import Phase
from .checked_run import CheckedRun
from .events import periods, phases_of
from .noise_draws import MICROBATCH_SHIFT, LackingFacts, lower_noise, upper_noise
from .sampler_events import epochs_of

REPLACED: Final = 4.0
"""How much farther, squared, a sum moves where a unit is replaced by another."""

SHIFTED: Final = 5.0
"""The same where a unit comes or goes and the batches behind it shift: one replaced, one gone."""

ROUNDED: Final = 1e-12
"""Relative rounding of the sums below, outward."""


def concentrated_bounds(run: CheckedRun, method: str) -> tuple[Bounds, tuple[str, ...], str]:
    """Return bounds on rho or mu, with their conditions, and why there is no upper end.

    A sum of noise multiplier z that a unit moves by one bound has rho = 1/(2 z^2) and mu = 1/z;
    rho and mu^2 add up.  Sampling lowers neither: both bound all orders (all error rates), and at
    large orders (small rates) a sampled Gaussian is as far apart as one without sampling.
    Raises `LackingFacts` where keys are missing.

    Source: Bun, Steinke 2016; Dong, Roth, Su 2022; the limit of the sampled Renyi curve.
    """
    if run.settings.family not in ("gaussian", "discrete-gaussian"):
        return Bounds(0.0, math.inf), (), f"{run.currency} is known of Gaussian noise only."
    upper = lower = 0.0
    for phase in phases_of(run, method):
        if phase.noise_multiplier == 0.0:
            return Bounds(0.0, math.inf), (), "No noise was drawn."
        most, least = _participations(run, phase.steps, phase.rate, method)
        upper += most / upper_noise(run, phase.noise_multiplier) ** 2
        lower += least / lower_noise(run, phase.noise_multiplier) ** 2
    upper *= _upper_shift(run, method)
    lower *= REPLACED if run.settings.neighbours == "replace-one" else 1.0
    for release in run.settings.releases:
        if release.noise_multiplier is None:
            raise LackingFacts("releases.noise_multiplier")
        if release.noise_multiplier == 0.0:
            return Bounds(0.0, math.inf), (), "A release has no noise."
        shift = REPLACED if run.settings.neighbours == "replace-one" else 1.0
        upper += shift * release.count / release.noise_multiplier**2
        lower += shift * release.count / release.noise_multiplier**2
    upper *= run.settings.restarts * periods(run, upper=True) * run.tuning_runs
    lower *= run.least_restarts * periods(run, upper=False)
    if run.settings.unit == "user":
        upper *= (run.settings.records_per_user or 1) ** 2
    bounds = Bounds(_claimed(run, lower) * (1 - ROUNDED), _claimed(run, upper) * (1 + ROUNDED))
    return bounds, ("Sampling lowers neither rho nor mu.",), ""


def _claimed(run: CheckedRun, squared: float) -> float:
    """Return rho or mu from mu^2."""
    return squared / 2.0 if run.currency == "rho" else math.sqrt(squared)


def _participations(run: CheckedRun, steps: int, rate: float, method: str) -> tuple[float, float]:
    """Return in how many releases a record may be at most, and is at least by some data."""
    if method == "shuffled":
        least_batches, most_batches = run.batches_in_draw
        batches = max(1, math.ceil(1.0 / min(1.0, rate * least_batches) * (1.0 - ROUNDED)))
        fewest = max(1, math.ceil(1.0 / min(1.0, rate * most_batches) * (1.0 - ROUNDED)))
        most, least = epochs_of(run, Phase(1.0, rate, steps), batches, fewest)
        return most, least
    clients = run.settings.clients_rate is not None
    return steps, 1.0 if clients or run.settings.unit == "silo" else steps


def _upper_shift(run: CheckedRun, method: str) -> float:
    """Return how far a sum moves at most, squared, in bounds of one unit."""
    relation = run.settings.neighbours
    shift = {"replace-one": REPLACED, "zero-out": 1.0}.get(relation, 1.0)
    if relation == "add-remove":
        # Batches of a fixed size are filled up by others.
        shift = {
            "shuffled": SHIFTED,
            "fixed-size": REPLACED,
            "with-replacement": math.inf,
            "weighted": REPLACED,
        }.get(method, 1.0)
    if method == "with-replacement":
        return math.inf
    if run.settings.microbatches > 1 and relation != "replace-one":
        return shift * MICROBATCH_SHIFT**2
    return shift
