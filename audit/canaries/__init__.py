"""What canaries show: a rehearsal of a run's own settings, and tests of what was seen in it.

How canaries enter a system and what an observer is handed is in `fl.canaries` and in each system's
folder; here are scores, thresholds, tiers and verdicts.
"""

from .claim_tier import claim_tier
from .rehearsal import CanaryRehearsal, rehearse
from .robust_tier import robust_tier

__all__ = ["CanaryRehearsal", "claim_tier", "rehearse", "robust_tier"]
