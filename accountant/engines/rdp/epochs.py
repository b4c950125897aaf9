"""Renyi curves of samplers that hide a unit's place: bounds that need no pair.

Shuffled batches and random allocation: reveal the order, or the steps; then a unit takes part in
one known release, or in a known set of them, and the curve is that of so many releases.  For
shuffled batches under add-remove two releases change, by a coupling of the orders of both data sets
(engines/shuffled_epochs.py), and their curves add up.  Truncated
Poisson sampling: reveal whether the sample is full without the unit (amplification/truncation.py);
then, with r the larger of the moments of both directions in each case,

    e^{(a-1) R(a)} <= P(N < B) e^{(a-1) R_Poisson(a)} + P(N >= B) e^{(a-1) R_fixed size(a)}.

E[(P/Q)^a] under Q is jointly convex in (P, Q), so revealing does not lower it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ... import events as ev
from ...amplification.truncation import Cut
from ...arrays import FloatArray
from ...composition import Composition
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import cut_instead, sized_release
from ..shuffled_epochs import EPOCH_CONDITIONS, EPOCH_SOURCE, replaced_release
from .curves import Curve, curve
from .fixed_size import without_replacement
from .joint import added_up, joint
from .moments import RENYI_OUTWARD_FACTOR
from .sampled import SAMPLED_EVENTS


@curve.register(ev.ShuffledBatches)
def shuffled_batches(event: ev.ShuffledBatches, neighbours: Neighbours) -> Curve:
    """The curve of one release; under add-remove the sum of those of the two that change.

    See engines/shuffled_epochs.py: one record replaced in one batch, and one removed in the last.
    """
    unsampled = joint(event.event, neighbours)
    if event.batches == 1:
        step = Step("sampling", "An epoch of one batch is that release.", "by definition")
        return replace(unsampled, steps=(*unsampled.steps, step))
    if neighbours == "add-remove":
        return _record_more_or_less(event, unsampled)
    step = Step(
        "sampling",
        f"An epoch of {event.batches:,} batches: a unit is in one of them; no amplification.",
        "joint convexity, given the order",
        ("the order is independent of the data and the same for both data sets",),
    )
    return replace(unsampled, steps=(*unsampled.steps, step))


def _record_more_or_less(event: ev.ShuffledBatches, removed: Curve) -> Curve:
    replaced = added_up(
        [(curve(*replaced_release(leaf.event)), leaf) for leaf in Composition.of(event.event)]
    )
    step = Step(
        "sampling",
        f"An epoch of {event.batches:,} batches: one has a record replaced, the last one a record "
        "less; the two curves add up.",
        EPOCH_SOURCE,
        (*EPOCH_CONDITIONS, "neighbours: add-remove"),
    )
    # Outside of both exceptional events, each with its own probability.
    slack = 0.0
    if replaced.slack > 0.0 or removed.slack > 0.0:
        slack = min(1.0, (replaced.slack + removed.slack) * (1.0 + 1e-15))
    return Curve(
        lambda orders: (replaced.at(orders) + removed.at(orders)) * RENYI_OUTWARD_FACTOR,
        (replaced.limit + removed.limit) * (1.0 + 1e-15),
        (*replaced.steps, *removed.steps, step),
        slack,
    )


@curve.register(ev.RandomAllocation)
def random_allocation(event: ev.RandomAllocation, neighbours: Neighbours) -> Curve:
    """The curve of `chosen` releases: the steps are counted as known."""
    sized = sized_release(event.event)
    if sized is not None:
        raise Unsupported(
            f"Random allocation of `{sized.type}` has no meaning here.",
            "That release fixes how many units take part in it, and here that number is random.",
            "Allocate a release that takes any number of units.",
        )
    # Given the steps, a unit takes part in `chosen` releases, which compose.
    base, chosen = joint(event.event, neighbours), event.chosen
    if base.slack > 0.0:
        raise Unsupported(
            f"The rdp engine cannot account for random allocation of `{event.event.type}`.",
            next_step="Leave the choice of the engine to privplan.",
            otherwise="Ask at a larger delta, or count the steps of a unit one by one.",
        )
    step = Step(
        "sampling",
        f"{chosen:,} of {event.steps:,} steps, counted as known: no amplification.",
        "joint convexity, given the steps",
        ("each unit's steps are drawn independently of the data",),
    )
    return Curve(
        lambda orders: chosen * base.at(orders) * RENYI_OUTWARD_FACTOR,
        chosen * base.limit * RENYI_OUTWARD_FACTOR,
        (*base.steps, step),
    )


@curve.register(ev.TruncatedPoisson)
def truncated_poisson(event: ev.TruncatedPoisson, neighbours: Neighbours) -> Curve:
    """The blend of the curves of Poisson and of fixed-size sampling, for any relation."""
    rate, inner = event.rate, event.event
    is_cut = rate > 0.0 and event.batch < event.population
    if is_cut and (type(inner) not in SAMPLED_EVENTS or isinstance(inner, ev.ZCDP)):
        raise Unsupported(
            f"The rdp engine cannot account for truncated Poisson sampling of `{inner.type}`.",
            "Its Renyi curve alone does not bound what a sample of it reveals.",
            "Leave the choice of the engine to privplan.",
            otherwise=cut_instead(inner),
        )
    poisson = curve(ev.Poisson(rate, inner), neighbours)
    if not is_cut:
        return poisson
    cut = Cut.of(event.population, rate, event.batch)
    full = without_replacement(inner, cut.rate, neighbours)
    if poisson.slack > 0.0 or full.slack > 0.0:
        raise Unsupported(
            f"The rdp engine cannot account for truncated Poisson sampling of `{inner.type}`.",
            next_step="Leave the choice of the engine to privplan.",
            otherwise="Ask at a larger delta, or draw the sample without a cut.",
        )
    if cut.spared == 0.0:
        return full
    logs = math.log(cut.spared), math.log(cut.full)

    def at(orders: FloatArray) -> FloatArray:
        beta = orders - 1.0
        # log(P(N < B) e^{b R_P} + P(N >= B) e^{b R_F}), b = a - 1, with both shares rounded up.
        moments = np.logaddexp(
            logs[0] + beta * poisson.at(orders), logs[1] + beta * full.at(orders)
        )
        rounding = 1e-15 * (2.0 - logs[1]) + np.abs(moments) * 1e-14
        return np.asarray((np.maximum(moments, 0.0) + rounding) / beta * RENYI_OUTWARD_FACTOR)

    step = Step(
        "sampling",
        f"Cut to {event.batch:,} of {event.population:,} units: full without the unit with "
        f"probability {cut.full:.3g}.",
        "derived in engines/rdp/epochs.py",
        (f"the larger data set has {event.population:,} units",),
    )
    limit = max(poisson.limit, full.limit)
    steps = (*poisson.steps, full.steps[-1], step)
    return Curve(lambda orders: np.minimum(at(orders), limit), limit, steps)
