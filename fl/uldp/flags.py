"""Which records take part where noise protects records: at most k of each user, over all silos."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...accountant import validate
from ..federation import Federation


def flagged(federation: Federation, most: int, seed: int) -> NDArray[np.bool_]:
    """Return which records take part, fixed for a whole run: (records,).

    Of each user, `most` records are chosen (all, if it has no more), whatever silos they lie in,
    by public randomness of the user's own: `seed` and the number of the user.  So a user who comes
    or goes changes no other user's flags, and a user moves at most `most` records.

    Source: Kato et al. 2024, *Uldp-FL*, arXiv 2308.12210, Algorithm 2 (the flags b).
    """
    count = validate.count(most=most)
    chosen = np.zeros(federation.records, bool)
    users = federation.by_user()
    for user in np.flatnonzero(users.sizes):
        own = users.records(int(user))
        drawn = np.random.default_rng([seed, int(user)]).permutation(len(own))[:count]
        chosen[own[drawn]] = True
    return chosen
