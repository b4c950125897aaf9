"""What a protocol that hides who sent what changes, if the facts that it states fit together.

    aggregation           protocol
    masked                pairwise-masks       the server sees the sum of those who stayed
    private-weighting     private-weighting    likewise; nobody sees weights, no silo the sample
    shares                additive-shares      peers learn the sum alone; each of them is needed
    shuffle               shuffler             the analyzer gets messages without their senders

Where silos take part by a public schedule, `parties` of the first line are all of them and `fewest`
is the smallest group that may be summed.  A round is then read with the parties that it names:
additive shares need each of these, and colluders are counted against the smallest group.

Facts that are missing, or that contradict each other, are no protocol: then the server counts as if
it saw every silo's update, and silos as if they knew the sample.  A protocol goes on with `fewest`
parties, so no more shares of the noise than that are counted on, whatever arrived.

Under private weighting the decrypted integer has weights that are multiples of 1/m, m being
lcm(1..`count_limit`), in steps of P/m, P being the step of an update.  Noise that stands on
multiples of m leaves the rest of it without any, and so does noise on a grid that is coarser than
bound / m, for P is at most the bound.  Counts that may exceed the limit make weights that are no
such multiples, and then nothing bounds what is decrypted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Final

from ...accountant.errors import there_are
from ...accountant.records import Security
from ...accountant.sensitivity.release import up
from ..ledger.product_facts import is_product
from .noise import SUM_NOISE_FAMILIES
from .round_facts import RoundFacts, is_alone, noise_is_removed, unfit_removal
from .run_setting import NoProof, RunSetting

MIN_PAILLIER_KEY_BITS: Final = 2048
"""Bits of a Paillier key that nobody can factor; with fewer, silos read every user's counts."""

MAX_COUNT_LIMIT: Final = 10_000
"""Largest limit on a user's count that makes sense: lcm(1..10,000) has 14,446 bits."""

_OF_GROUPS: Final = ("pairwise-masks", "additive-shares")
"""Protocols by which some silos may be summed without the others."""

MIN_PEERS: Final = 3
"""Peers below which the total, less one's own vector, is another's."""

_PROTOCOL_OF_AGGREGATION: Final[Mapping[str, str]] = {
    "masked": "pairwise-masks",
    "private-weighting": "private-weighting",
    "shares": "additive-shares",
    "shuffle": "shuffler",
}
_ALLOWED_RING_BITS: Final = (32, 64)

FLOAT_SHARES: Final = "shares are of floats, in no ring, and hide nothing"
"""What is said of additive shares that are stated without a ring."""

_PARAMETERS: Final = (
    *("threshold", "degree", "ring_bits", "key_bits", "count_limit", "count_cap"),
    *("records_per_count", "slots", "chosen"),
)
_PARAMETERS_USED: Final[Mapping[str, tuple[str, ...]]] = {
    "additive-shares": ("ring_bits",),
    "shuffler": ("key_bits",),
}
"""The numbers that the protocols use of which every version states 0 for all others."""


def reliable_facts(facts: RoundFacts, setting: RunSetting) -> tuple[RoundFacts, RunSetting]:
    """Return facts and setting as far as they can be relied on together; twice is as once.

    `aggregation` is what the facts of the protocol allow, `shares` what it guarantees, and the
    rate that of the oblivious transfer, where it is more than the stated one.
    """
    voids = unfit_schedule(facts, setting)
    setting = setting.of_round(facts.roster)
    # Facts that contradict each other are no protocol: the server counts as seeing each update.
    aggregation = setting.aggregation if not contradictions(facts, setting) else "plain"
    uncovered = (*uncovered_remainder(facts, setting), *unbounded_steps(facts, setting))
    voids = tuple(dict.fromkeys((*facts.voids, *voids, *uncovered)))
    shares, weights, security = facts.shares, facts.weights, setting.security
    if security is not None and setting.aggregation != "plain":
        # A protocol may end with `fewest` parties, so no more shares than that are sure; additive
        # shares of a scheduled group give no sum without each of its parties.
        whole_group = setting.everyone is not None and security.protocol == "additive-shares"
        shares = min(shares, setting.silos if whole_group else security.fewest)
    if is_private(setting):
        # The bound for uniform weights is the smaller one; nobody sees here that they are uniform.
        rule = "records" if weights.rule == "uniform" else weights.rule
        weights = replace(weights, rule=rule, largest_sum=max(weights.largest_sum, 1.0))
    rate = max(facts.sampling.rate, transfer_rate(facts, setting))
    drawn = replace(facts.sampling, rate=rate)
    reliable = replace(facts, voids=voids, shares=shares, weights=weights, sampling=drawn)
    return reliable, replace(setting, aggregation=aggregation)


def contradictions(facts: RoundFacts, setting: RunSetting) -> tuple[str, ...]:
    """Return why a round's facts, and the run's, are none of a protocol for unseen sums."""
    security = setting.security
    if security is None:
        missing = "no protocol is stated by which the server would see the sum alone"
        return () if setting.aggregation == "plain" else (missing,)
    return tuple(_contradictions(facts, setting, security))


def unfit_schedule(facts: RoundFacts, setting: RunSetting) -> tuple[str, ...]:
    """Return why a round of some silos only is covered by nothing; of other rounds no reason.

    Each silo that takes part adds one share of the noise, to a sum in the clear, under masks or
    under additive shares.
    """
    if facts.roster is None:
        return ()
    if facts.messages or noise_is_removed(facts, setting) or is_private(setting):
        return ("silos take part by a schedule, which is known to fit sums with all noise only",)
    there = setting.silos if setting.everyone is None else setting.everyone
    if facts.roster > there:
        return (f"{facts.roster:,} silos take part, and {there_are(there, 'silo')}",)
    if facts.noise.family != "none" and facts.noise.shares != facts.roster:
        return (
            f"{facts.roster:,} silos take part, and add {facts.noise.shares:,} shares of the noise",
        )
    return ()


def _contradictions(facts: RoundFacts, run: RunSetting, announced: Security) -> Iterator[str]:
    setting = run.of_round(facts.roster)
    aggregation, noise, security = setting.aggregation, facts.noise, announced
    everyone = setting.silos if setting.everyone is None else setting.everyone
    if setting.everyone is not None and announced.protocol in _OF_GROUPS:
        if announced.parties != everyone:
            yield f"{announced.parties:,} parties take part, and {there_are(everyone, 'silo')}"
        security = replace(announced, parties=setting.silos)
    if _PROTOCOL_OF_AGGREGATION.get(aggregation) != security.protocol:
        yield f"the protocol `{security.protocol}` is none of aggregation `{aggregation}`"
    yield from _without_use(security)
    if security.protocol == "shuffler":
        yield from _unmixed(facts, setting, security)
        return
    if security.parties != setting.silos:
        yield f"{security.parties:,} parties take part, and {there_are(setting.silos, 'silo')}"
    if noise.family not in (*SUM_NOISE_FAMILIES, "none"):
        yield f"{noise.family} noise is not added to a sum"
    elif (
        noise.family != "none" and noise.shares != security.parties and not is_alone(facts, setting)
    ):
        yield f"{security.parties:,} parties add {noise.shares:,} shares of the noise"
    if not 2 <= security.fewest <= security.parties:
        yield f"a sum of {security.fewest:,} of {security.parties:,} parties may be let through"
    if security.protocol == "pairwise-masks":
        if security.ring_bits not in _ALLOWED_RING_BITS:
            yield f"there is no ring of {security.ring_bits} bits"
        if (
            not 2 <= security.threshold <= security.degree + 1 <= security.parties
        ):  # its neighbours and itself
            yield (
                f"{security.threshold:,} of a party and {security.degree:,} neighbours "
                "restore its masks"
            )
        yield from _undefended(security)
        yield from unfit_removal(facts, security)
    elif security.protocol == "additive-shares":
        yield from _unshared(facts, security, grouped=setting.everyone is not None)
    else:
        yield from _unfit_weights(facts, security)
    if facts.sampling.drawn_by == "oblivious-transfer" and not _transfers(security):
        yield f"{security.chosen:,} of {security.slots:,} slots of a transfer are drawn"


def _without_use(security: Security) -> Iterator[str]:
    """Yield numbers that a protocol has no use for, so that another one's facts stand here."""
    if security.protocol not in _PARAMETERS_USED:
        return
    for name in _PARAMETERS:
        if getattr(security, name) and name not in _PARAMETERS_USED[security.protocol]:
            yield f"`{name}` is {getattr(security, name):,}, and the protocol has no use for it"


def _undefended(security: Security) -> Iterator[str]:
    """Yield why masks do not hold against those from whom they are said to hide updates.

    Of the conditions of `fl.secagg.terms` these are the ones without chance.
    """
    colluders, malicious = security.colluders, security.server == "malicious"
    if security.fewest - colluders < 2:
        yield (
            f"{colluders:,} of {security.fewest:,} parties may tell what they know, which "
            "hides no other"
        )
    if malicious and 2 * security.fewest <= security.parties + colluders:
        yield "a server that lies could have two groups of parties believe in two sums"
    if security.degree + 1 == security.parties:  # everybody holds a share of everybody's masks
        # A lying server asks two groups for shares: 2 t - n of them must answer both times.
        enough = 2 * security.threshold - security.parties if malicious else security.threshold
        if enough <= colluders:
            yield (
                f"{security.threshold:,} shares restore masks, too few where {colluders:,} "
                "parties tell"
            )


def _unshared(facts: RoundFacts, security: Security, *, grouped: bool) -> Iterator[str]:
    """Yield why additive shares do not hide a peer's vector: less one's own, it must be a sum.

    `grouped`: `parties` are those of one round, and `fewest` is the smallest group of the run.
    """
    smallest = min(security.fewest, security.parties) if grouped else security.parties
    if smallest < MIN_PEERS:
        yield f"of {smallest:,} peers one could take its own vector off, and know the other's"
    if (security.fewest != security.parties and not grouped) or facts.noise.tolerated_dropouts:
        yield "additive shares need every peer"
    if smallest - security.colluders < MIN_PEERS:
        yield f"{security.colluders:,} of {smallest:,} peers may tell what they know"
    if not security.ring_bits:
        yield FLOAT_SHARES
    elif security.ring_bits not in _ALLOWED_RING_BITS:
        yield f"there is no ring of {security.ring_bits} bits"
    if security.server != "honest-but-curious":
        yield "additive shares are for peers that follow the protocol"


def _unmixed(facts: RoundFacts, setting: RunSetting, security: Security) -> Iterator[str]:
    """Yield why a shuffler mixes nothing: there must be so many messages, each of one unit."""
    there = setting.size(facts.contribution.unit)
    if not facts.messages:
        yield f"terms of kind `{facts.contribution.terms}` are summed, and no messages"
    if facts.noise.family == "none":
        yield "messages without noise are mixed"
    if facts.noise.shares not in (0, 1, security.parties):
        shares = facts.noise.shares
        yield f"{security.parties:,} parties send messages, of which {shares:,} have noise"
    if there is None:
        yield f"how many {facts.contribution.unit}s there are is not public"
    elif security.parties > there:
        yield f"{security.parties:,} parties send messages, and there are {there:,}"
    if not 2 <= security.fewest <= security.parties:
        yield f"{security.fewest:,} of {security.parties:,} messages may be let through"
    elif security.fewest - security.colluders < 2:
        yield f"{security.colluders:,} of {security.fewest:,} parties may tell what they know"
    if security.server != "honest-but-curious":
        yield "a shuffler that lies mixes nothing"


def _unfit_weights(facts: RoundFacts, security: Security) -> Iterator[str]:
    weights, terms = facts.weights, facts.contribution
    if (terms.unit, terms.terms, weights.rule) != ("user", "unit", "records"):
        yield f"private weighting is for users' own terms by records, not `{weights.rule}`"
    if security.fewest != security.parties or facts.noise.tolerated_dropouts:
        yield "private weighting needs every party"
    if security.server != "honest-but-curious" or security.colluders:
        yield "private weighting is for a server that follows it, and that nobody tells anything"
    if security.records_per_count < 1:
        yield "records are counted in units of 0"


def uncovered_remainder(facts: RoundFacts, setting: RunSetting) -> tuple[str, ...]:
    """Return why noise does not cover all that is decrypted, which takes every guarantee away."""
    security = setting.security
    if security is None:
        return ()
    if security.noise == "multiples":
        return ("the noise stands on multiples only; the rest of what is decrypted has none",)
    if security.protocol != "private-weighting":
        return ()
    if not 1 <= security.count_cap * security.parties < security.count_limit <= MAX_COUNT_LIMIT:
        return (
            f"{security.parties:,} silos count up to {security.count_cap:,} each and a dummy, "
            f"and weights are made for {security.count_limit:,}",
        )
    # P <= bound is the step of an update, so bound / m bounds the step of what is decrypted: a grid
    # above it leaves residues without noise.
    grid, bound = facts.noise.grid, facts.contribution.bound
    known = math.isfinite(grid) and math.isfinite(bound)
    if not known or not 0 < Fraction(grid) * multiple(security.count_limit) <= Fraction(bound):
        return ("the noise stands on a grid that is coarser than that of the weights",)
    return ()


def unbounded_steps(facts: RoundFacts, setting: RunSetting) -> tuple[str, ...]:
    """Return why facts of a run as published bound nothing; of other runs there is no reason.

    Between two sums nodes may multiply by matrices that their own rows have made, and they may
    divide by how many rows they have; and of messages, a randomizer as printed may leave words out,
    and units may send what their data decide.  A log as published has no fact that says so.
    """
    if setting.as_published and is_product(facts.contribution):
        return ("as published, nodes may multiply or divide by what depends on their own rows",)
    if setting.as_published and facts.messages:
        return ("as published, what is sent, and by which randomizer, may depend on a unit's data",)
    return ()


@cache
def multiple(count_limit: int) -> int:
    """Return m, the least common multiple of what a user's counts may sum to: 1..`count_limit`."""
    return math.lcm(*range(1, min(count_limit, MAX_COUNT_LIMIT) + 1))


def largest_weight(security: Security) -> Fraction:
    """Return what a user's weights sum to, of as many counts as there may be: below 1."""
    # c / (c + 1): the dummy keeps a user's weights below 1, which a lower bound must give away.
    counts = security.count_cap * security.parties
    return Fraction(counts, counts + 1)


def transfer_rate(facts: RoundFacts, setting: RunSetting) -> float:
    """Return the rate at which an oblivious transfer draws; 0 where there is none, 1 if unknown."""
    security = setting.security
    if security is not None and _transfers(security):
        return (
            up(Fraction(security.chosen, security.slots))
            if facts.sampling.method == "poisson"
            else 0.0
        )
    # A transfer with unknown numbers may draw everybody: rate 1 is the safe side.
    return 1.0 if facts.sampling.drawn_by == "oblivious-transfer" else 0.0


def require_strong_key(setting: RunSetting) -> None:
    """Raise `NoProof` where silos can read every user's counts."""
    security = setting.security
    if security is not None and is_weak(security):
        raise NoProof(
            f"silos can factor a key of {security.key_bits:,} bits, and read users' counts"
        )


def is_weak(security: Security) -> bool:
    """Return whether counts are encrypted under a key that is too short."""
    return security.protocol == "private-weighting" and security.key_bits < MIN_PAILLIER_KEY_BITS


def is_private(setting: RunSetting) -> bool:
    """Return whether the protocol is private weighting."""
    return setting.security is not None and setting.security.protocol == "private-weighting"


def _transfers(security: Security) -> bool:
    """Return whether the numbers are those of a transfer."""
    return security.protocol == "private-weighting" and 1 <= security.chosen <= security.slots >= 2
