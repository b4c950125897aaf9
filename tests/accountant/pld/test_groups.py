"""Units of several records by pld: exact oracles, a second library, worse neighbours, the laws."""

from __future__ import annotations

import itertools
import math
import time
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import binom

from privplan.accountant import events as ev
from privplan.accountant.account import account, bounds_on_epsilon
from privplan.accountant.calibrate import calibrate
from privplan.accountant.engines.pld.pairs.binomial import GaussianShifts
from privplan.accountant.engines.pld.pairs.binomial_mixtures import BinomialLoss
from privplan.accountant.engines.pld.pairs.groups import MAX_GROUP_RECORDS
from privplan.accountant.errors import Unsupported

from ...cases import for_each
from ...sweeps import sweep
from .group_units import ADD, REPLACE, delta, epsilon, unit

FIGURE_2 = [
    # Uldp-FL (arXiv 2308.12210v3), the setting of Figure 2; tight values by dp_accounting's
    # mixture PLD, and saddle points.
    (1, 2.6268, 2.6275),
    (2, 5.835, 5.8366),
    (4, 13.596, 13.602),
    (8, 34.18, 34.187),
    (16, 95.15, 95.170),
    (32, 295.750, 295.80),
    (64, 1010.97, 1011.07),
]


@for_each(("size", "least", "most"), FIGURE_2)
def test_figure_2_of_uldp_fl(size, least, most):
    event = unit(size, 0.01, ev.Gaussian(5.0), 100_000)
    start = time.process_time()
    result = epsilon(event)
    assert time.process_time() - start < 1.5  # about .1 s where nothing else runs
    assert least <= result.upper <= most
    assert result.lower >= result.upper * (1 - 1e-4)
    # The published curve (2.85, ..., 2152, 11417) lies above, by 1.08 to 11.3 times.


class Exact:
    """The hockey stick of one round, in mpmath: the loss increases, so half lines are best."""

    def __init__(self, size, rate, noise, neighbours, laplace=False):
        self.s, self.laplace = mp.mpf(noise), laplace
        q = mp.mpf(rate)
        weights = [mp.binomial(size, i) * q**i * (1 - q) ** (size - i) for i in range(size + 1)]
        self.p = list(enumerate(weights))
        self.q = [(-i, w) for i, w in self.p] if neighbours == REPLACE else [(0, mp.mpf(1))]
        self.reach = size + (0 if laplace else 60 * self.s)

    def beyond(self, mixture, x):
        return sum(w * self._tail((x - c) / self.s) for c, w in mixture)

    def _tail(self, z):
        if not self.laplace:
            return mp.ncdf(-z)
        return mp.exp(-z) / 2 if z > 0 else 1 - mp.exp(z) / 2

    def density(self, mixture, x):
        def shape(z):
            return mp.exp(-abs(z)) if self.laplace else mp.exp(-z * z / 2)

        return sum(w * shape((x - c) / self.s) for c, w in mixture)

    def delta(self, at):
        return max(self._forward(mp.mpf(at)), self._backward(mp.mpf(at)))

    def _forward(self, at):
        c = self._where(at)
        return mp.mpf(0) if c is None else self._excess(c, at)

    def _excess(self, c, at):
        return self.beyond(self.p, c) - mp.exp(at) * self.beyond(self.q, c)

    def _backward(self, at):
        c = self._where(-at, below=True)
        if c is None:
            return mp.mpf(0)
        return (1 - self.beyond(self.q, c)) - mp.exp(at) * (1 - self.beyond(self.p, c))

    def _loss(self, x):
        return mp.log(self.density(self.p, x) / self.density(self.q, x))

    def _where(self, at, below=False):
        low, high = -self.reach, self.reach
        if self._loss(high) <= at:  # nothing lies above; for the other side, everything below
            return high if below else None
        if self._loss(low) >= at:
            return None if below else low
        for _ in range(90):
            middle = (low + high) / 2
            low, high = (middle, high) if self._loss(middle) <= at else (low, middle)
        return (low + high) / 2


SINGLE = [
    (2, 0.01, 1.0, False),
    (3, 0.5, 1.0, False),
    (7, 0.1, 3.0, False),
    (20, 0.03, 0.5, False),
    (5, 0.999, 5.0, False),
    (4, 1e-4, 0.3, False),
    (2, 0.3, 1.0, True),
    (6, 0.05, 0.4, True),
    (12, 0.2, 8.0, True),
]


@pytest.mark.quick(3)
@for_each("neighbours", [ADD, REPLACE])
@for_each(("size", "rate", "noise", "laplace"), sweep(SINGLE, quick=3))
def test_one_round_brackets_the_exact_value(size, rate, noise, laplace, neighbours):
    mechanism = ev.Laplace(noise) if laplace else ev.Gaussian(noise)
    event = unit(size, rate, mechanism)
    with mp.workdps(40):
        exact = Exact(size, rate, noise, neighbours, laplace)
        for at in (0.0, 0.7, 5.0):
            truth = exact.delta(at)
            result = delta(event, at, neighbours)
            assert result.lower <= truth * (1 + mp.mpf(10) ** -11)
            assert result.upper >= truth * (1 - mp.mpf(10) ** -11)
            # Where hardly anybody is drawn, coarse grids may lose all of a lower end.
            assert rate < 1e-3 or result.gap <= 2e-3 * result.upper + 1e-14
        result = epsilon(event, 1e-6, neighbours)
        assert exact.delta(result.upper * (1 + 1e-11)) <= mp.mpf(10) ** -6
        if result.lower > 0.0:
            assert exact.delta(result.lower * (1 - 1e-11)) >= mp.mpf(10) ** -6
        assert result.gap <= 1e-3 * result.upper


def test_the_losses_and_masses_keep_their_digits():
    # Thousands of records, windows of a few dozen: against sums over all of them.
    shifts = GaussianShifts(3000, 0.01, 4.0)
    x = np.array([-25.0, 0.0, 3.5, 30.0, 55.0, 120.0])
    masses = shifts.log_masses(np.concatenate(([-np.inf], x, [np.inf])))
    with mp.workdps(60):
        q, s = mp.mpf(0.01), mp.mpf(4)
        logs = [
            mp.log(mp.binomial(3000, i)) + i * mp.log(q) + (3000 - i) * mp.log1p(-q)
            for i in range(400)
        ]

        def summed(factor):
            return mp.log(mp.fsum(mp.exp(w) * factor(i) for i, w in enumerate(logs)))

        edges = [mp.mpf(float(e)) for e in x]
        for edge, result in zip(edges, shifts.at(x).log, strict=True):
            truth = summed(lambda i, at=edge: mp.exp(i * (at - mp.mpf(i) / 2) / s**2))
            assert abs(result - truth) <= shifts.weights_error + 1e-13 * (1 + abs(truth))
        for j, (low, high) in enumerate(itertools.pairwise(edges)):
            truth = summed(lambda i, a=low, b=high: mp.ncdf((b - i) / s) - mp.ncdf((a - i) / s))
            assert abs(masses[j + 1] - truth) <= shifts.weights_error + 1e-12


@for_each("down", [None, 5, 40])
def test_positions_invert_losses(down):
    up = GaussianShifts(40, 0.05, 2.0)
    losses = BinomialLoss(up, None if down is None else GaussianShifts(down, 0.2, 2.0))
    wanted = np.linspace(-1.9, 60.0, 3001)
    x = losses.positions(wanted)
    assert (np.diff(x) >= 0.0).all()
    here = losses.at(x)
    assert (np.abs(here.log - wanted) <= losses.tolerance(x, here)).all()
    assert losses.tolerance(x, here).max() < 1e-11


MIXTURES = [
    (2, 0.1, 3.0, 10, 1e-4),
    (3, 0.05, 2.0, 50, 1e-6),
    (8, 0.05, 4.0, 100, 1e-8),
    (13, 0.004, 2.5, 30, 1e-7),
]


@for_each(("size", "rate", "noise", "rounds", "at"), sweep(MIXTURES, quick=1))
def test_dp_accounting_agrees_on_mixtures_of_gaussians(size, rate, noise, rounds, at):
    weights = binom.pmf(range(size + 1), size, rate)

    def theirs(pessimistic):
        pld = privacy_loss_distribution.from_mixture_gaussian_mechanism(
            noise, range(size + 1), weights, pessimistic, value_discretization_interval=5e-3
        )
        return pld.self_compose(rounds).get_epsilon_for_delta(at)

    result = epsilon(unit(size, rate, ev.Gaussian(noise), rounds), at)
    high, low = theirs(True), theirs(False)
    assert result.lower <= high * (1 + 1e-9)
    assert result.upper >= low * (1 - 1e-9)
    assert result.upper <= high * (1 + 1e-4) + 1e-5
    assert result.gap <= 1e-3 * result.upper


def _integers(size, rate, event, neighbours):
    """Return P and Q of an integer sum by plain convolution of probabilities."""
    scale = event.noise_multiplier * event.sensitivity
    reach = size * event.sensitivity
    radius = math.ceil(9 * scale if isinstance(event, ev.DiscreteGaussian) else 40 * scale)
    z = np.arange(-radius, radius + 1.0)
    noise = np.exp(
        -0.5 * (z / scale) ** 2 if isinstance(event, ev.DiscreteGaussian) else -np.abs(z) / scale
    )
    drawn = np.zeros(2 * reach + 1)
    drawn[reach :: event.sensitivity] = binom.pmf(range(size + 1), size, rate)
    p = np.convolve(noise / noise.sum(), drawn)
    still = np.zeros(2 * reach + 1)
    still[reach] = 1.0
    q = np.convolve(noise / noise.sum(), drawn[::-1] if neighbours == REPLACE else still)
    return p, q


@for_each(
    ("size", "rate", "event", "rounds", "neighbours"),
    [
        (3, 0.1, ev.DiscreteGaussian(2.0, 1), 20, REPLACE),
        (5, 0.02, ev.DiscreteGaussian(0.8, 3), 100, ADD),
        (3, 0.2, ev.DiscreteLaplace(3.0, 1), 20, ADD),
        (6, 0.05, ev.DiscreteLaplace(1.5, 2), 5, REPLACE),
    ],
)
def test_dp_accounting_agrees_on_integer_sums(size, rate, event, rounds, neighbours):
    p, q = _integers(size, rate, event, neighbours)
    seen = (p > 1e-19) & (q > 1e-19)
    log_p, log_q = dict(enumerate(np.log(p[seen]))), dict(enumerate(np.log(q[seen])))
    ends = []
    for numerator, other in ((log_p, log_q), (log_q, log_p)):
        pld = privacy_loss_distribution.from_two_probability_mass_functions(
            other, numerator, value_discretization_interval=2e-4, symmetric=True
        )
        ends.append(pld.self_compose(rounds).get_epsilon_for_delta(1e-6))
    result = epsilon(unit(size, rate, event, rounds), 1e-6, neighbours)
    assert result.lower <= max(ends) * (1 + 1e-9)
    assert result.upper == pytest.approx(max(ends), rel=2e-3)
    assert result.gap <= 1e-3 * result.upper


@for_each("neighbours", [ADD, REPLACE])
def test_fine_integers_tend_to_the_line(neighbours):
    for fine, continuous in (
        (ev.DiscreteGaussian(4.0, 200), ev.Gaussian(4.0)),
        (ev.DiscreteLaplace(4.0, 200), ev.Laplace(4.0)),
    ):
        near = epsilon(unit(6, 0.05, fine, 50), 1e-6, neighbours)
        line = epsilon(unit(6, 0.05, continuous, 50), 1e-6, neighbours)
        assert near.lower <= line.upper * (1 + 1e-4)
        assert line.lower <= near.upper * (1 + 1e-4)


def test_a_group_of_one_is_a_record():
    for mechanism in (ev.Gaussian(2.0), ev.Laplace(2.0), ev.DiscreteLaplace(2.0, 2)):
        alone = ev.Repeat(50, ev.Poisson(0.02, mechanism))
        record, group = (account(e, delta=1e-6).epsilon for e in (alone, ev.Group(1, alone)))
        assert group == record


@for_each("neighbours", sweep([ADD, REPLACE, "zero-out"], quick=1))
def test_larger_units_lose_more_and_no_more_than_without_sampling(neighbours):
    rng = np.random.default_rng(8)
    for _ in range(2):
        noise, rate = float(rng.uniform(0.6, 6.0)), float(10 ** rng.uniform(-3, -0.2))
        kind = (ev.Gaussian, ev.Laplace)[int(rng.integers(2))]
        rounds, at = int(rng.integers(1, 400)), float(10 ** rng.uniform(-9, -3))
        below = epsilon(ev.Repeat(rounds, ev.Poisson(rate, kind(noise))), at, neighbours)
        for size in (2, 11):
            event = unit(size, rate, kind(noise), rounds)
            asked = {"delta": at, "neighbours": neighbours}
            result = epsilon(event, at, neighbours)
            whole = bounds_on_epsilon(ev.Group(size, ev.Repeat(rounds, kind(noise))), **asked)
            assert result.lower <= result.upper
            assert below.lower <= result.upper * (1 + 1e-9)
            assert result.lower <= whole.upper
            assert result.gap <= 1e-3 * result.upper
            assert result.lower <= account(event, **asked, engine="rdp").epsilon.upper
            below = result


def test_replacing_a_unit_costs_more_than_removing_it_and_zero_out_costs_the_same():
    event = unit(4, 0.05, ev.Gaussian(2.0), 100)
    assert epsilon(event, 1e-5, "zero-out") == epsilon(event, 1e-5, ADD)
    assert epsilon(event, 1e-5, REPLACE).lower > epsilon(event, 1e-5, ADD).upper


@for_each("size", [5, 1000, 10_000])
def test_large_units_keep_a_two_sided_answer(size):
    event = unit(size, 0.01, ev.Gaussian(5.0), 1000)
    result = epsilon(event)
    assert 0.0 < result.lower <= result.upper <= result.lower * (1 + 1e-3)
    # About size records times the rate arrive each round, with noise 5: a Gaussian of mean
    # size x rate is the sum's centre, and what it alone reveals is a lower end up to spread.
    centred = bounds_on_epsilon(ev.Repeat(1000, ev.Gaussian(5.0 / (size * 0.01))), delta=1e-5)
    assert result.upper >= 0.9 * centred.lower
    whole = ev.Group(size, ev.Repeat(1000, ev.Gaussian(5.0)))
    assert result.upper <= bounds_on_epsilon(whole, delta=1e-5).upper


@for_each(
    ("size", "rate", "noise", "rounds", "at"),
    [
        (2, 1e-200, 1.0, 1000, 1e-5),
        (5, 1e-6, 2.0, 100, 1e-7),
        (5, 1 - 1e-12, 2.0, 10, 1e-7),
        (7, 0.1, 0.1, 1, 1e-7),
        (7, 0.1, 1e6, 1000, 1e-9),
        (3, 0.5, 3.0, 3, 1e-290),
        pytest.param(300, 1e-3, 1.0, 10, 1e-9, marks=pytest.mark.slow),
    ],
)
def test_extremes_stay_ordered(size, rate, noise, rounds, at):
    for neighbours in (ADD, REPLACE):
        # Below 1e-250 by rdp.
        ask = partial(
            bounds_on_epsilon if at < 1e-250 else epsilon, delta=at, neighbours=neighbours
        )
        result = ask(unit(size, rate, ev.Gaussian(noise), rounds))
        alone = ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise)))
        assert ask(alone).lower <= result.upper
        # Seen round by round, a unit is drawn at most as often as at size x rate, and then
        # moves the sum by at most size.
        if size * rate < 1.0:
            coarse = ev.Poisson(size * rate, ev.Gaussian(noise / size))
            assert result.lower <= ask(ev.Repeat(rounds, coarse)).upper * (1 + 1e-9)


def test_the_derivation_states_the_scope():
    for neighbours, words in (
        (ADD, "come or go together"),
        (REPLACE, "be replaced"),
        ("zero-out", "set to zero"),
    ):
        result = account(unit(8, 0.01, ev.Gaussian(5.0), 100), delta=1e-5, neighbours=neighbours)
        scope = [step for step in result.derivation if step.stage == "group"]
        assert len(scope) == 1
        assert words in scope[0].statement
        assert any("lemma" in c or "exchanged" in c for c in scope[0].conditions)
        assert result.unit == "group of 8 records"


def test_calibration_of_a_unit():
    result = calibrate(lambda s: unit(4, 0.01, ev.Gaussian(s), 1000), epsilon=4.0, delta=1e-5)
    assert result.guarantee.epsilon.upper <= 4.0
    assert result.guarantee.epsilon.lower >= 4.0 * (1 - 1e-3)
    alone = calibrate(
        lambda s: ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(s))), epsilon=4.0, delta=1e-5
    )
    assert alone.value < result.value < 4 * alone.value


def test_what_has_no_pair_is_refused():
    for event, words in (
        (ev.Group(2, ev.Poisson(0.1, ev.Pure(1.0))), "`pure` under `poisson`"),
        (
            ev.Group(MAX_GROUP_RECORDS + 1, ev.Poisson(0.1, ev.Gaussian(1.0))),
            "up to 100,000 records",
        ),
        (ev.Group(9000, ev.Poisson(0.1, ev.DiscreteGaussian(1.0, 1000))), "too many outcomes"),
        (ev.Group(2, ev.Poisson(0.1, ev.Gaussian(1e-40))), "noise multipliers"),
    ):
        with pytest.raises(Unsupported, match=words) as refusal:
            epsilon(event)
        assert refusal.value.next_step
