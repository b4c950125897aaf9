"""What of a run's settings decides which assumptions its guarantees rest on."""

from __future__ import annotations

from ..observers.assumptions import Circumstances
from .schema import Settings


def circumstances_of(settings: Settings, silos: int) -> Circumstances:
    """Return the circumstances of a run of so many silos under these settings."""
    security = settings.security
    masked = security.aggregation == "masked"
    return Circumstances(
        security.aggregation,
        settings.training.weighting,
        silos,
        security.dropouts,
        honest_server=masked and silos <= 2 * security.dropouts + security.colluders,
        moments=settings.data.normalisation == "private",
        trials=settings.run.trials,
    )
