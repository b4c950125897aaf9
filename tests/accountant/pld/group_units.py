"""Units of several records, and what the engine answers about them."""

from __future__ import annotations

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld import PldEngine

ENGINE = PldEngine()
ADD, REPLACE = "add-remove", "replace-one"


def unit(size, rate, mechanism, rounds=1):
    return ev.Group(size, ev.Repeat(rounds, ev.Poisson(rate, mechanism)))


def epsilon(event, delta=1e-5, neighbours=ADD):
    return ENGINE.epsilon(Composition.of(event), delta, neighbours).bounds


def delta(event, at, neighbours=ADD):
    return ENGINE.delta(Composition.of(event), at, neighbours).bounds
