"""How good one value of the unknown is: the certificate of an engine at a fixed target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from . import events as ev
from .account import engine_named, guarded
from .composition import Leaf, leaves
from .engine_order import engines_for
from .engines.base import Answer, Engine
from .guarantee import Bounds, Step
from .neighbours import Neighbours
from .rootfinding import log_odds_over


class Certificate(Protocol):
    """What an engine found at one value of the unknown, for a target (epsilon, delta)."""

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
    """Judges values of the unknown by one engine."""

    @property
    def name(self) -> str:
        """Name of the engine."""

    def verdict(self, parts: Sequence[Leaf]) -> Certificate:
        """Return the certificate."""

    def answered(self, found: Certificate) -> float:
        """Return its log excess, as the question for delta says it when it is asked by itself."""

    def rough(self, parts: Sequence[Leaf]) -> float:
        """Return the log excess of a cheaper and looser certificate."""

    def estimate(self, parts: Sequence[Leaf]) -> float:
        """Return about the log excess, fast; nothing rests on it."""


def certifiers_for(
    probe: ev.Event, epsilon: float, delta: float, relation: Neighbours, engine: str | None
) -> tuple[Certifier, ...]:
    """Return the certifiers to try in turn: the next where one raises `Unsupported` on the way."""
    names = engines_for(leaves(probe)) if engine is None else (engine,)
    return tuple(
        PldCertifier(epsilon, delta, relation)
        if name == "pld"
        else EngineCertifier(engine_named(name), epsilon, delta, relation)
        for name in names
    )


class PldCertifier:
    """Judges by pld certificates, with its saddle point as the estimate."""

    name = "pld"

    def __init__(self, epsilon: float, delta: float, relation: Neighbours) -> None:
        from .engines.pld.engine import PldEngine

        self._engine = PldEngine()
        self._target = epsilon, delta, relation

    def verdict(self, parts: Sequence[Leaf]) -> Certificate:
        with guarded(self.name):
            return self._engine.certificate(parts, *self._target)

    def answered(self, found: Certificate) -> float:
        from .engines.pld.certificate import Certificate

        assert isinstance(found, Certificate)
        with guarded(self.name):
            return found.answered_excess

    def rough(self, parts: Sequence[Leaf]) -> float:
        with guarded(self.name):
            return self._engine.certificate(parts, *self._target, coarser=4.0).log_excess

    def estimate(self, parts: Sequence[Leaf]) -> float:
        with guarded(self.name):
            return self._engine.estimate(parts, *self._target)


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
    """Judges by one engine's own answers; both of them must meet the target."""

    def __init__(self, engine: Engine, epsilon: float, delta: float, relation: Neighbours) -> None:
        self._engine = engine
        self._target = epsilon, delta, relation
        self.name = engine.name

    def verdict(self, parts: Sequence[Leaf]) -> Certificate:
        """Return the certificate."""
        epsilon, delta, relation = self._target
        with guarded(self.name):
            answer = self._engine.epsilon(parts, delta, relation)
        return EngineCertificate(epsilon, self.rough(parts), answer)

    def answered(self, found: Certificate) -> float:
        """Return its log excess: that question was asked by itself."""
        return found.log_excess

    def rough(self, parts: Sequence[Leaf]) -> float:
        """Return the log excess of the engine's delta."""
        epsilon, delta, relation = self._target
        with guarded(self.name):
            upper = self._engine.delta(parts, epsilon, relation).bounds.upper
        return log_odds_over(math.log(upper), delta) if upper > 0.0 else -math.inf

    estimate = rough
