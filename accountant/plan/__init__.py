"""Noise for every phase of a run, so that no observer's epsilon exceeds one target.

- `planning`, `phases`: noise for each phase, certified for every observer.
- `given_noise`: plans whose noise is given.
- `cheapest_split`: ratios of noise at which a plan costs least.
- `banded_strategy`: correlated noise for a schedule of cohorts.
"""

from .given_noise import plan_given_noise
from .phases import Phase, PlannedPhase
from .planning import Plan, affordable, plan

__all__ = ["Phase", "Plan", "PlannedPhase", "affordable", "plan", "plan_given_noise"]
