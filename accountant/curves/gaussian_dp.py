"""`gdp`: the least mu for which an event is mu-GDP at every false positive rate.

An event is mu-GDP where telling its outputs apart is at least as hard as telling N(0, 1) from
N(mu, 1): delta(eps) <= delta_mu(eps) at every epsilon of 0 or above, in both directions.

**Gaussian noise.**  mu = c / noise, exactly; squares of mu add up over releases.

**Correlated noise** is a Gaussian release of the noise over the sensitivity of its strategy.  A bin
that is drawn and hidden shows no more than one that is known.

**Poisson samples of it** have the mu of the noise alone.  A sample reveals no more than the
release, and no less in the tail: with P = (1-q) Q + q P', the hockey stick of P at order t is at
least q times that of P' at t/q, and log of that falls like -(eps + log 1/q)^2 / (2 mu^2): at large
epsilon no smaller mu is enough, however small q is, over any number of releases.  Under
replace-one the unit is in one sample with one value: that shows the mu of one bound, from below.

**Batches of a fixed size** of Gaussian noise reveal no more than a release of which one unit is
replaced, whatever else is drawn: two bounds, also where a unit goes and another is drawn for it.
Under zero-out the batch is the same on both sides, and moves by one bound.

**Bounded losses.**  An eps-DP release is a post-processing of binary randomized response, whose
trade-off function has one corner, at equal error rates 1/(1 + e^eps).  The convex curve of N(mu, 1)
lies below it where it does at that corner:

    mu = 2 Phi^-1(e^eps / (1 + e^eps)),   or   erf(mu / sqrt 8) = tanh(eps / 2).

**Groups.**  k records together have k mu, along any chain of data sets.

**By trade-off functions** (`accountant.risk`), where the largest loss alone leaves a gap: a release
and all of them together have the mu that lines below their trade-off function prove at every false
positive rate, and those that are attained need at least theirs.

**From below**, a delta that is attained at epsilon needs the mu with delta_mu(epsilon) as large.

An event with a delta of its own has no mu: at false positive rate 0 it may find somebody.

Source: Dong, Roth and Su 2022, arXiv 1905.02383v3: Definition 2.6, Corollary 2.13 (duality),
Corollary 3.3 (composition), Theorem 2.14 (groups); the corner and the tail are derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from scipy.special import erfinv, ndtri_exp

from .. import events as ev
from ..account import bounds_on_delta
from ..composition import Leaf, leaves
from ..engines.base import contribution, require_both_drawn
from ..engines.correlated_noise import matrix_shift
from ..engines.gdp import gaussian_delta
from ..engines.largest_losses import largest_losses
from ..errors import Unsupported
from ..guarantee import Bounds, Step
from ..neighbours import Neighbours, as_neighbours
from ..risk import risk
from ..rootfinding import bisect
from .renyi_curve import known_event

_FUNCTION_ERROR: Final = 1e-12
"""Relative error of the inverse functions below, more than any of them has."""

_MU_ROUNDING: Final = 4.0 * 2.0**-52
"""Relative error of a quotient, a root, a product and the root of a sum of squares together."""

_MAX_TRADE_OFFS: Final = 8
"""Most different releases whose trade-off functions are computed."""

_SOURCE: Final = (
    "Dong, Roth and Su 2022, Corollaries 2.13 and 3.3, arXiv 1905.02383v3; derived in "
    "accountant/curves/gaussian_dp.py"
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

    For Gaussian noise, with or without sampling (which gains nothing here), for correlated noise,
    for what has a largest loss, and for compositions of these.  Infinite for an event with a delta
    of its own.

    Raises `InvalidInput` for values out of range, `Unsupported` for other events.
    Source: Dong, Roth and Su 2022, arXiv 1905.02383v3; derived in accountant/curves/gaussian_dp.py.

    >>> round(gdp(ev.Repeat(4, ev.Gaussian(1.0))).mu.upper, 6)
    2.0
    >>> round(gdp(ev.Pure(1.0)).mu.upper, 4)
    1.232
    """
    relation = as_neighbours(neighbours)
    known = known_event(event)
    parts = leaves(known)
    mus = [_mu(leaf.event, relation) for leaf in parts]
    upper = _composed([(mu.upper, leaf.count) for mu, leaf in zip(mus, parts, strict=True)])
    upper = min(upper, _of_largest_losses(parts, relation)) * (1.0 + _MU_ROUNDING)
    if math.isinf(upper):
        warning = "It may reveal everything with a small probability, so no mu is finite."
        return GdpGuarantee(Bounds(0.0, upper), relation, (_step(upper),), (warning,))
    pairs = zip(mus, parts, strict=True)
    seen = [(mu.lower, leaf.count) for mu, leaf in pairs if leaf.fully_observed]
    lower = _composed(seen) * (1.0 - _MU_ROUNDING)
    step = _step(upper)
    alone = len(parts) == 1 and parts[0].count == 1 and not parts[0].by_lemma
    if alone and isinstance(parts[0].event, (ev.Pure, ev.Local)):
        lower = upper * (1.0 - 4.0 * _FUNCTION_ERROR)  # attained by binary randomized response
    if lower < upper * (1.0 - 1e-9) and len(parts) <= _MAX_TRADE_OFFS:
        whole = _by_trade_off(known, relation)
        each = [
            (min(mu.upper, _by_trade_off(leaf.event, relation).upper), leaf.count)
            for mu, leaf in zip(mus, parts, strict=True)
        ]
        closer = min(whole.upper, _composed(each) * (1.0 + _MU_ROUNDING))
        if closer < upper:
            upper, step = closer, _step(closer, f"{_SOURCE}; trade-off functions: accountant/risk")
        lower = max(lower, whole.lower)
    if lower < upper * (1.0 - 1e-9):
        lower = max(lower, _shown_by_deltas(known, relation, upper))
    return GdpGuarantee(Bounds(min(lower, upper), upper), relation, (step,))


def mu_of_pure(epsilon: float) -> float:
    """Return mu of binary randomized response with `epsilon` of 0 or above, to 1e-12 of it.

    >>> round(mu_of_pure(1.0), 6), mu_of_pure(0.0)
    (1.232035, 0.0)
    """
    if epsilon < 1.0:
        return math.sqrt(8.0) * float(erfinv(math.tanh(epsilon / 2.0)))
    # log 1/(1 + e^eps) does not underflow, and has an inverse of its own.
    return -2.0 * float(ndtri_exp(-(epsilon + math.log1p(math.exp(-epsilon)))))


def _mu(event: ev.Event, relation: Neighbours) -> Bounds:
    """Return bounds on mu of one release that all such releases together keep, squared and added.

    A lower end is 0 unless several releases attain theirs at once.
    """
    match event:
        case ev.Gaussian(noise):
            return Bounds.exactly(contribution(relation) / noise)
        case ev.MatrixGaussian():
            return matrix_shift(event, relation)
        case ev.Poisson(rate, ev.Gaussian(noise)) if rate > 0.0:
            return Bounds(1.0 / noise, contribution(relation) / noise)
        case ev.FixedSize(batch, population, ev.Gaussian(noise)):
            require_both_drawn(batch, population, relation)
            return Bounds(0.0, (1.0 if relation == "zero-out" else 2.0) / noise)
        case ev.Approximate(_, delta) if delta > 0.0:
            return Bounds(0.0, math.inf)
        case ev.NoGuarantee():
            return Bounds(0.0, math.inf)
        case ev.Group(size, (ev.Poisson(_, ev.Gaussian()) | ev.MatrixGaussian()) as inner):
            record = _mu(inner, relation)  # in the tail all records are in the sample
            return Bounds(size * record.lower, size * record.upper)
    losses = _largest_loss(event, relation)
    if losses is None or math.isinf(losses):
        raise Unsupported(
            f"No mu is known for `{event.type}`.",
            "It is known for Gaussian noise, with or without sampling, for correlated noise, and "
            "for what has a largest loss.",
            "Ask for delta by epsilon (privacy_profile), or for the Renyi curve (rdp).",
        )
    return Bounds(0.0, mu_of_pure(losses) * (1.0 + _FUNCTION_ERROR))


def _by_trade_off(event: ev.Event, relation: Neighbours) -> Bounds:
    """Return bounds on mu by the trade-off function of an event, none where none is known."""
    try:
        return risk(event, neighbours=relation).mu_everywhere
    except Unsupported:
        return Bounds(0.0, math.inf)


def _largest_loss(event: ev.Event, relation: Neighbours) -> float | None:
    try:
        return largest_losses(event, relation).worse.upper
    except Unsupported:
        return None


def _of_largest_losses(parts: Sequence[Leaf], relation: Neighbours) -> float:
    """Return mu of everything as one release with a largest loss; infinite where it has none."""
    losses = [(_largest_loss(leaf.event, relation), leaf.count) for leaf in parts]
    total = math.fsum(math.inf if loss is None else loss * count for loss, count in losses)
    if math.isinf(total):
        return math.inf
    return mu_of_pure(total * (1.0 + _MU_ROUNDING)) * (1.0 + _FUNCTION_ERROR)


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
