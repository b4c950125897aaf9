"""What a configuration of FedPower fixes of a run's log (`fl.frame.expected_log`)."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, Final

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.mechanisms import NoisyProduct
from ...accountant.records import Normaliser, RoundIntent, Sampling
from ..datasets.registry import SHAPES
from ..declarations.declaration import Read
from ..frame.expected_log import ExpectedLog, ExpectedPhase, NotStated
from .iterate import first_basis
from .run_terms import RunTerms
from .settings import TABLE, FedPowerSettings


def _power_phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    mechanism = _mechanism(read, intent)
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(),
        mechanism.sensitivity(read("privacy", "neighbours")),
        mechanism.weights_used,
        Sampling(),
        Normaliser("constant", read(TABLE.name, "divisor")),
    )


def _mechanism(read: Read, intent: RoundIntent) -> NoisyProduct:
    """Return the mechanism with the configured noise, or with that of the event that was stated."""
    facts = intent.contribution.product
    terms = power_terms(read, None if facts is None else facts.dimension)
    given: float | None = read("privacy", "noise_multiplier")
    if given is not None:
        return terms.mechanism(given)
    if not isinstance(intent.event, ev.Gaussian):
        raise NotStated("the noise that was found")
    return terms.mechanism(intent.event.noise_multiplier)


def power_terms(read: Read, stated_dimension: int | None = None) -> RunTerms:
    """Return the public facts of a power iteration, by its configuration.

    `stated_dimension` is what the log says of data whose columns the configuration does not fix.
    """
    shape = SHAPES.get(read("data", "name"))
    dimension = stated_dimension if shape is None else shape[0]
    if dimension is None:
        raise NotStated("[data] name")
    return RunTerms(
        settings=table_of(read),
        unit=read("privacy", "unit"),
        relation=read("privacy", "neighbours"),
        dimension=dimension,
        silos=read("data", "silos"),
        dropouts=read("security", "dropouts"),
    )


_WITHOUT_DEFAULT: Final = frozenset(
    field.name for field in fields(FedPowerSettings) if field.default is MISSING
)


def table_of(read: Read) -> FedPowerSettings:
    """Return the settings in `[fedpower]`; keys that the system has no use for have defaults."""
    given: dict[str, Any] = {}
    for key in TABLE.keys:
        try:
            given[key.name] = read(TABLE.name, key.name)
        except NotStated:
            if key.name in _WITHOUT_DEFAULT:
                raise
    return FedPowerSettings(**given)


def _first_iterate(read: Read) -> FloatArray:
    dimension, columns = power_terms(read).parts["iterate"]
    return first_basis(dimension, columns, read("data", "seed")).reshape(-1)


POWER: Final = ExpectedLog(_power_phase, first=_first_iterate)
"""Of a power iteration."""
