"""The blinded histogram: the server inverts r_u N_u modulo n and learns nothing of N_u.

    silo s     H_su = r_u (c_su + dummy) + sum_{s < t} M_stu - sum_{t < s} M_tsu   mod n
    server     B_u = sum_s H_su = r_u N_u,   then B_u^-1

r_u is uniform in Z_n* and known to the silos alone; 1 <= N_u <= N_max is a unit modulo n; so B_u is
uniform in Z_n* whatever N_u is.  The masks M are uniform modulo n and known to one pair of silos
each, so any S - 1 of the columns H_s are uniform as well: the server learns B_u, and nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ....accountant.arrays import IntArray
from ....accountant.errors import ProtocolFault
from ....accountant.randomness import Secret
from ...crypto.keys import derive
from ...crypto.masks import residues
from ...parties.network import silo_name
from .counts import DUMMY
from .introductions import PairKeys


def blinding_factors(seed: Secret, users: int, modulus: int, session: bytes) -> list[int]:
    """Return r_u for every user, each within 2^-128 of uniform in Z_n*.

    A residue is drawn, and is no unit with probability 1/p + 1/q: then `ProtocolFault`.
    """
    key = derive(seed, b"weighting: blinding factors")
    drawn = residues(key, users, modulus, session=session, round=0, label=b"factors")
    _check_units(drawn, modulus)
    return drawn


def seed_check(seed: Secret, session: bytes) -> bytes:
    """Return 32 bytes by which the server sees that all silos have one seed, and not which."""
    return bytes(derive(seed, b"weighting: check" + session))


def blinded_column(
    silo: int,
    shares: IntArray,
    factors: Sequence[int],
    keys: Mapping[str, PairKeys],
    modulus: int,
    session: bytes,
) -> list[int]:
    """Return H_su of one silo for every user; silo 0 counts the dummy of each."""
    dummy = DUMMY if silo == 0 else 0
    column = [
        factor * (share + dummy) for factor, share in zip(factors, shares.tolist(), strict=True)
    ]
    for other in range(len(keys) + 1):
        if other == silo:
            continue
        pair = b"histogram %d %d" % (min(silo, other), max(silo, other))
        key = keys[silo_name(other)].histogram
        masks = residues(key, len(column), modulus, session=session, round=0, label=pair)
        sign = 1 if silo < other else -1  # the pair's masks cancel in the sum over silos
        column = [entry + sign * mask for entry, mask in zip(column, masks, strict=True)]
    return [entry % modulus for entry in column]


def inverses(columns: Sequence[Sequence[int]], modulus: int) -> list[int]:
    """Return B_u^-1 modulo n from all silos' columns; `ProtocolFault` where there is none."""
    sums = [sum(parts) % modulus for parts in zip(*columns, strict=True)]
    _check_units(sums, modulus)
    return [pow(blinded, -1, modulus) for blinded in sums]


def _check_units(values: Sequence[int], modulus: int) -> None:
    # One gcd of the product: it is 1 exactly where every value is a unit modulo n.
    product = 1
    for value in values:
        product = product * value % modulus
    if math.gcd(product, modulus) != 1:
        raise ProtocolFault(
            "A blinded count has no inverse.",
            "By chance that never happens: a silo, or the server's key, is not what it should be.",
            "Begin a new session, with a new key.",
        )
