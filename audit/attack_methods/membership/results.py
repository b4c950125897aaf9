"""The results of an attack as measurements: an AUC, and hit rates at few false alarms.

The best that any membership inference can do if what is claimed holds.

Under a guarantee with trade-off function f, hits <= 1 - f(false alarms) for every user, whatever
the other users' coins are.  f is convex, so the same holds of the rates over all users and targets
together, and the area is at most int 1 - f.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ....accountant import events as ev
from ....accountant.guarantee import Neighbours
from ....accountant.risk.trade_off import trade_off
from ...measurement import Measurement
from .trials import Trials, area, hits, plot_curve, unsupported

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


REPORTED_FALSE_ALARM_RATES: Final = (0.01, 0.001)
"""Rates of false alarms at which hits are told."""

CLUSTERED_INTERVALS: Final = (
    "intervals: variances clustered by user and by target model, asymptotic in both; for these "
    "shadows"
)
EXACT_INTERVALS: Final = "intervals: finite-sample over users, for this one model"
SINGLE_MODEL_INTERVALS: Final = (
    "intervals: variances clustered by user, asymptotic in users; for this one model"
)

Sample = Mapping[str, float | int | str]


@dataclass(frozen=True)
class AttackDescription:
    """What all measurements of one attack have in common: its target, unit and assumptions.

    `promised` is the event that the observer's claim is made of, where it bounds this attack: a
    claim for users under add-remove, and coins that users have as a whole.
    """

    what: str
    level: str
    neighbours: Neighbours
    observer: str = "model"
    promised: ev.Event | None = None
    assumes: tuple[str, ...] = ()
    sample: Sample = field(default_factory=dict)


def measurements(
    trials: Trials, about: AttackDescription, *, confidence: float = 0.95
) -> tuple[Measurement, ...]:
    """Return the AUC with its curve, then the hit rates at `REPORTED_FALSE_ALARM_RATES`.

    A rate that the strangers are too few to support is left out, and `sample` says so.

    All are estimates, and none contradicts a claim: the intervals rest on independence and on
    numbers of users and targets, where a lower bound on epsilon may not.
    """
    alpha = 1.0 - confidence
    strangers = trials.strangers
    counts: dict[str, float | int | str] = {
        **about.sample,
        "users": trials.users,
        "targets": trials.targets,
        "members": int(trials.members.sum()),
        "non-members": strangers,
    }
    reasons = {_rate(rate): unsupported(trials, rate) for rate in REPORTED_FALSE_ALARM_RATES}
    left_out = {name: why for name, why in reasons.items() if why is not None}
    auc = area(trials, alpha=alpha)
    assumes = (*about.assumes, _rests_on(trials))
    estimates = [
        _measurement(
            about,
            value=auc.value,
            quantity="AUC",
            confidence=confidence,
            proves=f"This attack told members from strangers with an AUC of {auc.value:.3f}.",
            assumes=assumes,
            sample={**counts, "lower": auc.lower, "upper": auc.upper, **left_out},
            curves={"roc": plot_curve(trials)},
        )
    ]
    for rate in REPORTED_FALSE_ALARM_RATES:
        if unsupported(trials, rate) is not None:
            continue
        hit_rate = hits(trials, rate, alpha=alpha)
        estimates.append(
            _measurement(
                about,
                value=hit_rate.value,
                quantity=_rate(rate),
                confidence=confidence,
                proves=(
                    f"This attack found {hit_rate.value:.1%} of the members where {rate:g} of the "
                    "strangers measured were false alarms."
                ),
                assumes=(
                    *assumes,
                    "the threshold is a quantile of the strangers measured; its own rate of false "
                    f"alarms is at most {hit_rate.fpr_upper:.2%}, and the confidence is that of "
                    "both",
                ),
                sample={
                    **counts,
                    "lower": hit_rate.lower,
                    "upper": hit_rate.upper,
                    "effective members": hit_rate.effective,
                    "false alarms at most": hit_rate.fpr_upper,
                },
                rate=rate,
            )
        )
    return tuple(estimates)


def _rests_on(trials: Trials) -> str:
    """Return what the intervals rest on."""
    if trials.independent:
        return EXACT_INTERVALS
    return SINGLE_MODEL_INTERVALS if trials.targets == 1 else CLUSTERED_INTERVALS


def _rate(rate: float) -> str:
    """Return the quantity's name."""
    return f"TPR at {100 * rate:g}% FPR"


def _measurement(
    about: AttackDescription, *, quantity: str, rate: float | None = None, **rest: object
) -> Measurement:
    claimed = None
    if about.promised is not None:
        if rate is None:
            claimed = max_auc(about.promised, about.neighbours)
        else:
            claimed = max_hit_rate(about.promised, about.neighbours, rate)
    return Measurement(
        tier="membership",
        what=about.what,
        kind="estimate",
        contradicted=False,
        observer=about.observer,
        unit=about.level,
        neighbours=about.neighbours,
        quantity=quantity,
        claimed=claimed,
        **rest,  # type: ignore[arg-type]
    )
