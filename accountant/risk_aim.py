"""A risk of the best attack as the aim of a calibration."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from . import events as ev
from . import rounding
from .account import account
from .calibration_aims import Calibration, EventAt, search
from .certified_search import CertifiedValue, Unknown, trivial_target
from .certifiers import EngineCertificate
from .composition import leaves
from .engine_order import engines_for
from .engines.base import Answer
from .errors import TargetTrivial, TargetUnreachable, Unsupported, with_article
from .guarantee import Bounds, Guarantee
from .neighbours import Neighbours
from .risk.attack_power import attack_power
from .targets import RiskTarget, TprTarget
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

    def engines(self, probe: ev.Event) -> tuple[str, ...]:
        return engines_for(leaves(probe)) if self.engine is None else (self.engine,)

    def search(self, quantity: Unknown, name: str, event_at: EventAt) -> CertifiedValue:
        """Return the best value; raise with what can be met where none meets the target."""
        try:
            if isinstance(self.target, TprTarget):
                return self._tpr_search(self.target, quantity, name, event_at)
            probe, epsilon = event_at(quantity.start), self.target.first_epsilon
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
