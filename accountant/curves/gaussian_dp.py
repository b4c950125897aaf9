"""`gdp`: the least mu for which an event is mu-GDP at every false positive rate.

An event is mu-GDP where telling its outputs apart is at least as hard as telling N(0, 1) from
N(mu, 1): delta(eps) <= delta_mu(eps) at every epsilon of 0 or above, in both directions.

**Single releases** have closed forms (`accountant.risk.release_mu`); squares of mu add up.  A
composition of bounded losses is one release with their sum, too.

**By trade-off functions** (`accountant.risk`), where the largest loss alone leaves a gap: a release
and all of them together have the mu that lines below their trade-off function prove at every false
positive rate, and those that are attained need at least theirs.

**From below**, a delta that is attained at epsilon needs the mu with delta_mu(epsilon) as large.

An event with a delta of its own has no mu: at false positive rate 0 it may find somebody.

Source: Dong, Roth and Su 2022, arXiv 1905.02383v3: Definition 2.6, Corollary 2.13 (duality),
Corollary 3.3 (composition).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .. import events as ev
from ..account import bounds_on_delta
from ..composition import Composition
from ..engines.gdp import gaussian_delta
from ..errors import Unsupported
from ..guarantee import Bounds, Step, agreed
from ..neighbours import Neighbours, as_neighbours
from ..risk import risk
from ..risk.release_mu import (
    FUNCTION_ERROR,
    MU_ROUNDING,
    composed_mu,
    largest_loss,
    mu_of_pure,
    release_mu,
)
from ..rootfinding import bisect

_MAX_TRADE_OFFS: Final = 8
"""Most different releases whose trade-off functions are computed."""

_SOURCE: Final = (
    "Dong, Roth and Su 2022, Corollaries 2.13 and 3.3, arXiv 1905.02383v3; derived in "
    "accountant/risk/release_mu.py"
)


@dataclass(frozen=True)
class GdpGuarantee:
    """The least `mu` with which an event is mu-GDP, between bounds; the upper end is proven."""

    mu: Bounds
    neighbours: Neighbours
    derivation: tuple[Step, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)


def gdp(event: ev.EventLike, *, neighbours: str = "add-remove") -> GdpGuarantee:
    """Return bounds on the least mu with which an event is mu-GDP at every false positive rate.

        mu = largest Phi^-1(1 - f(alpha)) - Phi^-1(alpha),   Gaussian noise: sqrt(sum c^2 / noise^2)

    over alpha in (0, 1), with f the trade-off function (smallest miss rate at alpha) of both orders
    of neighbours, and c = 2 under replace-one, else 1.  `neighbours` is `add-remove`, `replace-one`
    or `zero-out` of one record.

    For Gaussian noise, with or without sampling (which gains nothing here), for correlated noise,
    for what has a largest loss, and for compositions of these; wherever `mu_everywhere` of `risk`
    is finite.  Infinite for an event with a delta of its own.

    Raises `InvalidInput` for values out of range, `Unsupported` for other events, and
    `EnginesDisagree` where a lower end lies above what is proven.
    Source: Dong, Roth and Su 2022, arXiv 1905.02383v3; derived in accountant/risk/release_mu.py.

    >>> round(gdp(ev.Repeat(4, ev.Gaussian(1.0))).mu.upper, 6)
    2.0
    >>> round(gdp(ev.Pure(1.0)).mu.upper, 4)
    1.232
    """
    relation = as_neighbours(neighbours)
    known = ev.known_event(event)
    parts = Composition.of(known)
    if any(_has_its_own_delta(leaf.event) for leaf in parts):
        warning = "It may reveal everything with a small probability, so no mu is finite."
        return GdpGuarantee(Bounds(0.0, math.inf), relation, (_step(math.inf),), (warning,))
    closed = composed_mu(parts, relation)
    lower, upper = closed.lower, min(closed.upper, _of_largest_losses(parts, relation))
    step = _step(upper)
    if isinstance(parts.single, (ev.Pure, ev.Local)) and not parts[0].by_lemma:
        lower = upper * (1.0 - 4.0 * FUNCTION_ERROR)  # attained by binary randomized response
    few = len(parts) <= _MAX_TRADE_OFFS
    if lower < upper * (1.0 - 1e-9) and (few or math.isinf(upper)):
        whole = _by_trade_off(known, relation)
        each = [(_release_upper(leaf.event, relation, few), leaf.count) for leaf in parts]
        closer = min(whole.upper, _composed(each) * (1.0 + MU_ROUNDING))
        if closer < upper:
            upper, step = closer, _step(closer, f"{_SOURCE}; trade-off functions: accountant/risk")
        lower = max(lower, whole.lower)
    if math.isinf(upper):
        raise _unknown(parts, relation)
    if lower < upper * (1.0 - 1e-9):
        lower = max(lower, _shown_by_deltas(known, relation, upper))
    return GdpGuarantee(agreed(lower, upper, rounding=1e-9), relation, (step,))


def _has_its_own_delta(event: ev.Event) -> bool:
    return isinstance(event, ev.NoGuarantee) or (
        isinstance(event, ev.Approximate) and event.delta > 0.0
    )


def _unknown(parts: Composition, relation: Neighbours) -> Unsupported:
    mus = ((release_mu(leaf.event, relation).upper, leaf.event.type) for leaf in parts)
    return Unsupported(
        f"No mu is known for `{max(mus)[1]}`.",
        "It is known for Gaussian noise, with or without sampling, for correlated noise, and "
        "for what has a largest loss.",
        "Ask for delta by epsilon (privacy_profile), or for the Renyi curve (rdp).",
    )


def _release_upper(event: ev.Event, relation: Neighbours, by_trade_off: bool) -> float:
    upper = release_mu(event, relation).upper
    return min(upper, _by_trade_off(event, relation).upper) if by_trade_off else upper


def _by_trade_off(event: ev.Event, relation: Neighbours) -> Bounds:
    """Return bounds on mu by the trade-off function of an event, none where none is known."""
    try:
        return risk(event, neighbours=relation).mu_everywhere
    except Unsupported:
        return Bounds(0.0, math.inf)


def _of_largest_losses(parts: Composition, relation: Neighbours) -> float:
    """Return mu of everything as one release with a largest loss; infinite where it has none."""
    losses = []
    for leaf in parts:
        losses.append(leaf.count * largest_loss(leaf.event, relation))
        if math.isinf(losses[-1]):
            return math.inf
    total = math.fsum(losses)
    return mu_of_pure(total * (1.0 + MU_ROUNDING)) * (1.0 + FUNCTION_ERROR)


def _composed(counted: Sequence[tuple[float, int]]) -> float:
    """Return the root of the sum of squares."""
    return math.hypot(*(math.sqrt(count) * mu for mu, count in counted))


def _shown_by_deltas(event: ev.Event, relation: Neighbours, mu: float) -> float:
    """Return the largest mu that a delta of `event` needs, at a few epsilons in units of `mu`."""
    needed = 0.0
    for share in (0.0, 0.5, 1.5):
        epsilon = share * mu
        delta = bounds_on_delta(event, epsilon=epsilon, neighbours=relation).lower
        needed = max(needed, _least_mu(delta, epsilon, mu))
    return needed


def _least_mu(delta: float, epsilon: float, most: float) -> float:
    """Return a mu below which delta_mu(epsilon) stays below `delta`, from `most` down."""
    if delta <= 0.0:
        return 0.0
    # The lower end of the bracket has a delta that is too small for certain.
    return bisect(
        lambda mu: gaussian_delta(mu, epsilon).upper < delta,
        0.0,
        most,
        stop=lambda low, high: high - low <= 1e-10 * most,
        middle=lambda low, high: 0.5 * (low + high),
    )[0]


def _step(mu: float, source: str = _SOURCE) -> Step:
    return Step(
        "conversion",
        f"At least as hard to tell apart as N(0, 1) and N(mu, 1), mu = {mu:.6g}.",
        source,
    )
