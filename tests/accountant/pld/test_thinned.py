"""Laws of many rows at once: each on its side of the exact hockey stick, and few points enough.

The oracles are closed forms of other libraries and sums over plain grids of positions.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism as dp
from scipy.special import log_ndtr

from privplan.accountant import events as ev
from privplan.accountant.engines.pld.families import FEWEST, families
from privplan.accountant.engines.pld.mechanisms import pairs
from privplan.accountant.engines.pld.thinned import lower_rows, upper_rows

TAIL = 1e-14
WAYS = [
    ("add-remove", False),
    ("add-remove", True),
    ("replace-one", False),
]


def _family(noise, rate, relation, reverse):
    made = []
    for s, q in zip(noise, rate, strict=True):
        event = ev.Gaussian(s) if q == 1.0 else ev.Poisson(q, ev.Gaussian(s))
        pair = pairs(event, relation).pair
        made.append((pair.reverse() if reverse else pair, 1))
    (family,), single = families(made)
    assert not single
    return family


def _exact(scale, rate, opposite, reverse, epsilon):
    """The hockey stick, from the tails of the normal distribution."""
    if not opposite:
        kind = dp.AdjacencyType.ADD if reverse else dp.AdjacencyType.REMOVE
        loss = dp.GaussianPrivacyLoss(scale, sampling_prob=rate, adjacency_type=kind)
        return float(loss.get_delta_for_epsilon(epsilon))
    # The loss of +1 against -1 grows with the position: bisect, then subtract two tails.
    low, high = -60.0 * scale - 2.0, 60.0 * scale + 2.0

    def log_mixed(x, centre):
        apart = -((x - centre) ** 2) / (2 * scale**2) + x**2 / (2 * scale**2)
        return np.logaddexp(math.log1p(-rate), math.log(rate) + apart)

    for _ in range(200):
        x = 0.5 * (low + high)
        low, high = (x, high) if log_mixed(x, 1.0) - log_mixed(x, -1.0) <= epsilon else (low, x)

    def above(centre):
        return (1 - rate) * math.exp(log_ndtr(-low / scale)) + rate * math.exp(
            log_ndtr((centre - low) / scale)
        )

    return above(1.0) - math.exp(epsilon) * above(-1.0)


def _hockey(rows, index, epsilon):
    losses = rows.offset[index] + rows.width * rows.at[index]
    above = losses > epsilon
    gains = -np.expm1(epsilon - losses[above])
    return rows.infinite[index] + float((rows.masses[index][above] * gains).sum())


@pytest.mark.parametrize(("relation", "reverse"), WAYS)
@pytest.mark.parametrize("width", [0.05, 0.003, 0.0004])
@pytest.mark.parametrize("tilt", [0.05, 3.0, 40.0])
def test_rows_lie_on_their_side_at_every_order(relation, reverse, width, tilt):
    rng = np.random.default_rng(3)
    noise = np.exp(rng.uniform(math.log(0.4), math.log(6.0), FEWEST))
    rate = np.exp(rng.uniform(math.log(2e-4), math.log(0.9), FEWEST))
    family = _family(noise, rate, relation, reverse)
    upper = upper_rows(family, width, tilt, TAIL)
    lower, rest = lower_rows(family, width, tilt, TAIL)
    print("REST", relation, reverse, width, tilt, len(rest), upper.at.shape)
    place = [index for index, member in enumerate(family.members) if member not in rest]
    for row, index in enumerate(place):
        scale, q = family.scale[index, 0], family.rate[index, 0]
        ends = [float(math.log1p(-q)), 0.0, -float(math.log1p(-q))]
        low, high = (float(family.loss(x)[index, 0]) for x in family.reach(1e-9))
        for epsilon in (*np.linspace(*sorted((low, high)), 23), *ends, width / 3, -width / 3):
            exact = _exact(scale, q, relation == "replace-one", reverse, epsilon)
            slack = upper.slack[index] + 4e-15 * max(1.0, math.exp(epsilon))
            assert _hockey(upper, index, epsilon) >= exact - slack
            slack = lower.slack[row] + 4e-15 * max(1.0, math.exp(epsilon))
            assert _hockey(lower, row, epsilon) <= exact + slack
