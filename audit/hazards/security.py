"""Protocols that sum updates unseen: what they state, and whether it holds together."""

from __future__ import annotations

from ...fl.observers.names import SERVER
from ..derivation.protocol_consistency import (
    FLOAT_SHARES,
    MIN_PAILLIER_KEY_BITS,
    contradictions,
    is_weak,
    uncovered_remainder,
)
from ..evidence.evidence import Evidence, RoundKind
from ..evidence.round_kinds import lines_of
from ..findings import Match, rule


@rule(
    "missing-protocol",
    why="That the server sees no more than the sum is the work of a protocol, and what it takes to "
    "break it stands in its parameters.",
    next_step="State the protocol (`security`). Until then the server counts as if it saw every "
    "silo's update.",
    explains=True,
)
def missing_protocol(evidence: Evidence) -> Match | None:
    """Fire where updates are said to be summed unseen and no protocol is stated."""
    opened = evidence.ledger.opened
    if opened.aggregation == "plain" or opened.security is not None:
        return None
    if opened.aggregation == "shuffle" and all(kind.facts.reaches for kind in evidence.kinds):
        return None  # a shuffler that is trusted is an assumption: reach-assumed says it
    return Match(
        f"Aggregation is `{opened.aggregation}`, and the log states no protocol for it.",
        (1, *lines_of(list(evidence.kinds))),
        evidence.left(SERVER),
    )


@rule(
    "protocol-mismatch",
    why="Parameters that do not fit the run are those of another protocol, or of none.",
    next_step="Find out what wrote these records. The server counts as if it saw every silo's "
    "update, and silos as if they knew the sample.",
    explains=True,
)
def protocol_mismatch(evidence: Evidence) -> Match | None:
    """Fire where the protocol contradicts the aggregation, the silos, the noise or the sample."""
    # What a method is published with is no mistake of who wrote the log: it has a rule of its own.
    published = (FLOAT_SHARES,) if evidence.setting.as_published else ()
    bad = [
        (kind, reasons[0])
        for kind in evidence.kinds
        if (reasons := [why for why in _reasons(evidence, kind) if why not in published])
    ]
    if not bad:
        return None
    what = bad[0][1]
    lines = lines_of([kind for kind, _ in bad])
    return Match(f"{what[0].upper()}{what[1:]}.", lines, evidence.left(SERVER))


@rule(
    "float-shares",
    why="A float is masked by numbers of a bounded size, so what is sent depends on what is shared "
    "and tells of it. Only in a ring is every share equally likely, whatever is shared.",
    next_step="Share integers in a ring. Until then whoever is sent shares counts as if it saw "
    "every silo's update.",
    explains=True,
)
def float_shares(evidence: Evidence) -> Match | None:
    """Fire where a method, as published, shares floats."""
    if not evidence.setting.as_published:
        return None
    bad = [kind for kind in evidence.kinds if FLOAT_SHARES in _reasons(evidence, kind)]
    if not bad:
        return None
    what = f"As published, {FLOAT_SHARES}."
    return Match(what, lines_of(bad), evidence.left())


@rule(
    "noise-in-multiples",
    why="Whoever decrypts sees the remainder too, and without noise it shows the updates and the "
    "number of records of each user.",
    next_step="Draw the noise on the grid of what is decrypted, as private weighting here does.",
    explains=True,
)
def noise_in_multiples(evidence: Evidence) -> Match | None:
    """Fire where noise leaves a part of what is decrypted uncovered, or its range is not known."""
    bad = [kind for kind in evidence.kinds if uncovered_remainder(kind.facts, evidence.setting)]
    if not bad:
        return None
    what = uncovered_remainder(bad[0].facts, evidence.setting)[0]
    return Match(f"{what[0].upper()}{what[1:]}.", lines_of(bad))


@rule(
    "fewest-below-noise",
    why="The parties let a sum through that holds fewer shares of the noise than it was made for.",
    next_step="Let parties refuse a sum of fewer, or make each share larger and say how many may "
    "be missing (`tolerated_dropouts`).",
    explains=True,
)
def fewest_below_noise(evidence: Evidence) -> Match | None:
    """Fire where a protocol may end with fewer parties than the noise allows."""
    security = evidence.ledger.opened.security
    if security is None or evidence.setting.aggregation == "plain":
        return None
    bad = [
        kind
        for kind in evidence.kinds
        if security.fewest < kind.facts.noise.shares - kind.facts.noise.tolerated_dropouts
        # Of a scheduled group additive shares need every peer, whatever the smallest group is.
        and not (security.protocol == "additive-shares" and kind.facts.roster is not None)
    ]
    if not bad:
        return None
    noise = bad[0].facts.noise
    return Match(
        f"The noise needs {noise.shares - noise.tolerated_dropouts:,} shares, and the protocol may "
        f"end with {security.fewest:,} parties.",
        lines_of(bad),
        evidence.left(),
    )


@rule(
    "weak-key",
    why="Every silo has the ciphertexts; who factors the key reads the number of records of each "
    "user, and who takes part.",
    next_step="Use a key of 3,072 bits.",
    explains=True,
)
def weak_key(evidence: Evidence) -> Match | None:
    """Fire where the key of private weighting is too short."""
    security = evidence.ledger.opened.security
    if security is None or not is_weak(security):
        return None
    return Match(
        f"The Paillier key has {security.key_bits:,} bits; at least {MIN_PAILLIER_KEY_BITS:,} "
        "count as safe.",
        (1, *lines_of(list(evidence.kinds))),
    )


def _reasons(evidence: Evidence, kind: RoundKind) -> tuple[str, ...]:
    """Return why a kind of rounds is none of the protocol that the log states, if it is none."""
    if evidence.ledger.opened.security is None:
        return ()
    return contradictions(kind.facts, evidence.setting)
