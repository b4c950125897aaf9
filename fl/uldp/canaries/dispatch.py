"""Canaries in ULDP-AVG and ULDP-SGD, whoever sees the weights, and what a round of them costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...canaries import mask_pairs, usual_work

if TYPE_CHECKING:
    from ...canaries import CanaryObservations, RehearsalRequest
    from ...settings.schema import Settings

_HIDDEN: Final = "private-weighting"


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what the observer sees of users who are in or out, in every round."""
    if request.settings.security.aggregation == _HIDDEN:
        from . import hidden

        return hidden.simulate(request)
    from . import weighted

    return weighted.simulate(request)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round: under private weighting each canary is encrypted."""
    if settings.security.aggregation == _HIDDEN:
        return 1_000 * mask_pairs(settings, silos) + 10_000 * canaries * silos
    return usual_work(settings, silos, canaries)
