"""Noise for every phase of a run, so that no observer's epsilon exceeds one target."""

from .given_noise import plan_given_noise
from .phases import Phase, PlannedPhase
from .planning import Plan, affordable, plan

__all__ = ["Phase", "Plan", "PlannedPhase", "affordable", "plan", "plan_given_noise"]
