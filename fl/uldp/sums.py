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

    server               the server knows the sample
    shared-secret        the silos know it, from a secret that they share, and the server does not
    oblivious-transfer   nobody knows it: the server knows which slots are real, the silos know
                         which they took

A model shows a sum of which nobody who only sees the model knows the sample.  That is what a server
that sees the sum knows, too, and if it does not know the sample, it hides users from it.  A silo
takes its own noise off, and what it knows of the sample.

All of this is for parties that follow the protocol and do not collude.  A server and a silo that
collude under masks see what that silo sees, and the sample with it; under private weighting they
know every user's N_u (r_u N_u from one, r_u from the other), a number without noise, so against
them nothing holds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gaussian
from ...accountant.mechanisms.clip import ROOM
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import up
from .weights import stated

AGGREGATIONS: Final = ("plain", "masked", "private-weighting")
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
    made = Gaussian(
        bound=bound,
        std=up(Fraction(noise_multiplier) * Fraction(bound)),
        shares=silos,
        terms="unit",
        weights=stated(rule),
        unit="user",
        tolerated_dropouts=tolerated_dropouts,
    )
    if users * Fraction(bound) / Fraction(made.grid) > ROOM:
        raise InvalidInput(
            "The clip is too many steps of the noise's grid for so many users.",
            "A sum that overflows would wrap around, and no noise covers that.",
            "Give more noise.",
        )
    return made


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
) -> dict[str, ev.Event]:
    """Return one sum as who sees the result, the server, and one of the silos see it.

    `rate` is the probability that a user joins, `tolerated_dropouts` how many silos' noise may be
    missing (`masked` only).  `silo` is any silo; under private weighting it is one that has nothing
    of the user, and `silo-with-records` is one that has some, from which no sample hides it.

    Raises `InvalidInput` for what does not go together: weights that are public under private
    weighting, an oblivious transfer or a tolerated dropout without its protocol.
    """
    _check(rule, aggregation, drawn_by, tolerated_dropouts)
    worst = uldp.worst_weights(silos)
    apart = aggregation == "plain"
    split = worst
    if apart and rule == "uniform":
        split = np.full((1, silos), up(Fraction(1, silos)))

    def seen(weights: NDArray[np.float64], *, separately: bool, knows: bool) -> ev.Event:
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
            return ev.NoGuarantee("a silo that takes its own noise off may be left with none")
        return uldp.insider_release(
            noise_multiplier,
            rounds=1,
            silos=silos,
            weighting=rule,
            holds_user=holds,
            neighbours=neighbours,
            rate=rate,
            knows_sample=knows,
            tolerated_dropouts=tolerated_dropouts,
        ).event

    views = {
        "model": seen(worst, separately=False, knows=False),
        "server": seen(split, separately=apart, knows=drawn_by == "server"),
    }
    if silos > 1 and aggregation == "private-weighting":
        views["silo"] = by_silo(holds=False, knows=drawn_by == "shared-secret")
        views["silo-with-records"] = by_silo(holds=True, knows=True)
    elif silos > 1:
        views["silo"] = by_silo(holds=True, knows=True)
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
    if validate.count_from(0, tolerated_dropouts=tolerated_dropouts) and aggregation != "masked":
        raise InvalidInput(
            f"Aggregation {aggregation!r} needs every silo.",
            "Masks alone are taken off where a silo is missing.",
            "Tolerate no dropouts, or give aggregation = 'masked'.",
        )
