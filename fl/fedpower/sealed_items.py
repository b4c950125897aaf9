"""Which items a release of FedPower seals: those of a release of private statistics."""

from __future__ import annotations

from ..statistics.sealed_items import BEYOND, CLIPPED, DROPPED, ROWS, of_statistics

__all__ = ["BEYOND", "CLIPPED", "DROPPED", "ROWS", "of_releases"]

of_releases = of_statistics
"""What each release seals, whichever design makes it: the same, as the configuration of a run that
chooses its design does not say which."""
