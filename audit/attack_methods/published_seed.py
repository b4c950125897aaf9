"""The seed of the published Protocol 1, tried out by its server: an attack on that protocol alone.

It knows how one published system makes its masks, so it stands apart from the general searches.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...fl.parties.network import Message
from .finding import Finding, finding_from, values
from .seeds import PUBLISHED_BITS, search_seed


def published_seed(
    view: Sequence[Message],
    modulus: int,
    *,
    count_limit: int,
    seed_bits: int = PUBLISHED_BITS,
    budget: int = 2**16,
) -> Finding:
    """Break the published Protocol 1 from what its server received in the setup.

    The server has R xor SK_0s for every silo s.  A guess of R (`seed_bits` bits) gives every SK_0s,
    so all masks of silo 0, and r_u; it is right if what is left over is r_u times a count of 0 to
    `count_limit`.  Recovered: the seed and the counts of silo 0.
    """
    from ...fl.uldp.weighting import published_parties as published
    from ...fl.uldp.weighting.published_messages import HiddenSeed, Histogram

    hidden = [v for v in _first(view, HiddenSeed.kind, "silo-0") if len(v) == 32]
    blinded = [int.from_bytes(v, "big") for v in _first(view, Histogram.kind, "silo-0")]

    def left_over(seed: int, users: int) -> list[int]:
        total = blinded[:users]
        for hidden_seed in hidden:
            # Xor with the guessed R: the pair's seed, if the guess is right.
            key = published.hide_seed(seed, hidden_seed)
            masks = published.pair_masks(key, published.SETUP_ROUND, users, modulus, seed_bits)
            total = [(value - mask) % modulus for value, mask in zip(total, masks, strict=True)]
        return total

    def counts(seed: int, users: int) -> list[int] | None:
        factors = published.blinding_factors(seed, users, modulus)
        wanted = left_over(seed, users)
        matches = [
            next((c for c in range(count_limit + 1) if factor * c % modulus == value), None)
            for factor, value in zip(factors, wanted, strict=True)
        ]
        return [c for c in matches if c is not None] if None not in matches else None

    finding = search_seed(
        lambda seed: counts(seed, 1) is not None,
        seed_bits,
        budget=budget,
        chance_match=(count_limit + 1) / modulus,
    )
    if not finding.detected or not isinstance(finding.recovered, int):
        return finding
    seed = finding.recovered
    return finding_from(
        "published-seed",
        finding.p_value,
        finding.false_alarm,
        f"The seed of {seed_bits} bits was found, and with it the raw counts of the first silo.",
        "",
        recovered={"seed": seed, "counts": counts(seed, len(blinded))},
    )


def _first(view: Sequence[Message], kind: str, sender: str) -> list[bytes]:
    for message in view:
        if message.kind == kind and message.sender == sender:
            return [value for value in values(message) if isinstance(value, bytes)]
    return []
