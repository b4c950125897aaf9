"""What an attacker can do at best: trade-off functions of events, and risks read from them."""

from .attack_power import RocCurve, roc
from .risk import Risk, risk

__all__ = ["Risk", "RocCurve", "risk", "roc"]
