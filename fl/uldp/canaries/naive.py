"""Canaries for ULDP-NAIVE: one user in each of many small runs.

A silo's whole update is clipped as one, so one user is all that a run can tell about.  The others
pull every silo's update by -M, far beyond the clip, and the user, who is in or out by a fair coin,
by +2M: it swings the sum of the silos A that are seen from one end to the other,

    in   + C |A|        out   - C |A|

which is all that one user can do, whether its records are removed or exchanged.  The signs of it
all alternate by round.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ....accountant import events as ev
from ....accountant.arrays import FloatArray, IntArray
from ....accountant.mechanisms import Gaussian
from ....accountant.sensitivity.release import repeated, sensitivity_multiplier
from ...aggregation.choice import aggregator
from ...canaries import (
    CANARY_NORM_IN_CLIPS,
    OBSERVER_SILO,
    CanaryHarness,
    CanaryObservations,
    MakeRounds,
    RecordingAggregator,
    RehearsalRequest,
    canary_federation,
    mask_pairs,
)
from ...frame.model import Parameters
from ...frame.setup import setup
from ...observers.names import SERVER, SILO
from ...settings.schema import Settings
from ...training.local_training import NoTraining, Rows
from ..naive import UldpNaive


class SwingingUserTraining(NoTraining):
    """A `LocalTraining` of one number, in which one user turns every silo's update around.

    `into` says whether the user is there, `sign` which way it pulls in even rounds.
    """

    def __init__(self, silos: int, clip: float) -> None:
        self._silos, self._pull = silos, CANARY_NORM_IN_CLIPS * clip
        self.into, self.sign = False, 1.0

    def initial(self) -> Parameters:
        return np.zeros(1)

    def towards(self, number: int) -> float:
        """Return the direction in which the user pulls in round `number`; public."""
        return self.sign if number % 2 == 0 else -self.sign

    def silo_deltas(self, parameters: Parameters, number: int) -> Rows:
        """Return the update of each silo, (silos, 1): -M of the others, and +2M of the user."""
        # Both are far beyond the clip: the clipped update is +C or -C, whatever M is.
        pulled = 2.0 * self._pull * self.into - self._pull
        return np.full((self._silos, parameters.size), pulled * self.towards(number))


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what one user in each of `request.canaries` runs shows to an observer.

    As published, nothing is promised; what is tested is what the paper takes a round for, Gaussian
    noise of the multiplier that it states, before those who see the sum.
    """
    return NaiveCanaries(request).simulated()


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round: each canary has a run of its own."""
    return 300 * canaries * mask_pairs(settings, silos)


class NaiveCanaries(CanaryHarness[float]):
    """One user in each run, and the sum of the silos that are seen."""

    alone = "The others of its run only pull against it."
    room = 1

    @cached_property
    def local(self) -> SwingingUserTraining:
        """The training of every run."""
        return SwingingUserTraining(self.request.silos, self.request.settings.training.clip)

    @cached_property
    def system(self) -> UldpNaive:
        """The system of every run; its user and its aggregator change."""
        federation = canary_federation(np.ones((2, self.request.silos), np.int64))
        parts = setup(self.request.settings, federation, self.local)
        return UldpNaive(parts, as_published=self.request.settings.as_published)

    @cached_property
    def mechanism(self) -> Gaussian:
        """The noise of every round."""
        return self.system.mechanism(self.system.promise.noise_multiplier)

    @property
    def silos_seen(self) -> int:
        """How many silos' updates the observer sees, and does not know."""
        return self.request.silos - (self.request.observer == SILO)

    @cached_property
    def noise(self) -> float:
        """The deviation of the noise in their sum."""
        return self.mechanism.share_std * math.sqrt(self.silos_seen)

    @cached_property
    def shift(self) -> float:
        half = self.request.settings.training.clip * self.silos_seen / self.noise
        return half if self.replaced else 2.0 * half

    def place(self, run: int, units: IntArray) -> MakeRounds:
        (user,), settings, silos = units, self.request.settings, self.request.silos
        self.local.into, self.local.sign = bool(self.coins.into[user]), self.coins.signs[user]
        self.recorder = RecordingAggregator(aggregator(settings.security, silos))
        self.system.aggregator = self.recorder
        return self.rounds_of(self.system, self.request.streams(run))

    def observe(self, number: int, before: Parameters, after: Parameters) -> float:
        # The server's step is undone: x moved by eta_g / |S| times the sum.
        total = (after - before) * self.request.silos / self.request.settings.training.global_rate
        if self.request.observer == SILO:  # what it sent itself, it takes off
            total = total - self.mechanism.units(self.recorder.sent[OBSERVER_SILO])
        elif self.request.observer == SERVER and self.recorder.sum is not None:
            total = self.mechanism.units(self.recorder.sum.total)
        return float(total[0])

    def score(self, number: int, seen: float) -> FloatArray:
        along = seen * self.local.towards(number) / self.noise
        # The others pull against a user: where it is removed, the sum is at their end.
        return np.array([along if self.replaced else along + self.shift / 2.0])

    @cached_property
    def event(self) -> ev.Event | None:
        """What the paper takes the rounds for; None where the plan says what they are."""
        privacy = self.system.setup.privacy
        noise = privacy.noise_multiplier
        if not self.system.as_published or self.request.observer == SILO or noise is None:
            return None
        # Under replace-one noise is counted in halves of what a unit moves; the number is the same.
        times = sensitivity_multiplier(privacy.neighbours)
        return repeated(self.rounds, ev.Gaussian(noise * times))

    def notes(self) -> tuple[str, ...]:
        note = "one user in each of many small runs, who turns the update of every silo around"
        claim = "run as published: what is tested is the paper's own claim, and nothing is proven"
        return (note, claim) if self.system.as_published else (note,)
