"""Dominating pairs of a release on a Poisson sample that is cut at random to at most B units.

Let N be how many of the other units join, before the cut.  It does not depend on the unit, so it
may be revealed: the hockey stick of an average is at most the average of hockey sticks.

* N < B: nothing is cut.  The pair is that of Poisson sampling at rate q.
* N >= B: without the unit the sample is a uniform set of B of the others, whatever N is.  With it,
  it joins and survives the cut with probability q B / (N + 1), and then B - 1 of the others
  stay.  So the pair is that of a sample of fixed size (fixed_size.py), drawn at the rate
  r = E[q B / (N + 1) | N >= B]; a drawn unit stands in for another one.

The pair draws between the two, with the probabilities of N < B and N >= B, and tells which.  With
n units in the larger data set N ~ Bin(n - 1, q), and r P(N >= B) = (B / n) P(Bin(n, q) > B).  The
lower end is that of others at 0, which hide N: Poisson sampling at rate q P(N < B) + r P(N >= B).

Source: derived here.  dp_accounting (which names arXiv 2508.15089) treats the same two cases, the
second by the replace-one pair under every relation.
"""

from __future__ import annotations

from dataclasses import replace

from ... import events as ev
from ...amplification.truncation import Cut
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from .fixed_size import INTEGER_SUMS, SHUFFLED, without_replacement
from .mechanisms import Dominated, pairs
from .piecewise import one_of


@pairs.register(ev.TruncatedPoisson)
def _truncated(event: ev.TruncatedPoisson, neighbours: Neighbours) -> Dominated:
    inner, rate = event.event, event.rate
    poisson = pairs(ev.Poisson(rate, inner) if rate < 1.0 else inner, neighbours)
    if rate == 0.0 or event.batch >= event.population:
        step = Step("sampling", "No sample is ever cut.", "by definition")
        return replace(poisson, steps=(*poisson.steps, step))
    if isinstance(inner, SHUFFLED):
        raise Unsupported(
            f"Truncated Poisson sampling of `{inner.type}` is not supported.",
            "How many messages hide one user then depends on how many others join.",
            "Draw the users by FixedSize, or by Poisson without a cut.",
        )
    cut = Cut.of(event.population, rate, event.batch)
    full = without_replacement(inner, cut.rate, neighbours)
    pair = one_of([(cut.spared, poisson.pair), (cut.full, full.pair)])
    attained = None
    if isinstance(inner, (ev.Gaussian, ev.Laplace, *INTEGER_SUMS)) and cut.overall > 0.0:
        attained = pairs(ev.Poisson(cut.overall, inner), neighbours).attained
    step = Step(
        "sampling",
        f"Cut to {event.batch:,} of {event.population:,} units: with probability {cut.full:.3g} "
        f"the sample is full without the unit, which then replaces another at rate "
        f"{cut.rate:.6g}; the two cases are told apart.",
        "derived in engines/pld/truncated.py",
        (
            f"the larger data set has {event.population:,} units",
            "the sample is cut uniformly, whatever the units hold, and is secret",
            "lower end: the others contribute nothing",
            f"neighbours: {neighbours}",
        ),
    )
    steps = (*poisson.steps, full.steps[-1], step)
    return Dominated(pair, attained, neighbours == "replace-one", steps)
