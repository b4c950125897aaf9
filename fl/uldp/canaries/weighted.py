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

Where rounds share correlated noise, all are in one cohort; see `turns`.
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
from .turns import BlockRecorder, Turns

IN_EVERY_SILO: Final = -1
"""The group of units that lie in every silo that is watched."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what the observer sees of users who are in or out, in every round."""
    coins = flip_coins(request.canaries, request.rng())
    turns = Turns.of(request.settings, request.rounds)
    if turns is not None:
        coins = turns.coins(coins)
    opposite = request.settings.privacy.neighbours == "replace-one"
    groups = placed(request)
    present = spread(
        groups, request.silos, observer=request.observer, staying=_silos_present(request)
    )
    beside = _beside(request) if request.real else None
    first = 0 if beside is None else beside.federation.users
    users = first + np.arange(request.canaries)
    if turns is not None:
        users = turns.users(request.canaries, first, request.silos)
    table = np.zeros((users[-1] - first + 1, request.silos), np.int64)
    table[users - first] = present if opposite else np.where(coins.into[:, None], present, 0)
    federation = canary_federation(table, real=None if beside is None else beside.federation)
    settings = request.settings
    if beside is not None:
        settings = _with_steps(settings, federation.users / first)
    local = CanaryLocalTraining(
        coins,
        federation,
        clip=settings.training.clip,
        opposite=opposite,
        beside=beside,
        users=users,
    )
    streams = request.streams()
    system = build(settings, federation, local, streams)
    require_observer(system.plan(), request.observer)
    weights = user_weights(settings.training.weighting, present)
    recorder = _record_aggregator(system, missing=range(_silos_present(request), request.silos))
    blocks = None if turns is None else BlockRecorder(turns, system)
    shift, look = _view(request, system, local, weights, recorder, blocks)
    drawn = _SampleRecorder(system, units=request.canaries) if _knows_sample(request) else None
    view = View(
        shift,
        look,
        rate=1.0 if drawn is not None else settings.privacy.sampling_rate,
        joined=None if drawn is None else drawn.current,
        missed=0.0 if opposite else shift / 2.0,
        groups=groups,
        note=_notes(request),
        shown=int if blocks is None else blocks.shown,
    )
    with _threads(request):
        seen = observe_rounds(request, system, coins, view, streams)
    if blocks is None:
        return seen
    note = (*seen.note, *blocks.notes)
    return replace(seen, pattern=blocks.pattern, share=blocks.share, note=note)


def placed(request: RehearsalRequest) -> IntArray:
    """Return the silo in which each unit lies, or `IN_EVERY_SILO`; see the module."""
    units, rule = np.arange(request.canaries), request.settings.training.weighting
    if request.observer == "silo" and rule == "records":
        return np.asarray(1 + units % max(1, _silos_present(request) - 1))
    if request.observer == "server" and rule == "records" and _plain(request) and request.silos > 1:
        return np.asarray(units % request.silos)
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
    request: RehearsalRequest,
    system: System,
    local: CanaryLocalTraining,
    weights: FloatArray,
    recorder: RecordingAggregator,
    blocks: BlockRecorder | None,
) -> tuple[float, ObserveUnits]:
    """Return the claimed shift of a unit, and what makes observations of two models.

    Both are in units of the noise that the claim gives those silos that are there.
    """
    settings, silos = request.settings, request.silos
    there, clip = _silos_present(request), settings.training.clip
    multiplier = training_noise(system.plan())
    std = multiplier * clip * math.sqrt(there / _silos_with_noise(request))
    column = local.columns
    constant = settings.privacy.sampling_rate * system.opening().population.users * silos
    constant /= settings.privacy.cohorts or 1
    length = constant / _global_rate(system)

    def steps(before: Parameters, after: Parameters) -> FloatArray:
        return np.asarray((after[column] - before[column]) * length)

    # What silos send are rows with white noise; a model shows what follows from them.
    released = steps if blocks is None else blocks.whitened(steps)

    if request.observer == "model":
        return float(weights[0].sum()) * clip / std, lambda *two: released(*two) / std
    mechanism = cast("Any", system).mechanism(multiplier)
    if request.observer == "silo":
        noise = std * math.sqrt((there - 1) / there)
        shift = float(np.delete(weights[0], OBSERVER_SILO).sum()) * clip / noise

        def without_own(before: Parameters, after: Parameters) -> FloatArray:
            mine: FloatArray = mechanism.units(recorder.sent[OBSERVER_SILO][column])
            return np.asarray((released(before, after) - mine) / noise)

        return shift, without_own
    if not _plain(request):

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


def _silos_present(request: RehearsalRequest) -> int:
    """Return how many silos are there in every round; those after them are missing."""
    if request.settings.training.weighting == "uniform":
        return request.silos
    return _silos_with_noise(request)


def _silos_with_noise(request: RehearsalRequest) -> int:
    """Return how many silos' noise is that which is claimed."""
    return request.silos - request.settings.security.dropouts


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


def _knows_sample(request: RehearsalRequest) -> bool:
    return request.observer == "server" and request.settings.privacy.sampling_rate < 1.0


def _plain(request: RehearsalRequest) -> bool:
    return request.settings.security.aggregation == "plain"


def _global_rate(system: System) -> float:
    return float(cast("Any", system).setup.training.global_rate)


def _beside(request: RehearsalRequest) -> RealUsers:
    """Return the real users of a public data set, and how they train."""
    from ...running.preparation import prepare

    ready = prepare(request.settings)
    local = TorchLocalTraining(request.settings, ready.federation, ready.model)
    return RealUsers(local, ready.model.parameters, ready.federation)


def _with_steps(settings: Settings, times: float) -> Settings:
    """Return settings in which the real model takes the steps of the run.

    The sum is divided by |U|, which is so many `times` that of the run, as it counts the canaries
    too; that is done after the noise.
    """
    rate = settings.training.global_rate * times
    return replace(settings, training=replace(settings.training, global_rate=rate))


def _threads(request: RehearsalRequest) -> AbstractContextManager[None]:
    if not request.real:
        return nullcontext()
    from ...training.threads import one_thread

    return one_thread()


def _notes(request: RehearsalRequest) -> tuple[str, ...]:
    notes = []
    if request.real:
        notes.append("public records were trained on beside the canaries")
    if _silos_present(request) < request.silos:
        notes.append("as many silos as the noise allows for were missing from every round")
    elif request.settings.security.dropouts:
        notes.append("no silo was missing, so there was more noise than is claimed")
    if request.observer == "silo":
        notes.append(
            "the silo has no record of a canary, and takes off what it sent; what its own weights "
            "of a user tell is not rehearsed, nor that it knows who was drawn of its users"
        )
    return tuple(notes)


__all__ = ["IN_EVERY_SILO", "placed", "simulate", "spread"]
