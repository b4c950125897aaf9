"""What a configuration determines of the log of its run, without data, model or protocol.

    sigma, C, |S|, rate, ...   ->   claim, plan, population, protocol, and every round's facts

Noise is made by the mechanisms that a run makes it with.  Where it was found for a target, it is
the log's own, and everything else must fit it.  Nothing heavy is imported: neither torch nor the
packages of the protocols.

Source: the systems of `fl`, which state these facts when they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from ..accountant.errors import InvalidInput
from ..accountant.mechanisms import FineGaussian, Gaussian
from ..accountant.records import (
    Contribution,
    Noise,
    Normaliser,
    RoundIntent,
    Sampling,
    Security,
    Weights,
)
from ..accountant.sensitivity import uldp
from ..accountant.sensitivity.release import reach, up
from .evaluation import source_of
from .sealed_items import NORMALISE, TRAIN, Read, sealed_items

WEIGHTED: Final = ("uldp-avg", "uldp-sgd")
"""Systems that weight each user's updates over the silos."""

_RING_BITS: Final = 64
"""Integers are masked modulo 2^64 (`fl.secagg.masked`)."""

LATER: Final = (
    ("privacy", "observer"),
    ("security", "colluders"),
    ("evaluation", "test"),
    ("evaluation", "source"),
)
"""Keys that configurations did not always have: a log that lacks one meant something of its own."""

Mechanism: TypeAlias = Gaussian | FineGaussian


@dataclass(frozen=True)
class AtMost:
    """A value that the configuration only bounds from above."""

    value: float


class NotStated(Exception):
    """What a fact depends on is not stated; the text names it."""


@dataclass(frozen=True)
class Phase:
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


def phase_names(read: Read) -> tuple[str, ...]:
    """Return the phases of a run, in their order."""
    private = read("data", "normalisation") == "private"
    return (NORMALISE, TRAIN) if private else (TRAIN,)


def phase_of(read: Read, intent: RoundIntent, values: int | None) -> Phase:
    """Return what a round of a phase states, where noise was found: with the noise of `intent`.

    `values` is the length of what a round released; None before any did.  Raises `NotStated`, and
    as mechanisms do for noise and bounds that none of them takes.
    """
    if intent.phase == NORMALISE:
        return _moments(read, intent, values)
    system = read("run", "system")
    if system == "fedavg":
        return _without_noise(read)
    if system not in (*WEIGHTED, "uldp-naive", "uldp-group"):
        raise NotStated(f"[run] system {system}")

    def make(noise_multiplier: float) -> Mechanism:
        return _training(read, system, noise_multiplier)

    made = make(_multiplier(read, intent, make))
    normaliser = Normaliser("constant", _constant(read, system))
    draws = _steps(read) if system == "uldp-group" else 1
    sampling = _sampling(read, system)
    return _phase(made, read("privacy", "neighbours"), draws, sampling, normaliser)


# --- the first line -------------------------------------------------------------------------------


def _epsilon(read: Read) -> object:
    """Return the promise: a target that noise was found for, or at most that with both given."""
    target, noise = read("privacy", "epsilon"), read("privacy", "noise_multiplier")
    if read("run", "system") == "fedavg":
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
    if read("run", "system") == "fedavg":
        raise NotStated("")  # it promises nothing, for no unit
    return read("privacy", "unit")


def _observer(read: Read) -> object:
    try:
        return read("privacy", "observer")
    except NotStated:
        return "model"  # before that could be configured


def _group(read: Read) -> object:
    own = read("uldp", "group_records")
    return 1 if own is None else own


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
    ("as_published", lambda read: read("uldp", "as_published")),
    ("tuning.trials", lambda read: read("run", "trials")),
    ("tuning.public_only", lambda read: read("run", "trials") == 1),
    ("tuning.event", lambda _: None),
    ("sealed", sealed_items),
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
    if aggregation != "private-weighting":
        raise NotStated(f"[security] aggregation {aggregation}")
    published = read("uldp", "as_published")
    limit, slots = read("security", "count_limit"), read("security", "slots")
    return Security(
        "private-weighting",
        parties=silos,
        fewest=silos,
        key_bits=read("security", "key_bits"),
        count_limit=limit,
        count_cap=0 if published else (limit - 1) // silos,
        records_per_count=1 if published else read("security", "records_per_count"),
        slots=slots or 0,
        chosen=0 if slots is None else _chosen(read),
        noise="multiples" if published else "every-residue",
    )


def _masks(read: Read, silos: int) -> Security:
    """Return the parameters of masks that bear as many colluders as they can.

    What is stated of colluders is the configured number; before there was one, what masks bear.
    """
    from .secagg.terms import choose

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


def _phase(
    made: Mechanism,
    relation: str,
    draws: int,
    sampling: Sampling,
    normaliser: Normaliser | None,
) -> Phase:
    return Phase(
        made.contribution,
        made.noise(draws),
        made.sensitivity(relation),
        made.weights_used,
        sampling,
        normaliser,
    )


def _without_noise(read: Read) -> Phase:
    return Phase(
        Contribution(math.inf, "l2", "user", "whole"),
        Noise("none", 0.0, shares=0, draws=0),
        math.inf,
        Weights(),
        Sampling(),
        Normaliser("constant", float(read("data", "silos"))),
        clip_enforced=False,
    )


def _moments(read: Read, intent: RoundIntent, values: int | None) -> Phase:
    """Return the phase of private moments, whose bound follows from the number of features."""
    from .datasets.normalise import contribution_bound

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
    made = _weighted(read, read("privacy", "normalisation_noise"), bound)
    return _phase(made, read("privacy", "neighbours"), 1, Sampling(), None)


def _multiplier(read: Read, intent: RoundIntent, make: Callable[[float], Mechanism]) -> float:
    """Return the noise multiplier: the configured one, or what a round's noise comes to."""
    given: float | None = read("privacy", "noise_multiplier")
    if given is not None:
        return given
    std = intent.noise.std
    if not 0.0 < std < math.inf:
        raise NotStated("the noise that was found")
    return std / make(1.0).std


def _training(read: Read, system: str, noise_multiplier: float) -> Mechanism:
    clip = read("training", "clip")
    if system == "uldp-naive":
        return _naive(read, clip, noise_multiplier)
    if system == "uldp-group":
        std = up(Fraction(noise_multiplier) * Fraction(clip))
        return Gaussian(bound=clip, std=std, terms="unit", unit="record")
    made = _weighted(read, noise_multiplier, clip)
    if read("security", "aggregation") != "private-weighting" or read("uldp", "as_published"):
        return made
    from .uldp.weighting.terms import WeightingTerms, common_multiple

    multiple = common_multiple(read("security", "count_limit"))
    return FineGaussian.of(made, multiple, WeightingTerms.digits)


def _weighted(read: Read, noise_multiplier: float, bound: float) -> Gaussian:
    from .uldp.sums import weighted_sum

    return weighted_sum(
        noise_multiplier,
        bound=bound,
        users=read("data", "users"),
        silos=read("data", "silos"),
        rule=read("training", "weighting"),
        tolerated_dropouts=read("security", "dropouts"),
    )


def _naive(read: Read, clip: float, noise_multiplier: float) -> Gaussian:
    silos, relation = read("data", "silos"), read("privacy", "neighbours")
    moved = uldp.naive_sensitivity_as_published(clip, silos)
    if not read("uldp", "as_published"):
        moved = uldp.naive_sensitivity(clip, silos, relation).l2 / reach(relation)
    return Gaussian(
        bound=clip,
        std=up(Fraction(noise_multiplier) * Fraction(moved)),
        shares=silos,
        terms="silo-delta",
        unit="user",
        tolerated_dropouts=read("security", "dropouts"),
    )


def _sampling(read: Read, system: str) -> Sampling:
    if system == "uldp-group":
        from .uldp.flags import CHOSEN_BY

        rate = _record_rate(read)
        if rate == 1.0:
            return Sampling(chosen_by=CHOSEN_BY)
        return Sampling("poisson", "record", rate, "silos", chosen_by=CHOSEN_BY)
    rate = _user_rate(read, system)
    if rate == 1.0:
        return Sampling()
    transferred = read("security", "slots") is not None
    return Sampling("poisson", "user", rate, "oblivious-transfer" if transferred else "server")


def _user_rate(read: Read, system: str) -> float:
    """Return the probability with which a user joins a round; of real slots, rounded up."""
    if system not in WEIGHTED:
        return 1.0
    slots = read("security", "slots")
    if slots is None:
        return float(read("privacy", "sampling_rate"))
    return up(Fraction(_chosen(read), slots))


def _chosen(read: Read) -> int:
    rate: float = read("privacy", "sampling_rate")
    slots: int = read("security", "slots")
    return round(rate * slots)


def _nominal(read: Read) -> Fraction:
    """Return how many records a silo of uldp-group has, if every user has all that take part."""
    most = read("uldp", "group_records") or 1
    return Fraction(most * read("data", "users"), read("data", "silos"))


def _record_rate(read: Read) -> float:
    given: float | None = read("uldp", "record_rate")
    if given is not None:
        return given
    return min(float(read("training", "batch") / _nominal(read)), 1.0)


def _steps(read: Read) -> int:
    """Return how many steps of DP-SGD a round of uldp-group has."""
    epochs: int = read("training", "local_epochs")
    return epochs * math.ceil(1 / Fraction(_record_rate(read)))


def _constant(read: Read, system: str) -> float:
    """Return the public constant that a sum is divided by."""
    silos: int = read("data", "silos")
    if system == "uldp-naive":
        return float(silos)
    if system == "uldp-group":
        return float(Fraction(_record_rate(read)) * _nominal(read))
    users: int = read("data", "users")
    return _user_rate(read, system) * users * silos
