"""Renyi curves of a unit that is made of several records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ... import events as ev
from ...amplification.group import along_chain, by_mironov, group_step, lemma, triangle
from ...arrays import FloatArray
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from .curves import Curve, capped, curve, matrix_gaussian, of_pair, pure_pair, set_aside
from .mixture import Mixture
from .releases import approximate

_GROUP_SOURCE = (
    "derived in amplification/group.py (optimised triangle inequality); Mironov 2017, "
    "Proposition 2, arXiv 1702.07476v3"
)


@curve.register(ev.Group)
def group(event: ev.Group, neighbours: Neighbours) -> Curve:
    """The curve of `size` records from that of one, for any event that has one.

    At each order the smallest of Mironov's rule (final orders of at least 1.5), the optimised
    triangle inequality, binary randomized response at `size` epsilon where losses are bounded,
    and, for all records together, the mixture under Poisson sampling with Gaussian noise, and the
    Gaussian of known bins for balls in bins.

    Raises `Unsupported` where one record has no curve, or one that does not hold along the chain,
    or one with a delta of its own and unbounded losses.
    """
    record = curve(along_chain(event.event, event.size, neighbours), neighbours)
    if event.size == 1 or (record.limit == 0.0 and record.slack == 0.0):
        return record
    if record.slack > 0.0:
        return _with_slack(event, record, neighbours)
    # Each rule holds at every order, so the smallest does.
    curves = [triangle(record.at, event.size), by_mironov(record.at, event.size)]
    limit = record.limit
    # Bounded losses: binary randomized response at k epsilon dominates the group.
    if limit < math.inf:
        limit, _ = lemma(limit, -math.inf, event.size)
        curves.append(capped(of_pair(pure_pair(limit)), limit))
    mixture = mixture_of(event, neighbours)
    if mixture is not None:
        curves.append(mixture.at)
    if isinstance(event.event, ev.MatrixGaussian):
        # Bins that are known: a Gaussian that moves as many times as far.
        known = matrix_gaussian(event.event, neighbours).at
        curves.append(lambda orders: event.size**2 * (1.0 + 1e-15) * known(orders))
    return Curve(
        at=_smallest(curves),
        limit=limit,
        steps=(*record.steps, group_step(event.size, neighbours), _step(event, limit, mixture)),
    )


def mixture_of(event: ev.Group, neighbours: Neighbours) -> Mixture | None:
    """Return the mixture of Gaussians that all records of a unit make together, if they do."""
    sampled = event.event
    if not isinstance(sampled, ev.Poisson) or not isinstance(sampled.event, ev.Gaussian):
        return None
    if not 0.0 < sampled.rate < 1.0:
        return None
    noise = sampled.event.noise_multiplier
    return Mixture(event.size, sampled.rate, noise, neighbours == "replace-one")


def _smallest(
    curves: list[Callable[[FloatArray], FloatArray]],
) -> Callable[[FloatArray], FloatArray]:
    def at(orders: FloatArray) -> FloatArray:
        least = np.full_like(orders, np.inf)
        for each in curves:
            least = np.fmin(least, each(orders))
        return least

    return at


def _with_slack(event: ev.Group, record: Curve, neighbours: Neighbours) -> Curve:
    """Return the curve of the group as an (epsilon, delta)-DP release, by the lemma."""
    if math.isinf(record.limit):
        raise Unsupported(
            f"The rdp engine cannot turn the curve of `{event.event.type}` into that of a group.",
            "It holds outside an event of small probability only, and its losses have no bound.",
            "Account for single records.",
        )
    epsilon, log_delta = lemma(record.limit, math.log(record.slack), event.size)
    delta = set_aside(math.exp(min(log_delta, 0.0)) * (1.0 + 1e-12))
    group_curve = approximate(ev.Approximate(epsilon, delta), neighbours)
    lemma_step = Step(
        "group",
        f"{event.size:,} records: epsilon {epsilon:.6g} and delta {delta:.6g}.",
        "the lemma, derived in amplification/group.py",
    )
    return replace(
        group_curve, steps=(*record.steps, group_step(event.size, neighbours), lemma_step)
    )


def _step(event: ev.Group, limit: float, mixture: Mixture | None) -> Step:
    """Return the step that names every rule of which the smallest is taken."""
    rules = ["the optimised triangle inequality", "Mironov's rule"]
    if limit < math.inf:
        rules.append(f"binary randomized response at {event.size} times the largest loss")
    if mixture is not None:
        rules.append("the mixture sum_i w_i N(i) of all records together")
    if isinstance(event.event, ev.MatrixGaussian):
        rules.append("a Gaussian of bins that are known")
    return Step(
        "group",
        f"R_{event.size}(a) is the smallest of {', '.join(rules[:-1])} and {rules[-1]}.",
        _GROUP_SOURCE,
        ("one record's curve holds between all data sets on the way, in both directions",),
    )
