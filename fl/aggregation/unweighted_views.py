"""What each observer sees of one release, as an event.

    silo s sends   V_s + noise of deviation s,   V_s = (Gram, a X^T Y) of its rows on the grid
    released       their sum, with k s^2 of noise where k shares count: all but those that may miss

One unit moves the sum by at most C.  For Gaussian noise, with sigma C = s sqrt(k):

| observer | sees | multiplier |
|---|---|---|
| model; server under masks | the sum | sigma |
| server in the clear | each V_s by itself | sigma / sqrt(k) |
| silo | the sum less its own vector | sigma sqrt((k - 1) / k) |
| server and c silos | in the clear each; under masks the sum less c | sigma sqrt((k - c) / k) |
| peer, and c who tell it what they know | the sum less c + 1 | sigma sqrt((k - 1 - c) / k) |

**Each vector by itself.**  All vectors together move by sqrt(sum_s |V_s - V'_s|^2), against noise
of deviation s in each: by at most C, wherever a unit's rows lie, and where they come back if it is
replaced (`accountant.sensitivity.gram`, silos one by one).

**What an observer holds of the unit changes nothing.**  A vector is a function of the rows of its
silo alone: nothing is weighted by what lies elsewhere, and a silo keeps rows of a user by that
user's rows there alone.  Whoever knows some of the unit's rows knows one point of the pair of data
sets better, and the event is for every pair.

**Laplace noise** is not divided: every silo adds all of it, and the sum of several is the noise of
one with something independent added to it.  So one share counts, and as much, for everybody.

Derived here; the same for sums of clipped updates is in `fl.aggregation.weighted_sum`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...accountant import events as ev
from ...accountant.sensitivity.release import root_down
from ..observers.names import MODEL, PEER, SERVER, SILO, SILO_WITH_RECORDS, Coalition
from ..secagg.peers import require_peers
from .weighted_sum import NO_NOISE_LEFT


def unweighted_views(
    noise_multiplier: float,
    *,
    family: str,
    unit: str,
    silos: int,
    aggregation: str = "plain",
    dropouts: int = 0,
    coalitions: Sequence[int] = (),
    colluders: int = 0,
) -> dict[str, ev.Event]:
    """Return the event of one release for each observer, by name; see the module.

    - `noise_multiplier`: that of who sees the sum with as few shares as may arrive, above 0.
    - `family`: of the noise, `gaussian` or `laplace`; `unit`: `record`, `user` or `silo`.
    - `coalitions`: with how many silos the server is accounted for; `colluders`: how many silos
      may tell a peer what they know.

    Raises `InvalidInput` for fewer peers than shares need.

    >>> unweighted_views(4.0, family="gaussian", unit="record", silos=4)["server"]
    Gaussian(noise_multiplier=2.0)
    """
    arriving = silos - dropouts

    def seen(shares: int) -> ev.Event:
        if shares < 1:
            return NO_NOISE_LEFT
        if family == "laplace":
            return ev.Laplace(noise_multiplier)
        return ev.Gaussian(root_down(Fraction(noise_multiplier) ** 2 * Fraction(shares, arriving)))

    if aggregation == "shares":
        require_peers(silos, colluders=colluders)
        return {MODEL: seen(arriving), PEER: seen(arriving - 1 - colluders)}
    in_the_clear = aggregation == "plain"
    views = {MODEL: seen(arriving), SERVER: seen(1) if in_the_clear else seen(arriving)}
    if silos < 2:
        return views
    views[SILO] = seen(arriving - 1)
    if unit == "user":  # a record, or a silo, lies nowhere in part
        views[SILO_WITH_RECORDS] = views[SILO]
    for colluding in coalitions:
        for holds in (False, True)[: 1 + (unit == "user")]:
            name = Coalition(colluding, holds).name
            views[name] = seen(1) if in_the_clear else seen(arriving - colluding)
    return views
