"""Dominating pairs of a release on a Poisson sample that is cut at random to at most B units.

Let N ~ Bin(n - 1, q) be how many of the other units join, before the cut, p_k = P(N = k), and F_k
the release averaged over the uniform sets of k others.  Write u + F_k for the same with the unit
among them, whatever it holds.  Let f be the probability that N >= B, and that the unit joins and
survives the cut: then B - 1 of the others stay.  Under add-remove the outputs are

    P = sum_{k<B} p_k ((1-q) F_k + q (u + F_k)) + (P(N >= B) - f) F_B + f (u + F_{B-1}),
    Q = sum_{k<B} p_k F_k + P(N >= B) F_B.

The hockey stick of a sum of measures is at most the sum of theirs, however both sums are cut into
parts.  u + F_{B-1} is near two parts of Q: one unit more than F_{B-1}, and, since a uniform set of
B others is one of B - 1 and one more, another unit in one's place with F_B.  So f is shared, f1
to the first and f2 to the second:

    k < B - 1   p_k ((1-q) F_k + q (u + F_k))                          against  p_k F_k
    k = B - 1   p (1-q) F_{B-1} + (p q + f1) (u + F_{B-1})             against  p F_{B-1}
    N >= B      (P(N >= B) - f) F_B + f2 (u + F_{B-1})                 against  P(N >= B) F_B

where p = p_{B-1}.  The first two are Poisson sampling, the second at the rate (p q + f1) / (p + f1)
and with P and Q of different mass; the third is a sample of fixed size (fixed_size.py) at the rate
f2 / (P(N >= B) - f1), likewise.  Given the others all of these pairs dominate at every order, in
both directions.  Under zero-out and replace-one Q has the unit with its other value wherever P has
it, so P and Q have the same masses: those of P above.

Any shares are sound.  With f1 = 0 it would be told apart whether the sample is full, and that is
far from tight where it seldom is: N spreads over many numbers, and the one unit by which F_{B-1}
and F_B differ is hidden in noise.  The shares are such that both parts lose about the same.

The lower end is that of others at 0, which hide N: Poisson sampling at the rate q P(N < B) + f;
or, where it shows more, that of others who are all at one point, as below.  At q = 1 the sample
is full with the unit and without it, and the lower end is that of a sample of fixed size.

Source: derived here.  dp_accounting (which names arXiv 2508.15089) tells full samples apart, and
treats them by the replace-one pair under every relation.

Lower-bound pairs for truncated samples: all other units at one point.

All other units contribute the same vector v of norm 1.  Seen along v, the sum of the others tells,
through the noise, how many of them are in the sample; the unit contributes a, or nothing, or b.
In the terms from above, on the plane of v and a,

    P = sum_{k<B} p_k ((1-q) N(k v) + q N(k v + a)) + (P(N >= B) - f) N(B v) + f N((B-1) v + a),

and Q likewise with b, or with k v and B v where P has the unit.  Under add-remove a unit at -v is
two bounds from the one that it replaces in a full sample, but hidden by the spread of N in all
others; a unit across v is not hidden there, and in a full sample the root of two from the one that
it replaces.  So a = -c v + s w, w across v, is tried for some c, and under replace-one b = -a:
which c shows most depends on delta and on the number of rounds.  Under Laplace noise norms are sums
of absolute values, and s = 1 - c.  In searches over data sets of few units, each other unit at a
point of its own, none showed more than that.

What falls into cells of the plane is a post-processing of the release: every design is attained,
and any choice among them is sound.  Cells of nearly the same loss are merged.

Source: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from .... import events as ev
from ....amplification.truncation import Cut, JoinDistribution
from ....arrays import FloatArray
from ....composition import release_of_group
from ....errors import Unsupported
from ....guarantee import Neighbours, Step
from ...base import cut_instead
from ..grid.noise import UNIT_ROUNDOFF, AdditiveNoise, GaussianNoise
from ..grid.pair import Pair, mixture_of_pairs, scaled_measures
from ..grid.pair_parts import AtomPair
from .allocation import additive_noise
from .fixed_size import INTEGER_SUMS, SHUFFLED, STATED_NUMBERS, without_replacement
from .registry import MIN_SAMPLING_RATE, DominatedMechanism, pairs, single_pair

UNIT_OFFSETS: Final = (0.0, 0.2, 0.4, 0.7, 1.0)
"""How far along -v the unit lies."""

CELLS_PER_BOUND: Final = 8.0
"""How many cells a bound, or a standard deviation if that is less, is cut into."""

MAX_PLANE_CELLS: Final = 26_000
"""Most cells along v."""

PLANE_TAIL_MASS: Final = 1e-32
"""Mass that may lie beyond the outermost cells, and in numbers that are left out."""

MIN_CELL_MASS: Final = 1e-20
"""Cells with less mass are dropped."""

MERGED_LOSS_SHARE: Final = 0.03
"""Losses this close, as a share of their usual size, are taken together."""


@dataclass(frozen=True, eq=False)
class _Plane:
    """Noise in cells along v and across it, and how many others there are.

    A bound is cut into `cells_per_bound` cells along v; `masses` are the likely ones of N up to B -
    1.
    """

    noise: AdditiveNoise
    cells_per_bound: int
    masses: FloatArray
    joining: JoinDistribution
    rate: float

    def along(self, weights: FloatArray, shift: float) -> FloatArray:
        """Return the masses of the cells along v; `weights` are those of successive numbers."""
        # The sum of others is a whole number of bounds, each `cells_per_bound` cells; then the
        # noise is added.
        spread = np.zeros((weights.size - 1) * self.cells_per_bound + 1)
        spread[:: self.cells_per_bound] = weights
        reach = math.ceil((self.noise.radius(PLANE_TAIL_MASS) + 1.0) * self.cells_per_bound)
        edges = np.arange(-reach, reach + 1) / self.cells_per_bound
        edges[0], edges[-1] = -math.inf, math.inf
        return np.convolve(spread, np.exp(self.noise.log_interval_masses(edges - shift)))

    def across(self, shift: float) -> FloatArray:
        """Return the masses of the cells across v."""
        reach = self.noise.radius(PLANE_TAIL_MASS)
        width = self.noise.scale / CELLS_PER_BOUND
        edges = np.arange(-reach - 1.0 - width, reach + 1.0 + width, width)
        edges[0], edges[-1] = -math.inf, math.inf
        return np.exp(self.noise.log_interval_masses(edges - shift))

    def pair(self, unit: tuple[float, float], other: tuple[float, float] | None) -> Pair | None:
        """Return the pair of a unit at `unit` against `other` (along v, across), or absent."""
        joining, rate = self.joining, self.rate
        # Weights of 0, ..., B - 1 others and of a full sample: in all, without the unit, with it.
        # With a unit in a full sample B - 1 others stay.
        all_counts = np.append(self.masses, joining.full)
        outside = np.append(self.masses * (1.0 - rate), joining.full - joining.joined)
        inside = np.append(self.masses * rate, 0.0)
        inside[-2] += joining.joined
        across_zero = self.across(0.0)
        rest = np.outer(self.along(outside, 0.0), across_zero)
        p = rest + np.outer(self.along(inside, unit[0]), self.across(unit[1]))
        if other is None:
            q = np.outer(self.along(all_counts, 0.0), across_zero)
        else:
            q = rest + np.outer(self.along(inside, other[0]), self.across(other[1]))
        # The relative error of a cell: of the weights, of the sums, of the noise, of what is cut
        # off.
        full_error = joining.error * (1.0 + joining.full / (joining.full - joining.joined))
        terms = UNIT_ROUNDOFF * (8.0 * all_counts.size + 64.0)
        reach = self.noise.radius(PLANE_TAIL_MASS) + 3.0
        error = (
            2.0 * full_error
            + terms
            + 4.0 * self.noise.mass_error(reach)
            + PLANE_TAIL_MASS / MIN_CELL_MASS
        )
        return _merged(p.ravel(), q.ravel(), error)


def attained_plane_pairs(
    noise: AdditiveNoise,
    population: int,
    rate: float,
    batch: int,
    neighbours: Neighbours,
) -> list[Pair]:
    """Return the attained pairs of all designs, none where there are too many cells.

    `rate` is in (0, 1) and `batch` below `population`.
    """
    plane = _plane(noise, population, rate, batch)
    if plane is None:
        return []
    candidates: list[Pair | None] = []
    for c in UNIT_OFFSETS:
        s = math.sqrt(1.0 - c * c) if isinstance(noise, GaussianNoise) else 1.0 - c
        s = max(s - 1e-12, 0.0)  # so that the norm is at most 1
        candidates.append(plane.pair((-c, s), _other(neighbours, c, s)))
    return [pair for pair in candidates if pair is not None]


def _other(neighbours: Neighbours, c: float, s: float) -> tuple[float, float] | None:
    """Return where the unit is under Q: absent, at 0, or opposite to where it is under P."""
    if neighbours == "add-remove":
        return None
    return (0.0, 0.0) if neighbours == "zero-out" else (c, -s)


def _plane(noise: AdditiveNoise, population: int, rate: float, batch: int) -> _Plane | None:
    joining = JoinDistribution.of(population, rate, batch)
    if joining is None or not joining.full > joining.joined > 0.0:
        return None
    likely = np.cumsum(joining.masses) > PLANE_TAIL_MASS
    likely_masses = joining.masses[likely] if likely.any() else np.zeros(1)
    cells_per_bound = math.ceil(CELLS_PER_BOUND / min(noise.scale, 1.0))
    cells = (likely_masses.size + 2.0 * noise.radius(PLANE_TAIL_MASS)) * cells_per_bound
    if (
        cells > MAX_PLANE_CELLS
        or 2.0 * noise.radius(PLANE_TAIL_MASS) * CELLS_PER_BOUND / noise.scale > MAX_PLANE_CELLS
    ):
        return None
    return _Plane(noise, cells_per_bound, likely_masses, joining, rate)


def _merged(p: FloatArray, q: FloatArray, error: float) -> Pair | None:
    heavy = (p > MIN_CELL_MASS) & (q > MIN_CELL_MASS)
    p, q = p[heavy], q[heavy]
    if p.size == 0:
        return None
    losses = np.log(p / q)
    # Cells whose losses fall into one bin are one outcome: a post-processing, so still attained.
    width = MERGED_LOSS_SHARE * math.sqrt(float((p * losses**2).sum())) + 1e-12
    bins = np.round(losses / width).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    starts = np.unique(bins[order], return_index=True)[1]
    log_p, log_q = (np.log(np.add.reduceat(each[order], starts)) for each in (p, q))
    error += UNIT_ROUNDOFF * (p.size + 64.0)
    return Pair.of_outcomes(AtomPair(log_p, log_q, has_heavy_atoms=False, rounding=2.0 * error))


SHARING_TAIL: Final = 1e-2
"""Where in the tail of the release the two parts should lose the same."""

MAX_EDGE_GROWTH: Final = 1e3
"""Most that the part of N = B - 1 may grow; beyond, rounding would matter."""

MAX_WEIGHT_ERROR: Final = 1e-8
"""Probabilities with a larger relative error are not weighed against each other."""

_KNOWN: Final = (ev.Gaussian, ev.Laplace, *INTEGER_SUMS, *STATED_NUMBERS, *SHUFFLED)


@pairs.register(ev.TruncatedPoisson)
def _truncated(event: ev.TruncatedPoisson, neighbours: Neighbours) -> DominatedMechanism:
    inner, rate = event.event, event.rate
    is_cut = rate > 0.0 and event.batch < event.population
    if is_cut and not isinstance(inner, _KNOWN):
        raise Unsupported(
            f"The pld engine cannot treat truncated Poisson sampling of `{inner.type}`.",
            "What a replaced unit changes is known for single releases only.",
            "Leave the choice of the engine to privplan.",
            otherwise=cut_instead(inner),
        )
    poisson = pairs(ev.Poisson(rate, inner) if rate < 1.0 else inner, neighbours)
    if not is_cut:
        step = Step("sampling", "No sample is ever cut.", "by definition")
        return replace(poisson, steps=(*poisson.steps, step))
    if isinstance(inner, SHUFFLED):
        raise Unsupported(
            f"Truncated Poisson sampling of `{inner.type}` is not supported.",
            "How many messages hide one user then depends on how many others join.",
            "Draw the users by FixedSize, or by Poisson without a cut.",
        )
    cut = Cut.of(event.population, rate, event.batch)
    sampled = _split_full_samples(inner, rate, cut, neighbours) or _distinguished(
        poisson, inner, cut, neighbours
    )
    lower_pair, plane_pairs = _lower_pairs(event, cut, neighbours)
    cutting = replace(
        sampled.steps[-1],
        statement=f"Cut to {event.batch:,} of {event.population:,} units: {cut.full:.3g} is the "
        f"probability that the sample is full without the unit. {sampled.steps[-1].statement}",
        conditions=(
            f"the larger data set has {event.population:,} units",
            "the sample is cut uniformly, whatever the units hold, and is secret",
            "lower end: the others contribute nothing, or are all at one point (truncated.py)",
            f"neighbours: {neighbours}",
        ),
    )
    steps = (*poisson.steps, *sampled.steps[:-1], cutting)
    symmetric = neighbours == "replace-one"
    return DominatedMechanism.of(sampled.pair, [lower_pair, *plane_pairs], symmetric, steps)


@lru_cache(maxsize=32)
def _lower_pairs(
    event: ev.TruncatedPoisson, cut: Cut, neighbours: Neighbours
) -> tuple[Pair | None, tuple[Pair, ...]]:
    """Return the lower-bound pairs with others at 0, and with all others at one point or another.

    Which of them shows more depends on delta, and on how often the event is repeated.
    """
    inner = event.event
    if not (isinstance(inner, (ev.Gaussian, ev.Laplace, *INTEGER_SUMS)) and cut.overall > 0.0):
        return None, ()
    if event.rate == 1.0:
        # The sample is full with the unit and without it: one of a fixed size.
        share = event.batch / event.population
        return without_replacement(inner, share, neighbours).lower_pair, ()
    hidden = pairs(ev.Poisson(cut.overall, inner), neighbours).lower_pair
    noise = additive_noise(inner)
    if hidden is None or noise is None or not MIN_SAMPLING_RATE <= event.rate < 1.0:
        return hidden, ()
    plane_pairs = attained_plane_pairs(noise, event.population, event.rate, event.batch, neighbours)
    if neighbours == "replace-one":  # the unit may be exchanged either way
        plane_pairs = [each for pair in plane_pairs for each in (pair, pair.reverse())]
    return hidden, tuple(plane_pairs)


def _distinguished(
    poisson: DominatedMechanism, inner: ev.Event, cut: Cut, neighbours: Neighbours
) -> DominatedMechanism:
    """Return the pair in which it is visible whether the sample is full without the unit."""
    full = without_replacement(inner, cut.rate, neighbours)
    pair = mixture_of_pairs([(cut.spared, single_pair(poisson)), (cut.full, single_pair(full))])
    step = _step(f"Then it replaces another at rate {cut.rate:.6g}; the two cases are told apart.")
    return DominatedMechanism.of(pair, [], False, (full.steps[-1], step))


def _split_full_samples(
    inner: ev.Event, rate: float, cut: Cut, neighbours: Neighbours
) -> DominatedMechanism | None:
    """Return the pair in which the unit in a full sample is shared, None where it cannot be."""
    edge_joined = cut.joined * _edge_share(inner, cut)
    if not (MIN_SAMPLING_RATE <= rate < 1.0 and edge_joined > 0.0):
        return None
    # The parts N < B - 1, N = B - 1 and N >= B of the table above, with f1 = `edge_joined`.
    edge, full = cut.edge + edge_joined, cut.full - edge_joined
    edge_rate = (cut.edge * rate + edge_joined) / edge
    full_rate = (cut.joined - edge_joined) / full
    min_rest = 1.0 - max(edge_rate, full_rate, rate)
    error = 8.0 * (cut.error + UNIT_ROUNDOFF)
    if not (error <= MAX_WEIGHT_ERROR * min_rest and full_rate >= MIN_SAMPLING_RATE):
        return None
    error /= min_rest
    at_full = without_replacement(inner, full_rate, neighbours)
    below_pair, edge_pair, full_pair = (
        single_pair(pairs(ev.Poisson(rate, inner), neighbours)),
        single_pair(pairs(ev.Poisson(edge_rate, inner), neighbours)),
        single_pair(at_full),
    )
    add_remove = neighbours == "add-remove"
    pair = mixture_of_pairs(
        [
            (cut.below, below_pair),
            (1.0, scaled_measures(edge_pair, edge, cut.edge if add_remove else edge, error)),
            (1.0, scaled_measures(full_pair, full, cut.full if add_remove else full, error)),
        ]
    )
    step = _step(
        f"Then it counts as one unit more than {edge_rate:.3g} of the samples that lack one, and "
        f"as one in another's place in {full_rate:.3g} of the full ones."
    )
    return DominatedMechanism.of(pair, [], False, (at_full.steps[-1], step))


def _edge_share(inner: ev.Event, cut: Cut) -> float:
    """Return how much of f is set against the samples that lack one unit, from 0 to 1.

    With x the loss of the release in its tail, and y that of two steps of it, the two parts lose
    about log(f1 / p) + x and log(f2 / P(N >= B)) + y.  Nothing rests on it.
    """
    if cut.edge == 0.0 or cut.joined == 0.0:
        return 0.0
    doubled = release_of_group(2, inner)
    single_loss, double_loss = (
        pairs(event, "add-remove").pair.loss_range(SHARING_TAIL)[1] for event in (inner, doubled)
    )
    # f1 / f such that both parts lose the same; a logistic function of the difference.
    log_odds = math.log(cut.edge) - math.log(cut.full) + double_loss - single_loss
    share = 1.0 / (1.0 + math.exp(min(max(-log_odds, -20.0), 300.0)))
    return min(share, MAX_EDGE_GROWTH * cut.edge / cut.joined)


def _step(statement: str) -> Step:
    return Step("sampling", statement, "derived in engines/pld/pairs/truncated.py")
