"""Sums from which the noise of all silos but one is taken off, under a Paillier key.

    masked sum   sum_i (V_i + N_i)
    removal      sum_{i != j} N_i, decrypted by the server, who draws j anew and evenly
    released     sum_i V_i + N_j

Whoever knows no N_i sees the sum with the noise of one silo.  Who knows those of c silos among k
sees the exact sum with probability c/k: `Compose(Gaussian, Approximate(0, c/k))` of one share is
exactly that, delta p + (1 - p) delta_G for p = c/k.  So delta is at least 1 - (1 - c/k)^T over T
rounds, whatever the noise.  That j is even and known to nobody but the server, and that the server
asks for no more to be taken off, nothing in a log can show: it is an assumption beside every
number.

Once noise is taken off it is so for everybody: what reaches any observer of that round has the
noise of one silo, though only one of them is said to see that.  Who sees each silo's message
beside it has two views of one unit, with noise that is not even the same, and no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...accountant.records import Security
from ...fl.observers.stated_assumptions import ASSUMED_PREFIX
from ..ledger.product_facts import is_product
from .round_facts import RoundFacts
from .run_setting import RunSetting

REMOVAL_ASSUMPTION: Final = (
    f"{ASSUMED_PREFIX}the server follows the protocol: it draws anew, evenly, whose noise stays, "
    "and tells nobody"
)


def noise_is_removed(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether the noise of all silos but one may be taken off a sum of products."""
    if not is_product(facts.contribution):
        return False
    return says_one_share(facts) or has_removal_key(facts, setting.security)


def says_one_share(facts: RoundFacts) -> bool:
    """Return whether anybody is said to see the noise of one silo alone."""
    return any(reach.sees == "one-share" for _, reach in facts.reaches or ())


def has_removal_key(facts: RoundFacts, security: Security | None) -> bool:
    """Return whether a protocol has the key under which noise is taken off products."""
    return (
        security is not None
        and security.protocol == "pairwise-masks"
        and security.key_bits > 0
        and is_product(facts.contribution)
    )


def unfit_removal(facts: RoundFacts, security: Security) -> Iterator[str]:
    """Yield why the facts of masks are none of a protocol that takes noise off, or lack it."""
    if not has_removal_key(facts, security):
        if is_product(facts.contribution) and says_one_share(facts):
            yield "the noise of one silo is said to stay, and no key is stated that takes any off"
        return
    if security.server != "honest-but-curious":
        yield "a server that lies could have all noise taken off"
    if security.fewest != security.parties or facts.noise.tolerated_dropouts:
        yield "noise is taken off only where every party is there"
