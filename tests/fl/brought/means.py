"""Systems of somebody else's that train nothing: noisy means of the features, and a count."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gaussian, RoundDescription
from privplan.accountant.plan import PlannedPhase, plan_given_noise
from privplan.accountant.sensitivity.release import up
from privplan.fl.frame.phases import Phase
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.promise import Promise, claimed
from privplan.fl.frame.rounds import Draft
from privplan.fl.frame.setup import setup
from privplan.fl.frame.state import State


def measure(prepared: Any, parameters: Any) -> Mapping[str, float]:
    test = prepared.federation.test_features
    return {"distance": float(np.abs(parameters[:-1] - test.mean(0)).max())}


NOTHING = ev.NoGuarantee("a system of a test")


class Means(PrivateSystem):
    """Each round releases the noisy mean of the users' first records; `average` is over rounds."""

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

        def work(ticket: Any) -> Draft:
            (total,) = mechanism.noisy(ticket, [mechanism.total(self.rows())], ["noise"])
            moved = total / federation.users
            average = state["average"] + (moved - state["average"]) / number
            constant = records.Normaliser("constant", float(federation.users))
            return Draft(moved, {"average": average}, aggregate=total, normaliser=constant)

        return self.make_round(number, parameters, gate, work)

    def rows(self) -> Any:
        federation = self.setup.federation
        _, first = np.unique(federation.user, return_index=True)
        return np.hstack([federation.features[first], np.ones((len(first), 1))]).astype(float)


class Stages(Means):
    """Two phases: rounds 1 and 2 with twice the noise, then the others."""

    @property
    def state(self) -> State:
        return State(average=(self.initial().size,))

    @cached_property
    def promise(self) -> Promise:
        privacy, noise = self.setup.privacy, self.setup.privacy.noise_multiplier or 0.0
        planned = [
            PlannedPhase(name, sigma, self.views(sigma)["model"], rounds, self.views(sigma))
            for name, sigma, rounds in (
                ("warm", 2.0 * noise, 2),
                (self.phase, noise, self.setup.rounds - 2),
            )
        ]
        plan = plan_given_noise(planned, delta=privacy.delta, unit="user")
        return Promise(noise, plan, claimed(privacy, plan.guarantees["model"].epsilon.upper))

    @property
    def phases(self) -> tuple[Phase, ...]:
        warm, release = self.promise.plan.phases
        return (
            Phase(warm, 1, partial(self.stage, warm)),
            Phase(release, 3, partial(self.stage, release)),
        )

    def stage(self, phase: Any, number: int, parameters: Any, gate: Any, _: Any) -> Any:
        mechanism = self.mechanism(phase.noise_multiplier)

        def work(ticket: Any) -> Draft:
            (total,) = mechanism.noisy(ticket, [mechanism.total(self.rows())], ["noise"])
            return Draft(parameters + total, {"average": total}, aggregate=total)

        return self.make_round(number, parameters, gate, work, phase=phase)


class Doubled(Means):
    """Each round opens two intents, a count and a sum, and promises nothing."""

    between: Any = staticmethod(lambda _: None)
    state = State()

    @cached_property
    def promise(self) -> Promise:
        privacy = self.setup.privacy
        planned = PlannedPhase(self.phase, None, NOTHING, self.setup.rounds, {"model": NOTHING})
        plan = plan_given_noise([planned], delta=privacy.delta, unit="user")
        return Promise(2.0, plan, claimed(privacy, None))

    def round(self, number: int, parameters: Any, gate: Any, state: Any) -> Any:
        mechanism = self.mechanism(2.0)
        intent = mechanism.intent(
            RoundDescription(number, self.phase, event_override=NOTHING), "add-remove"
        )
        with gate.open(intent) as ticket:
            (count,) = mechanism.noisy(ticket, [mechanism.total(self.rows()[:, -1:])], ["count"])
            ticket.close(aggregate=count.tobytes())
        self.between(number)

        def work(ticket: Any) -> Draft:
            (total,) = mechanism.noisy(ticket, [mechanism.total(self.rows())], ["noise"])
            return Draft(parameters + total / max(float(count[0]), 1.0), aggregate=total)

        return self.make_round(number, parameters, gate, work)


def stages(settings: Any, federation: Any, local: Any, _: Any) -> Stages:
    return Stages(setup(settings, federation, local))


def doubled(settings: Any, federation: Any, local: Any, _: Any) -> Doubled:
    return Doubled(setup(settings, federation, local))


def make(settings: Any, federation: Any, local: Any, _: Any) -> Means:
    return Means(setup(settings, federation, local))
