"""What of a run's settings decides which assumptions its guarantees rest on."""

from __future__ import annotations

from ..observers.assumptions import Circumstances
from .schema import Settings


def circumstances_of(settings: Settings, silos: int) -> Circumstances:
    """Return the circumstances of a run of so many silos under these settings."""
    own = settings.security
    masked = own.aggregation == "masked"
    return Circumstances(
        own.aggregation,
        settings.training.weighting,
        silos,
        own.dropouts,
        honest_server=masked and silos <= 2 * own.dropouts + own.colluders,
        moments=settings.data.normalisation == "private",
        trials=settings.run.trials,
    )
