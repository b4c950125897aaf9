"""The result of a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from . import events as ev
from .guarantee import Bounds, Guarantee


@dataclass(frozen=True)
class Calibration:
    """The value that was found, what it proves, and how far that is from the target.

    `value` is the unknown; `event` the event at that value; `measure` says what `target` is about
    (`epsilon`, `advantage`, `tpr` or `bayes_risk`), and `guarantee` is the (epsilon, delta) that
    certifies it.  A TPR may be certified by the trade-off functions of both orders of the data
    sets, which know more than one delta of both: then it is the one that tells most.

    - epsilon: `guarantee.epsilon.upper` is at most `target`, and `gap` is `target` minus the proven
      lower end, so no epsilon below `target - gap` is true of the event.
    - advantage, tpr: `risk.upper` is at most `target`, `gap` is `target - risk.lower`, and some
      attack reaches `target - gap`.
    - bayes_risk, the least probability of error: `risk.lower` is at least `target`, `gap` is
      `risk.upper - target`, and some attack errs no more often than `target + gap`.

    `risk` is the bounds on the quantity that `measure` names.
    """

    value: float
    guarantee: Guarantee
    gap: float
    target: float
    event: ev.Event
    risk: Bounds
    measure: str = "epsilon"
