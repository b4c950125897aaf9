"""Canaries for ULDP-NAIVE: one user in each of many small runs.

A silo's whole update is clipped as one, so one user is all that a run can tell about.  The others
pull every silo's update by -M, far beyond the clip, and the user, who is in or out by a fair coin,
by +2M: it swings the sum of the silos A that are seen from one end to the other,

    in   + C |A|        out   - C |A|

which is all that one user can do, whether its records are removed or exchanged.  The signs of it
all alternate by round.  The plan is certified once; every run has a gate, an odometer and
randomness of its own.
"""

from __future__ import annotations

import math

import numpy as np

from ....accountant import events as ev
from ....accountant.sensitivity.release import repeated, sensitivity_multiplier
from ...aggregation.choice import aggregator
from ...canaries import (
    CANARY_NORM_IN_CLIPS,
    OBSERVER_SILO,
    CanaryObservations,
    RecordingAggregator,
    RehearsalRequest,
    canary_federation,
    flip_coins,
    mask_pairs,
    refuse_real_users,
    require_observer,
    rounds_to_simulate,
    simulate_rounds,
)
from ...frame.model import Parameters
from ...frame.setup import setup
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
        """Return the first model."""
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
    refuse_real_users(request, "The others of its run only pull against it.")
    settings, silos = request.settings, request.silos
    local = SwingingUserTraining(silos, settings.training.clip)
    federation = canary_federation(np.ones((2, silos), np.int64))
    system = UldpNaive(setup(settings, federation, local), as_published=settings.as_published)
    require_observer(system.plan(), request.observer)
    coins, rounds = (
        flip_coins(request.canaries, request.rng()),
        rounds_to_simulate(system.plan(), request.rounds),
    )
    seen = np.empty((rounds, request.canaries))
    for run in range(request.canaries):
        local.into, local.sign = bool(coins.into[run]), float(coins.signs[run])
        seen[:, run] = _run(request, system, local, run)
    silos_seen = silos - 1 if request.observer == "silo" else silos
    noise = system.mechanism(system.promise.noise_multiplier).share_std * math.sqrt(silos_seen)
    shift = settings.training.clip * silos_seen / noise
    if settings.privacy.neighbours != "replace-one":  # a user who is out is at 0, not opposite
        seen += noise * shift
        shift *= 2.0
    return CanaryObservations(
        coins=coins.into,
        observations=seen / noise,
        shift=shift,
        rate=1.0,
        plan=system.plan(),
        opening=system.opening(),
        rounds=rounds,
        note=_note(system),
        event=_published(system, request.observer, rounds),
    )


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round: each canary has a run of its own."""
    return 300 * canaries * mask_pairs(settings, silos)


def _run(
    request: RehearsalRequest, system: UldpNaive, local: SwingingUserTraining, run: int
) -> list[float]:
    """Return what the observer sees of each round of one run, in the user's direction."""
    settings, seen = request.settings, list[float]()
    recorder = system.aggregator = RecordingAggregator(aggregator(settings.security, request.silos))
    mechanism = system.mechanism(system.promise.noise_multiplier)

    def each(number: int, before: Parameters, after: Parameters) -> None:
        # The server's step is undone: x moved by eta_g / |S| times the sum.
        total = (after - before) * request.silos / settings.training.global_rate
        if request.observer == "silo":  # what it sent itself, it takes off
            total = total - mechanism.units(recorder.sent[OBSERVER_SILO])
        elif request.observer == "server" and recorder.sum is not None:
            total = mechanism.units(recorder.sum.total)
        seen.append(float(total[0]) * local.towards(number))

    simulate_rounds(system, request.streams(run), rounds=request.rounds, each=each)
    return seen


def _published(system: UldpNaive, observer: str, rounds: int) -> ev.Event | None:
    """Return what the paper takes so many rounds for; None where the plan says what they are."""
    noise = system.setup.privacy.noise_multiplier
    if not system.as_published or observer == "silo" or noise is None:
        return None
    # Under replace-one noise is counted in halves of what a unit moves; the number is the same.
    return repeated(
        rounds, ev.Gaussian(noise * sensitivity_multiplier(system.setup.privacy.neighbours))
    )


def _note(system: UldpNaive) -> tuple[str, ...]:
    note = "one user in each of many small runs, who turns the update of every silo around"
    if not system.as_published:
        return (note,)
    return note, "run as published: what is tested is the paper's own claim, and nothing is proven"
