"""Renyi curves of draws with replacement, and of releases inside of a sampled client.

**Draws with replacement**, w_j the probability that the unit is drawn j times, q that of j > 0.
Under add-remove the pair of a noisy sum is that of a group of B records under Poisson sampling at
rate 1/n, each of which moves the sum by 2.  Otherwise the outputs are mixtures, with weights w_j/q,
of samples of fixed size at rate q in which j > 0 units are replaced, and joint convexity gives

    e^((a-1) R(a)) <= sum_{j>0} (w_j/q) e^((a-1) R_j(a)).

Both are derived in engines/pld/pairs/with_replacement.py.  Several releases on the same draws are
one, whose group curves are the sums of theirs (joint.py).

**A sampled client.**  (1-q) nothing + q P against (1-q) nothing + q Q have, whatever is composed in
one round, e^((a-1) R(a)) = 1 - q + q e^((a-1) R_inner(a)) and the same largest loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ... import events as ev
from ...amplification.occurrences import OccurrenceCounts, presence
from ...arrays import FloatArray
from ...composition import Composition
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import drawn_instead
from .curves import NOTHING, Curve, curve, set_aside
from .fixed_size import UNSAMPLED, named, without_replacement
from .joint import joint
from .moments import RENYI_OUTWARD_FACTOR

_NOISY = (ev.Gaussian, ev.Laplace, ev.DiscreteGaussian, ev.DiscreteLaplace)


@curve.register(ev.WithReplacement)
def with_replacement(event: ev.WithReplacement, neighbours: Neighbours) -> Curve:
    """The curve of a release on draws with replacement, for any of the three relations.

    Raises `Unsupported` where a fixed-size sample of the release has no curve, and under
    add-remove for a population of 1.
    """
    if event.population == 1:
        if neighbours == "add-remove":
            raise Unsupported(
                f"{event.batch:,} draws cannot be made from a population of which the only unit "
                "is gone.",
                "Both data sets must hold a unit to draw.",
                "Ask under replace-one or zero-out.",
            )
        return joint(ev.Group(event.batch, event.event), neighbours)
    _require_unsampled(event, neighbours)
    if neighbours == "add-remove" and isinstance(event.event, ev.Gaussian):
        return _moved_twice(event, event.event)
    if neighbours == "add-remove" and isinstance(event.event, _NOISY):
        twice = Composition.of(ev.Group(2, event.event)).single
        assert twice is not None  # a noisy sum scales
        group = ev.Group(event.batch, ev.Poisson(1.0 / event.population, twice))
        drawn = joint(group, "add-remove")
        return Curve(drawn.at, drawn.limit, (*drawn.steps, _step(event)), drawn.slack)
    return _seen_numbers(event, neighbours)


def _moved_twice(event: ev.WithReplacement, inner: ev.Gaussian) -> Curve:
    """Return the curve of a Gaussian under add-remove, outside of numbers that are not listed."""
    counts = OccurrenceCounts.of(event.batch, event.population)
    amounts = (0.0, *(2.0 * counts.numbers).tolist())
    # Grouped upward, and what is not listed is set aside.
    shares = [counts.absent, *counts.weights.tolist()]
    whole = math.fsum(shares)
    mixture = ev.GaussianMixture(
        inner.noise_multiplier, amounts, tuple(share / whole for share in shares)
    )
    drawn = curve(mixture, "add-remove")
    return Curve(drawn.at, drawn.limit, (*drawn.steps, _step(event)), counts.tail)


def _seen_numbers(event: ev.WithReplacement, neighbours: Neighbours) -> Curve:
    counts = OccurrenceCounts.of(event.batch, event.population)
    drawn = presence(event.batch, event.population)
    rate = min(drawn * (1.0 + 1e-15), 1.0)
    # All that is released on one batch, with so many copies of the unit in it.
    parts = [_of_sample(event, int(number), rate, neighbours) for number in counts.numbers.tolist()]
    if any(part.slack > 0.0 for part in parts):
        raise Unsupported(
            f"The rdp engine cannot account for draws with replacement of {named(event.event)}.",
            "It has a delta of its own.",
            "Leave the choice of the engine to privplan.",
        )
    at = _mixed([part.at for part in parts], counts.weights / drawn)
    # What is not listed is an event of its own.
    limit = max(part.limit for part in parts)
    steps = (*parts[0].steps[:-1], _step(event))
    return Curve(at, limit, steps, counts.tail)


def _require_unsampled(event: ev.WithReplacement, neighbours: Neighbours) -> None:
    known = UNSAMPLED - {ev.ZCDP} if neighbours == "add-remove" else UNSAMPLED
    if any(type(leaf.event) not in known for leaf in Composition.of(event.event)):
        raise _refused(event, neighbours)


def _of_sample(
    event: ev.WithReplacement, number: int, rate: float, neighbours: Neighbours
) -> Curve:
    """Return the curve of a sample of fixed size in which so many units are replaced."""
    try:
        return without_replacement(ev.Group(number, event.event), rate, neighbours)
    except Unsupported:
        raise _refused(event, neighbours) from None


def _refused(event: ev.WithReplacement, neighbours: Neighbours) -> Unsupported:
    otherwise = drawn_instead(event.batch)
    if isinstance(event.event, ev.GaussianMixture):
        otherwise = (
            "Put `gaussian` in its place, with the noise over the largest contribution: no "
            "mixture of smaller ones reveals more."
        )
    return Unsupported(
        f"The rdp engine cannot account for draws with replacement of {named(event.event)} under "
        f"{neighbours}.",
        "What a unit that is drawn several times costs is known here for releases with a Renyi "
        "curve at every order.",
        "Leave the choice of the engine to privplan.",
        otherwise=otherwise,
    )


def _mixed(
    curves: list[Callable[[FloatArray], FloatArray]], weights: FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Return the curve of a mixture whose component is seen; the weights may exceed 1 together."""
    log_weights = np.log(weights)

    def at(orders: FloatArray) -> FloatArray:
        beta = orders - 1.0
        parts = zip(log_weights, curves, strict=True)
        logs = np.array([log + beta * each(orders) for log, each in parts])
        moments = np.maximum(np.logaddexp.reduce(logs, axis=0), 0.0)
        return np.asarray(moments / beta * RENYI_OUTWARD_FACTOR)

    return at


def _step(event: ev.WithReplacement) -> Step:
    return Step(
        "sampling",
        f"{event.batch:,} draws of {event.population:,} units, with replacement.",
        "Balle, Barthe and Gaboardi 2018, Theorem 10, arXiv 1807.01647v2; derived in "
        "engines/pld/pairs/with_replacement.py",
        ("a unit that is drawn j times contributes j times",),
    )


@curve.register(ev.ClientSampled)
def client_sampled(event: ev.ClientSampled, neighbours: Neighbours) -> Curve:
    """The curve of all that one client releases in one round, seen with probability q.

    What the inner releases set aside is set aside with probability q.
    """
    rate, parts = event.clients_rate, Composition.of(event.event)
    inner = [(curve(leaf.event, neighbours), leaf.count) for leaf in parts]
    if rate == 0.0 or not inner:
        return NOTHING

    def at(orders: FloatArray) -> FloatArray:
        beta = orders - 1.0
        total = np.zeros_like(orders)
        for part, count in inner:
            if part.limit > 0.0:
                total += count * part.at(orders)
        grown = beta * total
        # log(1 + q (e^g - 1)), and log q + g where that is all that counts.
        near = np.log1p(rate * np.expm1(np.minimum(grown, 30.0)))
        far = np.logaddexp(math.log1p(-rate) if rate < 1.0 else -math.inf, math.log(rate) + grown)
        return np.asarray(np.where(grown < 30.0, near, far) / beta * RENYI_OUTWARD_FACTOR)

    def lower(orders: FloatArray) -> FloatArray:
        beta = orders - 1.0
        # Below what is at least attained: 0 where a part has no lower end.
        grown = np.zeros_like(orders)
        for (part, count), leaf in zip(inner, parts, strict=True):
            if part.lower is not None and leaf.fully_observed and not leaf.by_lemma:
                grown += count * part.lower(orders)
        grown = beta * grown
        near = np.log1p(rate * np.expm1(np.minimum(grown, 30.0)))
        # The moment is at least q e^g, and grows with g.
        far = math.log(rate) + grown - 1e-13 * grown
        moments = np.where(grown < 30.0, near, np.maximum(near, far)) * (1.0 - 1e-13)
        return np.asarray(np.maximum(moments / beta * (2.0 - RENYI_OUTWARD_FACTOR), 0.0))

    limit = math.fsum(count * part.limit for part, count in inner if part.limit > 0.0)
    slack = math.fsum(count * part.slack for part, count in inner if part.slack > 0.0)
    slack = set_aside(rate * slack * (1.0 + 1e-15)) if slack > 0.0 else 0.0
    step = Step(
        "sampling",
        f"The client takes part with probability {rate:.6g}, and may be seen to.",
        "by definition of a mixture whose component is seen",
        ("all releases of one round hang on the same draw",),
    )
    steps = (*(each for part, _ in inner for each in part.steps), step)
    known = slack == 0.0 and any(part.lower is not None for part, _ in inner)
    return Curve(at, limit * (1.0 + 1e-15), steps, slack, lower if known else None)
