"""The number of a run in which each record takes part once in every pass, without amplification."""

from __future__ import annotations

import math

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.errors import PrivplanError
from ...accountant.guarantee import Bounds
from .checked_run import CheckedRun


def once_per_pass(run: CheckedRun) -> Bounds | None:
    """Return bounds on epsilon of ceil(epochs) releases of all the data, one record set to zero.

    It needs no secret order and no sampler, only batches that share no record within a pass.  None
    where passes, noise or delta are not known, or the noise is not Gaussian.

    Source: parallel composition; McSherry 2009.
    """
    settings = run.settings
    noise, delta = settings.noise_multiplier, settings.delta
    if run.currency != "epsilon" or settings.family != "gaussian" or settings.unit != "record":
        return None
    if not noise or not delta or settings.accumulation > 1 or settings.microbatches > 1:
        return None
    if settings.epochs is None or settings.releases or settings.restarts > 1:
        return None
    passes = max(1, math.ceil(settings.epochs * (1.0 - 1e-9)))
    try:
        return account(ev.Repeat(passes, ev.Gaussian(noise)), delta=delta).epsilon
    except (PrivplanError, ValueError):
        return None
