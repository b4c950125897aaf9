"""What a configuration of FedPower fixes of a run's log (`fl.frame.expected_log`)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.records import Normaliser, RoundIntent, Sampling, Security
from ..datasets.ratings import RATINGS
from ..declarations.declaration import Read
from ..frame.expected_log import (
    ExpectedLog,
    ExpectedPhase,
    NotStated,
    expected_phase,
    noise_multiplier_stated,
)
from ..statistics.run_terms import RunTerms as GramTerms
from ..tables.record_shape import shape_read
from .iterate import first_basis
from .planner import chosen_design
from .published_noise import (
    ORIGINAL,
    PRIVATE,
    UTILITY,
    Algorithm,
    is_bounded,
    mechanism_of,
    require_bounded_products,
)
from .run_terms import RunTerms, gram_terms
from .settings import TABLE, FedPowerSettings


def _power_phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    facts = intent.contribution.product
    terms = power_terms(read, None if facts is None else facts.dimension)
    mechanism = terms.mechanism(noise_multiplier_stated(read, intent, ev.Gaussian))
    constant = Normaliser("constant", read(TABLE.name, "divisor"))
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, Sampling(), constant)


def power_terms(read: Read, stated_dimension: int | None = None) -> RunTerms:
    """Return the public facts of a power iteration, by its configuration.

    `stated_dimension` is what the log says of data whose columns the configuration does not fix.
    """
    return RunTerms(
        settings=table_of(read),
        unit=read("privacy", "unit"),
        relation=read("privacy", "neighbours"),
        dimension=_dimension(read, stated_dimension),
        silos=read("data", "silos"),
        dropouts=read("security", "dropouts"),
    )


def _dimension(read: Read, stated: int | None) -> int:
    shape = shape_read(read)
    dimension = stated if shape is None else shape[0]
    if dimension is None:
        raise NotStated("[data] name")
    return dimension


def table_of(read: Read) -> FedPowerSettings:
    """Return the settings in `[fedpower]`; keys that the system has no use for have defaults."""
    given: dict[str, Any] = {}
    for key in TABLE.keys:
        try:
            given[key.name] = read(TABLE.name, key.name)
        except NotStated:
            if key.name in TABLE.required:
                raise
    return FedPowerSettings(**given)


def _first_iterate(read: Read) -> FloatArray:
    dimension, columns = power_terms(read).parts["iterate"]
    return first_basis(dimension, columns, read("data", "seed")).reshape(-1)


POWER: Final = ExpectedLog(_power_phase, first=_first_iterate)
"""Of a power iteration."""


def _gram_phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    facts = intent.contribution.gram
    terms = one_shot_terms(read, None if facts is None else facts.dimension)
    mechanism = terms.mechanism(noise_multiplier_stated(read, intent, ev.Gaussian))
    constant = Normaliser("constant", 1.0)
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, Sampling(), constant)


def one_shot_terms(read: Read, stated_dimension: int | None = None) -> GramTerms:
    """Return the public facts of one Gram release, by its configuration; as `power_terms`."""
    return gram_terms(
        table_of(read),
        unit=read("privacy", "unit"),
        relation=read("privacy", "neighbours"),
        dimension=_dimension(read, stated_dimension),
        users=read("data", "users"),
        silos=read("data", "silos"),
        dropouts=read("security", "dropouts"),
    )


def _first_gram(read: Read) -> FloatArray:
    return np.zeros(one_shot_terms(read).gram.values)


ONE_SHOT: Final = ExpectedLog(_gram_phase, first=_first_gram)
"""Of one Gram release."""


def _is_one_shot(read: Read, stated_dimension: int | None = None) -> bool:
    dimension = _dimension(read, stated_dimension)
    unit = read("privacy", "unit")
    return chosen_design(table_of(read), unit=unit, dimension=dimension).name == "one-shot"


def _planned_phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    contribution = intent.contribution
    facts = contribution.gram or contribution.product
    stated = None if facts is None else facts.dimension
    phase = _gram_phase if _is_one_shot(read, stated) else _power_phase
    return phase(read, intent, values)


def _first_planned(read: Read) -> FloatArray:
    return _first_gram(read) if _is_one_shot(read) else _first_iterate(read)


PLANNER: Final = ExpectedLog(_planned_phase, first=_first_planned)
"""Of the design that is chosen: by the configuration, and by the columns that the log states where
the data set does not fix them."""


def _phase(
    algorithm: Algorithm, read: Read, intent: RoundIntent, values: int | None
) -> ExpectedPhase:
    del values
    facts = intent.contribution.product
    terms = power_terms(read, None if facts is None else facts.dimension)
    ratings = read("data", "name") == RATINGS
    require_bounded_products(terms, ratings=ratings)
    given: float | None = read("privacy", "noise_multiplier")
    if given is None:
        if not isinstance(intent.event, ev.Gaussian):
            raise NotStated("the noise that was found")
        given = intent.event.noise_multiplier
    mechanism = mechanism_of(algorithm, terms, given, ratings=ratings)
    draws = terms.settings.synchronise_every if algorithm == PRIVATE else 1
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(draws),
        mechanism.sensitivity(read("privacy", "neighbours")),
        mechanism.weights_used,
        Sampling(),
        Normaliser("constant", read(TABLE.name, "divisor")),
        clip_enforced=is_bounded(terms, ratings=ratings),
    )


def _clipped_first(read: Read) -> FloatArray | None:
    assert POWER.first is not None
    first, eta = POWER.first(read), table_of(read).entry_clip
    return None if first is None else np.asarray(np.clip(first, -eta, eta))


def _with_removal(read: Read, masks: Security) -> Security:
    from .utility import with_removal

    return with_removal(masks, read("security", "key_bits"))


ORIGINAL_LOG: Final = ExpectedLog(partial(_phase, ORIGINAL), first=POWER.first)
UTILITY_LOG: Final = ExpectedLog(partial(_phase, UTILITY), first=POWER.first, masks=_with_removal)
PRIVATE_LOG: Final = ExpectedLog(partial(_phase, PRIVATE), first=_clipped_first)
"""Of Algorithms 1, 2 and 3."""
