"""What an attacker can do at best: trade-off functions of events, and risks read from them.

- `risk`, `sentence`: what the best attack reaches, and one sentence about it.
- `trade_off`, `shapes`, `attack_power`: trade-off functions of events, from both sides.
- `gaussian_mu`, `release_mu`: the mu of Gaussian DP: of an event, and of one release, such as a
  pure epsilon.
"""

from .attack_power import RocCurve, roc
from .risk import Risk, risk

__all__ = ["Risk", "RocCurve", "risk", "roc"]
