"""What each observer sees of one noisy product, as an event.

    node s sends   V_s + noise of deviation s,   V_s = A_s^T A_s Z of its rows on the grid
    released       their sum, with k s^2 of noise where k shares count: all but those that may miss

A node is a silo that gets every iterate, so `client` and `silo` are one.  Whoever sees
each V_s sees no larger a move than who sees their sum (`accountant.sensitivity.product`, silos one
by one), so events differ by the shares of the noise alone, as those of Gram matrices do
(`fl.statistics.views`).  What an observer holds of the unit changes nothing: a row lies in one
node, and nothing is weighted by what lies elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...accountant import events as ev
from ..observers.names import CLIENT, SILO
from ..statistics.views import statistics_views


def product_views(
    noise_multiplier: float,
    *,
    silos: int,
    aggregation: str = "plain",
    dropouts: int = 0,
    coalitions: Sequence[int] = (),
    colluders: int = 0,
) -> dict[str, ev.Event]:
    """Return the event of one product for each observer, by name; see the module.

    `noise_multiplier` is that of who sees the sum with as few shares as may arrive.  Raises
    `InvalidInput` for fewer peers than shares need.

    >>> product_views(4.0, silos=4)["server"]
    Gaussian(noise_multiplier=2.0)
    """
    views = statistics_views(
        noise_multiplier,
        family="gaussian",
        unit="silo",
        silos=silos,
        aggregation=aggregation,
        dropouts=dropouts,
        coalitions=coalitions,
        colluders=colluders,
    )
    return views | ({CLIENT: views[SILO]} if SILO in views else {})
