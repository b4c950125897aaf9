"""The best that any membership inference can do if what is claimed holds.

Under a guarantee with trade-off function f, hits <= 1 - f(false alarms) for every user, whatever
the other users' coins are.  f is convex, so the same holds of the rates over all users and targets
together, and the area is at most int 1 - f.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ....accountant import events as ev
from ....accountant.risk.trade_off import trade_off

AUC_STEPS: Final = 2000


def max_hit_rate(event: ev.Event, neighbours: str, fpr: float) -> float:
    """Return 1 - f(fpr), the highest hit rate at a false alarm rate that the event allows."""
    return float(1.0 - np.asarray(trade_off(event, neighbours)(fpr)))


def max_auc(event: ev.Event, neighbours: str) -> float:
    """Return an upper bound on the AUC that the event allows.

    f falls, so that its value at the right end of every step is a bound from below on its integral.
    """
    # A right-hand Riemann sum of f, which falls: too small, so the area errs upwards.
    ends = np.linspace(0.0, 1.0, AUC_STEPS + 1)[1:]
    return float(1.0 - np.mean(np.asarray(trade_off(event, neighbours)(ends))))
