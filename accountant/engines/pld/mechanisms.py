"""The dominating pair of each event: one function per type, and nothing else.

Under `add-remove` and `zero-out` the pair is (with the unit, without it): a sum moves by one
contribution bound.  Under `replace-one` the unit contributes +1 bound in one data set and -1 in
the other.  An event that only carries a bare epsilon names a class of mechanisms: its pair
dominates them all, but nobody knows that a given one attains it, so it gives no lower bound.

Two facts that the literature leaves open are used, and proven here.

Vectors under Laplace noise.  Contributions of L1 norm at most 1 move several coordinates by
s_1, s_2, ...; one coordinate that moves by s = s_1 + s_2 dominates two.  Let C be the position
clamped to [0, s], which carries all that one coordinate says, and S = C_1 + C_2 that of two; both
likelihood ratios are e^(2 . / b - s / b).  Without the unit, P(C = 0) = 1/2 and P(S = 0) = 1/4;
inside (0, s) S has at least C's density, for every way of splitting s, and atoms besides; at s it
has less.  So the distribution functions cross once, and with equal means of the ratio that is the
convex order.  More coordinates follow one by one, since domination survives products.

Poisson sampling under replace-one.  Write B, M and M' for the release without the unit, with its
old and with its new value; the data sets give P = (1-q) B + q M and Q = (1-q) B + q M'.  For any
test with B-mass beta, M's mass is at most, and M''s at least, what the best test between B and a
shift by one full bound attains at beta.  Both are attained at once by the half line {x >= c} when
the values are +1 and -1 bound, so that pair is the worst at every order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ... import events as ev
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import Registry, contribution, sampled_instead
from .atoms import AtomPair
from .links import Link, OppositeGaussians, OppositeLaplaces, SampledShift
from .mixtures import MixturePair
from .noise import Array, GaussianNoise, LaplaceNoise
from .pair import Pair

LEAST_NOISE = 1e-30
"""Smallest noise multiplier, and inverse of the largest, whose squares are still numbers."""

LEAST_RATE = 1e-100
"""Below this sampling rate a unit that is drawn counts as laid open: the difference is nothing."""

LARGEST_SUPPORT = 4_000_000
"""Most outcomes of a discrete mechanism that are listed one by one."""


@dataclass(frozen=True)
class Dominated:
    """A mechanism as this engine sees it.

    `pair` dominates it in the direction (with, without); `attained`, where there is one, is the
    pair of a fixed pair of data sets.  When `symmetric`, the other direction is the same.  The
    mechanism is dominated by `power` independent copies of `pair`, and attains as many of
    `attained`, or `attained_power` of them where that is given.  `fitted(delta)`, where there is
    one, is the same mechanism seen as fits a question about this delta: its pair, power and first
    step take the place of those here.  `attained_too` is the pair of other fixed data sets, which
    may show more or less than `attained`, by how often the mechanism runs.
    """

    pair: Pair
    attained: Pair | None
    symmetric: bool
    steps: tuple[Step, ...]
    power: int = 1
    attained_power: int | None = None
    fitted: Callable[[float], Dominated] | None = None
    attained_too: Pair | None = None


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A discrete mechanism: log probabilities of its outcomes with the unit's value at 0, +1, -1.

    0 stands for an absent unit or a zero contribution.
    """

    absent: Array
    plus: Array
    minus: Array | None = None

    def pair(self, rate: float, neighbours: Neighbours, unseen: float = 0.0) -> Pair:
        """Return the pair under Poisson sampling at `rate`."""
        if neighbours == "replace-one":
            if self.minus is None:
                raise AssertionError("an event with a bare epsilon is never sampled here")
            other = blend(rate, self.absent, self.minus)
        else:
            other = self.absent
        return Pair.of_outcomes(AtomPair(blend(rate, self.absent, self.plus), other, unseen))


def blend(rate: float, absent: Array, present: Array) -> Array:
    """Return log((1 - rate) e^absent + rate e^present)."""
    if rate == 1.0:
        return present
    return np.logaddexp(math.log1p(-rate) + absent, math.log(rate) + present)


pairs: Registry[Dominated] = Registry(
    "pld",
    {
        ev.FixedSize: ".fixed_size",
        ev.Group: ".groups",
        ev.RandomAllocation: ".allocation",
        ev.SampledShuffle: ".sampled_shuffle",
        ev.Shuffle: ".shuffled",
        ev.ShuffledBatches: ".batches",
        ev.TruncatedPoisson: ".truncated",
    },
    __package__,
)


@pairs.register(ev.Gaussian)
def _gaussian(event: ev.Gaussian, neighbours: Neighbours) -> Dominated:
    return _noisy_sum(GaussianNoise(event.noise_multiplier), 1.0, neighbours, event)


@pairs.register(ev.Laplace)
def _laplace(event: ev.Laplace, neighbours: Neighbours) -> Dominated:
    return _noisy_sum(LaplaceNoise(event.noise_multiplier), 1.0, neighbours, event)


@pairs.register(ev.DiscreteGaussian)
def _discrete_gaussian(event: ev.DiscreteGaussian, neighbours: Neighbours) -> Dominated:
    return _integer_sum(event, 1.0, neighbours)


@pairs.register(ev.DiscreteLaplace)
def _discrete_laplace(event: ev.DiscreteLaplace, neighbours: Neighbours) -> Dominated:
    return _integer_sum(event, 1.0, neighbours)


@pairs.register(ev.RandomizedResponse)
def _randomized_response(event: ev.RandomizedResponse, neighbours: Neighbours) -> Dominated:
    return _response(event, 1.0, neighbours)


@pairs.register(ev.Pure)
def _pure(event: ev.Pure, neighbours: Neighbours) -> Dominated:  # noqa: ARG001
    return _class_of(event.epsilon, 0.0, 1.0)


@pairs.register(ev.Local)
def _local(event: ev.Local, neighbours: Neighbours) -> Dominated:  # noqa: ARG001
    return _class_of(event.epsilon, 0.0, 1.0)


@pairs.register(ev.Exponential)
def _exponential(event: ev.Exponential, neighbours: Neighbours) -> Dominated:  # noqa: ARG001
    return _class_of(event.epsilon, 0.0, 1.0)


@pairs.register(ev.Approximate)
def _approximate(event: ev.Approximate, neighbours: Neighbours) -> Dominated:  # noqa: ARG001
    return _class_of(event.epsilon, event.delta, 1.0)


@pairs.register(ev.NoGuarantee)
def _no_guarantee(event: ev.NoGuarantee, neighbours: Neighbours) -> Dominated:  # noqa: ARG001
    return _class_of(0.0, 1.0, 1.0)


@pairs.register(ev.Poisson)
def _poisson(event: ev.Poisson, neighbours: Neighbours) -> Dominated:
    rate, inner = event.rate, event.event
    if rate == 0.0:
        nothing = Pair.of_outcomes(AtomPair(np.zeros(1), np.zeros(1)))
        step = Step("sampling", "A rate of 0 releases nothing about anybody.", "by definition")
        return Dominated(nothing, nothing, True, (step,))
    if rate < LEAST_RATE and not isinstance(inner, ev.NoGuarantee):
        pairs(inner, neighbours)  # refuses what is not understood
        return _class_of(0.0, 1.0, rate)
    if isinstance(inner, ev.Gaussian):
        return _noisy_sum(GaussianNoise(inner.noise_multiplier), rate, neighbours, inner)
    if isinstance(inner, ev.Laplace):
        return _noisy_sum(LaplaceNoise(inner.noise_multiplier), rate, neighbours, inner)
    if isinstance(inner, (ev.DiscreteGaussian, ev.DiscreteLaplace)):
        return _integer_sum(inner, rate, neighbours)
    return _sampled_bare(inner, rate, neighbours)


def _sampled_bare(inner: ev.Event, rate: float, neighbours: Neighbours) -> Dominated:
    bare = (ev.RandomizedResponse, ev.Pure, ev.Local, ev.Exponential, ev.Approximate)
    if isinstance(inner, bare) and neighbours != "add-remove":
        # Under zero-out, too: who is in the sample may be seen, as long as its value is hidden.
        raise Unsupported(
            f"Poisson sampling of `{inner.type}` is not supported under {neighbours}.",
            "Its epsilon then compares two values of a unit, while sampling amplifies by comparing "
            "a unit that is present with one that is absent; the number says nothing about that.",
            "Account it under add-remove, if its epsilon holds for a unit that comes or goes.",
        )
    if isinstance(inner, ev.RandomizedResponse):
        return _response(inner, rate, neighbours)
    if isinstance(inner, (ev.Pure, ev.Local, ev.Exponential)):
        return _class_of(inner.epsilon, 0.0, rate)
    if isinstance(inner, ev.Approximate):
        return _class_of(inner.epsilon, inner.delta, rate)
    if isinstance(inner, ev.NoGuarantee):
        return _class_of(0.0, 1.0, rate)
    if isinstance(inner, ev.Shuffle):
        from .shuffled import users_drawn  # it enters its own events here

        return users_drawn(ev.Poisson(rate, inner), neighbours)
    raise Unsupported(
        f"The pld engine cannot treat Poisson sampling of `{inner.type}`.",
        next_step="Sample the innermost release, or leave the choice of the engine to privplan.",
        otherwise=sampled_instead(inner),
    )


# --- sums with continuous noise ---------------------------------------------------------------


def _noisy_sum(
    noise: GaussianNoise | LaplaceNoise,
    rate: float,
    neighbours: Neighbours,
    event: ev.Gaussian | ev.Laplace,
) -> Dominated:
    if not LEAST_NOISE <= noise.scale <= 1.0 / LEAST_NOISE:
        raise Unsupported(
            f"The pld engine takes noise multipliers from {LEAST_NOISE:g} to {1 / LEAST_NOISE:g}.",
            next_step="Check the unit of the noise: it is a multiple of the contribution bound.",
        )
    if neighbours == "replace-one" and rate < 1.0:
        opposite = OppositeLaplaces if isinstance(noise, LaplaceNoise) else OppositeGaussians
        present, other = (1.0 - rate, rate, 0.0), (1.0 - rate, 0.0, rate)
        pair = mixtures(noise, (0.0, 1.0, -1.0), present, other, opposite(noise, rate))
        return Dominated(pair, pair, True, _sum_steps(event, rate, neighbours))
    reach = contribution(neighbours)
    noise = replace(noise, scale=noise.scale / reach)
    shift = SampledShift(noise, rate)
    pair = mixtures(noise, (0.0, 1.0), (1.0 - rate, rate), (1.0, 0.0), shift)
    if isinstance(noise, GaussianNoise) and rate < 1.0:
        # The loss stays above log(1 - q), and small losses crowd there.
        lowest = math.log1p(-rate)
        pair = replace(pair, anchors=(lowest,), end=(lowest, -1.0))
    return Dominated(pair, pair, rate == 1.0, _sum_steps(event, rate, neighbours))


def mixtures(
    noise: GaussianNoise | LaplaceNoise,
    centres: tuple[float, ...],
    p_weights: tuple[float, ...],
    q_weights: tuple[float, ...],
    link: Link,
) -> Pair:
    """Return the pair of two mixtures; under Laplace noise the flat ends of the loss are atoms."""
    if isinstance(noise, GaussianNoise):
        return Pair(MixturePair(noise, centres, p_weights, q_weights, link), None)
    low, high = min(centres), max(centres)
    losses = link.loss(np.array([low, high]))
    beyond = [
        math.log(0.5 * weight) - np.abs(np.array([low, high]) - centre) / noise.scale
        for centre, weight in zip(centres, p_weights, strict=True)
        if weight > 0.0
    ]
    tails = np.logaddexp.reduce(beyond)
    smooth = MixturePair(noise, centres, p_weights, q_weights, link, span=(low, high))
    anchors = (float(losses[0]), float(losses[1]))
    return Pair(smooth, AtomPair(tails, tails - losses), anchors)


def _sum_steps(
    event: ev.Gaussian | ev.Laplace, rate: float, neighbours: Neighbours
) -> tuple[Step, ...]:
    laplace = isinstance(event, ev.Laplace)
    norm = "L1" if laplace else "L2"
    name = "Lap" if laplace else "N"
    noise = f"{event.noise_multiplier:g}"
    spread = f"{noise}" if laplace else f"{noise}^2"
    reach = contribution(neighbours)
    moves = "one contribution bound" if reach == 1 else "two contribution bounds"
    mechanism = Step(
        "mechanism",
        f"Pair {name}({reach}, {spread}) against {name}(0, {spread}): the sum moves by {moves}.",
        "Dong, Roth, Su 2022, arXiv 1905.02383"
        if not laplace
        else "one coordinate dominates several: derived in engines/pld/mechanisms.py",
        (f"each unit's contribution is at most 1 bound in {norm} norm", _relation(neighbours)),
    )
    if rate == 1.0:
        return (mechanism,)
    if neighbours == "replace-one":
        sampling = Step(
            "sampling",
            f"Pair (1-q) {name}(0) + q {name}(1) against (1-q) {name}(0) + q {name}(-1), "
            f"q = {rate:g}; it is its own reverse.",
            "derived in engines/pld/mechanisms.py; attained by contributions of +1 and -1 bound",
            ("each unit joins each sample independently with probability q", _relation(neighbours)),
        )
        return mechanism, sampling
    sampling = Step(
        "sampling",
        f"Pairs ((1-q) Q + q P, Q) and reverse, q = {rate:g}; the worse direction counts.",
        "Zhu, Dong, Wang 2022, Theorem 11, arXiv 2106.08567",
        ("each unit joins each sample independently with probability q", _relation(neighbours)),
    )
    return mechanism, sampling


def _relation(neighbours: Neighbours) -> str:
    return f"neighbours: {neighbours}"


# --- integer sums -----------------------------------------------------------------------------


def _integer_sum(
    event: ev.DiscreteGaussian | ev.DiscreteLaplace, rate: float, neighbours: Neighbours
) -> Dominated:
    reach = event.sensitivity
    if neighbours == "replace-one" and rate == 1.0:
        reach *= 2  # only the distance between the two data sets matters
    if isinstance(event, ev.DiscreteGaussian):
        outcomes, unseen = _discrete_gaussian_outcomes(event, reach), 1e-290
        name, steps_source = "Discrete Gaussian", "Canonne, Kamath, Steinke 2020, arXiv 2004.00010"
    else:
        outcomes, unseen = _discrete_laplace_outcomes(event, reach), 0.0
        name, steps_source = (
            "Discrete Laplace",
            "Ghosh, Roughgarden, Sundararajan 2012, arXiv 0811.2841",
        )
    direct = neighbours if rate < 1.0 else "add-remove"
    pair = outcomes.pair(rate, direct, unseen)
    step = Step(
        "mechanism",
        f"{name} noise of multiplier {event.noise_multiplier:g} on an integer sum, shifted by "
        f"{reach} against itself" + (f", Poisson sampled at {rate:g}." if rate < 1.0 else "."),
        steps_source,
        (
            f"the release is one integer; a unit contributes at most {event.sensitivity}",
            _relation(neighbours),
        ),
    )
    symmetric = rate == 1.0 or neighbours == "replace-one"
    return Dominated(pair, pair, symmetric, (step,))


def _discrete_gaussian_outcomes(event: ev.DiscreteGaussian, reach: int) -> Outcomes:
    sigma = event.noise_multiplier * event.sensitivity
    # Beyond 37 standard deviations the mass is below 1e-290; it is counted as unseen.
    radius = math.ceil(37.0 * sigma) + 1
    if 2 * (radius + reach) + 1 > LARGEST_SUPPORT:
        raise Unsupported(
            f"A discrete Gaussian of standard deviation {sigma:g} has too many outcomes to list.",
            next_step="Use --engine rdp, whose bound holds for any standard deviation.",
        )
    x = np.arange(-radius - reach, radius + reach + 1, dtype=float)
    z = np.arange(-radius, radius + 1, dtype=float)
    log_total = math.log(float(np.exp(-0.5 * (z / sigma) ** 2).sum()))
    around = [-0.5 * ((x - centre) / sigma) ** 2 - log_total for centre in (0, reach, -reach)]
    return Outcomes(*around)


def _discrete_laplace_outcomes(event: ev.DiscreteLaplace, reach: int) -> Outcomes:
    """Outcomes with everything from `reach` up, and from -`reach` down, taken together.

    Beyond the centres the likelihood ratios are constant, so nothing is lost.
    """
    scale = event.noise_multiplier * event.sensitivity
    if 2 * reach + 1 > LARGEST_SUPPORT:
        raise Unsupported(f"A sensitivity of {reach} gives too many outcomes to list.")
    x = np.arange(-reach, reach + 1, dtype=float)
    log_norm = math.log(math.tanh(0.5 / scale))
    log_tail = -math.log(-math.expm1(-1.0 / scale))  # of a geometric series
    around = []
    for centre in (0, reach, -reach):
        logs = -np.abs(x - centre) / scale + log_norm
        # At +-reach the ends stand for whole tails, whose terms fall away from the centre.
        logs[-1] += log_tail
        logs[0] += log_tail
        around.append(logs)
    return Outcomes(*around)


# --- randomized response and bare numbers -------------------------------------------------------


def _response(event: ev.RandomizedResponse, rate: float, neighbours: Neighbours) -> Dominated:
    if neighbours != "replace-one":
        # What an absent unit reports is not said, so only the epsilon counts, for any report.
        return _class_of(event.epsilon, 0.0, rate)
    exact = _response_outcomes(event).pair(rate, "add-remove")
    step = Step(
        "mechanism",
        f"{event.categories} outcomes; the true one is e^{event.epsilon:g} times as likely.",
        "Kairouz, Bonawitz, Ramage 2016, arXiv 1602.07387",
        (_relation(neighbours),),
    )
    return Dominated(exact, exact, rate == 1.0, (step,))


def _response_outcomes(event: ev.RandomizedResponse) -> Outcomes:
    log_total = math.log1p((event.categories - 1) * math.exp(-event.epsilon))
    true, other = -log_total, -event.epsilon - log_total
    rest = other + math.log(event.categories - 2) if event.categories > 2 else -math.inf
    keep = 3 if event.categories > 2 else 2
    return Outcomes(np.array([other, true, rest])[:keep], np.array([true, other, rest])[:keep])


def _class_of(epsilon: float, delta: float, rate: float) -> Dominated:
    """Return the pair that dominates every (epsilon, delta)-DP mechanism, sampled at `rate`.

    With probability delta it tells everything; otherwise it is a binary randomized response.
    """
    log_rest = math.log1p(-delta) if delta < 1.0 else -math.inf
    log_delta = math.log(delta) if delta > 0.0 else -math.inf
    true = log_rest - math.log1p(math.exp(-epsilon))
    other = true - epsilon
    outcomes = Outcomes(
        np.array([-math.inf, other, true, log_delta]),
        np.array([log_delta, true, other, -math.inf]),
    )
    pair = outcomes.pair(rate, "add-remove")
    step = Step(
        "mechanism",
        f"The worst ({epsilon:g}, {delta:g})-DP mechanism"
        + (f", Poisson sampled at {rate:g}." if rate < 1.0 else "."),
        "Kairouz, Oh, Viswanath 2017, arXiv 1311.0776",
        (
            "its parameters hold for the neighbouring relation of this account",
            "no lower bound: they name a class of mechanisms, some of which lose less",
        ),
    )
    return Dominated(pair, None, rate == 1.0, (step,))
