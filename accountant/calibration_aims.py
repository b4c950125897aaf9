"""What a calibration looks for, and an epsilon at a delta as such an aim.

An aim searches the unknown by one engine, says what all engines prove at the value, and makes the
result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from . import events as ev
from .account import Question, combine, engine_named, tightest, with_class_lower, with_scope
from .certified_search import CertifiedValue, Unknown, find_certified_value
from .certifiers import Certifier, certifiers_for
from .composition import Composition
from .engine_order import engines_for
from .engines.base import Answer
from .event_tree import observer_of, unit_of
from .exact_lattice_noise import smallest_lattice_noise
from .guarantee import Bounds, Guarantee
from .lattice_noise import less_lattice_noise, where_delta_falls
from .neighbours import Neighbours


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


EventAt: TypeAlias = Callable[[float], ev.Event]
"""The event at a value of the unknown."""


class Aim(Protocol):
    """What a calibration looks for, and how it says what it found."""

    def engines(self, probe: Composition) -> tuple[str, ...]:
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

    def engines(self, probe: Composition) -> tuple[str, ...]:
        candidates = certifiers_for(probe, self.epsilon, self.delta, self.relation, self.engine)
        return tuple(each.name for each in candidates)

    def search(self, quantity: Unknown, name: str, event_at: EventAt) -> CertifiedValue:
        probe = Composition.of(event_at(quantity.start))
        (certifier,) = certifiers_for(probe, self.epsilon, self.delta, self.relation, name)
        return search(quantity, certifier, event_at)

    def guarantee(self, event: ev.Event, best: CertifiedValue, lead: str) -> Guarantee:
        parts, certificate = Composition.of(event), best.certificate
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
        question = Question(self.delta, None)
        answer = with_class_lower(parts, answer, question, self.relation, self.engine)
        answer = with_scope(event, parts, answer, self.relation, delta=self.delta)
        return Guarantee(
            answer.bounds,
            Bounds.exactly(self.delta),
            self.relation,
            name,
            unit_of(event),
            observer_of(event),
            derivation=answer.steps,
            warnings=answer.warnings,
            lower_of_class=answer.lower_of_class,
        )

    def calibration(self, value: float, event: ev.Event, guarantee: Guarantee) -> Calibration:
        # No epsilon below the lower end is true of the event: nothing better than `gap` was missed.
        gap = self.epsilon - guarantee.epsilon.lower
        return Calibration(value, guarantee, gap, self.epsilon, event, guarantee.epsilon)


def search(quantity: Unknown, certifier: Certifier, event_at: EventAt) -> CertifiedValue:
    """Return the best value of the unknown that the certifier accepts."""

    def composition_at(value: float) -> Composition:
        return Composition.of(event_at(value))

    exact = smallest_lattice_noise(quantity, certifier, composition_at)
    if exact is not None:
        return exact
    best = find_certified_value(
        where_delta_falls(quantity, certifier, composition_at),
        certify=lambda value: certifier.certify(composition_at(value)),
        coarse=lambda value: certifier.coarse_log_excess(composition_at(value)),
        estimate=lambda value: certifier.estimated_log_excess(composition_at(value)),
        delta_excess=certifier.delta_log_excess,
    )
    return less_lattice_noise(quantity, best, certifier, composition_at)
