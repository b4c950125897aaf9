"""How much noise do I need?  The smallest noise, most rounds or highest rate that meets a target.

A saddle-point estimate says where to look; every value that is returned carries a certificate
that it meets the target, and a lower end that says how much could be left.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from . import events as ev
from . import rounding, validate
from .account import account, combine, engine_named, tightest, with_scope
from .certified_search import UNKNOWNS, CertifiedValue, Unknown, find_certified_value
from .certifiers import Certifier, certifiers_for
from .composition import leaves, observer_of, unit_of
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
from .neighbours import Neighbours, as_neighbours
from .risk.attack_power import attack_power
from .rootfinding import enclose, narrow
from .targets import RiskTarget, TprTarget, kind_of_target, risk_target

MAX_TANGENTS: Final = 8
"""Most epsilons at which a TPR is certified in one search; two or three are the rule."""

TANGENT_GAIN: Final = 5e-6
"""Relative gain in the unknown from which on another epsilon is tried."""

LABELS: Final[Mapping[str, str]] = {
    "advantage": "advantage",
    "tpr": "TPR",
    "bayes_risk": "Bayes risk",
}

QUICK_TANGENTS: Final = 3
"""After so many epsilons that helped, a value and its epsilon are looked for together."""

LARGEST_EPSILON: Final = 40.0
"""Largest epsilon at which a TPR is certified: e^40 times any FPR that matters is above 1."""

EventAt = Callable[[float], ev.Event]


@dataclass(frozen=True)
class Calibration:
    """The value that was found, what it proves, and how far that is from the target.

    `value` is the unknown; `event` the event at that value; `measure` says what `target` is about
    (`epsilon`, `advantage`, `tpr` or `bayes_risk`), and `guarantee` is the (epsilon, delta) that
    certifies it.

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
    well below the target.  Range: `epsilon` above 0, `delta` in [0, 1), `advantage`, `fpr` and
    `prior` in (0, 1), `tpr` in (`fpr`, 1), `bayes_risk` in (0, min(prior, 1 - prior)).  `engine`
    forces one engine; the default is led by the engine that is expected to be tightest, and checked
    by the others that `account` asks (see `engine_order`).

    Raises `TargetUnreachable` if no value meets the target, `TargetTrivial` if every value does,
    `InvalidInput` and `Unsupported` as `account` does.

    >>> found = calibrate(lambda s: ev.Repeat(100, ev.Gaussian(s)), epsilon=1, delta=1e-5)
    >>> round(found.value, 2), found.guarantee.epsilon.upper <= 1.0
    (37.31, True)
    >>> found = calibrate(lambda s: ev.Repeat(100, ev.Gaussian(s)), tpr=0.07, fpr=0.01)
    >>> round(found.value, 2), found.risk.upper <= 0.07
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
    aim: _Aim
    if kind == "epsilon":
        at = validate.positive(epsilon=epsilon), validate.probability_below_one(delta=delta)
        aim = _ContractAim(*at, relation, engine)
    else:
        aim = _RiskAim(risk_target(kind, given), relation, engine)
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
    aim: _Aim, quantity: Unknown, event_at: EventAt, engine: str | None
) -> tuple[CertifiedValue, str]:
    """Return the best value by the first engine that can bring the risk below the target."""
    names = aim.engines(event_at(quantity.start))
    for name in names[:-1]:
        with contextlib.suppress(Unsupported, TargetUnreachable):
            return aim.search(quantity, name, event_at), name
    try:
        return aim.search(quantity, names[-1], event_at), names[-1]
    except Unsupported as refusal:
        if engine is None:
            raise refusal.unforced() from None
        raise


class _Aim(Protocol):
    """What a calibration looks for, and how it says what it found."""

    def engines(self, probe: ev.Event) -> tuple[str, ...]:
        """Return the engines to try in turn."""

    def search(self, quantity: Unknown, name: str, event_at: EventAt) -> CertifiedValue:
        """Return the best value that this engine certifies."""

    def guarantee(self, event: ev.Event, best: CertifiedValue, lead: str) -> Guarantee:
        """Return what all engines that `account` asks prove at the best value."""

    def calibration(self, value: float, event: ev.Event, guarantee: Guarantee) -> Calibration:
        """Return the result."""


@dataclass(frozen=True)
class _ContractAim:
    """An epsilon at a delta."""

    epsilon: float
    delta: float
    relation: Neighbours
    engine: str | None

    def engines(self, probe: ev.Event) -> tuple[str, ...]:
        candidates = certifiers_for(probe, self.epsilon, self.delta, self.relation, self.engine)
        return tuple(each.name for each in candidates)

    def search(self, quantity: Unknown, name: str, event_at: EventAt) -> CertifiedValue:
        probe = event_at(quantity.start)
        (certifier,) = certifiers_for(probe, self.epsilon, self.delta, self.relation, name)
        return _search(quantity, certifier, event_at)

    def guarantee(self, event: ev.Event, best: CertifiedValue, lead: str) -> Guarantee:
        parts, certificate = leaves(event), best.certificate
        certified = Answer(certificate.bounds(), certificate.steps, certificate.warnings)
        if self.engine is not None:
            answer, name = combine({lead: certified}, forced=True)
        else:
            names = engines_for(parts, self.delta)
            names = names if lead in names else (lead, *names)
            answer, name = tightest(
                names,
                lambda name: (
                    certified
                    if name == lead
                    else engine_named(name).epsilon(parts, self.delta, self.relation)
                ),
            )
        answer = with_scope(event, answer, self.relation, delta=self.delta)
        return Guarantee(
            answer.bounds,
            Bounds.exactly(self.delta),
            self.relation,
            name,
            unit_of(event),
            observer_of(event),
            derivation=answer.steps,
            warnings=answer.warnings,
        )

    def calibration(self, value: float, event: ev.Event, guarantee: Guarantee) -> Calibration:
        # No epsilon below the lower end is true of the event: nothing better than `gap` was missed.
        gap = self.epsilon - guarantee.epsilon.lower
        return Calibration(value, guarantee, gap, self.epsilon, event, guarantee.epsilon)


@dataclass(frozen=True)
class _RiskAim:
    """A risk of the best attack, which one (epsilon, delta) certifies."""

    target: RiskTarget
    relation: Neighbours
    engine: str | None

    def engines(self, probe: ev.Event) -> tuple[str, ...]:
        return engines_for(leaves(probe)) if self.engine is None else (self.engine,)

    def search(self, quantity: Unknown, name: str, event_at: EventAt) -> CertifiedValue:
        """Return the best value; raise with what can be met where none meets the target."""
        try:
            if isinstance(self.target, TprTarget):
                return self._along_tangents(self.target, quantity, name, event_at)
            return self._search_at(self.target.first_epsilon, quantity, name, event_at)
        except TargetUnreachable:
            raise self._unreachable(quantity, event_at) from None
        except TargetTrivial as trivial:
            raise TargetTrivial(trivial.what, trivial.why, "Ask for a smaller risk.") from None

    def _search_at(
        self, epsilon: float, quantity: Unknown, name: str, event_at: EventAt
    ) -> CertifiedValue:
        return _search(quantity, self._certifier(epsilon, quantity, name, event_at), event_at)

    def _certifier(
        self, epsilon: float, quantity: Unknown, name: str, event_at: EventAt
    ) -> Certifier:
        delta = self.target.delta(epsilon)
        probe = event_at(quantity.start)
        (certifier,) = certifiers_for(probe, epsilon, delta, self.relation, name)
        return certifier

    def _along_tangents(
        self, target: TprTarget, quantity: Unknown, name: str, event_at: EventAt
    ) -> CertifiedValue:
        """Return the best value over all epsilons, at each of which a delta meets the target.

        At the best epsilon the line e^eps FPR + delta touches the trade-off function at the FPR;
        what an epsilon next to it costs is of second order, unless losses end in an atom there.
        """
        epsilon, best = target.first_epsilon, None
        for tried in range(MAX_TANGENTS):
            certifier = self._certifier(epsilon, quantity, name, event_at)
            gain = math.inf
            try:
                candidate = _search(quantity, certifier, event_at)
            except TargetUnreachable:
                # Perhaps not at this epsilon: a delta that no noise lowers calls for a smaller one.
                at = quantity.strongest
            else:
                at = candidate.value
                if best is not None:
                    gain = quantity.coordinate(best.value) - quantity.coordinate(at)
                if gain > 0.0:
                    best, quantity = candidate, replace(quantity, start=at)
            if gain <= TANGENT_GAIN:
                break
            parts, slope = leaves(event_at(at)), target.line_slope
            nearer = target.admissible(certifier.tangent(parts, slope, LARGEST_EPSILON)[0])
            if tried == QUICK_TANGENTS:
                # The best epsilon moves as fast as the value does: look for both at once.
                nearer = self._touching(target, quantity, certifier, event_at)
            if abs(nearer - epsilon) <= 1e-9 * epsilon:
                break
            epsilon = nearer
        if best is None:
            raise TargetUnreachable("No epsilon certifies this target.")
        return best

    def _touching(
        self, target: TprTarget, quantity: Unknown, certifier: Certifier, event_at: EventAt
    ) -> float:
        """Return the epsilon of the tangent at the value where the TPR is about the target's."""
        allowed = math.exp(target.first_epsilon) * target.line_slope + target.delta(
            target.first_epsilon
        )

        def tangent(coordinate: float) -> tuple[float, float]:
            parts = leaves(event_at(quantity.value(coordinate)))
            return certifier.tangent(parts, target.line_slope, LARGEST_EPSILON)

        ends = sorted(map(quantity.coordinate, (quantity.weakest, quantity.strongest)))
        bracket = enclose(
            lambda coordinate: math.log(tangent(coordinate)[1] / allowed),
            quantity.coordinate(quantity.start),
            0.05,
            *ends,
        )
        if bracket is None:
            return target.admissible(tangent(quantity.coordinate(quantity.start))[0])
        root = narrow(
            lambda coordinate: math.log(tangent(coordinate)[1] / allowed),
            bracket,
            absolute=TANGENT_GAIN,
            steps=30,
        )
        return target.admissible(tangent(root.high)[0])

    def guarantee(self, event: ev.Event, best: CertifiedValue, lead: str) -> Guarantee:  # noqa: ARG002
        at = best.certificate.epsilon
        return account(event, epsilon=at, neighbours=self.relation, engine=self.engine)

    def calibration(self, value: float, event: ev.Event, guarantee: Guarantee) -> Calibration:
        target = self.target
        risk = target.reached(guarantee.epsilon.upper, guarantee.delta)
        if isinstance(target, TprTarget):
            # What an attack attains at that FPR: no single delta says it.
            attained = attack_power(event, self.relation).tpr(target.fpr).lower
            risk = Bounds(min(max(attained, risk.lower), risk.upper), risk.upper)
        return Calibration(
            value, guarantee, target.gap(risk), target.value, event, risk, target.measure
        )

    def _unreachable(self, quantity: Unknown, event_at: EventAt) -> TargetUnreachable:
        target = self.target
        what = (
            f"No {quantity.name} from {quantity.low:g} to {quantity.high:g} meets {target.words}."
        )
        ask = f"Ask for {target.relaxed}, or release less."
        why = "What does not depend on it leaves more than that by itself."
        with contextlib.suppress(Unsupported):
            strongest = event_at(quantity.strongest)
            if isinstance(target, TprTarget):
                risk = attack_power(strongest, self.relation).tpr(target.fpr)
            else:
                epsilon = target.first_epsilon
                proven = account(
                    strongest, epsilon=epsilon, neighbours=self.relation, engine=self.engine
                )
                risk = target.reached(epsilon, proven.delta)
            met = (
                f"at least {rounding.down(risk.lower)}"
                if target.measure == "bayes_risk"
                else f"at most {rounding.up(risk.upper)}"
            )
            why = (
                f"With {with_article(quantity.name)} of {quantity.strongest:g} the "
                f"{LABELS[target.measure]} is {met}, and no other value does better."
            )
        return TargetUnreachable(what, why, ask)


def _search(quantity: Unknown, certifier: Certifier, event_at: EventAt) -> CertifiedValue:
    return find_certified_value(
        quantity,
        certify=lambda value: certifier.certify(leaves(event_at(value))),
        coarse=lambda value: certifier.coarse_log_excess(leaves(event_at(value))),
        estimate=lambda value: certifier.estimated_log_excess(leaves(event_at(value))),
        delta_excess=certifier.delta_log_excess,
    )
