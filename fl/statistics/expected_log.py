"""What a configuration of private statistics fixes of a run's log (`fl.frame.expected_log`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.mechanisms import NoisyGram
from ...accountant.records import Normaliser, RoundIntent, Sampling
from ..datasets.registry import SHAPES
from ..declarations.declaration import Read
from ..frame.expected_log import ExpectedLog, ExpectedPhase, NotStated
from .run_terms import RunTerms
from .settings import TABLE, StatisticsSettings


def _phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    mechanism = _mechanism(read, intent)
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(),
        mechanism.sensitivity(read("privacy", "neighbours")),
        mechanism.weights_used,
        Sampling(),
        Normaliser("constant", 1.0),
    )


def _mechanism(read: Read, intent: RoundIntent) -> NoisyGram:
    """Return the mechanism with the configured noise, or with that of the event that was stated."""
    given: float | None = read("privacy", "noise_multiplier")
    if given is not None:
        return _terms(read).mechanism(given)
    event = intent.event
    if not isinstance(event, ev.Gaussian | ev.Laplace):
        raise NotStated("the noise that was found")
    return _terms(read).mechanism(event.noise_multiplier)


def _terms(read: Read) -> RunTerms:
    shape = SHAPES.get(read("data", "name"))
    if shape is None:
        raise NotStated("[data] name")
    table = {key.name: read(TABLE.name, key.name) for key in TABLE.keys}
    return RunTerms(
        settings=StatisticsSettings(**table),
        unit=read("privacy", "unit"),
        relation=read("privacy", "neighbours"),
        features=shape[0],
        classes=shape[1],
        users=read("data", "users"),
        silos=read("data", "silos"),
        dropouts=read("security", "dropouts"),
    )


def _first(read: Read) -> FloatArray:
    return np.zeros(_terms(read).gram.values)


EXPECTED: Final = ExpectedLog(_phase, first=_first)
