"""Membership inference from models: of single records, and of users as a whole.

    membership_tier(settings, models=64, targets=16)      # replicas of a run, by coins
    released_tier(settings, Checkpoint.read(path))        # the model that it released

One file for each attack: `lira`, `rmia`, `loss`; `user_scores` sums the scores of records over
their user, `trials` has the confidence intervals, `claim_limits` what a claim allows any attack.
"""

from .evidence import Evidence, confidence
from .released import released_tier
from .results import measurements
from .tier import ATTACKS, LEVELS, evidence_of, membership_tier, trials_of
from .trials import Trials
from .user_scores import per_unit

__all__ = [
    "ATTACKS",
    "LEVELS",
    "Evidence",
    "Trials",
    "confidence",
    "evidence_of",
    "measurements",
    "membership_tier",
    "per_unit",
    "released_tier",
    "trials_of",
]
