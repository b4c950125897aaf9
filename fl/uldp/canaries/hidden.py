"""Canaries in ULDP-AVG and ULDP-SGD under private weighting: few users, by the protocol itself.

The protocol is carried out as in a run, with keys of the run's length, and each unit costs an
encrypted update of as many numbers as there are units: some hundreds are all that is practical,
and what they show is accordingly little.

model, server    a unit has records in every silo, as many as are counted: its weights sum to less
                 than 1 by the dummy alone
silo 0           it has them in all other silos, and silo 0 takes its own noise off; it is not told
                 who was drawn, and the server is, where it draws

A silo with records of the unit itself is not rehearsed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Final, cast

import numpy as np

from ....accountant.arrays import BoolArray, FloatArray, IntArray
from ....accountant.errors import InvalidInput, Unsupported
from ....accountant.mechanisms import FineGaussian, Ticket
from ....accountant.randomness import Streams
from ...canaries import (
    OBSERVER_SILO,
    CanaryObservations,
    RehearsalRequest,
    View,
    canary_training,
)
from ...frame.model import Parameters
from ...frame.setup import Setup, setup
from ...frame.system import System
from ...observers.names import SERVER, SILO, SILO_WITH_RECORDS
from ...parties.network import silo_name
from ..hidden_weights import UldpAvgHiddenWeights

STEP_OF_SYSTEM: Final = {"uldp-avg": "average", "uldp-sgd": "gradient"}
"""What a user gives, by system."""


@dataclass(frozen=True)
class RecordedNoise(FineGaussian):
    """The noise of private weighting, of which one silo remembers its own share in `silo_noise`."""

    silo_noise: list[int] = field(default_factory=list, compare=False)

    def share(self, ticket: Ticket, count: int, name: str, part: str = "") -> list[int]:
        """Return one party's share of the noise, in fine steps."""
        noise = super().share(ticket, count, name, part)
        if name.endswith(silo_name(OBSERVER_SILO)):
            self.silo_noise[:] = noise
        return noise


class ObservedUldpAvg(UldpAvgHiddenWeights):
    """The system, with what parties know themselves: who was drawn, and silo 0 its noise."""

    def __init__(self, setup: Setup, streams: Streams) -> None:
        self.joined: BoolArray = np.ones(setup.users, bool)
        self.silo_noise: list[int] = []
        super().__init__(setup, step=STEP_OF_SYSTEM[setup.name], streams=streams)

    def mechanism(self, noise_multiplier: float) -> FineGaussian:
        """Return the noise of one round."""
        mechanism = super().mechanism(noise_multiplier)
        given = {each.name: getattr(mechanism, each.name) for each in fields(mechanism)}
        return RecordedNoise(**given, silo_noise=self.silo_noise)

    def joining(self, ticket: Ticket) -> BoolArray:
        """Return which users join, as the server draws them."""
        self.joined = super().joining(ticket)
        return self.joined


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of users who are in or out, in every round."""
    _refuse(request)
    settings, silos = request.settings, request.silos
    # The largest counts that the protocol takes: the weights are nearest to 1.
    counts = np.full(silos, (settings.security.count_limit - 1) // silos)
    if request.observer == SILO:
        counts[OBSERVER_SILO] = 0
    # All units have the same counts, so c / (c + 1) is the weight of each.
    weight = float(counts.sum() / (counts.sum() + 1))  # one dummy is counted for everybody
    left = silos - 1 if request.observer == SILO else silos

    def view(made: System, columns: IntArray) -> View:
        system = cast("ObservedUldpAvg", made)
        mechanism = system.mechanism(system.promise.noise_multiplier)
        noise = system.promise.noise_multiplier * math.sqrt(left / silos)
        knows = request.observer == SERVER and system.drawn_by == SERVER
        # The step of the server is undone: the model moved by eta_g / (q |U| |S|) x sum.
        length = system.rate * system.setup.users * silos / settings.training.global_rate

        def look(before: Parameters, after: Parameters) -> FloatArray:
            total = (after - before) * length
            if request.observer == SILO:
                total -= mechanism.units(system.silo_noise)
            return np.asarray(total[columns] / (noise * settings.training.clip))

        return View(
            weight / noise,
            look,
            rate=1.0 if knows else system.rate,
            joined=(lambda: system.joined) if knows else None,
            note=(
                f"only {request.canaries} units, each by the whole protocol: little can be shown",
            ),
        )

    return canary_training(
        request,
        clip=settings.training.clip,
        view=view,
        present=np.tile(counts * settings.security.records_per_count, (request.canaries, 1)),
        make=lambda *given: ObservedUldpAvg(setup(*given[:3]), given[3]),
    )


def _refuse(request: RehearsalRequest) -> None:
    """Refuse what cannot be rehearsed."""
    if request.settings.as_published:
        raise Unsupported(
            "Private weighting as published is not rehearsed with canaries.",
            "It promises nothing, and what it leaks besides the sum, no canary shows.",
            "See `privplan audit demo` for its ciphertexts and its residue.",
        )
    if request.observer == SILO_WITH_RECORDS:
        raise Unsupported(
            "A silo that has records of the unit itself is not rehearsed.",
            "What its own weight of the unit tells would have to be staged for each silo.",
            "Give observer = 'silo', 'server' or 'model'.",
        )
    if request.real:
        raise InvalidInput(
            "Nobody trains with the canaries under private weighting.",
            "Each number of a model costs an encryption for every user.",
            "Leave `real` out.",
        )
