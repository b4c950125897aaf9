"""What a package of somebody else's may bring: other server steps, and a pull, over uldp-avg."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from privplan.fl.frame.state import State
from privplan.fl.uldp.averaging import UldpAvg
from privplan.fl.uldp.weighted import hooked


class FedProx(UldpAvg):
    """Local training that is pulled back to the model that it started from."""

    state = State()
    proximal = 1.5


class Momentum(UldpAvg):
    """v <- .9 v + mean;  x + eta v: federated averaging with momentum on the server."""

    @cached_property
    def state(self) -> State:
        return State(velocity=(self.setup.local.initial().size,))

    def server_step(self, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        velocity = 0.9 * state["velocity"] + noisy.mean
        return parameters + self.setup.training.global_rate * velocity, {"velocity": velocity}


class Adam(UldpAvg):
    """FedAdam: Reddi et al. 2021, Adaptive federated optimization, arXiv 2003.00295."""

    @cached_property
    def state(self) -> State:
        size = self.setup.local.initial().size
        return State(first=(size,), second=(size,), steps=())

    def server_step(self, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        first = 0.9 * state["first"] + 0.1 * noisy.mean
        second = 0.99 * state["second"] + 0.01 * noisy.mean**2
        moved = parameters + 0.05 * first / (np.sqrt(second) + 1e-3)
        return moved, {"first": first, "second": second, "steps": state["steps"] + 1.0}


class LookingAhead(Momentum):
    """Silos start where momentum alone would lead: Nesterov."""

    @cached_property
    def state(self) -> State:
        return State(velocity=(self.setup.local.initial().size,))

    def start(self, parameters: Any, state: Any, number: int) -> Any:
        return parameters + 0.9 * self.setup.training.global_rate * state["velocity"]


class Hidden(UldpAvg):
    """Momentum in an attribute, of which nothing is said."""

    velocity: Any = 0.0

    def server_step(self, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        self.velocity = 0.9 * self.velocity + noisy.mean
        return parameters + self.setup.training.global_rate * self.velocity, {}


def maker(kind: Any) -> Any:
    def make(settings: Any, federation: Any, local: Any, streams: Any) -> Any:
        return hooked(kind, settings, federation, local, streams)

    return make


fedprox, momentum, adam = maker(FedProx), maker(Momentum), maker(Adam)
looking, hidden = maker(LookingAhead), maker(Hidden)
