"""How much noise do I need?  The smallest noise, most rounds or highest rate that meets a target.

A saddle-point estimate says where to look; every value that is returned carries a certificate
that it meets the target, and a lower end that says how much could be left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..accountant import events as ev
from ..accountant import rounding, validate
from .account import account, engine_named
from .calibration_aims import Aim, Calibration, ContractAim, EventAt, search
from .calibration_targets import RiskTarget, TprTarget, kind_of_target, risk_target
from .certified_search import UNKNOWNS, CertifiedValue, Unknown, trivial_target
from .certifiers import EngineCertificate
from .composition import Composition
from .engine_order import engines_for
from .engines.base import Answer
from .errors import (
    InvalidInput,
    TargetTrivial,
    TargetUnreachable,
    Unsupported,
    kind_of,
    with_article,
)
from .guarantee import Bounds, Guarantee
from .nearest_names import named_keywords
from .neighbours import Neighbours, as_neighbours
from .risk.attack_power import attack_power
from .tpr_search import TangentSearch, TprSearch, risk_certifier

LABELS: Final[Mapping[str, str]] = {
    "advantage": "advantage",
    "tpr": "TPR",
    "bayes_risk": "Bayes risk",
}


@dataclass(frozen=True)
class RiskAim:
    """A risk of the best attack, which one (epsilon, delta) certifies."""

    target: RiskTarget
    relation: Neighbours
    engine: str | None

    def engines(self, probe: Composition) -> tuple[str, ...]:
        return engines_for(probe) if self.engine is None else (self.engine,)

    def search(self, quantity: Unknown, name: str, event_at: EventAt) -> CertifiedValue:
        """Return the best value; raise with what can be met where none meets the target."""
        try:
            if isinstance(self.target, TprTarget):
                return self._tpr_search(self.target, quantity, name, event_at)
            probe, epsilon = Composition.of(event_at(quantity.start)), self.target.first_epsilon
            certifier = risk_certifier(self.target, epsilon, probe, self.relation, name)
            return search(quantity, certifier, event_at)
        except TargetUnreachable:
            raise self._unreachable(quantity, event_at) from None
        except TargetTrivial as trivial:
            why = trivial.why
            if not quantity.whole:
                why = "Hardly anybody is ever drawn, or the target allows more than any attack has."
            raise TargetTrivial(trivial.what, why, f"Ask for {self.target.stricter}.") from None

    def _tpr_search(
        self, target: TprTarget, quantity: Unknown, name: str, event_at: EventAt
    ) -> CertifiedValue:
        """Return the best value for a TPR: by one epsilon, then by all of them where that helps."""
        tangents = TangentSearch(target, self.relation, name, event_at)
        if name != "pld":
            return tangents.best(quantity)
        best = None
        with contextlib.suppress(TargetUnreachable):
            best = tangents.best(quantity)
        by_all = TprSearch(target, self.relation, quantity, event_at)
        value = by_all.below(quantity.strongest if best is None else best.value)
        if value is None:
            if best is None:
                raise TargetUnreachable("No epsilon certifies this target.")
            return best
        if value == quantity.weakest and quantity.name != "sampling rate":
            raise trivial_target(quantity, value)
        epsilon = by_all.epsilon(value)
        proven = Bounds(0.0, epsilon)
        return CertifiedValue(value, EngineCertificate(epsilon, 0.0, Answer(proven, ())))

    def guarantee(self, event: ev.Event, best: CertifiedValue, lead: str) -> Guarantee:
        at = best.certificate.epsilon
        return account(event, epsilon=at, neighbours=self.relation, engine=self.engine)

    def calibration(self, value: float, event: ev.Event, guarantee: Guarantee) -> Calibration:
        target = self.target
        risk = target.reached(guarantee.epsilon.upper, guarantee.delta)
        if isinstance(target, TprTarget):
            # What an attack attains at that FPR: no single delta says it.
            power = attack_power(event, self.relation).tpr(target.fpr)
            upper = risk.upper
            if self.engine in (None, "pld"):
                upper = min(upper, power.upper)
            risk = Bounds(min(max(power.lower, risk.lower), upper), upper)
        return Calibration(
            value, guarantee, target.gap(risk), target.value, event, risk, target.measure
        )

    def _unreachable(self, quantity: Unknown, event_at: EventAt) -> TargetUnreachable:
        target = self.target
        what = (
            f"No {quantity.name} from {quantity.low:g} to {quantity.high:g} was found that meets "
            f"{target.words}."
        )
        ask = f"Ask for {target.relaxed}, or release less."
        why = "What does not depend on it leaves more than that by itself."
        with contextlib.suppress(Unsupported):
            risk = self._risk(event_at(quantity.strongest))
            is_error = target.measure == "bayes_risk"
            met = (
                f"at least {rounding.down(risk.lower)}"
                if is_error
                else f"at most {rounding.up(risk.upper)}"
            )
            why = (
                f"With {with_article(quantity.name)} of {quantity.strongest:g}, the strongest of "
                f"those tried, the {LABELS[target.measure]} is {met}."
            )
            if (risk.lower == 0.0) if is_error else (risk.upper == 1.0):
                why += " Nothing better is proven of it, so that no other target is met either."
                ask = "Release something with a guarantee, or less of it."
            if risk.lower >= target.value if is_error else risk.upper <= target.value:
                why += " That meets it, but the risk rises and falls in between."
                ask = f"Take that {quantity.name}, or ask for {target.relaxed}."
        return TargetUnreachable(what, why, ask)

    def _risk(self, event: ev.Event) -> Bounds:
        """Return bounds on the risk of an event."""
        target = self.target
        if isinstance(target, TprTarget):
            return attack_power(event, self.relation).tpr(target.fpr)
        at = target.first_epsilon
        proven = account(event, epsilon=at, neighbours=self.relation, engine=self.engine)
        return target.reached(at, proven.delta)


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
    of the relation (see `calibration_targets` for the formulas).

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
    names = aim.engines(Composition.of(event_at(quantity.start)))
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
