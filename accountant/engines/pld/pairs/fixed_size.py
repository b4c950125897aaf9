"""Dominating pairs of a release on a uniformly random set of exactly m of n units.

Let q = m / n, A the release averaged over the samples without the unit, B that over the samples
with it.  A sample with the unit is one without it in which another unit y gave way to it, so A and
B can be drawn together such that one unit is replaced.  For a noisy sum, in contribution bounds:

**Add-remove** (n units against the same without one, m of them either way).  The outputs are
(1-q) A + q B and A, and B lies at most 2 from A, for every order.  So the pair is that of Poisson
sampling with a shift of 2: (1-q) N(0) + q N(2) against N(0).  Others at -1 and a unit at +1 attain
it.  The smaller q of n + 1 units against n is covered: q H grows with q.

**Replace-one.**  The outputs are (1-q) A + q B and (1-q) A + q B'.  For c >= 1 advanced joint
convexity gives, with s = (1 + q (c - 1)) / c in [0, 1],

    H_{1+q(c-1)}((1-q)A + qB || (1-q)A + qB') = q H_c(B || (1-s) A + s B') <= q H_c(N(2) || N(0)),

which is the hockey stick of (1-q) N(0) + q N(2) against N(0).  Orders below 1 follow by exchanging
the data sets, so there it is that of N(0) against (1-q) N(0) + q N(2).  Every order is attained,
by others at -1 or at +1, but no pair of data sets attains them all: the composition of this curve
is an upper bound, and the lower end is that of others at -1.

**Zero-out** (a unit at x against the unit at 0).  B lies at most 1 from B' and at most 2 from A.
Given the mass of a test under B, its masses under B' and A are at least what the best tests between
noise 1 and 2 apart leave; on the line one half line attains both.  So for orders of at least 1

    (1-q) N(-1) + q N(1) against (1-q) N(-1) + q N(0)     (unit at x first),
    (1-q) N(0) + q N(1) against N(0)                      (unit at 0 first: B' is within 1 of both)

are the exact suprema, attained by others at -1 and others at +1.

A stated epsilon is used as follows.  Under replace-one it bounds H_c(B || A) and H_c(B || B') as it
is.  Under add-remove and zero-out a replaced unit counts as two steps, for which the epsilon is
doubled.  All of this holds for Laplace noise too: one coordinate is the worst case (noisy_sums.py).
The hockey stick of an average is at most the average of hockey sticks, so averages over samples do
no harm.

Source: Balle, Barthe, Gaboardi 2018, Theorem 2, arXiv 1807.01647 (advanced joint convexity); Zhu,
Dong, Wang 2022, arXiv 2106.08567 (the replace-one curve); the rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .... import events as ev
from ....arrays import FloatArray
from ....composition import release_of_group
from ....errors import InvalidInput, Unsupported
from ....guarantee import Neighbours, Step
from ...base import require_both_drawn
from ..grid.mixtures import MixturePair, SampledShift, log_excess, log_mixture
from ..grid.noise import AdditiveNoise, GaussianNoise, LaplaceNoise, Noise
from ..grid.pair import Pair, two_sided
from ..grid.pair_parts import AtomPair
from .noisy_sums import mixtures
from .outcomes import blend
from .registry import MIN_SAMPLING_RATE, DominatedMechanism, from_above, is_single_pair, pairs

INTEGER_SUMS = (ev.DiscreteGaussian, ev.DiscreteLaplace, ev.TruncatedDiscreteGaussian)
STATED_NUMBERS = (
    ev.RandomizedResponse,
    ev.Pure,
    ev.Local,
    ev.Exponential,
    ev.Approximate,
    ev.NoGuarantee,
)
SHUFFLED = (ev.Shuffle, ev.SampledShuffle)

FIXED_SIZE_SOURCE = (
    "Balle, Barthe, Gaboardi 2018, Theorem 2, arXiv 1807.01647; Zhu, Dong, Wang 2022, "
    "arXiv 2106.08567; derived in engines/pld/pairs/fixed_size.py"
)


@pairs.register(ev.FixedSize)
def _fixed_size(event: ev.FixedSize, neighbours: Neighbours) -> DominatedMechanism:
    inner = event.event
    if isinstance(inner, SHUFFLED) and inner.users != event.batch:
        raise InvalidInput(
            f"A sample of {event.batch:,} units cannot be shuffled as {inner.users:,} users.",
            next_step="Give the shuffle as many users as the sample has units.",
        )
    if event.batch == event.population:
        require_both_drawn(event.batch, event.population, neighbours)
        release = pairs(inner, neighbours)
        step = Step("sampling", "The sample is the whole population.", "by definition")
        return replace(release, steps=(*release.steps, step))
    sampled = without_replacement(inner, event.batch / event.population, neighbours)
    prefix = f"Exactly {event.batch:,} of {event.population:,} units, without replacement: "
    return replace(sampled, steps=(*sampled.steps[:-1], _prefixed(sampled.steps[-1], prefix)))


def _prefixed(step: Step, how: str) -> Step:
    return replace(step, statement=how + step.statement)


def without_replacement(inner: ev.Event, rate: float, neighbours: Neighbours) -> DominatedMechanism:
    """Return the pair of `inner` on a sample of a fixed size, `rate` of the population (below 1).

    The last step says what the sampling does.  Raises `Unsupported` for an event whose guarantee
    says nothing about a replaced unit, and for samples of samples.
    """
    if not isinstance(inner, (ev.Gaussian, ev.Laplace, *INTEGER_SUMS, *STATED_NUMBERS, *SHUFFLED)):
        raise Unsupported(
            f"The pld engine cannot treat fixed-size sampling of `{inner.type}`.",
            "What a replaced unit changes is known for single releases only.",
            "Sample the innermost release, write Repeat outside of FixedSize, or use rdp under "
            "replace-one.",
        )
    if rate == 1.0:
        return _all_but_few(inner, neighbours)
    if rate < MIN_SAMPLING_RATE and isinstance(inner, (ev.Gaussian, ev.Laplace, *INTEGER_SUMS)):
        pairs(inner, neighbours)  # refuses what is not understood
        disclosed = replace(pairs(ev.Approximate(0.0, rate), neighbours), class_pair=None)
        return replace(disclosed, steps=(_step("A unit that is drawn is laid open.", neighbours),))
    if isinstance(inner, (ev.Gaussian, ev.Laplace)):
        return _noisy_sum(inner, rate, neighbours)
    if neighbours == "add-remove":
        return _present_or_absent(inner, rate)
    return _replaced(inner, rate, neighbours)


def _all_but_few(inner: ev.Event, neighbours: Neighbours) -> DominatedMechanism:
    """Return a bound for rates that are rounded to 1: what the curves grow to as q grows."""
    twice = release_of_group(2, inner)
    two_steps = neighbours == "add-remove" or isinstance(inner, STATED_NUMBERS)
    released = pairs(twice, "add-remove") if two_steps else pairs(inner, "replace-one")
    step = _step("Counted as if everybody were drawn.", neighbours)
    return replace(from_above(released), steps=(*released.steps, step))


# --- noisy sums -----------------------------------------------------------------------------------


def _noisy_sum(
    inner: ev.Gaussian | ev.Laplace, rate: float, neighbours: Neighbours
) -> DominatedMechanism:
    mechanism = pairs(inner, neighbours).steps
    noise: AdditiveNoise
    if isinstance(inner, ev.Gaussian):
        noise, name = GaussianNoise(inner.noise_multiplier), "N"
    else:
        noise, name = LaplaceNoise(inner.noise_multiplier), "Lap"
    twice = _sampled_shift(replace(noise, scale=noise.scale / 2.0), rate)
    if neighbours == "add-remove":
        statement = f"((1-q) {name}(0) + q {name}(2), {name}(0)) and reverse, q = {rate:.6g}."
        met = "attained by others at -1 and a unit at +1"
        # The sum moves by two bounds here: the step of the unsampled sum does not apply.
        sampled = _step(statement, neighbours, met, "one unit more or less, as large a sample")
        return DominatedMechanism.of(twice, [twice], False, (sampled,))
    if neighbours == "replace-one":
        pair, lower_pair = two_sided(twice.reverse(), twice), twice
        statement = (
            f"at orders 1 and above ((1-q) {name}(0) + q {name}(2), {name}(0)), below 1 "
            f"({name}(0), (1-q) {name}(0) + q {name}(2)), q = {rate:.6g}."
        )
        met = "lower end: others at -1, a unit at +1 or -1"
    else:
        single = _sampled_shift(noise, rate)
        pair, lower_pair = (
            two_sided(single.reverse(), _present_or_zeroed(noise, rate)),
            _present_or_zeroed_outcomes(noise, rate),
        )
        statement = (
            f"at orders 1 and above ((1-q) {name}(-1) + q {name}(1), (1-q) {name}(-1) + q "
            f"{name}(0)), below 1 ({name}(0), (1-q) {name}(0) + q {name}(1)), q = {rate:.6g}."
        )
        met = "lower end: others at -1, a unit at +1 or 0"
    return DominatedMechanism.of(
        pair, [lower_pair], False, (*mechanism, _step(statement, neighbours, met))
    )


def _sampled_shift(noise: AdditiveNoise, rate: float) -> Pair:
    """Return (1-q) noise(0) + q noise(1) against noise(0)."""
    shift = SampledShift(noise, rate)
    pair = mixtures(noise, (0.0, 1.0), (1.0 - rate, rate), (1.0, 0.0), shift)
    if isinstance(noise, GaussianNoise):
        lowest = math.log1p(-rate)
        return replace(pair, grid_atoms=(lowest,), support_end=(lowest, -1.0))
    return pair


@dataclass(frozen=True)
class PresentOrZeroed:
    """Loss of (1-q) noise(-1) + q noise(1) against (1-q) noise(-1) + q noise(0), from 0 up.

    It is 0 at x = 1/2, increases beyond, and is negative (and has no inverse) below.
    """

    noise: Noise
    rate: float

    @property
    def largest_log(self) -> float:
        """Return |log q|."""
        return -math.log(self.rate)

    def loss(self, x: FloatArray) -> FloatArray:
        """Return log(1 - q + q noise(1)/noise(-1)) - log(1 - q + q noise(0)/noise(-1))."""
        log_ratio = self.noise.log_shift_ratio(x + 1.0)
        log_ratio_sum = log_ratio + self.noise.log_shift_ratio(x)
        return log_mixture(self.rate, log_ratio_sum) - log_mixture(self.rate, log_ratio)

    def position(self, loss: FloatArray) -> FloatArray:
        """Return the x >= 1/2 at which the loss is reached; 1/2 for a negative one."""
        size = np.maximum(loss, 0.0)
        if isinstance(self.noise, LaplaceNoise):
            # From 1/2 to 1 the second logarithm is constant.
            constant = float(log_mixture(self.rate, np.array([1.0 / self.noise.scale]))[0])
            x = self.noise.scale / 2.0 * log_excess(self.rate, size + constant)
            return np.clip(x, 0.5, np.where(size > 0.0, 1.0, 0.5))
        # With y = e^(x/s^2) and k = e^(1/(2 s^2)): q y^2 - L q k y - (1-q)(L - 1) = 0.
        variance = self.noise.scale**2
        log_q = math.log(self.rate)
        log_a = size + log_q + 0.5 / variance
        with np.errstate(divide="ignore"):
            log_c = math.log(4.0) + log_q + math.log1p(-self.rate) + size
            log_c = log_c + np.log(-np.expm1(-size))
        log_root = 0.5 * np.logaddexp(2.0 * log_a, log_c)
        x = variance * (np.logaddexp(log_a, log_root) - math.log(2.0) - log_q)
        return np.where(size > 0.0, np.maximum(x, 0.5), 0.5)

    def slope(self, loss: FloatArray) -> FloatArray:
        """Return twice the slope of the noise's own log ratio."""
        return np.full_like(loss, 2.0 * self.noise.lipschitz_bound)


def _present_or_zeroed(noise: AdditiveNoise, rate: float) -> Pair:
    """Return the pair of others at -1 and a unit at +1 or 0, good where the loss is positive."""
    present, zeroed = (1.0 - rate, 0.0, rate), (1.0 - rate, rate, 0.0)
    return mixtures(noise, (-1.0, 0.0, 1.0), present, zeroed, PresentOrZeroed(noise, rate))


def _present_or_zeroed_outcomes(noise: AdditiveNoise, rate: float) -> Pair:
    """Return that pair with all that has a negative loss taken as one outcome."""
    pair = _present_or_zeroed(noise, rate)
    assert isinstance(pair.continuous, MixturePair)
    continuous = replace(pair.continuous, span=(0.5, pair.continuous.span[1]))
    edge = np.array([-math.inf, 0.5])
    # All positions up to 1/2, where the loss is not positive, are one outcome.
    around = [float(noise.log_interval_masses(edge - centre)[0]) for centre in continuous.centres]
    log_p, log_q = (
        np.logaddexp.reduce([math.log(w) + m for w, m in zip(ws, around, strict=True) if w > 0.0])
        for ws in (continuous.p_weights, continuous.q_weights)
    )
    top = np.empty((2, 0))
    if pair.atoms is not None:
        high = pair.atoms.log_p > pair.atoms.log_q
        top = np.stack((pair.atoms.log_p[high], pair.atoms.log_q[high]))
    outcomes = np.concatenate((top, [[log_p], [log_q]]), axis=1)
    atoms = AtomPair(outcomes[0], outcomes[1])
    return Pair(continuous, atoms, atoms.heaviest_losses())


# --- integer sums, stated numbers, shuffled rounds ------------------------------------------------


def _present_or_absent(inner: ev.Event, rate: float) -> DominatedMechanism:
    twice = release_of_group(2, inner)
    if isinstance(inner, SHUFFLED):
        raise Unsupported(
            f"Fixed-size sampling of `{inner.type}` is not supported under add-remove.",
            "What a shuffled round reveals is known for a replaced unit only.",
            "Account it under replace-one.",
        )
    sampled = pairs(ev.Poisson(rate, twice), "add-remove")
    how = f"a drawn unit stands in for another one: two steps of the release, q = {rate:.6g}."
    step = _step(how, "add-remove", "one unit more or less, as large a sample")
    # Two steps of a class of mechanisms: no chain of them is known to attain the pair.
    return replace(sampled, steps=(*sampled.steps, step), class_pair=None)


def _replaced(inner: ev.Event, rate: float, neighbours: Neighbours) -> DominatedMechanism:
    doubled = neighbours == "zero-out" and isinstance(inner, STATED_NUMBERS)
    event = release_of_group(2, inner) if doubled else inner
    base = pairs(event, "replace-one")
    if not base.symmetric or not is_single_pair(base) or base.pair.continuous is not None:
        raise Unsupported(
            f"The pld engine cannot treat fixed-size sampling of `{inner.type}`.",
            "Its worst pair is not its own reverse, or is one of many.",
            "Use the rdp engine under replace-one.",
        )
    pair = sampled_outcomes(base.pair, rate)
    lower_pair = None
    if isinstance(inner, INTEGER_SUMS):
        moved = release_of_group(2, inner) if neighbours == "replace-one" else inner
        lower_pair = pairs(ev.Poisson(rate, moved), "add-remove").lower_pair
    how = (
        "at orders 1 and above ((1-q) Q + q P, Q), below 1 (P, (1-q) P + q Q), (P, Q) the pair of "
        f"the release{' in two steps' if doubled else ''}, q = {rate:.6g}."
    )
    conditions = ["for the release itself, too, one unit is replaced"]
    if neighbours == "zero-out":
        conditions = ["a unit at 0 is one value that may replace it; nothing sharper is used"]
    if lower_pair is not None:
        conditions.append("lower end: the others do not matter")
    of_class = None
    if neighbours == "replace-one" and base.class_pair is not None:
        # Attained where the release answers whether the unit's old value is in the sample.
        of_class = Pair.of_outcomes(_mixed_above(base.class_pair, rate))
    steps = (*base.steps, _step(how, neighbours, *conditions))
    return DominatedMechanism.of(pair, [lower_pair], False, steps, of_class)


def _mixed_above(base: Pair, rate: float) -> AtomPair:
    """Return ((1-q) Q + q P, Q)."""
    assert base.atoms is not None
    log_p, log_q = base.atoms.log_p, base.atoms.log_q
    return AtomPair(
        blend(rate, log_q, log_p), log_q, base.atoms.omitted_mass, rounding=base.atoms.rounding
    )


def sampled_outcomes(base: Pair, rate: float) -> Pair:
    """Return the pair of a release with a symmetric pair on outcomes, sampled at a fixed size."""
    assert base.atoms is not None
    log_p, log_q = base.atoms.log_p, base.atoms.log_q
    omitted_mass, rounding = base.atoms.omitted_mass, base.atoms.rounding
    # Orders of at least 1: ((1-q) Q + q P, Q); below 1: (P, (1-q) P + q Q).
    above = _mixed_above(base, rate)
    below = AtomPair(log_p, blend(rate, log_p, log_q), omitted_mass, rounding=rounding)
    return two_sided(Pair.of_outcomes(below), Pair.of_outcomes(above))


def _step(statement: str, neighbours: Neighbours, *conditions: str) -> Step:
    return Step(
        "sampling",
        statement,
        FIXED_SIZE_SOURCE,
        (
            "the sample is fresh, uniform and secret, and its size known",
            *conditions,
            f"neighbours: {neighbours}",
        ),
    )
