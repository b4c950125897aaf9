"""Canaries for ULDP-GROUP: the k flagged records of a user, pulling one way.

A unit has as many records in every silo as may take part there, k in all (`fl.uldp.record_flags`),
and their gradients are equal, far longer than the clip, and in a direction that no other unit has.
A silo shows its model after all steps of a round, so what is seen is the sum over silos and steps,

    in   C J + noise,   J ~ Bin(k steps, q)        out   noise;   sigma C sqrt(steps) of each silo

and the direction alternates by round, not by step, or the steps of a round would cancel out.  The
claim counts every step as if it was seen by itself, and all k records in one silo with the noise of
that one, so at small rates, or with many silos, it is far from what canaries can show.

A silo that watches takes what it sent off the model.  It holds nothing of the units, whose records
there are missing; so many are left out of others that all units have the same number elsewhere.

The rate is that of the run, which the number of its users decides, and not that of the canaries.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np

from ....accountant.arrays import FloatArray, IntArray
from ....accountant.errors import Unsupported
from ....accountant.randomness import Streams
from ...aggregation.sums import PlainAggregator
from ...canaries import (
    OBSERVER_SILO,
    CanaryLocalTraining,
    CanaryObservations,
    RecordingAggregator,
    RehearsalRequest,
    View,
    canary_training,
    flip_coins,
    refuse_real_users,
)
from ...data.federation import Federation, Indices
from ...frame.model import Parameters
from ...frame.setup import setup
from ...frame.system import System
from ...observers.names import MODEL, SILO, SILO_WITH_RECORDS
from ...parties.network import SERVER, Network, silo_name
from ...settings.schema import Settings
from ...training.local_training import LocalTraining, Rows
from ..group import UldpGroup
from ..record_flags import caps
from ..settings import UldpSettings


class AlignedCanaryTraining(CanaryLocalTraining):
    """Canaries whose records pull one way in all `steps` of a round."""

    steps = 1

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Return the gradient of each record at its silo's model: (records, D)."""
        return super().record_gradients(models, chosen, 1 + step // self.steps)


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of users who are in, with k records, or out."""
    refuse_real_users(
        request, "Its records are drawn one by one, and the canaries' rate would not be the run's."
    )
    settings, silos = with_rate(request.settings, request.silos), request.silos
    coins, present = flip_coins(request.canaries, request.rng()), placed(request)
    records = int(present[0].sum())

    def view(made: System, columns: IntArray) -> View:
        system, training = cast("UldpGroup", made), settings.training
        if request.observer == MODEL or settings.security.aggregation != "plain":
            recorder = RecordingAggregator(system.aggregator)
        else:
            # In the clear updates are summed as floats, at once.  With a network, on which nothing
            # is sent, each is sent as integers on a grid of 2^-40, far below any noise.
            between = Network([SERVER, *map(silo_name, range(silos))])
            recorder = RecordingAggregator(PlainAggregator(), network=between)
        system.aggregator = recorder
        silos_seen = silos - (request.observer == SILO)
        std = system.mechanism(system.promise.noise_multiplier).std
        step = training.local_rate / system.constant
        noise = step * std * math.sqrt(system.steps * silos_seen)

        def look(before: Parameters, after: Parameters) -> FloatArray:
            total = (after - before) * (silos / training.global_rate)
            if request.observer == SILO:
                total = total - _sent(recorder, total)
            return np.asarray(total[columns] / noise)

        # The mean of C J over J ~ Bin(k steps, q), times the step size.
        pulled = records * system.rate * system.steps * training.clip
        return View(
            step * pulled / noise,
            look,
            note=(
                f"a unit is {records} records that take part, over all silos but the observer's",
                "steps are seen as the sum of a round's, while the claim counts each by itself",
            ),
        )

    return canary_training(
        replace(request, settings=settings),
        clip=settings.training.clip,
        view=view,
        present=present * coins.into[:, None],
        coins=coins,
        training=AlignedCanaryTraining,
        make=_grouped,
    )


def _grouped(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> System:
    parts = setup(settings, federation, local)
    rate, seed = settings.of(UldpSettings).record_rate, settings.training.seed
    system = UldpGroup(parts, rate=rate, seed=seed)
    cast("AlignedCanaryTraining", local).steps = system.steps
    return system


def _sent(recorder: RecordingAggregator, total: Parameters) -> FloatArray:
    """Return the observer's update; what a step of its grid is worth shows in the sum of all."""
    assert recorder.sum is not None
    steps = recorder.sum.total.astype(np.float64)
    # A least-squares factor between both sums, which is a power of two exactly.
    worth = 2.0 ** round(math.log2(float(total @ steps) / float(steps @ steps)))
    return cast("FloatArray", recorder.sent[OBSERVER_SILO] * worth)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round: the steps of all silos, and canaries by their columns."""
    rate = with_rate(settings, silos).of(UldpSettings).record_rate or 0.0
    epochs = settings.training.local_epochs
    steps = epochs * (math.ceil(1 / Fraction(rate)) if rate > 0.0 else 1)
    return 100 * steps * silos + canaries**2 * settings.privacy.group * epochs // 100


def placed(request: RehearsalRequest) -> Indices:
    """Return how many records a unit that is in has in each silo: (units, silos).

    Raises `Unsupported` for a silo that holds records of the unit itself.
    """
    if request.observer == SILO_WITH_RECORDS:
        raise Unsupported(
            "A silo that has records of the unit itself is not rehearsed.",
            "It sees of the others what a silo sees that has none.",
            "Give observer = 'silo', 'server' or 'model'.",
        )
    settings, silos = request.settings, request.silos
    most = settings.privacy.group
    table = caps(np.arange(request.canaries), silos, most, settings.training.seed)
    if request.observer == SILO and silos > 1:
        table[:, OBSERVER_SILO] = 0
        # Caps differ by 1 between silos; all units keep k - ceil(k / |S|) records elsewhere.
        more = table.sum(axis=1) > most - -(-most // silos)
        table[more, table[more].argmax(axis=1)] -= 1
    return table


def with_rate(settings: Settings, silos: int) -> Settings:
    """Return settings that state the rate at which a record joins a step, as the run has it."""
    if settings.of(UldpSettings).record_rate is not None:
        return settings
    nominal = Fraction(settings.privacy.group * settings.data.users, silos)
    rate = min(float(settings.training.batch / nominal), 1.0)
    return replace(settings, table=replace(settings.of(UldpSettings), record_rate=rate))
