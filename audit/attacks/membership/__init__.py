"""Membership inference: who was in, told from models.  Records, and users as a whole.

    membership_tier(settings, models=64, targets=16)      # replicas of a run, by coins
    released_tier(settings, Checkpoint.read(path))        # the model that it released

One file for each attack: `lira`, `rmia`, `loss`; `sets` makes scores of users out of those of
records, and `trials` says how sure all of that is.
"""

from .evidence import Evidence, confidence
from .released import released_tier
from .results import measurements
from .sets import per_unit
from .tier import ATTACKS, LEVELS, evidence_of, membership_tier, trials_of
from .trials import Trials

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
