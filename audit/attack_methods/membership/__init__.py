"""Membership inference from models: of single records, and of users as a whole.

    membership_tier(settings, models=64, targets=16)      # replicas of a run, by coins
    released_tier(settings, Checkpoint.read(path))        # the model that it released

- `tier`: the tier `membership` of an attack on a run.
- `scores`: the attacks, LiRA and RMIA.
- `evidence`: what they see, and the sums of records' scores over their user.
- `trials`: confidence intervals, and what a claim allows any attack.
- `results`: AUCs and hit rates as measurements.
"""

from .evidence import Evidence, confidence, per_unit
from .results import measurements
from .tier import ATTACKS, LEVELS, evidence_of, membership_tier, released_tier, trials_of
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
