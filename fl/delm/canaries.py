"""Canaries for DELM's published schemes: none can be put into Laplace noise of a whole record."""

from __future__ import annotations

from ..canaries import CanaryObservations, RehearsalRequest
from ...accountant.errors import Unsupported


def simulate(request: RehearsalRequest) -> CanaryObservations:
    raise Unsupported("no")
