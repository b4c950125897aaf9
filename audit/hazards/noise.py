"""The noise: how much arrived, where it came from, and how it was made."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant import rounding
from ...accountant.errors import counted
from ...fl.observers.names import MODEL
from ..derivation.noise import is_wishart, published_delta
from ..derivation.protocol_consistency import MIN_PAILLIER_KEY_BITS
from ..derivation.round_facts import has_removal_key, noise_is_removed
from ..derivation.sampling import parts_of
from ..derivation.supported_event import supported
from ..edits.streams import least_bytes
from ..evidence.evidence import Evidence
from ..evidence.round_kinds import lines_of
from ..findings import Match, rule
from ..ledger.phases import CONTINUOUS_FAMILIES


@rule(
    "noise-may-be-known",
    severity="warning",
    why="Where the noise of one silo stays in a sum, that silo takes it off and has the exact sum. "
    "No width of the noise lowers that probability.",
    next_step="Let the noise of all silos stay, in shares, or promise nothing "
    "before those who add noise.",
    explains=True,
)
def noise_may_be_known(evidence: Evidence) -> Match | None:
    """Fire where the noise that stays in a sum may be that of an observer, or be told to it."""
    removed = [kind for kind in evidence.kinds if noise_is_removed(kind.facts, evidence.setting)]
    # As published nothing else is proven either, and this holds all the same.
    setting = replace(evidence.setting, as_published=False)
    least: dict[str, float] = {}
    for observer in evidence.observers:
        hidden = Fraction(1)
        for kind in removed:
            event = supported(kind.facts, setting, observer)
            hidden *= (1 - _exact_share(event)) ** len(kind.spent)
        least[observer] = float(1 - hidden) * (1.0 - 1e-9)
    known = {name: delta for name, delta in least.items() if delta > evidence.delta}
    if not known:
        return None
    name = max(known, key=lambda each: known[each])
    others = len(known) - 1
    return Match(
        f"Delta is at least {known[name]:.3g} before {name!r}"
        + (f" (and too large before {others} more)" if others else "")
        + f", whatever the noise: the promise has {evidence.delta:g}.",
        lines_of(removed),
    )


def _exact_share(event: ev.Event) -> Fraction:
    """Return the delta of one round that belongs to no noise."""
    parts = event.events if isinstance(event, ev.Compose) else (event,)
    shares = [Fraction(part.delta) for part in parts if isinstance(part, ev.Approximate)]
    return max(shares, default=Fraction(0))


@rule(
    "weak-removal-key",
    why="Who factors the key under which noise is taken off learns whose noise stays in each "
    "round, and only the server is supposed to know.",
    next_step="Use a key of 3,072 bits.",
)
def weak_removal_key(evidence: Evidence) -> Match | None:
    """Fire where noise is taken off under a key that can be factored."""
    security = evidence.ledger.opened.security
    bad = [kind for kind in evidence.kinds if has_removal_key(kind.facts, security)]
    if security is None or not bad or security.key_bits >= MIN_PAILLIER_KEY_BITS:
        return None
    return Match(
        f"The Paillier key has {security.key_bits:,} bits; at least {MIN_PAILLIER_KEY_BITS:,} "
        "count as safe.",
        (1, *lines_of(bad)),
    )


@rule(
    "unusable-facts",
    why="A bound, a noise or a rate that cannot be so bounds nothing, and no number is guessed.",
    next_step="Find out what wrote these records.",
    explains=True,
)
def unusable_facts(evidence: Evidence) -> Match | None:
    """Fire where numbers are absurd: no noise, infinite bounds, impossible rates."""
    bad = [kind for kind in evidence.kinds if kind.facts.unusable]
    return None if not bad else Match(f"{bad[0].facts.unusable[0]}.", lines_of(bad))


@rule(
    "no-noise",
    why="What is released without noise protects nobody.",
    next_step="Add noise, or release nothing that depends on private data.",
    explains=True,
)
def no_noise(evidence: Evidence) -> Match | None:
    """Fire where a round is released without noise."""
    bad = [kind for kind in evidence.kinds if kind.facts.noise.family == "none"]
    if not bad:
        return None
    lines = lines_of(bad)
    return Match(f"{counted(len(lines), 'round')} without any noise.", lines)


@rule(
    "wishart-noise",
    why="Z Z^T has no negative eigenvalue. Whoever knows the other records subtracts them, and the "
    "one in question: a negative eigenvalue of what is left proves that it was not there, and no "
    "epsilon bounds what is never wrong.",
    next_step="Release the matrix with symmetric Gaussian noise, which is accounted for. More "
    "degrees of freedom would do too, but no audit of a log accounts for them.",
    explains=True,
)
def wishart_noise(evidence: Evidence) -> Match | None:
    """Fire where a matrix is released with Wishart noise; name the exact delta as published."""
    bad = [kind for kind in evidence.kinds if is_wishart(kind.facts.noise)]
    if not bad:
        return None
    what = "A matrix is released with Wishart noise."
    deltas = [published_delta(kind.facts.contribution, kind.facts.noise) for kind in bad]
    exact = max((delta for delta in deltas if delta is not None), default=None)
    if exact is not None:
        what += (
            f" Of what one silo sends, delta is {rounding.down(exact)} or more at every epsilon, "
            "for a record of the largest norm."
        )
    return Match(what, lines_of(bad))


@rule(
    "dropouts",
    why="Each silo adds a share of the noise; with fewer shares the sum has less noise than was "
    "accounted.",
    next_step="Abort a round in which shares are missing, or make each share larger and say how "
    "many may be missing (`tolerated_dropouts`).",
    explains=True,
)
def dropouts(evidence: Evidence) -> Match | None:
    """Fire where a release holds fewer shares of the noise than its intent needs."""
    bad, least = [], (0, 0)
    for kind in evidence.kinds:
        noise = kind.facts.noise
        if kind.facts.shares < noise.shares - noise.tolerated_dropouts:
            bad.append(kind)
            least = kind.facts.shares, noise.shares
    if not bad:
        return None
    return Match(
        f"Releases hold {least[0]} of {least[1]} noise shares. The number below takes the terms "
        "of all silos as still in the sum; if those of the missing ones are gone too, and weights "
        "are uniform, less leaks.",
        lines_of(bad),
        evidence.left(),
    )


@rule(
    "extra-draws",
    why="Every noisy sum of the same data costs again.",
    next_step="Announce every draw in the intent, before it is made.",
    explains=True,
)
def extra_draws(evidence: Evidence) -> Match | None:
    """Fire where more noisy sums were released than announced, or one intent released twice."""
    bad = [
        spent.number
        for spent in evidence.ledger.spent
        if len(spent.releases) > 1
        or any(release.draws > spent.intent.noise.draws for _, release in spent.releases)
    ]
    if not bad:
        return None
    return Match("More noisy sums were released than announced.", tuple(bad), evidence.left())


@rule(
    "seeded",
    why="Whoever knows the seed can draw the same noise and take it away; a seeded run is for "
    "tests and replication.",
    next_step="Run it again without a seed before anything is published. The numbers here are what "
    "the same run would prove with noise that nobody can predict.",
)
def seeded(evidence: Evidence) -> Match | None:
    """Fire where protective randomness came from a seed."""
    opened = evidence.ledger.opened
    lines = [
        recovery.number
        for recovery in evidence.ledger.recoveries
        if recovery.record.randomness.source == "seeded"
    ]
    if opened.randomness.source == "seeded":
        lines.insert(0, 1)
    return Match("The noise was drawn from a seed.", tuple(lines)) if lines else None


CIPHERS: Final = ("chacha20",)
"""Ciphers whose streams are known to be as good as random; runs here draw from no other."""

ORDINARY_GENERATORS: Final = ("mt19937", "philox", "threefry2x32")
"""Generators of other libraries that draw from a state that nobody chose, and are no ciphers."""


@rule(
    "unknown-cipher",
    why="Noise is as unpredictable as the cipher that it comes from, and of this one nothing is "
    "known.",
    next_step="Find out what drew the noise. The numbers here are those of noise that nobody can "
    "predict.",
)
def unknown_cipher(evidence: Evidence) -> Match | None:
    """Fire where noise comes from none of `CIPHERS`; of an ordinary generator it is a warning."""
    stated = [(1, evidence.ledger.opened.randomness.cipher)]
    stated += [
        (recovery.number, recovery.record.randomness.cipher)
        for recovery in evidence.ledger.recoveries
    ]
    bad = [(number, cipher) for number, cipher in stated if cipher not in CIPHERS]
    if not bad:
        return None
    if all(cipher in ORDINARY_GENERATORS for _, cipher in bad):
        return Match(
            f"The noise was drawn from an ordinary generator, {bad[0][1]}.",
            tuple(number for number, _ in bad),
            severity="warning",
            why="Its state can be computed from enough of its output, and with it all noise that "
            "was drawn and will be.",
            next_step="Draw noise from the operating system, or through a cipher. The numbers here "
            "are those of noise that nobody can predict.",
        )
    return Match(
        f"The noise is said to come from the cipher {bad[0][1]!r:.60}; known is "
        f"{', '.join(CIPHERS)}.",
        tuple(number for number, _ in bad),
    )


@rule(
    "reused-randomness",
    why="The difference of two sums with the same noise has no noise at all.",
    next_step="Never use a byte of a stream twice; a resumed run needs streams of its own.",
    explains=True,
)
def reused_randomness(evidence: Evidence) -> Match | None:
    """Fire where two releases used the same bytes of a stream, or one used them twice."""
    lines = evidence.doubts.reused
    if not lines:
        return None
    return Match("Ranges of one random stream overlap.", lines)


@rule(
    "unrecorded-randomness",
    severity="warning",
    why="Where a release does not say which random bytes it used, nobody can see whether they were "
    "used before. Each value of each share of the noise takes more than a byte.",
    next_step="Record the range of every stream that noise was drawn from.",
)
def unrecorded_randomness(evidence: Evidence) -> Match | None:
    """Fire where noise was drawn and no bytes of a stream are stated, or fewer than it takes."""
    lines = tuple(
        number
        for spent, number, release in evidence.ledger.releases
        if sum(max(used.last - used.first, 0) for used in release.streams)
        < least_bytes(spent.intent, release)
    )
    if not lines:
        return None
    return Match("Releases do not say what randomness they used, or not all of it.", lines)


@rule(
    "float-noise",
    severity="note",
    why="The digits of a float can show more than its value: noise that is drawn as floats has "
    "gaps that depend on what it was added to.",
    next_step="Draw noise on a grid of its own, as privplan's mechanisms do.",
)
def float_noise(evidence: Evidence) -> Match | None:
    """Fire where continuous noise was drawn without a grid."""
    bad = [
        kind
        for kind in evidence.kinds
        if kind.facts.noise.family in CONTINUOUS_FAMILIES and kind.facts.noise.grid == 0.0
    ]
    return Match("Noise was added in floating point.", lines_of(bad)) if bad else None


@rule(
    "classical-sigma",
    severity="warning",
    why="The classical formula sqrt(2 ln(1.25/delta))/epsilon is proven for epsilon up to 1 only.",
    next_step="Find the noise with: privplan calibrate.",
)
def classical_sigma(evidence: Evidence) -> Match | None:
    """Fire where the noise is exactly that of the classical formula, for an epsilon above 1."""
    claimed = evidence.ledger.opened.claim.epsilon
    if claimed is None or not 1.0 < claimed < math.inf or not 0.0 < evidence.delta < 1.0:
        return None
    formula = math.sqrt(2.0 * math.log(1.25 / evidence.delta)) / claimed
    bad = [
        kind
        for kind in evidence.kinds
        if any(
            isinstance(part, ev.Gaussian)
            and math.isclose(part.noise_multiplier, formula, rel_tol=1e-4)
            for part in parts_of(evidence.seen(kind, MODEL).supported)
        )
    ]
    if not bad:
        return None
    epsilon = evidence.left()
    # Harmless where the noise suffices all the same.
    exceeds = epsilon is None or epsilon.upper > claimed
    return Match(
        f"The noise multiplier {formula:.6g} is the classical formula's for epsilon {claimed:g}.",
        lines_of(bad),
        epsilon,
        "error" if exceeds else None,
    )
