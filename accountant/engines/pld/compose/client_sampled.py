"""The pair of a release inside of a client that takes part with probability q, and may be seen to.

Nothing comes of the client with probability 1 - q, whatever it holds, and its release otherwise;
whoever sees nothing knows that nothing came.  So the two outputs are mixtures whose component is
visible, (1-q) nothing + q P against (1-q) nothing + q Q, and each hockey stick is q times that of P
against Q.  At most that is seen where the client's absence is hidden by others.

Several releases of one round hang on the same draw of the client, so they are composed first:
chords of certified bounds on their delta make a pair, of which again q counts.  From below the same
is made of the delta that two data sets attain in all these releases.

The records of a client are drawn together, so several of them make the same mixture of their
group's release.  Source: by definition.

A pair whose hockey stick lies below that of two data sets, from a curve that they attain.

Write h(alpha) for the hockey stick of the two outputs.  An attained curve bounds h from below by
chords between its nodes, and h(alpha) >= 1 - alpha, since P and Q are distributions.  A line that
passes below all nodes passes below the chords, so the largest of 1 - alpha, of some such lines, and
of the constant at which the curve ends is a convex function g <= h.  Where one line gives way to
the next, at alpha_k, and the slope rises by q_k, a pair has Q mass q_k and P mass alpha_k q_k of
loss log(alpha_k): its hockey stick is g.  With g(0) = 1 and g >= 1 - alpha it is a pair of
distributions, so both orders of it lie below both orders of h, and so do compositions.

Each node is lowered by more than all that rounding does here: a share of it and a constant for
masses and slopes, which are summed in 64-bit floats.
Source: derived here; Zhu, Dong, Wang 2022, arXiv 2106.08567, for pairs and their profiles.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from .... import events as ev
from ....composition import Composition
from ....guarantee import Neighbours, Step
from ....schedules import shown
from ...loss_ranges import LARGEST_EXPONENT
from ..grid.pair import Pair, mixture_of_pairs, pair_of_profile, two_sided
from ..grid.pair_parts import AtomPair
from ..pairs.registry import DominatedMechanism, is_single_pair, leaf_pairs, pairs
from .curve import AttainedCurve, DeltaCurve, attained_orders, delta_curves

LINES: Final = 1_000
"""How many lines stand for a curve."""

MASS_ROUNDING: Final = 1e-9
"""Relative error that masses and losses of the pair may have."""

STICK_ROUNDING: Final = 1e-11
"""How much lower than its node a line passes, besides a share of two `MASS_ROUNDING`."""


def pair_below(curve: AttainedCurve) -> Pair | None:
    """Return a pair that the two data sets of the curve dominate, None where it shows nothing."""
    lowest = (1.0 - 2.0 * MASS_ROUNDING) * np.concatenate(
        ([curve.total], curve.deltas[:-1], [curve.beyond])
    )
    sticks = np.maximum(lowest - STICK_ROUNDING, 0.0)
    orders = np.concatenate(([0.0], np.exp(curve.epsilons)))
    last = float(sticks[-1])
    # Beyond the last node with more than the last value, lines would only pass lower.
    shown = np.flatnonzero(sticks > np.maximum(1.0 - orders, last))
    if shown.size == 0:
        return None
    at = np.unique(np.linspace(shown[0], shown[-1], LINES).astype(np.intp))
    steps = np.diff(sticks)[at - 1] / np.diff(orders)[at - 1]
    slopes = np.unique(steps[(steps > -1.0) & (steps < 0.0)])
    if slopes.size == 0:
        return None
    # The highest line of each slope below all nodes.
    heights = np.array([float((sticks - slope * orders).min()) for slope in slopes])
    # Those that lie above 1 - alpha and above the last value somewhere.
    first = int(np.argmin((1.0 - heights) / (1.0 + slopes)))
    end = int(np.argmax((heights - last) / -slopes)) + 1
    slopes = np.concatenate(([-1.0], slopes[first:end], [0.0]))
    heights = np.concatenate(([1.0], heights[first:end], [last]))
    p, q = -np.diff(heights), np.diff(slopes)
    seen = (p > 0.0) & (q > 0.0)
    infinite = math.log(last) if last > 0.0 else -math.inf
    return Pair.of_outcomes(
        AtomPair(
            np.append(np.log(p[seen]), infinite),
            np.append(np.log(q[seen]), -math.inf),
            has_heavy_atoms=False,
            rounding=MASS_ROUNDING,
        )
    )


MAX_CHORDS: Final = 8_000
"""Most points at which the composition inside of a client is read off."""


@pairs.register(ev.ClientSampled)
def _client_sampled(event: ev.ClientSampled, neighbours: Neighbours) -> DominatedMechanism:
    rate = event.clients_rate
    release = _release(event, neighbours)
    pair = _visibly_sampled(release.pair, rate)
    # A pair that dominates and is attained stays one object: the engine then knows it is tight.
    attained = (
        pair if each is release.pair else _visibly_sampled(each, rate)
        for (each, _), *_ in release.attained
    )
    of_class = release.class_pair
    steps = (*release.steps, _step(rate, neighbours))
    worst = None if of_class is None else _visibly_sampled(of_class, rate)
    return DominatedMechanism.of(pair, attained, release.symmetric, steps, worst)


def _release(event: ev.ClientSampled, neighbours: Neighbours) -> DominatedMechanism:
    """Return all that the client releases in one round, as one mechanism."""
    inner = Composition.of(event.event)
    if inner.single is not None and inner.fully_observed:
        release = leaf_pairs(inner[0], neighbours)
        if is_single_pair(release) and all(each[0][1] == 1 for each in release.attained):
            return release
    return _composition(inner, neighbours)


@lru_cache(maxsize=32)
def _composition(inner: Composition, neighbours: Neighbours) -> DominatedMechanism:
    """Return a pair above the certified curves of a composition, and pairs below attained ones."""
    curves = delta_curves(inner, neighbours)
    # Both directions agree at epsilon 0, where delta is the total variation distance.
    distance = max(float(curve.at(np.zeros(1))[0]) for curve in curves)
    upper = [_pair_above(curve, distance) for curve in curves]
    attained = _attained_pairs(inner, neighbours)
    listed, summaries = shown(inner)
    steps = [step for leaf in listed for step in leaf_pairs(leaf, neighbours).steps]
    count = inner.releases
    together = Step(
        "composition",
        f"{count:,} releases of one round are one, by certified chords of its delta.",
        "connect the dots, arXiv 2207.04380",
        ("lower end: chords of the delta that two data sets attain, or one of these releases",),
    )
    return DominatedMechanism.of(
        two_sided(upper[-1].reverse(), upper[0]),
        attained,
        len(curves) == 1,
        (*steps, *summaries, together),
        next(iter(_attained_pairs(inner.worst(), neighbours)), None) if inner.names_class else None,
    )


def _attained_pairs(inner: Composition, neighbours: Neighbours) -> list[Pair]:
    """Return pairs below what two data sets attain in all releases, then that of one of them."""
    below = [
        (pair, order)
        for order, curves in enumerate(attained_orders(inner, neighbours))
        for pair in map(pair_below, curves)
        if pair is not None
    ]
    single = [
        each.lower_pair
        for each in (leaf_pairs(leaf, neighbours) for leaf in inner if leaf.fully_observed)
        if each.lower_pair is not None
    ]
    # A curve has few digits where delta is tiny; there a single release may show more.
    strongest = sorted(single, key=lambda pair: -pair.loss_range(1e-3)[1])[:1]
    return [pair.reverse() if order else pair for pair, order in below] + strongest


def _pair_above(curve: DeltaCurve, distance: float) -> Pair:
    chosen = curve.epsilons[(curve.epsilons > 0.0) & (curve.epsilons < LARGEST_EXPONENT)]
    every = -(-chosen.size // MAX_CHORDS)
    losses = np.concatenate(([0.0], chosen[:: max(every, 1)], chosen[-1:]))
    losses = np.unique(losses)
    deltas = curve.at(losses)
    deltas[0] = distance
    return pair_of_profile(losses, deltas)


def _visibly_sampled(pair: Pair, rate: float) -> Pair:
    nothing = Pair.of_outcomes(AtomPair(np.zeros(1), np.zeros(1)))
    return mixture_of_pairs([(rate, pair), (1.0 - rate, nothing)])


def _step(rate: float, neighbours: Neighbours) -> Step:
    return Step(
        "sampling",
        f"(1-q) nothing + q P against (1-q) nothing + q Q, q = {rate:g}: delta is q times that of "
        "the client's release.",
        "by definition of a mixture whose component is seen",
        (
            "the client is drawn afresh in each round, with this probability, whatever it holds",
            "whether it takes part may be seen; the unit is in one client",
            f"neighbours: {neighbours}",
        ),
    )
