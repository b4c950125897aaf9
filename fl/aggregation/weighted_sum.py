"""A sum over silos of users' clipped and weighted rows: its noise, and what each observer sees.

    silo s sends   sum_u w_su clip_C(row_su) + N(0, sigma^2 C^2 / |S|),   sum_s w_su <= 1

Rounds of ULDP-AVG and ULDP-SGD are such sums, and so are the moments that features are normalised
by.  The formulas stand in `accountant.sensitivity.uldp`.

Who sees what depends on how the sum is made (`aggregation`), and who hides in a sample on who draws
it (`drawn_by`):

    plain                the server sees every silo's noisy part
    masked               the server sees the sum, and nothing else
    private-weighting    likewise, and no silo learns who takes part: where the server draws, it
                         sends each silo something for every user, which looks alike (it encrypts
                         1/B or 0, afresh in every round); in an oblivious transfer nobody knows
    shares               there is no server: every silo is a peer, and sees the sum

    server               the server knows the sample
    shared-secret        the silos know it, from a secret that they share, and the server does not
    oblivious-transfer   nobody knows it: the server knows which slots are real, the silos know
                         which they took

A model shows a sum of which nobody who only sees the model knows the sample.  That is what a server
that sees the sum knows, too, and if it does not know the sample, it hides users from it.  A silo
takes its own noise off, and what it knows of the sample.

A silo that holds a record of a user applies its weight.  Uniform ones tell nothing; by records, in
the clear, the weight is n_su/N_u and tells N_u without any noise, so against that silo nothing
holds, and all other numbers rest on N_u reaching nobody else.

**A peer under additive shares sees what a silo under masks is taken to see, and nothing more.**
A silo under masks is given the sum S of all noisy vectors, what it sent itself, and its own draws;
its number is for that.  Under shares a peer also receives a share of each other vector, a
slice of each partial sum, and S again, slice by slice.  A share travels as a seed, under keys of
two peers (X25519), and expands (AES) to words that cannot be told from uniform ones in Z_{2^64}.
So of any two others who tell nothing, each has given the other words that nobody else has, and
their partial sums are uniform among those that add up with the rest to S, whatever their vectors
are: all that a peer receives can be drawn from S and from what it has, without any other vector.
It is post-processing of the view under masks.

Likewise for a peer and c others who pool what they know, while two are left: they see S less c + 1
vectors, as a server with c + 1 silos does under masks (`coalition_release`).  Of even weights that
is a shift of sqrt((|S|-c-1) / |S|) / sigma, less as c grows, for what they hold is not hidden from
them.  There is one row for all peers, so it states the largest, a peer by itself, and is for up to
c colluders.  By records a peer that holds a record of a user would learn N_u, so weights are even;
then what a peer holds of the unit changes nothing.  Peers know the sample: they train on it, and
draw it from a secret that they share.

All of this is for parties that follow the protocol, and silos that collude with the server have a
number of their own.  Under masks they know the sample and their own noise, and see the sum of the
others; in the clear they see each of the others.  Under private weighting they know every user's
N_u (r_u N_u from one, r_u from the other), so against them nothing holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gaussian
from ...accountant.mechanisms.clip import MAX_SUM
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import up
from ..observers.names import MODEL, PEER, Coalition
from ..secagg.peers import require_peers
from ..settings.security_rules import WEIGHT_TELLS
from .user_weights import stated

AGGREGATIONS: Final = ("plain", "masked", "private-weighting", "shares")
NO_NOISE_LEFT: Final = ev.NoGuarantee("who takes off the noise that it knows may be left with none")

DRAWERS: Final = ("server", "shared-secret", "oblivious-transfer")


def weighted_sum(
    noise_multiplier: float,
    *,
    bound: float,
    users: int,
    silos: int,
    rule: str,
    tolerated_dropouts: int = 0,
) -> Gaussian:
    """Return the noise of one sum: sigma C on all silos together, in |S| shares.

    `bound` is C and `rule` that of the weights, `uniform` or `records`; the noise of
    `tolerated_dropouts` silos may be missing.  Raises `InvalidInput` where the sum of so many users
    could overflow.
    """
    noise = Gaussian(
        bound=bound,
        std=up(Fraction(noise_multiplier) * Fraction(bound)),
        shares=silos,
        terms="unit",
        weights=stated(rule),
        unit="user",
        tolerated_dropouts=tolerated_dropouts,
    )
    require_no_overflow(users * Fraction(bound), noise.grid)
    return noise


def require_no_overflow(largest: Fraction, grid: float) -> None:
    """Raise `InvalidInput` where a sum of clipped terms, up to `largest`, could overflow."""
    if largest / Fraction(grid) > MAX_SUM:
        raise InvalidInput(
            "The clip is too many steps of the noise's grid for so many users.",
            "A sum that overflows would wrap around, and no noise covers that.",
            "Give more noise.",
        )


def weighted_views(
    noise_multiplier: float,
    *,
    silos: int,
    rule: str,
    neighbours: str,
    rate: float = 1.0,
    aggregation: str = "plain",
    drawn_by: str = "server",
    tolerated_dropouts: int = 0,
    coalitions: Sequence[int] = (),
    colluders: int = 0,
) -> dict[str, ev.Event]:
    """Return one sum as who sees the result, the server, one of the silos, and coalitions see it.

    `rate` is the probability that a user joins, `tolerated_dropouts` how many silos' noise may be
    missing (`masked` only), `coalitions` with how many silos the server is accounted for, and
    `colluders` how many silos may tell a peer what they know (`shares` only).

    `silo` has nothing of the user, and `silo-with-records` has some: where that makes a difference
    it has a view of its own, which no sample hides.  With weights by records in the clear that view
    is no guarantee, as the silo knows N_u.  Under `shares` there are two views: who sees the
    result, and `peer`, one of the silos with its colluders.

    Raises `InvalidInput` for what does not go together: weights that are public under private
    weighting, others under shares, an oblivious transfer or a tolerated dropout without its
    protocol, a server that draws where there is none, and too few silos for shares.
    """
    _check(rule, aggregation, drawn_by, tolerated_dropouts)
    worst, private = uldp.worst_weights(silos), aggregation == "private-weighting"
    in_the_clear = aggregation == "plain"
    split = worst
    if in_the_clear and rule == "uniform":
        split = np.full((1, silos), up(Fraction(1, silos)))

    def seen(weights: FloatArray, *, separately: bool, knows: bool) -> ev.Event:
        return uldp.weighted_release(
            noise_multiplier,
            rounds=1,
            weights=weights,
            neighbours=neighbours,
            rate=rate,
            together=not separately,
            knows_sample=knows,
        ).event

    def by_silo(*, holds: bool, knows: bool) -> ev.Event:
        if silos - tolerated_dropouts < 2:
            return NO_NOISE_LEFT
        return uldp.insider_release(
            noise_multiplier,
            rounds=1,
            silos=silos,
            weighting=rule,
            holds_user=holds,
            hidden_weights=private,
            neighbours=neighbours,
            rate=rate,
            knows_sample=knows,
            tolerated_dropouts=tolerated_dropouts,
        ).event

    def by_coalition(coalition: Coalition) -> ev.Event:
        if private:
            return uldp.PRIVATE_COALITION
        if silos - tolerated_dropouts <= coalition.colluders:
            return NO_NOISE_LEFT
        return uldp.coalition_release(
            noise_multiplier,
            rounds=1,
            silos=silos,
            colluders=coalition.colluders,
            weighting=rule,
            holds_user=coalition.holds,
            neighbours=neighbours,
            together=not in_the_clear,
            tolerated_dropouts=tolerated_dropouts,
        ).event

    if aggregation == "shares":
        require_peers(silos, colluders=colluders)
        if rate < 1.0 and drawn_by != "shared-secret":
            raise InvalidInput(
                "Under additive shares there is no server that could draw.",
                next_step="Give drawn_by = 'shared-secret': peers draw the sample alike.",
            )
        single_peer = by_silo(holds=False, knows=True)  # its colluders make it no larger
        return {MODEL: seen(worst, separately=False, knows=False), PEER: single_peer}
    views = {
        "model": seen(worst, separately=False, knows=False),
        "server": seen(split, separately=in_the_clear, knows=drawn_by == "server"),
    }
    if silos < 2:
        return views
    views["silo"] = by_silo(holds=False, knows=not private or drawn_by == "shared-secret")
    if rule == "records":
        views["silo-with-records"] = by_silo(holds=True, knows=True)
    # That private weighting admits none is said of the smallest one, whoever asks.
    for colluders in coalitions or (1,) * private:
        for holds in (False, True):
            coalition = Coalition(colluders, holds)
            views[coalition.name] = by_coalition(coalition)
    return views


def _check(rule: str, aggregation: str, drawn_by: str, tolerated_dropouts: int) -> None:
    private = validate.choice(AGGREGATIONS, aggregation=aggregation) == "private-weighting"
    if validate.choice(DRAWERS, drawn_by=drawn_by) == "oblivious-transfer" and not private:
        raise InvalidInput(
            f"An oblivious transfer draws nobody under aggregation {aggregation!r}.",
            "It hands out the encrypted weights of private weighting; elsewhere silos train on "
            "those who were drawn, and know them.",
            "Give aggregation = 'private-weighting', or let the server draw.",
        )
    if private and rule != "records":
        raise InvalidInput(
            f"Private weighting hides weights by records; they are {rule!r}.",
            "Uniform weights are public.",
            "Give weighting = 'records', or aggregation = 'masked'.",
        )
    if aggregation == "shares" and rule != "uniform":
        raise InvalidInput(
            f"Additive shares are for uniform weights; they are by {rule!r}.",
            WEIGHT_TELLS,
            "Give weighting = 'uniform', or another aggregation.",
        )
    if validate.count_from(0, tolerated_dropouts=tolerated_dropouts) and aggregation != "masked":
        raise InvalidInput(
            f"Aggregation {aggregation!r} needs every silo.",
            "Masks alone are taken off where a silo is missing.",
            "Tolerate no dropouts, or give aggregation = 'masked'.",
        )
