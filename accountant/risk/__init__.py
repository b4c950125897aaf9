"""What an attacker can do at best: trade-off functions of events, and risks read from them."""

from .risk import Risk, risk
from .roc import RocCurve, roc

__all__ = ["Risk", "RocCurve", "risk", "roc"]
