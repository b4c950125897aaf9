"""What a configuration of private statistics fixes of a run's log (`fl.frame.expected_log`)."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.mechanisms import NoisyGram
from ...accountant.records import Normaliser, RoundIntent, Sampling
from ..declarations.declaration import Read, Table
from ..frame.expected_log import ExpectedLog, ExpectedPhase, NotStated
from ..tables.record_shape import shape_read
from .run_terms import RunTerms
from .settings import TABLE


def _phase(table: Table, read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    mechanism = _mechanism(table, read, intent)
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(),
        mechanism.sensitivity(read("privacy", "neighbours")),
        mechanism.weights_used,
        Sampling(),
        Normaliser("constant", 1.0),
    )


def _mechanism(table: Table, read: Read, intent: RoundIntent) -> NoisyGram:
    """Return the mechanism with the configured noise, or with that of the event that was stated."""
    given: float | None = read("privacy", "noise_multiplier")
    if given is not None:
        return _terms(table, read).mechanism(given)
    event = intent.event
    if not isinstance(event, ev.Gaussian | ev.Laplace):
        raise NotStated("the noise that was found")
    return _terms(table, read).mechanism(event.noise_multiplier)


def _terms(table: Table, read: Read) -> RunTerms:
    shape = shape_read(read)
    if shape is None:
        raise NotStated("[data] name")
    values = {key.name: read(table.name, key.name) for key in table.keys}
    return RunTerms(
        settings=table.settings(**values),
        unit=read("privacy", "unit"),
        relation=read("privacy", "neighbours"),
        features=shape[0],
        classes=shape[1],
        users=read("data", "users"),
        silos=read("data", "silos"),
        dropouts=read("security", "dropouts"),
    )


def expected_log(table: Table) -> ExpectedLog:
    """Return what a system fixes whose table is of `ReleaseSettings`, or adds keys to them."""

    def first(read: Read) -> FloatArray:
        return np.zeros(_terms(table, read).gram.values)

    return ExpectedLog(partial(_phase, table), first=first)


EXPECTED: Final = expected_log(TABLE)
