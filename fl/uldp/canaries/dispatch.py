"""Canaries in ULDP-AVG and ULDP-SGD, whoever sees the weights, and what a round of them costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...canaries import mask_pairs, usual_work
from ..settings import BANDED
from .turns import MAX_USERS_TIMES_SILOS

if TYPE_CHECKING:
    from ...canaries import CanaryObservations, RehearsalRequest
    from ...settings.schema import Settings

_HIDDEN: Final = "private-weighting"

TOO_MUCH_WORK: Final = 10**12
"""The work of what memory does not hold."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what the observer sees of users who are in or out, in every round."""
    if request.settings.security.aggregation == _HIDDEN:
        from . import hidden

        return hidden.simulate(request)
    from . import weighted

    return weighted.simulate(request)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round: under private weighting each canary is encrypted.

    Where users take turns, all cohorts are listed, and canaries are in one.
    """
    if settings.security.aggregation == _HIDDEN:
        return 1_000 * mask_pairs(settings, silos) + 10_000 * canaries * silos
    usual = usual_work(settings, silos, canaries)
    if settings.privacy.noise != BANDED:
        return usual
    # Users of all cohorts stand between canaries, and cost a fiftieth of one; so do the terms of
    # earlier rounds that a row holds, of which there are no more.
    listed = canaries * silos * (settings.privacy.cohorts or 1)
    return usual + listed // 50 if listed < MAX_USERS_TIMES_SILOS else TOO_MUCH_WORK
