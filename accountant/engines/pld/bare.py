"""Dominating pairs of randomized response, and of events that state only their epsilon.

An event that only states an epsilon names a class of mechanisms: its pair dominates them all, and
the worst of them attains it.  A given one need not, so of that one it gives no lower bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ... import events as ev
from ...guarantee import Neighbours, Step
from .outcomes import Outcomes
from .registry import DominatedMechanism, pairs


@pairs.register(ev.RandomizedResponse)
def _randomized_response(
    event: ev.RandomizedResponse, neighbours: Neighbours
) -> DominatedMechanism:
    return response(event, 1.0, neighbours)


@pairs.register(ev.Pure)
def _pure(event: ev.Pure, neighbours: Neighbours) -> DominatedMechanism:  # noqa: ARG001
    return whole_class(event.epsilon, 0.0)


@pairs.register(ev.Local)
def _local(event: ev.Local, neighbours: Neighbours) -> DominatedMechanism:  # noqa: ARG001
    return whole_class(event.epsilon, 0.0)


@pairs.register(ev.Exponential)
def _exponential(event: ev.Exponential, neighbours: Neighbours) -> DominatedMechanism:  # noqa: ARG001
    return worst_pair(event.epsilon, 0.0, 1.0)


@pairs.register(ev.Approximate)
def _approximate(event: ev.Approximate, neighbours: Neighbours) -> DominatedMechanism:  # noqa: ARG001
    return whole_class(event.epsilon, event.delta)


@pairs.register(ev.NoGuarantee)
def _no_guarantee(event: ev.NoGuarantee, neighbours: Neighbours) -> DominatedMechanism:  # noqa: ARG001
    return worst_pair(0.0, 1.0, 1.0)


def response(
    event: ev.RandomizedResponse, rate: float, neighbours: Neighbours
) -> DominatedMechanism:
    if neighbours != "replace-one":
        # What an absent unit reports is not said, so only the epsilon counts, for any report.
        return worst_pair(event.epsilon, 0.0, rate)
    exact = _response_outcomes(event).pair(rate, "add-remove")
    step = Step(
        "mechanism",
        f"{event.categories} outcomes; the true one is e^{event.epsilon:g} times as likely.",
        "Kairouz, Bonawitz, Ramage 2016, arXiv 1602.07387",
        (f"neighbours: {neighbours}",),
    )
    return DominatedMechanism(exact, exact, rate == 1.0, (step,))


def _response_outcomes(event: ev.RandomizedResponse) -> Outcomes:
    log_total = math.log1p((event.categories - 1) * math.exp(-event.epsilon))
    true, other = -log_total, -event.epsilon - log_total
    rest = other + math.log(event.categories - 2) if event.categories > 2 else -math.inf
    keep = 3 if event.categories > 2 else 2
    return Outcomes(np.array([other, true, rest])[:keep], np.array([true, other, rest])[:keep])


def whole_class(epsilon: float, delta: float, rate: float = 1.0) -> DominatedMechanism:
    """Return the pair of all (epsilon, delta)-DP mechanisms, which the worst of them attains.

    So it does on a Poisson sample, by answering whether the unit is in it.
    """
    worst = worst_pair(epsilon, delta, rate)
    return replace(worst, class_pair=worst.pair)


def worst_pair(epsilon: float, delta: float, rate: float) -> DominatedMechanism:
    """Return the pair that dominates every (epsilon, delta)-DP mechanism, Poisson sampled at
    `rate`.

    With probability delta it tells everything; otherwise it is a binary randomized response.
    """
    log_rest = math.log1p(-delta) if delta < 1.0 else -math.inf
    log_delta = math.log(delta) if delta > 0.0 else -math.inf
    true = log_rest - math.log1p(math.exp(-epsilon))
    other = true - epsilon
    # Outcomes without the unit, then with it: one that shows the unit, the two of a randomized
    # response, one that shows its absence.
    outcomes = Outcomes(
        np.array([-math.inf, other, true, log_delta]),
        np.array([log_delta, true, other, -math.inf]),
    )
    pair = outcomes.pair(rate, "add-remove")
    step = Step(
        "mechanism",
        f"The worst ({epsilon:g}, {delta:g})-DP mechanism"
        + (f", Poisson sampled at {rate:g}." if rate < 1.0 else "."),
        "Kairouz, Oh, Viswanath 2017, arXiv 1311.0776",
        (
            "its parameters hold for the neighbouring relation of this account",
            "they name a class of mechanisms, some of which lose less",
        ),
    )
    return DominatedMechanism(pair, None, rate == 1.0, (step,))
