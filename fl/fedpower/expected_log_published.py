"""What a configuration of FedPower's published algorithms fixes of its log."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.records import Normaliser, RoundIntent, Sampling, Security
from ..datasets.ratings import RATINGS
from ..declarations.declaration import Read
from ..frame.expected_log import ExpectedLog, ExpectedPhase, NotStated
from .expected_log import POWER, power_terms, table_of
from .published_noise import (
    ORIGINAL,
    PRIVATE,
    UTILITY,
    Algorithm,
    is_bounded,
    mechanism_of,
    require_bounded_products,
)
from .settings import TABLE


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
