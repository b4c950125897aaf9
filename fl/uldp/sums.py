"""A sum over silos of users' clipped and weighted rows: its noise, and what each observer sees.

    silo s sends   sum_u w_su clip_C(row_su) + N(0, sigma^2 C^2 / |S|),   sum_s w_su <= 1

Rounds of ULDP-AVG and ULDP-SGD are such sums, and so are the moments that features are normalised
by.  The formulas stand in `accountant.sensitivity.uldp`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gaussian
from ...accountant.mechanisms.clip import ROOM
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import up
from .weights import stated


def weighted_sum(
    noise_multiplier: float, *, bound: float, users: int, silos: int, rule: str
) -> Gaussian:
    """Return the noise of one sum: sigma C on all silos together, in |S| shares.

    `bound` is C and `rule` that of the weights, `uniform` or `records`.  Raises `InvalidInput`
    where the sum of so many users could overflow.
    """
    made = Gaussian(
        bound=bound,
        std=up(Fraction(noise_multiplier) * Fraction(bound)),
        shares=silos,
        terms="unit",
        weights=stated(rule),
        unit="user",
    )
    if users * Fraction(bound) / Fraction(made.grid) > ROOM:
        raise InvalidInput(
            "The clip is too many steps of the noise's grid for so many users.",
            "A sum that overflows would wrap around, and no noise covers that.",
            "Give more noise.",
        )
    return made


def weighted_views(
    noise_multiplier: float, *, silos: int, rule: str, neighbours: str, rate: float = 1.0
) -> dict[str, ev.Event]:
    """Return one sum as who sees the result, the server, and one of the silos see it.

    `rate` is the probability that a user joins.  The server draws the sample and sees every silo's
    part, and a silo knows who was drawn: for both, nobody hides in the sample.
    """
    worst = uldp.worst_weights(silos)
    split = worst
    if rule == "uniform":
        split = np.full((1, silos), up(Fraction(1, silos)))

    def seen(weights: NDArray[np.float64], *, separately: bool) -> ev.Event:
        return uldp.weighted_release(
            noise_multiplier,
            rounds=1,
            weights=weights,
            neighbours=neighbours,
            rate=rate,
            together=not separately,
            knows_sample=separately,
        ).event

    views = {
        "model": seen(worst, separately=False),
        "server": seen(split, separately=True),
    }
    if silos > 1:
        views["silo"] = uldp.insider_release(
            noise_multiplier, rounds=1, silos=silos, weighting=rule, neighbours=neighbours
        ).event
    return views
