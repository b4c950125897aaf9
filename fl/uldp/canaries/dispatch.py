"""Canaries in ULDP-AVG and ULDP-SGD: users who are there or not; hidden weights are in `hidden`.

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
    CanaryObservations,
    ObserveUnits,
    RealUsers,
    RecordingAggregator,
    RehearsalRequest,
    View,
    canary_training,
    flip_coins,
    mask_pairs,
    training_noise,
    usual_work,
)
from ...frame.model import Parameters
from ...frame.system import System
from ...observers.names import MODEL, SERVER, SILO
from ...settings.schema import Settings
from ...training.local_training import TorchLocalTraining
from ..settings import BANDED
from .turns import MAX_USERS_TIMES_SILOS, BlockRecorder, Turns

_HIDDEN: Final = "private-weighting"

TOO_MUCH_WORK: Final = 10**12
"""The work of what memory does not hold."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what the observer sees of users who are in or out, in every round."""
    if request.settings.security.aggregation == _HIDDEN:
        from . import hidden

        return hidden.simulate(request)
    settings, units = request.settings, request.canaries
    coins = flip_coins(units, request.rng())
    turns = Turns.of(settings, request.rounds)
    groups = request.silo_of if _in_one_silo(request) else None
    present = np.zeros((units, request.silos), np.int64)
    if groups is None:
        # Neither the observing silo nor one that is missing has records of a unit.
        first_holder = OBSERVER_SILO + 1 if request.observer == SILO else 0
        present[:, first_holder : _silos_present(request)] = 1
    else:
        present[np.arange(units), groups] = 1
    real_users = _real_users(request) if request.real else None
    first = 0 if real_users is None else real_users.federation.users
    users = first + np.arange(units)
    if turns is not None:
        coins, users = turns.coins(coins), turns.users(units, first, request.silos)
    threads: AbstractContextManager[None] = nullcontext()
    if real_users is not None:
        from ...training.threads import one_thread

        threads = one_thread()
        # The sum is divided by |U|, which counts the canaries too, after the noise: with so much
        # longer steps the real model takes those of the run.
        rate = settings.training.global_rate * (float(users[-1] + 1) / first)
        settings = replace(settings, training=replace(settings.training, global_rate=rate))
    weights = user_weights(settings.training.weighting, present)
    blocks: list[BlockRecorder] = []

    def view(system: System, columns: IntArray) -> View:
        blocks.extend([] if turns is None else [BlockRecorder(turns, system)])
        shift, look = _view(request, system, columns, weights, *blocks)
        joined = _sample_of(request, system)
        return View(
            shift,
            look,
            rate=settings.privacy.sampling_rate if joined is None else 1.0,
            joined=joined,
            groups=groups,
            note=_notes(request),
            shown=blocks[0].shown if blocks else int,
        )

    with threads:
        seen = canary_training(
            replace(request, settings=settings),
            clip=settings.training.clip,
            view=view,
            present=present,
            coins=coins,
            users=users,
            real_users=real_users,
        )
    for block in blocks:
        note = (*seen.note, *block.notes())
        seen = replace(seen, pattern=block.pattern, share=block.share, note=note)
    return seen


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round: under private weighting each canary is encrypted.

    Where users take turns, all cohorts are listed, and canaries are in one.
    """
    if settings.security.aggregation == _HIDDEN:
        return 1_000 * mask_pairs(settings, silos) + 10_000 * canaries * silos
    usual = usual_work(settings, silos, canaries)
    if settings.privacy.noise != BANDED:
        return usual
    # Users of all cohorts stand between canaries, and cost a fiftieth of one; so do the terms of
    # earlier rounds that a row holds, of which there are no more.
    listed = canaries * silos * (settings.privacy.cohorts or 1)
    return usual + listed // 50 if listed < MAX_USERS_TIMES_SILOS else TOO_MUCH_WORK


def _in_one_silo(request: RehearsalRequest) -> bool:
    """Return whether each unit lies in one silo, in its turn; see the module."""
    apart = request.observer == SILO or request.sees_each_silo
    return apart and request.silos > 1 and request.settings.training.weighting == "records"


def _view(
    request: RehearsalRequest,
    system: System,
    column: IntArray,
    weights: FloatArray,
    blocks: BlockRecorder | None = None,
) -> tuple[float, ObserveUnits]:
    """Return the claimed shift of a unit, and what makes observations of two models.

    Both are in units of the noise that the claim gives those silos that are there.
    """
    settings, silos, inside = request.settings, request.silos, cast("Any", system)
    there, clip = _silos_present(request), settings.training.clip
    # What adds up the silos' integers is watched; none of them is changed.
    recorder = RecordingAggregator(inside.aggregator, missing=range(there, silos))
    inside.aggregator = recorder
    multiplier = training_noise(system.plan())
    std = multiplier * clip * math.sqrt(there / request.missing.start)
    constant = settings.privacy.sampling_rate * system.opening().population.users * silos
    constant /= settings.privacy.cohorts or 1
    length = constant / float(inside.setup.training.global_rate)

    def steps(before: Parameters, after: Parameters) -> FloatArray:
        return np.asarray((after[column] - before[column]) * length)

    # What silos send are rows with white noise; a model shows what follows from them.
    released = steps if blocks is None else blocks.whitened(steps)
    whole = float(weights[0].sum()) * clip
    if request.observer == MODEL:
        return whole / std, lambda *two: released(*two) / std
    mechanism = inside.mechanism(multiplier)
    if request.observer == SILO:
        noise = std * math.sqrt((there - 1) / there)

        def without_own(before: Parameters, after: Parameters) -> FloatArray:
            mine: FloatArray = mechanism.units(recorder.sent[OBSERVER_SILO][column])
            return np.asarray((released(before, after) - mine) / noise)

        return float(np.delete(weights[0], OBSERVER_SILO).sum()) * clip / noise, without_own
    # The best linear statistic of silos with equal noise weights them by w_su / |w_u|.
    size = np.sqrt(np.square(weights).sum(axis=1))
    noise = std / math.sqrt(silos) if request.sees_each_silo else std

    def sent(_: Parameters, __: Parameters) -> FloatArray:
        arriving = request.arriving(recorder, weights / size[:, None])
        shown = sum(part * mechanism.units(each[column]) for each, part in arriving)
        return np.asarray(shown / noise)

    return (float(size[0]) * clip if request.sees_each_silo else whole) / noise, sent


def _silos_present(request: RehearsalRequest) -> int:
    """Return how many silos are there in every round; those after them are missing."""
    if request.settings.training.weighting == "uniform":
        return request.silos
    return request.missing.start


def _sample_of(request: RehearsalRequest, system: System) -> Callable[[], BoolArray] | None:
    """Return who of the units joined the last round, where the observer draws the sample."""
    if request.observer != SERVER or request.settings.privacy.sampling_rate >= 1.0:
        return None
    last: list[BoolArray] = []
    inside = cast("Any", system)
    draws: Callable[[Ticket], BoolArray] = inside.joining

    def joining(ticket: Ticket) -> BoolArray:
        last[:] = [draws(ticket)]
        return last[0]

    inside.joining = joining
    return lambda: last[0][-request.canaries :]


def _real_users(request: RehearsalRequest) -> RealUsers:
    """Return the real users of a public data set, and how they train."""
    from ...running.preparation import prepare

    ready = prepare(request.settings)
    local = TorchLocalTraining(request.settings, ready.federation, ready.model)
    return RealUsers(local, ready.model.parameters, ready.federation)


def _notes(request: RehearsalRequest) -> tuple[str, ...]:
    notes = []
    if request.real:
        notes.append("public records were trained on with the canaries")
    if _silos_present(request) < request.silos:
        notes.append("as many silos as the noise allows for were missing from every round")
    elif request.settings.security.dropouts:
        notes.append("no silo was missing, so there was more noise than is claimed")
    if request.observer == SILO:
        notes.append(
            "the silo has no record of a canary, and takes off what it sent; what its own weights "
            "of a user tell is not rehearsed, nor that it knows who was drawn of its users"
        )
    return tuple(notes)
