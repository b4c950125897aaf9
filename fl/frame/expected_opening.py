"""The first line of a run's log, as far as the configuration fixes it.

configuration   ->   claim, plan, population, aggregation, protocol, what is sealed

From the protocol follows what of votes of who is held out reaches each observer: they are one sum
by the aggregation of the run, so the table of `fl.observers.reaches` says it.  Messages that are
shuffled have reaches of their own, which their system determines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ...accountant.records import Reach, RoundIntent, Security
from ..declarations.data_table import study_words
from ..declarations.declaration import AS_PUBLISHED, Read
from ..declarations.sealed_items import sealed_items
from ..declarations.stated_settings import StatedSettings
from ..observers.names import MODEL
from ..observers.reaches import Route, reaches_of
from ..secagg.peers import security_among
from ..settings.public_test_data import source_of
from .expected_log import (
    ExpectedPhase,
    NotStated,
    call_system,
    expected_of,
    has_moments,
    holds_out,
    said_by_system,
    system_of,
)
from .terms import typed

Fact: TypeAlias = Callable[[Read], object]


_RING_BITS: Final = 64
"""Integers are masked modulo 2^64 (`fl.aggregation.masked_sums`)."""


LATER: Final = (
    ("privacy", "observer"),
    ("security", "colluders"),
    ("evaluation", "test"),
    ("evaluation", "source"),
)
"""Keys that older configurations lack; without one, an older default held."""


@dataclass(frozen=True)
class AtMost:
    """A value that the configuration only bounds from above."""

    value: float


def _epsilon(given: StatedSettings) -> object:
    """Return the claimed epsilon: the target, or at most the target where noise is given too."""
    target, noise = given.privacy.epsilon, given.privacy.noise_multiplier
    if not system_of(given.read).promises:
        return None
    if target is None:
        raise NotStated("")  # follows from the noise; the audit of the budget derives it
    return target if noise is None else AtMost(target)


def _rounds(given: StatedSettings) -> object:
    """Return the number of planned releases; at most that, where fewer may be planned.

    A budget with given noise may allow fewer, and a system may say that it plans fewer.
    """
    rounds = given.rounds + _releases_besides_rounds(given.read)
    target, noise = given.privacy.epsilon, given.privacy.noise_multiplier
    both = target is not None and noise is not None
    return AtMost(rounds) if both or system_of(given.read).fewer_rounds else rounds


def _counted(read: Read) -> object:
    """Return how many of the planned releases are of one unit at most; None without a schedule."""
    if expected_of(read) is None:
        raise NotStated("")  # nothing is known of this system's rounds
    rounds = said_by_system(read, lambda expected: expected.counted)
    return None if rounds is None else rounds + _releases_besides_rounds(read)


def _releases_besides_rounds(read: Read) -> int:
    """Return how many releases there are besides the rounds of [run].

    They are moments, the system's own, and the votes of users who are held out.
    """
    own = said_by_system(read, lambda expected: expected.before) or 0
    return own + int(has_moments(read)) + int(holds_out(read))


def _unit(read: Read) -> object:
    if not system_of(read).promises:
        raise NotStated("")  # it promises nothing, for no unit
    return StatedSettings(read).privacy.unit


def _observer(given: StatedSettings) -> object:
    try:
        return given.privacy.observer
    except NotStated:
        return "model"  # the only observer before the key existed


def _group(read: Read) -> object:
    table = system_of(read).table
    if table is None or table.group is None:
        return 1
    most = read(table.name, table.group)
    return 1 if most is None else most


def _as_published(read: Read) -> object:
    """Return whether the method is run as published; False where nothing of it says so."""
    system = system_of(read)
    if system.published is not None:
        stated = system.published
        return call_system(system, lambda: stated(read))
    table = system.table
    if table is None or not any(key.name == table.published for key in table.keys):
        return False
    return read(table.name, table.published) in (True, AS_PUBLISHED)


def _sealed(read: Read) -> object:
    return call_system(system_of(read), lambda: sealed_items(read))


def _study(read: Read) -> object:
    """Return that units were dealt at random for a study; None where they are real."""
    given = StatedSettings(read)
    unit = given.privacy.unit if system_of(read).promises else "user"
    return study_words(given.data.name, str(unit)) or None


def source(read: Read) -> object:
    """Return where protective randomness comes from."""
    return "operating-system" if StatedSettings(read).run.seed is None else "seeded"


OPENING: Final[tuple[tuple[str, Fact], ...]] = (
    ("system", typed(lambda given: given.name)),
    ("claim.unit", _unit),
    ("claim.neighbours", typed(lambda given: given.privacy.neighbours)),
    ("claim.delta", typed(lambda given: given.privacy.delta)),
    ("claim.epsilon", typed(_epsilon)),
    ("claim.observer", typed(_observer)),
    ("claim.group", typed(lambda given: given.privacy.group)),
    ("claim.group", _group),
    ("plan.rounds", typed(_rounds)),
    ("plan.counted", _counted),
    ("population.users", typed(lambda given: given.users)),
    ("population.silos", typed(lambda given: given.silos)),
    ("population.records", lambda _: None),
    ("randomness.source", source),
    ("aggregation", typed(lambda given: given.aggregation)),
    ("as_published", _as_published),
    ("tuning.trials", typed(lambda given: given.run.trials)),
    ("tuning.public_only", typed(lambda given: given.run.trials == 1)),
    ("tuning.event", lambda _: None),
    ("sealed", _sealed),
    ("study", _study),
)
"""Facts of the first line by their paths; those of the protocol are in `security_of`.

Each function raises `NotStated` with the missing key, or with "" where nothing is fixed.
"""


def security_of(read: Read) -> Security | None:
    """Return the public parameters of the protocol; None without one."""
    given = StatedSettings(read)
    aggregation = given.aggregation
    if aggregation == "plain":
        return None
    if aggregation == "shares":
        shares = security_among(given.silos, given.security.colluders)
        return said_by_system(read, lambda expected: expected.shares, shares) or shares
    if aggregation == "masked":
        masks = _masks(given)
        return said_by_system(read, lambda expected: expected.masks, masks) or masks
    stated = said_by_system(read, lambda expected: expected.security)
    if stated is None:
        raise NotStated(f"[security] aggregation {aggregation}")
    return stated


def _masks(given: StatedSettings) -> Security:
    """Return the parameters of pairwise masks for the largest coalition that they withstand.

    `colluders` states the configured number; a configuration older than that key states the
    largest.
    """
    from ..secagg.terms import choose

    silos, dropouts = given.silos, given.security.dropouts
    colluders: int | None
    try:
        colluders = given.security.colluders
    except NotStated:
        colluders = None
    malicious = silos > 2 * dropouts + (colluders or 0)
    server: Literal["malicious", "honest-but-curious"]
    server = "malicious" if malicious else "honest-but-curious"
    surviving = silos - dropouts
    most = max(
        colluders or 0,
        min(surviving - 2, surviving - dropouts - 1) if malicious else surviving - 2,
        0,
    )
    terms = choose(silos, length=1, dropouts=dropouts, colluders=most, server=server)
    return Security(
        "pairwise-masks",
        parties=silos,
        fewest=surviving,
        threshold=terms.threshold,
        degree=terms.degree,
        ring_bits=_RING_BITS,
        server=server,
        colluders=most if colluders is None else colluders,
    )


def reaches_of_votes(read: Read, intent: RoundIntent, phase: ExpectedPhase) -> Mapping[str, Reach]:
    """Return what of its votes a run states to reach each observer of whom it has an event.

    `phase` is what else the release states.  Raises `NotStated` where a key is missing.
    """
    if phase.reaches is not None:
        return phase.reaches
    given = StatedSettings(read)
    route = Route(
        given.aggregation,
        given.silos,
        security_of(read),
        phase.noise.tolerated_dropouts,
        unit=phase.contribution.unit,
    )
    return reaches_of((MODEL, *intent.views), route, phase.sees_each)


def test_source(read: Read) -> str | None:
    """Return the source of public test data; None where a run measures nothing.

    Raises `NotStated` for a configuration that is older than the key.
    """
    given = StatedSettings(read)
    test, stated = given.evaluation.test, given.evaluation.source
    return source_of(given.data.name, test, stated, given.run.evaluate_every)
