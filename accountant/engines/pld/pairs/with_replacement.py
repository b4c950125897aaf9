"""Dominating pairs of a release on B draws of n units, each uniform and put back.

A unit is drawn J ~ Bin(B, 1/n) times, w_j = P(J = j), and q = P(J >= 1).  Draw for each of the B
positions one of the other units, Y, and, by itself, whether the unit stands there instead.  Given
Y, let A be the release on Y, and P_j that with the unit at a uniform set of j positions; j
contributions differ.

**Add-remove** (n units against the same without one, B draws either way).  The outputs are
sum_j w_j P_j and A.  For a noisy sum P_j is within 2j bounds of A, so by the argument of groups.py
sum_j w_j noise(2j) against noise(0) dominates at every order, in both directions.  Others at -1 and
a unit at +1 attain it.  That is the pair of a group of B records under Poisson sampling at rate
1/n, each of which moves the sum by 2.  The smaller 1/(n+1) of n + 1 units against n is covered.

**Replace-one and zero-out.**  The outputs are sum_j w_j P_j and sum_j w_j P'_j, with P_0 = P'_0 = A
in both.  For Gaussian and Laplace noise occurrences.py bounds what tells them apart, order by
order. In general they are sum_{j>0} (w_j / q) of (1-q) A + q P_j and of (1-q) A + q P'_j, and
showing j raises no hockey stick above

    sum_{j>0} (w_j / q) H((1-q) A + q P_j || (1-q) A + q P'_j),

in which each term is a sample of fixed size at rate q in which j units are replaced
(fixed_size.py). Where n is 1, J is B.  The lower ends are those of fixed data sets: others at -1,
the old value at +1 and the new one at -1 (the pair under add-remove) or at 0; or others at 0 (the
group's pair).

The hockey stick of an average is at most the average of hockey sticks, so averages over Y do no
harm.  Where J has many values, neighbouring ones count as the largest among them, and values beyond
the last that matters count as a unit that is laid open.

Source: Balle, Barthe, Gaboardi 2018, Theorem 10, arXiv 1807.01647 (replace-one); the rest is
derived here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from .... import events as ev
from ....amplification.occurrences import OccurrenceCounts, presence
from ....composition import release_of_group
from ....errors import Unsupported
from ....guarantee import Neighbours, Step
from ...base import drawn_instead
from ..grid.noise import UNIT_ROUNDOFF, AdditiveNoise
from ..grid.pair import Pair, mixture_of_pairs, scaled_measures, two_sided
from .allocation import additive_noise
from .fixed_size import STATED_NUMBERS, without_replacement
from .occurrences import Occurrences
from .registry import MIN_SAMPLING_RATE, DominatedMechanism, pairs, single_pair

REACH_TAIL: Final = 1e-40
"""The tail down to which the losses of all parts together reach."""

NOISY: Final = (ev.Gaussian, ev.Laplace, ev.DiscreteGaussian, ev.DiscreteLaplace)


@pairs.register(ev.WithReplacement)
def _with_replacement(event: ev.WithReplacement, neighbours: Neighbours) -> DominatedMechanism:
    inner, batch, population = event.event, event.batch, event.population
    if not isinstance(inner, (*NOISY, *STATED_NUMBERS, ev.TruncatedDiscreteGaussian)):
        raise Unsupported(
            f"The pld engine cannot treat draws with replacement of `{inner.type}`.",
            "What several replaced units change is known for single releases only.",
            "Sample the innermost release, and write Repeat outside of it.",
            otherwise=drawn_instead(batch),
        )
    if population == 1:
        return _always_drawn(event, neighbours)
    if neighbours == "add-remove":
        return _present_or_absent(event)
    noise = additive_noise(inner)
    if noise is None:
        dominated = _replaced(event, neighbours)
        how = "at most sum_j>0 w_j/q of fixed-size samples at rate q with j units replaced"
    else:
        dominated = _told_apart(noise, batch, population, neighbours)
        how = "the bound of occurrences.py at every order"
    attained = _attained(event, neighbours)
    step = _step(
        event,
        f"{how}, q = {presence(batch, population):.6g}",
        neighbours,
        "lower end: others at -1 or at 0",
    )
    steps = (*pairs(inner, neighbours).steps, step)
    return DominatedMechanism.of(dominated, attained, False, steps)


def _always_drawn(event: ev.WithReplacement, neighbours: Neighbours) -> DominatedMechanism:
    if neighbours == "add-remove":
        raise Unsupported(
            f"{event.batch:,} draws cannot be made from a population of which the only unit is "
            "gone.",
            "Both data sets must hold a unit to draw.",
            "Ask under replace-one or zero-out.",
        )
    grouped = release_of_group(event.batch, event.event)
    released = pairs(grouped, neighbours)
    return replace(released, steps=(*released.steps, _step(event, "all are the unit", neighbours)))


def _present_or_absent(event: ev.WithReplacement) -> DominatedMechanism:
    twice = release_of_group(2, event.event)
    how = "each draw of the unit stands in for another one: two steps of the release"
    if isinstance(event.event, NOISY):
        sampled = release_of_group(event.batch, ev.Poisson(1.0 / event.population, twice))
        drawn = pairs(sampled, "add-remove")
        met = "attained by others at -1 and a unit at +1"
    else:
        drawn = DominatedMechanism.of(_replaced(event, "add-remove"), [], False, ())
        met = "no lower end is known"
    return replace(drawn, steps=(_step(event, how, "add-remove", met),))


def _attained(event: ev.WithReplacement, neighbours: Neighbours) -> tuple[Pair | None, Pair | None]:
    """Return the pairs of others at -1, and of others at 0."""
    if not isinstance(event.event, NOISY):
        return None, None
    rate = 1.0 / event.population
    hidden = pairs(_drawn_group(event.batch, rate, event.event), neighbours).lower_pair
    if neighbours == "zero-out":
        noise = additive_noise(event.event)
        counts = OccurrenceCounts.of(event.batch, event.population)
        if noise is None or not counts.exact:
            return hidden, None
        return Occurrences.of(counts, 2.0, 1.0, noise).attained(), hidden
    twice = release_of_group(2, event.event)
    return pairs(_drawn_group(event.batch, rate, twice), "add-remove").lower_pair, hidden


def _drawn_group(batch: int, rate: float, inner: ev.Event) -> ev.Event:
    return release_of_group(batch, ev.Poisson(rate, inner))


def _replaced(event: ev.WithReplacement, neighbours: Neighbours) -> Pair:
    """Return the mixture of samples of fixed size in which the number of draws is seen."""
    drawn = presence(event.batch, event.population)
    if drawn < MIN_SAMPLING_RATE:
        return pairs(ev.Approximate(0.0, drawn), neighbours).pair
    rate = min(drawn * (1.0 + 4.0 * UNIT_ROUNDOFF), 1.0)
    counts = OccurrenceCounts.of(event.batch, event.population)
    parts: list[Pair] = []
    for number in counts.numbers.tolist():
        grouped = release_of_group(int(number), event.event)
        parts.append(single_pair(without_replacement(grouped, rate, neighbours)))
    shares = np.minimum(counts.weights / drawn, 1.0)
    weighted = list(zip(shares.tolist(), _as_far_as_all(parts), strict=True))
    if counts.tail > 0.0:
        weighted.append((counts.tail, _laid_open(neighbours)))
    return mixture_of_pairs(weighted)


def _told_apart(noise: AdditiveNoise, batch: int, population: int, neighbours: Neighbours) -> Pair:
    """Return the pair of the bounds of occurrences.py, orders below 1 by exchanging data sets."""
    drawn = presence(batch, population)
    if drawn < MIN_SAMPLING_RATE:
        return pairs(ev.Approximate(0.0, drawn), neighbours).pair
    counts = OccurrenceCounts.of(batch, population)
    kept = 0.0 if neighbours == "replace-one" else 1.0
    positive = Occurrences.of(counts, 2.0, kept, noise).pair()
    negative = positive
    if neighbours == "zero-out":
        negative = Occurrences.of(counts, 1.0, 0.0, noise).pair()
    pair = two_sided(negative.reverse(), positive)
    if counts.tail == 0.0:
        return pair
    return mixture_of_pairs([(1.0, pair), (counts.tail, _laid_open(neighbours))])


def _laid_open(neighbours: Neighbours) -> Pair:
    return pairs(ev.NoGuarantee("a unit that is drawn very often"), neighbours).pair


def _as_far_as_all(parts: list[Pair]) -> list[Pair]:
    """Return the pairs with the errors that they have as far as the losses of all of them reach.

    Rounding grows with the position of the release: for Gaussian noise of scale s, in shifts, a
    loss L lies within s (|L| + |log q|) standard deviations, and a mass there errs by that squared.
    """
    ranges = [part.loss_range(REACH_TAIL) for part in parts]
    reach = max(max(abs(low), abs(high)) for low, high in ranges)
    widened = []
    for part, (low, high) in zip(parts, ranges, strict=True):
        if part.continuous is None:
            widened.append(part)
            continue
        # Errors grow at most with the square of the loss.
        ratio = (1.0 + reach) / (1.0 + max(abs(low), abs(high)))
        error = ratio**2 * (part.mass_error(REACH_TAIL) + part.edge_error(REACH_TAIL))
        widened.append(scaled_measures(part, 1.0, 1.0, error))
    return widened


def _step(event: ev.WithReplacement, how: str, neighbours: Neighbours, *conditions: str) -> Step:
    return Step(
        "sampling",
        f"{event.batch:,} draws of {event.population:,} units, with replacement: {how}.",
        "Balle, Barthe, Gaboardi 2018, Theorem 10, arXiv 1807.01647; derived in "
        "engines/pld/pairs/with_replacement.py",
        (
            "the draws are fresh, uniform and secret, and their number known",
            "a unit that is drawn j times contributes j times",
            *conditions,
            f"neighbours: {neighbours}",
        ),
    )
