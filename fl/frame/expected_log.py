"""What a configuration determines of the log of its run, without data, model or protocol.

    sigma, C, |S|, rate, ...   ->   claim, plan, population, protocol, and every round's facts

What is of every system stands here; what is of one, its declaration names (`determines`).  Noise is
made by the mechanisms that a run makes it with.  Where it was found for a target, it is the log's
own, and everything else must fit it.  Nothing heavy is imported: neither torch nor the packages of
the protocols.

Source: the systems of `fl`, which state these facts when they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.mechanisms import FineGaussian, Gaussian
from ...accountant.records import (
    Contribution,
    Noise,
    Normaliser,
    RoundIntent,
    Sampling,
    Security,
    Weights,
)
from ..declarations.declaration import AS_PUBLISHED, NORMALISE, OURS, Declaration, Read
from ..declarations.registry import declaration_of
from ..declarations.sealed_items import sealed_items
from ..secagg.peers import security_among
from ..settings.public_test_data import source_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RING_BITS: Final = 64
"""Integers are masked modulo 2^64 (`fl.aggregation.masked_sums`)."""

LATER: Final = (
    ("privacy", "observer"),
    ("security", "colluders"),
    ("evaluation", "test"),
    ("evaluation", "source"),
)
"""Keys that configurations did not always have: a log that lacks one meant something of its own."""

Answer = TypeVar("Answer")

Mechanism: TypeAlias = Gaussian | FineGaussian


@dataclass(frozen=True)
class AtMost:
    """A value that the configuration only bounds from above."""

    value: float


class NotStated(Exception):
    """What a fact depends on is not stated; the text names it."""


@dataclass(frozen=True)
class ExpectedPhase:
    """What every round of one phase states; the names are those of the records.

    `normaliser` and `clip_enforced` stand in its releases.
    """

    contribution: Contribution
    noise: Noise
    sensitivity: float
    weights: Weights
    sampling: Sampling = field(default_factory=Sampling)
    normaliser: Normaliser | None = None
    clip_enforced: bool = True


Fact: TypeAlias = Callable[[Read], object]


@dataclass(frozen=True)
class ExpectedLog:
    """What the configuration of one system determines of its log; its declaration names this.

    `phase` is what a round states, but for the normalising phase, which is of every system; see
    `phase_of`.  `security` are the parameters of its own protocols, beside plain and masked sums.
    `first` is the vector that its first round starts from, (D,) float64, of which each round
    releases as many numbers; it returns None where the configuration does not give it.  Without
    `first` it is the first model of `[training]`.  All raise `NotStated` where a key is missing.
    """

    phase: Callable[[Read, RoundIntent, int | None], ExpectedPhase]
    security: Callable[[Read], Security] | None = None
    first: Callable[[Read], NDArray[np.float64] | None] | None = None


def system_of(read: Read) -> Declaration:
    """Return the declaration of the system that ran; raise `NotStated` for one not known here."""
    name = read("run", "system")
    try:
        return declaration_of(name)
    except InvalidInput:
        raise NotStated(f"[run] system {name}") from None


def _determines(read: Read) -> ExpectedLog | None:
    system = system_of(read)
    if system.determines is None:
        return None
    reference = system.determines
    return _asked(system, lambda: _facts_at(system, reference), loading=True)


def _facts_at(system: Declaration, reference: str) -> ExpectedLog:
    facts = system.load(reference)
    if not isinstance(facts, ExpectedLog):
        raise TypeError(f"{reference} of {system.name} is no `ExpectedLog`")
    return facts


def _asked(system: Declaration, call: Callable[[], Answer], *, loading: bool = False) -> Answer:
    """Return what the code of a system says; `NotStated` where another package's code fails.

    Of what it refuses while `loading`, too: that is about the package, and not about the log.
    """
    try:
        return call()
    except NotStated:
        raise
    except (Exception, SystemExit) as error:
        if system.package == OURS or (isinstance(error, PrivplanError) and not loading):
            raise
        raise NotStated(f"what {system.name} of package {system.package} determines") from None


def phase_names(read: Read) -> tuple[str, ...]:
    """Return the phases of a run, in their order; `NotStated` for a system that is not known."""
    system = system_of(read)
    if system.determines is None:
        raise NotStated(f"rounds of {read('run', 'system')}")
    private = read("data", "normalisation") == "private"
    return ((NORMALISE,) if private else ()) + system.phase_names(read)


def first_of(read: Read) -> NDArray[np.float64] | None:
    """Return the vector that the first round starts from, as the system's own function gives it.

    None where that is the first model of `[training]` (`fl.frame.initial_model`).  Raises
    `NotStated` where a system has none, or does not say.
    """
    determines, system = _determines(read), system_of(read)
    if determines is not None and determines.first is not None:
        first = determines.first(read)
        if first is not None:
            return first
    elif system.trains and (determines is not None or system.package == OURS):
        return None
    raise NotStated(f"what {system.name} starts from")


def phase_of(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    """Return what a round of a phase states, where noise was found: with the noise of `intent`.

    `values` is the length of what a round released; None before any did.  Raises `NotStated`, and
    as mechanisms do for noise and bounds that none of them takes.
    """
    if intent.phase == NORMALISE:
        return _moments(read, intent, values)
    determines = _determines(read)
    if determines is None:
        raise NotStated(f"rounds of {read('run', 'system')}")
    return _asked(system_of(read), lambda: determines.phase(read, intent, values))


# --- the first line -------------------------------------------------------------------------------


def _epsilon(read: Read) -> object:
    """Return the promise: a target that noise was found for, or at most that with both given."""
    target, noise = read("privacy", "epsilon"), read("privacy", "noise_multiplier")
    if not system_of(read).promises:
        return None
    if target is None:
        raise NotStated("")  # it follows from the noise, and the budget's audit derives it
    return target if noise is None else AtMost(target)


def _rounds(read: Read) -> object:
    """Return the planned releases; a budget that cuts them makes fewer."""
    rounds = read("run", "rounds") + (read("data", "normalisation") == "private")
    cut = read("privacy", "epsilon") is not None and read("privacy", "noise_multiplier") is not None
    return AtMost(rounds) if cut else rounds


def _unit(read: Read) -> object:
    if not system_of(read).promises:
        raise NotStated("")  # it promises nothing, for no unit
    return read("privacy", "unit")


def _observer(read: Read) -> object:
    try:
        return read("privacy", "observer")
    except NotStated:
        return "model"  # before that could be configured


def _group(read: Read) -> object:
    table = system_of(read).table
    if table is None or table.group is None:
        return 1
    most = read(table.name, table.group)
    return 1 if most is None else most


def _as_published(read: Read) -> object:
    """Return whether a method is run as published: where its table has a key of that name."""
    table = system_of(read).table
    if table is None or not any(key.name == AS_PUBLISHED for key in table.keys):
        return False
    return read(table.name, AS_PUBLISHED)


def _sealed(read: Read) -> object:
    return _asked(system_of(read), lambda: sealed_items(read))


def source(read: Read) -> object:
    """Return where protective randomness comes from."""
    return "operating-system" if read("run", "seed") is None else "seeded"


OPENING: Final[tuple[tuple[str, Fact], ...]] = (
    ("system", lambda read: read("run", "system")),
    ("claim.unit", _unit),
    ("claim.neighbours", lambda read: read("privacy", "neighbours")),
    ("claim.delta", lambda read: read("privacy", "delta")),
    ("claim.epsilon", _epsilon),
    ("claim.observer", _observer),
    ("claim.group", lambda read: read("privacy", "group")),
    ("claim.group", _group),
    ("plan.rounds", _rounds),
    ("population.users", lambda read: read("data", "users")),
    ("population.silos", lambda read: read("data", "silos")),
    ("population.records", lambda _: None),
    ("randomness.source", source),
    ("aggregation", lambda read: read("security", "aggregation")),
    ("as_published", _as_published),
    ("tuning.trials", lambda read: read("run", "trials")),
    ("tuning.public_only", lambda read: read("run", "trials") == 1),
    ("tuning.event", lambda _: None),
    ("sealed", _sealed),
)
"""Facts of the first line by their paths, and what makes each; the protocol's are `security_of`.

Each raises `NotStated` with the key that is missing, or with "" where it is not determined.
"""


def security_of(read: Read) -> Security | None:
    """Return the protocol's public parameters."""
    aggregation, silos = read("security", "aggregation"), read("data", "silos")
    if aggregation == "plain":
        return None
    if aggregation == "masked":
        return _masks(read, silos)
    if aggregation == "shares":
        return security_among(silos, read("security", "colluders"))
    determines = _determines(read)
    if determines is None or determines.security is None:
        raise NotStated(f"[security] aggregation {aggregation}")
    stated = determines.security
    return _asked(system_of(read), lambda: stated(read))


def _masks(read: Read, silos: int) -> Security:
    """Return the parameters of masks that bear as many colluders as they can.

    What is stated of colluders is the configured number; before there was one, what masks bear.
    """
    from ..secagg.terms import choose

    dropouts = read("security", "dropouts")
    try:
        told = read("security", "colluders")
    except NotStated:
        told = None
    lies = silos > 2 * dropouts + (told or 0)
    server: Literal["malicious", "honest-but-curious"]
    server = "malicious" if lies else "honest-but-curious"
    left = silos - dropouts
    most = max(told or 0, min(left - 2, left - dropouts - 1) if lies else left - 2, 0)
    terms = choose(silos, length=1, dropouts=dropouts, colluders=most, server=server)
    return Security(
        "pairwise-masks",
        parties=silos,
        fewest=left,
        threshold=terms.threshold,
        degree=terms.degree,
        ring_bits=_RING_BITS,
        server=server,
        colluders=most if told is None else told,
    )


def test_source(read: Read) -> str | None:
    """Return who says that test data are public; None where a run measures nothing.

    Raises `NotStated` where a configuration is older than the key.
    """
    return source_of(
        read("data", "name"),
        read("evaluation", "test"),
        read("evaluation", "source"),
        read("run", "evaluate_every"),
    )


# --- rounds ---------------------------------------------------------------------------------------


def expected_phase(
    mechanism: Mechanism,
    relation: str,
    draws: int,
    sampling: Sampling,
    normaliser: Normaliser | None,
) -> ExpectedPhase:
    """Return what a round states whose noise a mechanism makes, in so many draws."""
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(draws),
        mechanism.sensitivity(relation),
        mechanism.weights_used,
        sampling,
        normaliser,
    )


def _moments(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    """Return the phase of private moments, whose bound follows from the number of features."""
    from ..data.normalise import contribution_bound

    rule, silos = read("training", "weighting"), read("data", "silos")
    counted = rule == "uniform" and silos > 1
    bound = intent.contribution.bound
    if values is not None:
        features, odd = divmod(values - counted, 2)
        if odd or features < 1:
            raise InvalidInput(
                f"Moments of features are two values each{' and a count' * counted}, not {values:,}"
            )
        bound = contribution_bound(features, counted=counted)
    from ..aggregation.weighted_sum import weighted_sum

    mechanism = weighted_sum(
        read("privacy", "normalisation_noise"),
        bound=bound,
        users=read("data", "users"),
        silos=silos,
        rule=rule,
        tolerated_dropouts=read("security", "dropouts"),
    )
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, Sampling(), None)


def noise_multiplier_of(
    read: Read, intent: RoundIntent, make: Callable[[float], Mechanism]
) -> float:
    """Return the noise multiplier: the configured one, or what a round's noise comes to."""
    given: float | None = read("privacy", "noise_multiplier")
    if given is not None:
        return given
    std = intent.noise.std
    if not 0.0 < std < math.inf:
        raise NotStated("the noise that was found")
    return std / make(1.0).std
