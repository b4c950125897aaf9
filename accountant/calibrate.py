"""How much noise do I need?  The smallest noise, most rounds or highest rate that meets a target.

A saddle-point estimate says where to look; every value that is returned carries a certificate
that it meets the target, and a lower end that says how much could be left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from . import events as ev
from . import validate
from .account import engine_named
from .calibration_aims import Aim, Calibration, ContractAim, EventAt
from .certified_search import UNKNOWNS, CertifiedValue, Unknown
from .decoding import named_keywords
from .errors import InvalidInput, TargetUnreachable, Unsupported, kind_of
from .neighbours import as_neighbours
from .risk_aim import RiskAim
from .targets import kind_of_target, risk_target


@named_keywords
def calibrate(
    make_event: Callable[..., ev.EventLike],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    bayes_risk: float | None = None,
    prior: float | None = None,
    neighbours: str = "add-remove",
    unknown: str = "noise",
    engine: str | None = None,
) -> Calibration:
    """Return the value of the unknown that just meets a target, with its certificate.

    The target is one of: `epsilon` at `delta`; an `advantage`, the largest TPR - FPR of an attack;
    a `tpr` at an `fpr`; a `bayes_risk`, the least probability of error of an attack on somebody who
    is a member with probability `prior` (.5 if not given).  Of the best attack in either direction
    of the relation (see `targets` for the formulas).

    `make_event(value)` returns the event; its epsilon must fall as a `noise` multiplier grows,
    and grow with the number of `rounds` or the size of a `group` (integers) or the sampling `rate`.
    The result is the smallest noise in [0.001, 1e9], the most rounds up to 1e9, the largest group
    up to 1e6, or the highest rate up to 1, to a relative 1e-4 of what is true where a two-sided
    engine is at work (`gap` says so); its certificate is never above the target.  A bound that
    counts whole messages, as those of padded shuffling do, jumps as noise grows; where it jumps
    over the target the result is the edge of the jump, to a relative 1e-4, and the risk may lie
    well below the target.  A Bayes risk below 1e-12 of the smaller prior costs more noise than the
    smallest that meets it, several times as much far below, since a delta that near to 1 has few
    digits.  Discrete Gaussian noise may meet a target, miss it with a little more noise, and meet
    it again: more noise than the result need not do.  The result is the smallest for one release,
    sampled or not; for others a scan down to about a fifth of what a search returns may miss a
    smaller one between two of its points.
    Range: `epsilon` above 0, `delta` in [0, 1), `advantage`, `fpr` and `prior` in (0, 1), `tpr` in
    (`fpr`, 1), `bayes_risk` in (0, min(prior, 1 - prior)).  `engine` forces one engine; the default
    is led by the engine that is expected to be tightest, and checked by the others that `account`
    asks (see `engine_order`).

    Raises `TargetUnreachable` if no value meets the target, `TargetTrivial` if every value does,
    `InvalidInput` and `Unsupported` as `account` does.
    Source: Balle and Wang 2018, arXiv 1805.06530v2 (to epsilon at delta); Kulynych, Gomez, Kaissis,
    Calmon and Troncoso 2024, arXiv 2407.02191v2 (to a risk); the certificates are those of
    `account`.

    >>> calibration = calibrate(lambda s: ev.Repeat(100, ev.Gaussian(s)), epsilon=1, delta=1e-5)
    >>> round(calibration.value, 2), calibration.guarantee.epsilon.upper <= 1.0
    (37.31, True)
    >>> calibration = calibrate(lambda s: ev.Repeat(100, ev.Gaussian(s)), tpr=0.07, fpr=0.01)
    >>> round(calibration.value, 2), calibration.risk.upper <= 0.07
    (11.76, True)
    """
    given = {
        "epsilon": epsilon,
        "delta": delta,
        "advantage": advantage,
        "tpr": tpr,
        "fpr": fpr,
        "bayes_risk": bayes_risk,
        "prior": prior,
    }
    kind = kind_of_target(given)
    relation = as_neighbours(neighbours)
    aim: Aim
    if kind == "epsilon":
        at = validate.positive(epsilon=epsilon), validate.probability_below_one(delta=delta)
        aim = ContractAim(*at, relation, engine)
    else:
        aim = RiskAim(risk_target(kind, given), relation, engine)
    validate.choice(tuple(UNKNOWNS), unknown=unknown)
    if engine is not None:
        engine_named(engine)
    if not callable(make_event):
        raise InvalidInput(f"`make_event` must be callable; it is {kind_of(make_event)}.")
    quantity = UNKNOWNS[unknown]
    event_at = _events_of(make_event, quantity)
    best, lead = _led(aim, quantity, event_at, engine)
    guarantee = aim.guarantee(event_at(best.value), best, lead)
    if engine is None and guarantee.engine != lead:
        # Another engine proves more here than the one that led the search: search again by it.
        with contextlib.suppress(Unsupported):
            better = aim.search(replace(quantity, start=best.value), guarantee.engine, event_at)
            if quantity.coordinate(better.value) < quantity.coordinate(best.value):
                guarantee = aim.guarantee(event_at(better.value), better, guarantee.engine)
                best = better
    return aim.calibration(best.value, event_at(best.value), guarantee)


def _events_of(make_event: Callable[..., ev.EventLike], quantity: Unknown) -> EventAt:
    events: dict[float, ev.Event] = {}

    def event_at(value: float) -> ev.Event:
        # One call for each value: the event that is certified is the event that is returned.
        if value not in events:
            given = make_event(int(value) if quantity.whole else value)
            event = ev.as_event(given)
            if event is None:
                raise InvalidInput(
                    f"`make_event` must return an event; it returned {kind_of(given)}."
                )
            events[value] = event
        return events[value]

    return event_at


def _led(
    aim: Aim, quantity: Unknown, event_at: EventAt, engine: str | None
) -> tuple[CertifiedValue, str]:
    """Return the best value by the first engine that can bring the risk below the target."""
    names = aim.engines(event_at(quantity.start))
    unreachable = None
    for name in names[:-1]:
        try:
            return aim.search(quantity, name, event_at), name
        except TargetUnreachable as missed:
            unreachable = unreachable or missed
        except Unsupported:
            pass
    try:
        return aim.search(quantity, names[-1], event_at), names[-1]
    except Unsupported as refusal:
        # An engine that could answer says more than the last one, which cannot.
        if unreachable is not None:
            raise unreachable from None
        if engine is None:
            raise refusal.unforced() from None
        raise
