"""Canaries in ULDP-AVG and ULDP-SGD with weights in the clear: users who are there or not.

A unit is all records of a user in all silos.  They lie where the claim of the observer has its
worst case:

model, masked server     one record in every silo: the weights sum to 1, and the sum moves by C
plain server, uniform    likewise; the server adds up what it sees of each silo
plain server, records    all in one silo, each in its turn, whose share of the noise is smaller
silo 0                   all in one other silo, each in its turn; uniform: in all others

What is in one silo has weight 1, whether weights are computed or forgotten; that they are missing
shows where a unit lies in every silo, to who sees the model.

Where silos may be missing, so many are, in every round, if weights are by records: the last ones,
and no unit lies there.  Only then is the noise no more than what is claimed.  Of uniform weights
more would be lost with a silo than of the noise, so none is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from ....accountant.arrays import BoolArray, FloatArray, IntArray
from ....accountant.mechanisms import Ticket
from ...aggregation.user_weights import user_weights
from ...canaries import (
    OBSERVER_SILO,
    CanaryLocalTraining,
    CanaryObservations,
    ObserveUnits,
    RealUsers,
    RecordingAggregator,
    RehearsalRequest,
    View,
    canary_federation,
    flip_coins,
    observe_rounds,
    require_observer,
    training_noise,
)
from ...frame.model import Parameters
from ...frame.system import System, build
from ...settings.schema import Settings
from ...training.local_training import TorchLocalTraining

IN_EVERY_SILO: Final = -1
"""The group of units that lie in every silo that is watched."""


def simulate(asked: RehearsalRequest) -> CanaryObservations:
    """Return what the observer sees of users who are in or out, in every round."""
    coins = flip_coins(asked.canaries, asked.rng())
    opposite = asked.settings.privacy.neighbours == "replace-one"
    groups = placed(asked)
    present = spread(groups, asked.silos, observer=asked.observer, staying=_silos_present(asked))
    beside = _beside(asked) if asked.real else None
    settings = asked.settings if beside is None else _with_steps(asked, beside)
    federation = canary_federation(
        present if opposite else np.where(coins.into[:, None], present, 0),
        real=None if beside is None else beside.federation,
    )
    local = CanaryLocalTraining(
        coins, federation, clip=settings.training.clip, opposite=opposite, beside=beside
    )
    streams = asked.streams()
    system = build(settings, federation, local, streams)
    require_observer(system.plan(), asked.observer)
    weights = user_weights(settings.training.weighting, present)
    recorder = _record_aggregator(system, missing=range(_silos_present(asked), asked.silos))
    shift, look = _view(asked, system, local, weights, recorder)
    drawn = _SampleRecorder(system, units=asked.canaries) if _knows_sample(asked) else None
    view = View(
        shift,
        look,
        rate=1.0 if drawn is not None else settings.privacy.sampling_rate,
        joined=None if drawn is None else drawn.current,
        missed=0.0 if opposite else shift / 2.0,
        groups=groups,
        note=_notes(asked),
    )
    with _threads(asked):
        return observe_rounds(asked, system, coins, view, streams)


def placed(asked: RehearsalRequest) -> IntArray:
    """Return the silo in which each unit lies, or `IN_EVERY_SILO`; see the module."""
    units, rule = np.arange(asked.canaries), asked.settings.training.weighting
    if asked.observer == "silo" and rule == "records":
        return np.asarray(1 + units % max(1, _silos_present(asked) - 1))
    if asked.observer == "server" and rule == "records" and _plain(asked) and asked.silos > 1:
        return np.asarray(units % asked.silos)
    return np.full(len(units), IN_EVERY_SILO)


def spread(groups: IntArray, silos: int, *, observer: str, staying: int) -> IntArray:
    """Return how many records each unit has in each silo: (units, silos).

    The observing silo has no records of a unit, nor has any silo after the first `staying`.
    """
    table = np.asarray((groups[:, None] == np.arange(silos)) | (groups[:, None] == IN_EVERY_SILO))
    if observer == "silo":
        table[:, OBSERVER_SILO] = False
    table[:, staying:] = False
    return table.astype(np.int64)


def _view(
    asked: RehearsalRequest,
    system: System,
    local: CanaryLocalTraining,
    weights: FloatArray,
    recorder: RecordingAggregator,
) -> tuple[float, ObserveUnits]:
    """Return the claimed shift of a unit, and what makes observations of two models.

    Both are in units of the noise that the claim gives those silos that are there.
    """
    settings, silos = asked.settings, asked.silos
    there, clip = _silos_present(asked), settings.training.clip
    multiplier = training_noise(system.plan())
    std = multiplier * clip * math.sqrt(there / _silos_with_noise(asked))
    column = local.columns
    constant = settings.privacy.sampling_rate * system.opening().population.users * silos
    length = constant / _global_rate(system)

    def released(before: Parameters, after: Parameters) -> FloatArray:
        return np.asarray((after[column] - before[column]) * length)

    if asked.observer == "model":
        return float(weights[0].sum()) * clip / std, lambda *two: released(*two) / std
    mechanism = cast("Any", system).mechanism(multiplier)
    if asked.observer == "silo":
        noise = std * math.sqrt((there - 1) / there)
        shift = float(np.delete(weights[0], OBSERVER_SILO).sum()) * clip / noise

        def without_own(before: Parameters, after: Parameters) -> FloatArray:
            mine: FloatArray = mechanism.units(recorder.sent[OBSERVER_SILO][column])
            return np.asarray((released(before, after) - mine) / noise)

        return shift, without_own
    if not _plain(asked):

        def together(_: Parameters, __: Parameters) -> FloatArray:
            assert recorder.sum is not None
            return np.asarray(mechanism.units(recorder.sum.total[column]) / std)

        return float(weights[0].sum()) * clip / std, together
    # The best linear statistic of silos with equal noise weights them by w_su / |w_u|.
    size = np.sqrt(np.square(weights).sum(axis=1))
    towards, noise = weights / size[:, None], std / math.sqrt(silos)

    def apart(_: Parameters, __: Parameters) -> FloatArray:
        projected = np.zeros(len(column))
        for silo, sent in recorder.sent.items():
            projected += towards[:, silo] * mechanism.units(sent[column])
        return projected / noise

    return float(size[0]) * clip / noise, apart


def _silos_present(asked: RehearsalRequest) -> int:
    """Return how many silos are there in every round; those after them are missing."""
    if asked.settings.training.weighting == "uniform":
        return asked.silos
    return _silos_with_noise(asked)


def _silos_with_noise(asked: RehearsalRequest) -> int:
    """Return how many silos' noise is that which is claimed."""
    return asked.silos - asked.settings.security.dropouts


def _record_aggregator(system: System, *, missing: range) -> RecordingAggregator:
    """Put a watch around what adds up the silos' integers; it changes none of them."""
    inside = cast("Any", system)
    inside.aggregator = RecordingAggregator(inside.aggregator, missing=missing)
    return cast("RecordingAggregator", inside.aggregator)


class _SampleRecorder:
    """The sample of a round, as the server that draws it knows it: `joined` (units,)."""

    def __init__(self, system: System, *, units: int) -> None:
        self.joined: BoolArray = np.zeros(units, bool)
        inside = cast("Any", system)
        draws: Callable[[Ticket], BoolArray] = inside.joining

        def joining(ticket: Ticket) -> BoolArray:
            drawn = draws(ticket)
            self.joined = drawn[-units:]
            return drawn

        # The server draws the sample itself, so it knows who is in the round.
        inside.joining = joining

    def current(self) -> BoolArray:
        """Return who joined the last round."""
        return self.joined


def _knows_sample(asked: RehearsalRequest) -> bool:
    return asked.observer == "server" and asked.settings.privacy.sampling_rate < 1.0


def _plain(asked: RehearsalRequest) -> bool:
    return asked.settings.security.aggregation == "plain"


def _global_rate(system: System) -> float:
    return float(cast("Any", system).setup.training.global_rate)


def _beside(asked: RehearsalRequest) -> RealUsers:
    """Return the real users of a public data set, and how they train."""
    from ...running.preparation import prepare

    ready = prepare(asked.settings)
    local = TorchLocalTraining(asked.settings, ready.federation, ready.model)
    return RealUsers(local, ready.model.parameters, ready.federation)


def _with_steps(asked: RehearsalRequest, beside: RealUsers) -> Settings:
    """Return settings in which the real model takes the steps of the run.

    The sum is divided by |U|, which counts the canaries too; that is done after the noise.
    """
    settings, real = asked.settings, beside.federation.users
    rate = settings.training.global_rate * (real + asked.canaries) / real
    return replace(settings, training=replace(settings.training, global_rate=rate))


def _threads(asked: RehearsalRequest) -> AbstractContextManager[None]:
    if not asked.real:
        return nullcontext()
    from ...training.threads import one_thread

    return one_thread()


def _notes(asked: RehearsalRequest) -> tuple[str, ...]:
    notes = []
    if asked.real:
        notes.append("public records were trained on beside the canaries")
    if _silos_present(asked) < asked.silos:
        notes.append("as many silos as the noise allows for were missing from every round")
    elif asked.settings.security.dropouts:
        notes.append("no silo was missing, so there was more noise than is claimed")
    if asked.observer == "silo":
        notes.append(
            "the silo has no record of a canary, and takes off what it sent; what its own weights "
            "of a user tell is not rehearsed, nor that it knows who was drawn of its users"
        )
    return tuple(notes)


__all__ = ["IN_EVERY_SILO", "placed", "simulate", "spread"]
