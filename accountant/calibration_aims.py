"""What a calibration looks for: an epsilon at a delta, or a risk of the best attack.

An aim searches the unknown by one engine, says what all engines prove at the value, and makes the
result.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

from . import events as ev
from . import rounding
from .account import account, combine, engine_named, tightest, with_class_lower, with_scope
from .calibration import Calibration
from .certified_search import (
    CertifiedValue,
    Unknown,
    find_certified_value,
    trivial_target,
)
from .certifiers import Certifier, EngineCertificate, certifiers_for
from .composition import leaves, observer_of, unit_of
from .engine_order import engines_for
from .engines.base import Answer
from .errors import TargetTrivial, TargetUnreachable, Unsupported, with_article
from .guarantee import Bounds, Guarantee
from .lattice_noise import less_lattice_noise, where_delta_falls
from .neighbours import Neighbours
from .risk.attack_power import attack_power
from .rootfinding import enclose, narrow
from .targets import RiskTarget, TprTarget
from .tpr_search import TprSearch

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

TANGENTS_BEFORE_CURVES: Final = 3
"""So many of them where the trade-off function is searched next."""

LEAST_CURVE_TPR: Final = 1e-6
"""Smallest TPR that a curve of deltas, with its absolute errors, tells to a relative 1e-6."""

LARGEST_TANGENT_EPSILON: Final = 40.0
"""Largest epsilon of a tangent: beyond, with an FPR below e^-40, the trade-off function helps."""

EventAt: TypeAlias = Callable[[float], ev.Event]
"""The event at a value of the unknown."""


class Aim(Protocol):
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
class ContractAim:
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
        return search(quantity, certifier, event_at)

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
        answer = with_class_lower(
            event, answer, self.relation, delta=self.delta, engine=self.engine
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
class RiskAim:
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
                return self._tpr_search(self.target, quantity, name, event_at)
            return self._search_at(self.target.first_epsilon, quantity, name, event_at)
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
        if name != "pld":
            return self._along_tangents(target, quantity, name, event_at)
        best = None
        with contextlib.suppress(TargetUnreachable):
            best = self._along_tangents(target, quantity, name, event_at)
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

    def _search_at(
        self, epsilon: float, quantity: Unknown, name: str, event_at: EventAt
    ) -> CertifiedValue:
        return search(quantity, self._certifier(epsilon, quantity, name, event_at), event_at)

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
        # The trade-off function, which a search by pld ends with, knows all epsilons at once.
        is_first = name == "pld" and target.value >= LEAST_CURVE_TPR
        tangents = TANGENTS_BEFORE_CURVES if is_first else MAX_TANGENTS
        for tried in range(tangents):
            certifier = self._certifier(epsilon, quantity, name, event_at)
            gain = math.inf
            try:
                candidate = search(quantity, certifier, event_at)
            except TargetUnreachable:
                # Perhaps not at this epsilon: a delta that no noise lowers calls for a smaller one.
                at = quantity.strongest
            else:
                at = candidate.value
                if best is not None:
                    gain = quantity.coordinate(best.value) - quantity.coordinate(at)
                if gain > 0.0:
                    best, quantity = candidate, replace(quantity, start=at)
            if gain <= TANGENT_GAIN or (best is not None and tried == tangents - 1):
                break
            parts, slope = leaves(event_at(at)), target.line_slope
            nearer = target.admissible(certifier.tangent(parts, slope, LARGEST_TANGENT_EPSILON)[0])
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
            return certifier.tangent(parts, target.line_slope, LARGEST_TANGENT_EPSILON)

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


def search(quantity: Unknown, certifier: Certifier, event_at: EventAt) -> CertifiedValue:
    """Return the best value of the unknown that the certifier accepts."""
    best = find_certified_value(
        where_delta_falls(quantity, certifier, event_at),
        certify=lambda value: certifier.certify(leaves(event_at(value))),
        coarse=lambda value: certifier.coarse_log_excess(leaves(event_at(value))),
        estimate=lambda value: certifier.estimated_log_excess(leaves(event_at(value))),
        delta_excess=certifier.delta_log_excess,
    )
    return less_lattice_noise(quantity, best, certifier, event_at)
