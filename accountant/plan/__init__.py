"""Noise for every phase of a run, so that no observer's epsilon exceeds one target."""

from .given import given
from .phases import Phase, PlannedPhase
from .planning import Plan, plan
from .rounds import affordable

__all__ = ["Phase", "Plan", "PlannedPhase", "affordable", "given", "plan"]
