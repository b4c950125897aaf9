"""The pair of a release inside of a client that takes part with probability q, and may be seen to.

Nothing comes of the client with probability 1 - q, whatever it holds, and its release otherwise;
whoever sees nothing knows that nothing came.  So the two outputs are mixtures whose component is
visible, (1-q) nothing + q P against (1-q) nothing + q Q, and each hockey stick is q times that of P
against Q.  At most that is seen where the client's absence is hidden by others.

The records of a client are drawn together, so several of them make the same mixture of their
group's release.  Source: by definition.
"""

from __future__ import annotations

import numpy as np

from ... import events as ev
from ...composition import leaves
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from .atoms import AtomPair
from .pair import Pair
from .pair_algebra import mixture_of_pairs
from .registry import DominatedMechanism, pairs


@pairs.register(ev.ClientSampled)
def _client_sampled(event: ev.ClientSampled, neighbours: Neighbours) -> DominatedMechanism:
    inner = _single_release(event)
    release = pairs(inner, neighbours)
    if release.power != 1 or release.beside is not None:
        raise _several_releases(event)
    rate = event.clients_rate
    step = _step(rate, neighbours)
    pair = _visibly_sampled(release.pair, rate)
    # A pair that dominates and is attained stays one object: the engine then knows it is tight.
    lower_pair = pair if release.lower_pair is release.pair else None
    if lower_pair is None and release.lower_pair is not None:
        lower_pair = _visibly_sampled(release.lower_pair, rate)
    second = release.second_lower_pair
    return DominatedMechanism(
        pair,
        lower_pair if release.lower_power in (None, 1) else None,
        release.symmetric,
        (*release.steps, step),
        second_lower_pair=None if second is None else _visibly_sampled(second, rate),
    )


def _single_release(event: ev.ClientSampled) -> ev.Event:
    inner = leaves(event.event)
    if len(inner) != 1 or inner[0].count != 1 or not inner[0].fully_observed:
        raise _several_releases(event)
    return inner[0].event


def _several_releases(event: ev.ClientSampled) -> Unsupported:
    return Unsupported(
        f"The pld engine takes one release inside of a sampled client, not `{event.event.type}`.",
        "All releases of one round hang on the same draw of the client.",
        "Leave the choice of the engine to privplan: rdp takes several.",
    )


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
