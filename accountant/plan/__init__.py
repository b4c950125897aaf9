"""Noise for every phase of a run, so that no observer's epsilon exceeds one target."""

from .phases import Phase, PlannedPhase
from .planning import Plan, plan

__all__ = ["Phase", "Plan", "PlannedPhase", "plan"]
