"""Renyi curves of shuffled rounds, by the pair that dominates one round."""

from __future__ import annotations

import math

import numpy as np

from ... import events as ev
from ...amplification.shuffling.rounds import round_pair
from ...guarantee import Neighbours
from .curves import Curve, capped, curve, of_pair, set_aside
from .moments import Pair


@curve.register(ev.Shuffle)
def shuffle(event: ev.Shuffle, neighbours: Neighbours) -> Curve:
    """The curve of the pair of one round; its infinite loss is an event set aside.

    What dominates at every order of the hockey stick has the larger Renyi divergences, too.
    Replace-one, and zero-out as a case of it; raises `Unsupported` under add-remove.
    Source: the pair is derived in `amplification.shuffling`.
    """
    dominating = round_pair(event, neighbours)
    log_p, log_q = dominating.outcomes
    # Outcomes that only P has are set aside with their mass, rounded up: the slack.
    finite = np.isfinite(log_p) & np.isfinite(log_q)
    alone = log_p[np.isneginf(log_q) & (log_p > -np.inf)]
    slack = set_aside(float(np.exp(alone).sum()) * (1.0 + 1e-12)) if alone.size else 0.0
    losses = log_p[finite] - log_q[finite]
    limit = float(losses.max()) * (1.0 + 1e-12)
    if limit == 0.0:
        return Curve(np.zeros_like, 0.0, dominating.steps, slack)
    # The rest is renormalised: divided by 1 - slack.
    pair = Pair(log_q[finite] - math.log1p(-slack), losses)
    return Curve(capped(of_pair(pair), limit), limit, dominating.steps, slack)
