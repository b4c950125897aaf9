"""Certificates of one value of an unknown at a fixed target (epsilon, delta), by each engine.

A certificate states the excess of the certified delta over the target's, at the target's epsilon;
it is an upper bound, so an excess of at most 0 proves that the value meets the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from .account import engine_named
from .composition import Composition
from .engine_order import engines_for
from .engines.base import Answer, Engine, guarded
from .errors import TargetUnreachable, Unsupported
from .guarantee import Bounds, Step
from .neighbours import Neighbours
from .rootfinding import least_argument, log_odds_over

TANGENT_ACCURACY: Final = 1e-4
"""Relative width in epsilon of the curve that a tangent is laid to: an error in its epsilon counts
in second order only."""

TANGENT_PRECISION: Final = 1e-4
"""How near to the best epsilon golden sections go, for the same reason."""


CompositionAt: TypeAlias = Callable[[float], Composition]
"""What is composed at one value of the unknown."""


class Certificate(Protocol):
    """What an engine proves at one value of the unknown, for a target (epsilon, delta)."""

    @property
    def epsilon(self) -> float:
        """The target's epsilon."""

    @property
    def log_excess(self) -> float:
        """Log odds of the certified delta over the target's: at most 0 if the target is met."""

    @property
    def epsilon_upper(self) -> float:
        """The epsilon that is certified at the target's delta."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know."""

    def bounds(self) -> Bounds:
        """Return bounds on epsilon at the target's delta."""


class Certifier(Protocol):
    """Certifies values of the unknown by one engine."""

    @property
    def name(self) -> str:
        """Name of the engine."""

    def certify(self, parts: Composition) -> Certificate:
        """Return the certificate."""

    def delta_log_excess(self, certificate: Certificate) -> float:
        """Return its log excess by a separate query for delta at the target's epsilon."""

    def coarse_log_excess(self, parts: Composition) -> float:
        """Return the log excess of a cheaper and looser certificate."""

    def estimated_log_excess(self, parts: Composition) -> float:
        """Return the log excess about, fast; no guarantee rests on it."""

    def tangent(self, parts: Composition, slope: float, largest: float) -> tuple[float, float]:
        """Return where `slope` e^eps + delta(eps) is about least up to `largest`, and how low."""


def certifiers_for(
    probe: Composition, epsilon: float, delta: float, relation: Neighbours, engine: str | None
) -> tuple[Certifier, ...]:
    """Return the certifiers to try in turn: the next where one raises `Unsupported` on the way."""
    if delta == 0.0 and engine in (None, PureCertifier.name):
        return (PureCertifier(epsilon, relation),)
    if delta == 0.0:
        raise Unsupported(
            f"The {engine} engine calibrates at a delta above 0 only.",
            "At delta 0 the largest loss counts.",
            "Leave the choice of the engine to privplan.",
        )
    names = engines_for(probe) if engine is None else (engine,)
    return tuple(
        PldCertifier(epsilon, delta, relation)
        if name == "pld"
        else EngineCertifier(engine_named(name), epsilon, delta, relation)
        for name in names
    )


class PldCertifier:
    """Certifies by pld, with its saddle point as the estimate."""

    name = "pld"

    def __init__(self, epsilon: float, delta: float, relation: Neighbours) -> None:
        from .engines.pld.ask.engine import PldEngine

        self._engine = PldEngine()
        self.target = epsilon, delta, relation

    def certify(self, parts: Composition) -> Certificate:
        with guarded(self.name):
            return self._engine.certificate(parts, *self.target)

    def delta_log_excess(self, certificate: Certificate) -> float:
        from .engines.pld.ask.certificate import Certificate as PldCertificate

        assert isinstance(certificate, PldCertificate)
        with guarded(self.name):
            return certificate.answered_excess

    def coarse_log_excess(self, parts: Composition) -> float:
        with guarded(self.name):
            return self._engine.certificate(parts, *self.target, coarser=4.0).log_excess

    def estimated_log_excess(self, parts: Composition) -> float:
        with guarded(self.name):
            return self._engine.estimate(parts, *self.target)

    def tangent(self, parts: Composition, slope: float, largest: float) -> tuple[float, float]:
        """Return it from a curve of delta at all epsilons, at one of its nodes."""
        import numpy as np

        from .engines.pld.compose.curve import delta_curves

        with guarded(self.name):
            curves = delta_curves(parts, self.target[2], TANGENT_ACCURACY)
        nodes = np.unique(np.concatenate([np.zeros(1), *(curve.epsilons for curve in curves)]))
        nodes = nodes[(nodes >= 0.0) & (nodes <= largest)]
        deltas = np.max([curve.at(nodes) for curve in curves], axis=0)
        heights = slope * np.exp(nodes) + deltas
        lowest = int(np.argmin(heights))
        return float(nodes[lowest]), float(heights[lowest])


class PureCertifier:
    """Certifies at delta 0: the excess is that of the largest loss over epsilon, as a log."""

    name = "pure"

    def __init__(self, epsilon: float, relation: Neighbours) -> None:
        self._epsilon = epsilon
        self._relation = relation
        self._engine = engine_named(self.name)

    def certify(self, parts: Composition) -> Certificate:
        """Return the certificate; raise `TargetUnreachable` where losses have no bound."""
        with guarded(self.name):
            answer = self._engine.epsilon(parts, 0.0, self._relation)
        upper = answer.bounds.upper
        if math.isinf(upper):
            raise TargetUnreachable(
                "No epsilon holds at delta 0 here, whatever the noise.",
                answer.warnings[0] if answer.warnings else "",
                "Use Laplace noise, or give a delta above 0.",
            )
        excess = math.log(upper / self._epsilon) if upper > 0.0 else -math.inf
        return EngineCertificate(self._epsilon, excess, answer)

    def delta_log_excess(self, certificate: Certificate) -> float:
        """Return its log excess: delta is 0 where the largest loss is at most epsilon."""
        return certificate.log_excess

    def coarse_log_excess(self, parts: Composition) -> float:
        """Return the log excess."""
        return self.certify(parts).log_excess

    estimated_log_excess = coarse_log_excess

    def tangent(self, parts: Composition, slope: float, largest: float) -> tuple[float, float]:
        """Return the target's epsilon: no other one is certified at delta 0."""
        return self._epsilon, slope * math.exp(self._epsilon)


@dataclass(frozen=True)
class EngineCertificate:
    """The certificate of an engine that answers both questions, epsilon and delta."""

    epsilon: float
    log_excess: float
    answer: Answer

    @property
    def epsilon_upper(self) -> float:
        """The epsilon that is certified at the target's delta."""
        return self.answer.bounds.upper

    @property
    def steps(self) -> tuple[Step, ...]:
        """The derivation."""
        return self.answer.steps

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know."""
        return self.answer.warnings

    def bounds(self) -> Bounds:
        """Return bounds on epsilon at the target's delta."""
        return self.answer.bounds


class EngineCertifier:
    """Certifies by one engine's bounds on epsilon and on delta; both must meet the target."""

    def __init__(self, engine: Engine, epsilon: float, delta: float, relation: Neighbours) -> None:
        self._engine = engine
        self._target = epsilon, delta, relation
        self.name = engine.name

    def certify(self, parts: Composition) -> Certificate:
        """Return the certificate."""
        epsilon, delta, relation = self._target
        with guarded(self.name):
            answer = self._engine.epsilon(parts, delta, relation)
        return EngineCertificate(epsilon, self.coarse_log_excess(parts), answer)

    def delta_log_excess(self, certificate: Certificate) -> float:
        """Return its log excess: here delta is a query of its own already."""
        return certificate.log_excess

    def coarse_log_excess(self, parts: Composition) -> float:
        """Return the log excess of the engine's delta."""
        epsilon, delta, relation = self._target
        with guarded(self.name):
            upper = self._engine.delta(parts, epsilon, relation).bounds.upper
        return log_odds_over(math.log(upper), delta) if upper > 0.0 else -math.inf

    estimated_log_excess = coarse_log_excess

    def tangent(self, parts: Composition, slope: float, largest: float) -> tuple[float, float]:
        """Return it by golden sections of the engine's delta."""

        def height(epsilon: float) -> float:
            with guarded(self.name):
                delta = self._engine.delta(parts, epsilon, self._target[2]).bounds.upper
            return slope * math.exp(epsilon) + delta

        lowest = least_argument(height, 0.0, largest, TANGENT_PRECISION)
        return lowest, height(lowest)
