"""Lower bounds on epsilon and delta from how often one event, fixed beforehand, was seen.

With p the event's probability on the data under which it is likely (`positives`) and q on the
neighbouring data (`negatives`), (epsilon, delta)-DP promises p <= e^epsilon q + delta.  So
delta >= p - e^epsilon q at every epsilon, and epsilon >= ln((p - delta) / q) at every delta.

Where the published mechanism itself says what q is (an event that cannot happen, or the tail of
its noise), only p is counted; counting alone cannot show an epsilon above the logarithm of the
number of runs, however large the truth is.
"""

from __future__ import annotations

import math
from typing import Final

from scipy.special import betainc

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..statistics import Counts, lower_rate, upper_rate

INCREDIBLE: Final = 1e-9
"""False alarms that a known q makes less likely than this say that q is not what it is taken for.
"""


def batches(runs: int, most: int) -> list[int]:
    """Return sizes, at most `most` each, that add up to `runs`.

    >>> batches(7, 3)
    [3, 3, 1]
    """
    full, rest = divmod(runs, most)
    return [most] * full + [rest] * (rest > 0)


def delta_lower(counts: Counts, *, epsilon: float, alpha: float = 0.05) -> float:
    """Return a lower bound on delta at `epsilon`, wrong with probability at most `alpha`.

    p_lower - e^epsilon q_upper, Clopper-Pearson at alpha/2 each, and 0 where that is negative.
    Range: epsilon >= 0, alpha in (0, 1).  Source: the definition of (epsilon, delta)-DP; Clopper
    and Pearson 1934.
    """
    at = validate.non_negative(epsilon=epsilon)
    half = validate.open_probability(alpha=alpha) / 2.0
    # delta >= p - e^epsilon q, from the lower limit of p and the upper limit of q.
    likely = float(lower_rate(counts.hits, counts.positives, half))
    rare = float(upper_rate(counts.false_alarms, counts.negatives, half))
    return max(likely - math.exp(min(at + math.log(rare), 700.0)), 0.0)


def delta_lower_known(
    counts: Counts, *, epsilon: float, log_false_alarm: float, alpha: float = 0.05
) -> float:
    """Return a lower bound on delta at `epsilon` where the mechanism says what q is.

    p_lower - e^epsilon q, with p_lower at the whole of `alpha`; -inf says that q is 0.
    Range: epsilon >= 0, `log_false_alarm` = ln q <= 0.  Raises `InvalidInput` where the false
    alarms that were counted refute that q.
    """
    at = validate.non_negative(epsilon=epsilon)
    log_q = _known(log_false_alarm, counts)
    return max(_likely(counts, alpha) - math.exp(min(at + log_q, 700.0)), 0.0)


def epsilon_lower_known(
    counts: Counts, *, delta: float, log_false_alarm: float, alpha: float = 0.05
) -> float:
    """Return a lower bound on epsilon at `delta` where the mechanism says what q is.

    ln(p_lower - delta) - ln q, with p_lower at the whole of `alpha`, and at least 0; infinite
    where q is 0 and p_lower above delta.  Range: delta in [0, 1), `log_false_alarm` = ln q <= 0.
    Raises `InvalidInput` where the false alarms that were counted refute that q.
    """
    # ln((p - delta) / q) with q known, so that all of alpha goes to the lower limit of p.
    over = _likely(counts, alpha) - validate.probability(delta=delta)
    log_q = _known(log_false_alarm, counts)
    return max(math.log(over) - log_q, 0.0) if over > 0.0 else 0.0


def _likely(counts: Counts, alpha: float) -> float:
    level = validate.open_probability(alpha=alpha)
    return float(lower_rate(counts.hits, counts.positives, level))


def _known(log_false_alarm: float, counts: Counts) -> float:
    """Return ln q, if that can be one and the counted false alarms can be of it."""
    if not log_false_alarm <= 0.0:
        raise InvalidInput(
            f"`log_false_alarm` must be 0 or below; it is {log_false_alarm!r}.",
            "It is the logarithm of a probability.",
        )
    seen = counts.false_alarms
    # P[Bin(n, q) >= seen] below the limit: the event's stated law is not what was simulated.
    if seen and betainc(seen, counts.negatives - seen + 1, math.exp(log_false_alarm)) < INCREDIBLE:
        raise InvalidInput(
            f"{seen} false alarms in {counts.negatives} were counted; with a probability of "
            f"{math.exp(log_false_alarm):.3g} that cannot be.",
            "What the mechanism says of the event is not what it does.",
            "Count both sides.",
        )
    return log_false_alarm
