"""Canaries in ULDP-AVG and ULDP-SGD, whoever sees the weights, and what a round of them costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...canaries import meetings, usual_work

if TYPE_CHECKING:
    from ...canaries import Asked, Seen
    from ...settings.schema import Settings

_HIDDEN: Final = "private-weighting"


def carry(asked: Asked) -> Seen:
    """Return what the observer sees of users who are in or out, in every round."""
    if asked.settings.security.aggregation == _HIDDEN:
        from . import hidden

        return hidden.carry(asked)
    from . import weighted

    return weighted.carry(asked)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round: under private weighting each canary is encrypted."""
    if settings.security.aggregation == _HIDDEN:
        return 1_000 * meetings(settings, silos) + 10_000 * canaries * silos
    return usual_work(settings, silos, canaries)
