"""Canaries: units with a secret coin each, sent through a rehearsal of the run's own settings.

A canary is one claimed unit whose data are as bad as the claim allows, and worse: its row is ten
times as long as the clip.  It goes through the project's own weights, clip, sample and noise, and
an observer who sees what the claim says that it sees tries to tell which units were in.
"""

from .coins import Coins, flip
from .federation import canary_federation
from .local import NORM, Beside, CanaryLocal
from .rehearsal import CARRIERS, Asked, Carrier, Rehearsal, Seen, carrier, rehearse
from .tiers import claim_tier, robust_tier
from .watch import Memory, Watching, conduct, made

__all__ = [
    "CARRIERS",
    "NORM",
    "Asked",
    "Beside",
    "CanaryLocal",
    "Carrier",
    "Coins",
    "Memory",
    "Rehearsal",
    "Seen",
    "Watching",
    "canary_federation",
    "carrier",
    "claim_tier",
    "conduct",
    "flip",
    "made",
    "rehearse",
    "robust_tier",
]
