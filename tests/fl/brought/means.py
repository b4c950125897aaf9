"""A system of somebody else's that trains nothing: the noisy mean of the features, and a count."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gaussian
from privplan.accountant.sensitivity.release import up
from privplan.fl.frame.rounds import Draft
from privplan.fl.frame.state import State
from privplan.fl.setup import Promised, setup


class Means(Promised):
    """Each round releases the noisy mean of the users' first records; `average` is over rounds."""

    aggregations = ("plain",)
    phase = "release"

    @property
    def state(self) -> State:
        return State(average=(self.initial().size,))

    @property
    def parts(self) -> Mapping[str, tuple[int, ...]]:
        return {"mean": (self.initial().size - 1,), "count": ()}

    def initial(self) -> Any:
        return np.zeros(self.setup.federation.features.shape[1] + 1)

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        clip = self.setup.training.clip
        std = up(Fraction(noise_multiplier) * Fraction(clip))
        return Gaussian(bound=clip, std=std, terms="unit", unit="user")

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        event = ev.Gaussian(noise_multiplier)
        return {"model": event, "server": event}

    def round(self, number: int, parameters: Any, gate: Any, state: Any) -> Any:
        federation, mechanism = self.setup.federation, self.mechanism(self.promise.noise_multiplier)
        _, first = np.unique(federation.user, return_index=True)
        rows = np.hstack([federation.features[first], np.ones((len(first), 1))]).astype(float)

        def work(ticket: Any) -> Draft:
            (total,) = mechanism.noisy(ticket, [mechanism.total(rows)], ["noise"])
            moved = total / federation.users
            average = state["average"] + (moved - state["average"]) / number
            constant = records.Normaliser("constant", float(federation.users))
            return Draft(moved, {"average": average}, aggregate=total, normaliser=constant)

        return self.make_round(number, parameters, gate, work)

    def measure(self, parameters: Any, federation: Any) -> Mapping[str, float]:
        return {"distance": float(np.abs(parameters[:-1] - federation.test_features.mean(0)).max())}


def make(settings: Any, federation: Any, local: Any, _: Any) -> Means:
    return Means(setup(settings, federation, local))
