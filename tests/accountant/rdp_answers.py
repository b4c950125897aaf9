"""What the rdp engine and its curves answer, for the tests of both."""

from __future__ import annotations

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.base import Engine
from privplan.accountant.engines.rdp import RdpEngine
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.guarantee import Neighbours

ENGINE: Engine = RdpEngine()
ADD: Neighbours = "add-remove"
REPLACE: Neighbours = "replace-one"


def epsilon(event: ev.Event, delta: float = 1e-5, neighbours: Neighbours = ADD) -> float:
    bounds = ENGINE.epsilon(Composition.of(event), delta, neighbours).bounds
    assert bounds.lower == 0.0
    return bounds.upper


def delta(event: ev.Event, at: float, neighbours: Neighbours = ADD) -> float:
    return ENGINE.delta(Composition.of(event), at, neighbours).bounds.upper


def rounds(noise: float, rate: float, count: int) -> ev.Event:
    return ev.Repeat(count, ev.Poisson(rate, ev.Gaussian(noise)))


def divergence(event: ev.Event, order: float, neighbours: Neighbours = ADD) -> float:
    return float(curve(event, neighbours).at(np.array([order]))[0])


def bounds_tightly(ours: float, truth: float, excess: float = 1e-9) -> None:
    assert truth <= ours <= truth * (1.0 + excess)
