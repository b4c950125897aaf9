"""What a configuration of FLAME's systems fixes of their logs (`fl.frame.expected_log`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Final

from ...accountant.mechanisms import LaplaceMessages, ResponseMessages
from ...accountant.records import Normaliser, RoundIntent, Security
from ..declarations.declaration import Read
from ..frame.expected_log import ExpectedLog, ExpectedPhase, NotStated
from ..frame.initial_model import initial_size
from ..observers.names import SHUFFLER
from .settings import LAPLACE, SEALED, FlameSettings
from .terms import (
    DOUBLE,
    OVERFLOW_PART,
    RELATION,
    SIMPLE,
    FlameTerms,
    Protocol,
    padding,
    usual_padding,
    votes_terms,
)

CURVE_KEY_BITS: Final = 256


def _phase(
    protocol: Protocol, read: Read, intent: RoundIntent, values: int | None
) -> ExpectedPhase:
    terms = _terms(protocol, read, intent, values)
    noise: float | None = read("privacy", "noise_multiplier")
    mechanism = _mechanism(terms, noise, intent)
    constant = None
    if protocol != DOUBLE:
        constant = Normaliser("constant", float(terms.users))
    elif values is not None:
        constant = Normaliser("constant", terms.users * terms.chosen / values)
    # Words state no deviation: which they are stands in their event alone.
    known = noise is not None or isinstance(mechanism, LaplaceMessages)
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(terms.chosen),
        mechanism.sensitivity(RELATION),
        mechanism.weights_used,
        normaliser=constant,
        event=terms.mixed_event(mechanism) if known and not terms.table.as_published else None,
        reaches=terms.reaches(),
    )


def _terms(protocol: Protocol, read: Read, intent: RoundIntent, values: int | None) -> FlameTerms:
    """Return the public facts of a round; the model's size is that of a release, or is stated."""
    table = _table(read)
    if table.as_published:
        table = replace(table, granularity="tuple")
    users, clip = read("data", "users"), read("training", "clip")
    stated = (intent.reaches or {}).get(SHUFFLER)
    if values is None and stated is not None:
        values = stated.dimensions
    if protocol == SIMPLE:
        # All coordinates are sent: as many as the model has, which the release says.
        values = intent.noise.draws if values is None else values
    if values is None:
        raise NotStated("the size of the model")
    chosen = values if protocol == SIMPLE else table.chosen
    if chosen is None:
        raise NotStated("[flame] chosen")
    padded_to = padding(protocol, table, users)
    if padded_to is None and protocol == DOUBLE:
        failure = read("privacy", "delta") * OVERFLOW_PART / read("run", "rounds")
        padded_to = usual_padding(users, values, chosen, failure)
    colluders = read("security", "colluders")
    return FlameTerms(protocol, users, values, chosen, clip, colluders, padded_to, table)


def _values(protocol: Protocol, read: Read, intent: RoundIntent) -> int | None:
    """Return how many coordinates the model has: all of them are summed up, and released.

    In `simple` a user draws once for each of them, whatever the model is; where the model is known
    here and has more, these count.  The other protocols draw fewer, so there the model decides.
    """
    size = initial_size(read("training", "model"), read("data", "name"), read("data", "schema"))
    if protocol == SIMPLE:
        return max(intent.noise.draws, size or 0)
    return size


def _mechanism(
    terms: FlameTerms, noise: float | None, intent: RoundIntent
) -> LaplaceMessages | ResponseMessages:
    if noise is not None:
        return terms.mechanism(noise)
    # Noise that was calibrated to a target is known from the log alone.
    if terms.table.randomizer != LAPLACE:
        return terms.mechanism(1.0)
    if not 0.0 < intent.noise.std < math.inf:
        raise NotStated("the noise that was found")
    mixed = None if terms.mixed is None else terms.mixed.without(terms.colluders)
    return LaplaceMessages(terms.clip, intent.noise.std, shuffled=mixed)


def _votes(read: Read) -> ExpectedPhase:
    """Return what the release of votes states, of all users by the randomizer of the training."""
    terms = votes_terms(read("data", "users"), read("security", "colluders"), _table(read))
    mechanism = terms.mechanism(read("evaluation", "held_out_noise"))
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(terms.chosen),
        mechanism.sensitivity(RELATION),
        mechanism.weights_used,
        event=terms.mixed_event(mechanism),
        reaches=terms.reaches(*terms.table.rests_on),
    )


def _table(read: Read) -> FlameSettings:
    return FlameSettings(**{item.name: read("flame", item.name) for item in fields(FlameSettings)})


def _security(read: Read) -> Security:
    users = read("data", "users")
    bits = CURVE_KEY_BITS if read("flame", "transport") == SEALED else 0
    return Security(
        "shuffler",
        parties=users,
        fewest=users,
        key_bits=bits,
        colluders=read("security", "colluders"),
    )


def _expected(protocol: Protocol) -> ExpectedLog:
    phase: Callable[[Read, RoundIntent, int | None], ExpectedPhase] = partial(_phase, protocol)
    return ExpectedLog(phase, _security, votes=_votes, values=partial(_values, protocol))


EXPECTED_SIMPLE: Final = _expected("simple")
EXPECTED_DOUBLE: Final = _expected("double")
EXPECTED_TOPK: Final = _expected("topk")
