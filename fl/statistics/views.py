"""What each observer sees of one release, as an event.

    silo s sends   V_s + noise of deviation s,   V_s = (Gram, a X^T Y) of its rows on the grid
    released       their sum, with k s^2 of noise where k shares count: all but those that may miss

One unit moves the sum by at most C.  For Gaussian noise, with sigma C = s sqrt(k):

| observer | sees | multiplier |
|---|---|---|
| model; server under masks | the sum | sigma |
| server in the clear | each V_s by itself | sigma / sqrt(k), times `apart` |
| silo | the sum less its own vector | sigma sqrt((k - 1) / k) |
| server and c silos | in the clear each; under masks the sum less c | sigma sqrt((k - c) / k) |
| peer, and c who tell it what they know | the sum less c + 1 | sigma sqrt((k - 1 - c) / k) |

**Each vector by itself.**  All vectors together move by sqrt(sum_s |V_s - V'_s|^2), against noise
of deviation s in each.  Let a user have at most f_s = k_s / k of its T in silo s; the f_s sum to at
most 1, and so do their squares.  A unit that comes or goes moves V_s by at most f_s C: all of them
by at most C.  One that is replaced moves V_s by at most f_s C too: in silo s alone, it is a unit of
k_s rows and T_s = f_s T, and C of these is f_s C, as C is T times a function of a^2 k / T.  A
record may come back in another silo.  It then moves two vectors by the C of add-remove each,
sqrt(2) of that together, and twice that in L1: `apart` is C over the larger of the two.  It is
taken for every unit, as is safe: which silo keeps how much of a user is not in the log.

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
from ...accountant.sensitivity.release import down, root_down
from ..aggregation.weighted_sum import NO_NOISE_LEFT
from ..observers.names import MODEL, PEER, SERVER, SILO, SILO_WITH_RECORDS, Coalition
from ..secagg.peers import require_peers


def statistics_views(
    noise_multiplier: float,
    *,
    family: str,
    unit: str,
    silos: int,
    aggregation: str = "plain",
    dropouts: int = 0,
    coalitions: Sequence[int] = (),
    colluders: int = 0,
    apart: Fraction = Fraction(1),
) -> dict[str, ev.Event]:
    """Return the event of one release for each observer, by name; see the module.

    - `noise_multiplier`: that of who sees the sum with as few shares as may arrive, above 0.
    - `family`: of the noise, `gaussian` or `laplace`; `unit`: `record`, `user` or `silo`.
    - `coalitions`: with how many silos the server is accounted for; `colluders`: how many silos
      may tell a peer what they know.
    - `apart`: how far a unit moves the sum, over how far it moves all silos' vectors; at most 1.

    Raises `InvalidInput` for fewer peers than shares need.

    >>> statistics_views(4.0, family="gaussian", unit="record", silos=4)["server"]
    Gaussian(noise_multiplier=2.0)
    """
    arriving = silos - dropouts

    def seen(shares: int, times: Fraction = Fraction(1)) -> ev.Event:
        if shares < 1:
            return NO_NOISE_LEFT
        if family == "laplace":
            return ev.Laplace(down(Fraction(noise_multiplier) * times))
        square = Fraction(noise_multiplier) ** 2 * Fraction(shares, arriving) * times**2
        return ev.Gaussian(root_down(square))

    if aggregation == "shares":
        require_peers(silos, colluders=colluders)
        return {MODEL: seen(arriving), PEER: seen(arriving - 1 - colluders)}
    in_the_clear = aggregation == "plain"
    views = {MODEL: seen(arriving), SERVER: seen(1, apart) if in_the_clear else seen(arriving)}
    if silos < 2:
        return views
    views[SILO] = seen(arriving - 1)
    if unit == "user":  # a record, or a silo, lies nowhere in part
        views[SILO_WITH_RECORDS] = views[SILO]
    for colluding in coalitions:
        for holds in (False, True)[: 1 + (unit == "user")]:
            name = Coalition(colluding, holds).name
            views[name] = seen(1, apart) if in_the_clear else seen(arriving - colluding)
    return views
