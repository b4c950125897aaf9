"""Noise that is taken off a sum again: who may know what stays, and under which key."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ...accountant import events as ev
from ..derivation.noise_removal import has_removal_key, noise_is_removed
from ..derivation.protocol_consistency import MIN_PAILLIER_KEY_BITS
from ..derivation.supported_event import supported
from ..evidence.evidence import Evidence
from .rule import RuleFinding, lines_of, rule


@rule(
    "noise-may-be-known",
    "warning",
    why="Where the noise of one silo stays in a sum, that silo takes it off and has the exact sum. "
    "No width of the noise lowers that probability.",
    next_step="Let the noise of all silos stay, in shares, or promise nothing "
    "before those who add noise.",
    explains=True,
)
def noise_may_be_known(evidence: Evidence) -> RuleFinding | None:
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
    return RuleFinding(
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
    "error",
    why="Who factors the key under which noise is taken off learns whose noise stays in each "
    "round, and only the server is supposed to know.",
    next_step="Use a key of 3,072 bits.",
)
def weak_removal_key(evidence: Evidence) -> RuleFinding | None:
    """Fire where noise is taken off under a key that can be factored."""
    security = evidence.ledger.opened.security
    bad = [kind for kind in evidence.kinds if has_removal_key(kind.facts, security)]
    if security is None or not bad or security.key_bits >= MIN_PAILLIER_KEY_BITS:
        return None
    return RuleFinding(
        f"The Paillier key has {security.key_bits:,} bits; at least {MIN_PAILLIER_KEY_BITS:,} "
        "count as safe.",
        (1, *lines_of(bad)),
    )
