"""The pair of a release inside of a client that takes part with probability q, and may be seen to.

Nothing comes of the client with probability 1 - q, whatever it holds, and its release otherwise;
whoever sees nothing knows that nothing came.  So the two outputs are mixtures whose component is
visible, (1-q) nothing + q P against (1-q) nothing + q Q, and each hockey stick is q times that of P
against Q.  At most that is seen where the client's absence is hidden by others.

Several releases of one round hang on the same draw of the client, so they are composed first:
chords of certified bounds on their delta make a pair, of which again q counts.  From below the same
is made of the delta that two data sets attain in all these releases (attained_pairs.py).

The records of a client are drawn together, so several of them make the same mixture of their
group's release.  Source: by definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from ... import events as ev
from ...composition import Leaf, leaves, worst_leaves
from ...guarantee import Neighbours, Step
from ...schedules import shown
from ..loss_ranges import LARGEST_EXPONENT
from .atoms import AtomPair
from .attained_curve import attained_orders
from .attained_pairs import pair_below
from .curve import DeltaCurve, delta_curves
from .mechanism_algebra import is_single_pair
from .pair import Pair
from .pair_algebra import mixture_of_pairs, two_sided
from .profiles import pair_of_profile
from .registry import DominatedMechanism, leaf_pairs, pairs

MAX_CHORDS: Final = 8_000
"""Most points at which the composition inside of a client is read off."""


@pairs.register(ev.ClientSampled)
def _client_sampled(event: ev.ClientSampled, neighbours: Neighbours) -> DominatedMechanism:
    rate = event.clients_rate
    release = _release(event, neighbours)
    pair = _visibly_sampled(release.pair, rate)
    # A pair that dominates and is attained stays one object: the engine then knows it is tight.
    lower_pair = pair if release.lower_pair is release.pair else None
    if lower_pair is None and release.lower_pair is not None:
        lower_pair = _visibly_sampled(release.lower_pair, rate)
    of_class = release.class_pair
    return DominatedMechanism(
        pair,
        lower_pair,
        release.symmetric,
        (*release.steps, _step(rate, neighbours)),
        other_lower_pairs=tuple(_visibly_sampled(each, rate) for each in release.other_lower_pairs),
        class_pair=None if of_class is None else _visibly_sampled(of_class, rate),
    )


def _release(event: ev.ClientSampled, neighbours: Neighbours) -> DominatedMechanism:
    """Return all that the client releases in one round, as one mechanism."""
    inner = leaves(event.event)
    if len(inner) == 1 and inner[0].count == 1 and inner[0].fully_observed:
        release = leaf_pairs(inner[0], neighbours)
        if is_single_pair(release) and release.lower_power in (None, 1):
            return release
    return _composition(inner, worst_leaves(event.event), neighbours)


@lru_cache(maxsize=32)
def _composition(
    inner: tuple[Leaf, ...], worst: tuple[Leaf, ...], neighbours: Neighbours
) -> DominatedMechanism:
    """Return a pair above the certified curves of a composition, and pairs below attained ones.

    `worst` are the same leaves with the lower ends of the worst of each class that they name.
    """
    curves = delta_curves(inner, neighbours)
    # Both directions agree at epsilon 0, where delta is the total variation distance.
    distance = max(float(curve.at(np.zeros(1))[0]) for curve in curves)
    upper = [_pair_above(curve, distance) for curve in curves]
    attained = _attained_pairs(inner, neighbours)
    listed, summaries = shown(inner)
    steps = [step for leaf in listed for step in leaf_pairs(leaf, neighbours).steps]
    count = sum(leaf.count for leaf in inner)
    together = Step(
        "composition",
        f"{count:,} releases of one round are one, by certified chords of its delta.",
        "connect the dots, arXiv 2207.04380",
        ("lower end: chords of the delta that two data sets attain, or one of these releases",),
    )
    return DominatedMechanism(
        two_sided(upper[-1].reverse(), upper[0]),
        next(iter(attained), None),
        len(curves) == 1,
        (*steps, *summaries, together),
        other_lower_pairs=tuple(attained[1:]),
        class_pair=next(iter(_attained_pairs(worst, neighbours)), None) if worst != inner else None,
    )


def _attained_pairs(inner: Sequence[Leaf], neighbours: Neighbours) -> list[Pair]:
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
