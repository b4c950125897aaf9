"""Calibration: never above the target, as small as can be certified, and plain about the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.account import bounds_on_delta, bounds_on_epsilon
from privplan.accountant.certified_search import UNKNOWNS, find_certified_value
from privplan.accountant.errors import InvalidInput, TargetTrivial, TargetUnreachable
from privplan.accountant.guarantee import Bounds

from ..cases import for_each
from ..sweeps import sweep

# The tight noise of the six benchmark targets, from dp_accounting's PLD at discretisation 1e-5
# and 2e-5 (bench/), and in closed form at rate 1.
TARGETS = [
    ((2.0, 1e-5, 0.01, 10_000), 2.12738),
    ((1.0, 1e-5, 0.01, 100), 0.902025),
    ((8.0, 1e-6, 0.05, 2000), 1.64279),
    ((0.5, 1e-7, 0.001, 100_000), 2.93651),
    ((4.0, 1e-5, 1.0, 50), 7.644969),
    ((1.0, 1e-6, 0.004267, 2344), 1.140216),
]


def _dp_sgd(rate, rounds):
    return lambda noise: ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise)))


@for_each(("target", "tight"), TARGETS)
@for_each("engine", [None, "pld"])
def test_benchmark_targets_are_met_within_one_in_ten_thousand(target, tight, engine):
    epsilon, delta, rate, rounds = target
    found = pp.calibrate(_dp_sgd(rate, rounds), epsilon=epsilon, delta=delta, engine=engine)
    assert found.guarantee.epsilon.upper <= epsilon
    assert tight * (1 - 1e-5) <= found.value <= tight * (1 + 1e-4)
    assert 0.0 <= found.gap <= 1e-3 * epsilon
    assert found.gap == epsilon - found.guarantee.epsilon.lower
    assert found.event == _dp_sgd(rate, rounds)(found.value)


@pytest.mark.slow  # by default peers.json stands for that library, and targets are met by ours
@for_each("target", [TARGETS[1][0], TARGETS[5][0]])
def test_another_library_finds_the_target_met(target):
    epsilon, delta, rate, rounds = target
    found = pp.calibrate(_dp_sgd(rate, rounds), epsilon=epsilon, delta=delta)
    loss = from_gaussian_mechanism(
        found.value, sampling_prob=rate, value_discretization_interval=2e-5
    )
    # Its own upper end exceeds what is true by 0.6 * rounds * 2e-5^2 * (1 + tilt / 5) or less.
    assert loss.self_compose(rounds).get_epsilon_for_delta(delta) <= epsilon * (1 + 2e-5)


def _random_targets(count):
    rng = np.random.default_rng(7)
    for _ in range(count):
        yield (
            float(np.exp(rng.uniform(math.log(0.05), math.log(30)))),
            float(10 ** rng.uniform(-12, -2)),
            float(np.exp(rng.uniform(math.log(1e-3), 0))),
            int(np.exp(rng.uniform(0, math.log(5000)))),
            str(rng.choice(["add-remove", "replace-one", "zero-out"])),
            rng.choice([ev.Gaussian, ev.Laplace]),
        )


@for_each("count", [12, pytest.param(30, marks=pytest.mark.slow)])
def test_account_agrees_that_random_targets_are_met(count):
    reached = 0
    for epsilon, delta, rate, rounds, neighbours, mechanism in _random_targets(count):

        def make(noise, rounds=rounds, rate=rate, mechanism=mechanism):
            return ev.Repeat(rounds, ev.Poisson(rate, mechanism(noise)))

        try:
            found = pp.calibrate(make, epsilon=epsilon, delta=delta, neighbours=neighbours)
        except TargetTrivial:
            continue
        reached += 1
        assert found.guarantee.epsilon.upper <= epsilon
        again = pp.account(found.event, delta=delta, neighbours=neighbours)
        assert again.epsilon.upper <= epsilon
        # A little less noise is certified to miss the target, or nearly so.
        less = pp.account(make(found.value * (1 - 1e-3)), delta=delta, neighbours=neighbours)
        assert less.epsilon.upper > epsilon
    assert reached >= count * 5 // 6


def test_rounds_are_the_most_that_are_certified():
    def make(rounds):
        assert isinstance(rounds, int)
        return ev.Repeat(rounds, ev.Poisson(0.01, ev.Gaussian(1.0)))

    found = pp.calibrate(make, epsilon=2.0, delta=1e-5, unknown="rounds")
    assert found.value == int(found.value)
    assert pp.account(make(int(found.value)), delta=1e-5).epsilon.upper <= 2.0
    # One part in ten thousand and one round more is beyond what is true.
    more = int(found.value * (1 + 1e-4)) + 2
    assert pp.account(make(more), delta=1e-5).epsilon.lower > 2.0 - 1e-3


def test_the_rate_is_the_highest_that_is_certified():
    def make(rate):
        return ev.Repeat(1000, ev.Poisson(rate, ev.Gaussian(1.0)))

    found = pp.calibrate(make, epsilon=2.0, delta=1e-5, unknown="rate")
    assert pp.account(make(found.value), delta=1e-5).epsilon.upper <= 2.0
    assert pp.account(make(found.value * 1.001), delta=1e-5).epsilon.lower > 2.0


def test_a_rate_of_one_may_be_enough():
    def make(rate):
        return ev.Repeat(10, ev.Poisson(rate, ev.Gaussian(100.0)))

    found = pp.calibrate(make, epsilon=2.0, delta=1e-5, unknown="rate")
    assert found.value == 1.0
    assert found.guarantee.epsilon == pp.account(make(1.0), delta=1e-5).epsilon


@for_each("neighbours", ["add-remove", "replace-one"])
def test_laplace_alone_in_one_round_is_pure(neighbours):
    reach = 2 if neighbours == "replace-one" else 1
    found = pp.calibrate(ev.Laplace, epsilon=1.0, delta=1e-12, neighbours=neighbours)
    assert found.value == pytest.approx(reach, rel=1e-4)


def test_any_monotone_event_can_be_calibrated():
    def make(noise):
        return ev.Compose(
            [ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(noise))), ev.Laplace(10.0), ev.Pure(0.1)]
        )

    found = pp.calibrate(make, epsilon=1.0, delta=1e-6)
    assert found.guarantee.epsilon.upper <= 1.0
    assert pp.account(make(found.value * 0.999), delta=1e-6).epsilon.upper > 1.0


def test_events_that_only_rdp_knows_are_calibrated_by_rdp():
    def make(noise):
        return ev.Compose([ev.Repeat(50, ev.Gaussian(noise)), ev.ZCDP(0.001)])

    found = pp.calibrate(make, epsilon=1.0, delta=1e-6)
    assert found.guarantee.engine == "rdp"
    assert found.guarantee.epsilon.upper <= 1.0
    assert found.gap == 1.0  # no lower end


def test_another_engine_can_be_asked():
    found = pp.calibrate(_dp_sgd(0.01, 1000), epsilon=2.0, delta=1e-5, engine="rdp")
    tight = pp.calibrate(_dp_sgd(0.01, 1000), epsilon=2.0, delta=1e-5)
    assert found.guarantee.engine == "rdp"
    assert found.value > tight.value * 1.02


def test_a_target_that_nothing_meets_is_said_plainly():
    for other in (ev.Pure(2.0), ev.Approximate(0.1, 1e-4), ev.NoGuarantee("raw")):
        with pytest.raises(TargetUnreachable, match="No noise multiplier from"):
            pp.calibrate(
                lambda noise, other=other: ev.Compose([ev.Gaussian(noise), other]),
                epsilon=1.0,
                delta=1e-5,
            )
    with pytest.raises(TargetUnreachable, match="No number of rounds"):
        pp.calibrate(
            lambda rounds: ev.Repeat(rounds, ev.Gaussian(0.1)),
            epsilon=1.0,
            delta=1e-5,
            unknown="rounds",
        )


@for_each(
    ("make", "epsilon", "delta"),
    [
        (_dp_sgd(1e-9, 10), 1.0, 1e-5),
        (_dp_sgd(0.0, 10), 1.0, 1e-5),
        (_dp_sgd(1e-300, 10), 1.0, 1e-5),
        pytest.param(_dp_sgd(0.1, 10), 1e300, 1e-5, marks=pytest.mark.slow),
        (lambda _: ev.Pure(0.5), 1.0, 1e-5),
    ],
)
def test_a_target_that_needs_no_noise_is_said_plainly(make, epsilon, delta):
    with pytest.raises(TargetTrivial, match="it needs no noise"):
        pp.calibrate(make, epsilon=epsilon, delta=delta)


def test_rounds_without_a_limit_are_said_plainly():
    with pytest.raises(TargetTrivial, match="still holds after 1,000,000,000 rounds"):
        pp.calibrate(
            lambda rounds: ev.Repeat(rounds, ev.Poisson(0.0, ev.Gaussian(1.0))),
            epsilon=1.0,
            delta=1e-5,
            unknown="rounds",
        )


@for_each(
    ("given", "words"),
    [
        ({"epsilon": 0.0, "delta": 1e-5}, "`epsilon` must be a finite number above 0"),
        ({"epsilon": math.nan, "delta": 1e-5}, "`epsilon` must be"),
        ({"epsilon": 1.0, "delta": -1e-9}, "`delta` must be"),
        ({"epsilon": 1.0, "delta": 1e-5, "unknown": "clip"}, "`unknown` must be one of"),
        ({"epsilon": 1.0, "delta": 1e-5, "engine": "prv"}, "`engine` must be one of"),
        ({"epsilon": 1.0, "delta": 1e-5, "neighbours": "x"}, "`neighbours` must be one of"),
    ],
)
def test_bad_targets_are_refused_with_the_field(given, words):
    with pytest.raises(InvalidInput, match=words):
        pp.calibrate(_dp_sgd(0.01, 10), **given)


def test_make_event_is_called_and_returns_an_event():
    for make, words in (
        (lambda noise: noise, "return an event"),
        (ev.Gaussian(1.0), "be callable"),
    ):
        with pytest.raises(InvalidInput, match=f"`make_event` must {words}"):
            pp.calibrate(make, epsilon=1.0, delta=1e-5)


@for_each("noise_free", [0.1, 0.5])
def test_the_engine_that_proves_more_leads(noise_free):
    # rdp knows the bounded range of selections, pld only their epsilon; at .5 pld never gets there.
    def run(noise):
        return ev.Compose(
            [ev.Exponential(noise_free), ev.Repeat(20, ev.Exponential(0.1)), ev.Gaussian(noise)]
        )

    found = pp.calibrate(run, epsilon=2.0, delta=1e-5)
    assert found.guarantee.engine == "rdp"
    assert 0.999 * 2.0 <= found.guarantee.epsilon.upper <= 2.0
    by_rdp = pp.calibrate(run, epsilon=2.0, delta=1e-5, engine="rdp")
    assert found.value == pytest.approx(by_rdp.value, rel=1e-4)


class _Fake:
    """A verdict whose excess is a chosen function of the value."""

    steps = ()
    warnings = ()
    epsilon = 1.0

    def __init__(self, excess):
        self.log_excess = excess
        self.epsilon_upper = 1.0 + min(excess, 10.0) / 10.0

    def bounds(self):
        return Bounds(0.0, 1.0)


@for_each(
    "excess",
    [
        lambda v: 3.0 - v,  # gentle
        lambda v: 30.0 * (math.log(3.0) - math.log(v)),  # steep
        lambda v: 1.0 if v < 3.0 else -1.0,  # a step
        lambda v: (3.0 - v) ** 3,  # flat at the crossing
        lambda v: math.inf if v < 2.0 else 3.0 - v,
        lambda v: 5.0 * (math.log(3.0) - math.log(v)) + (0.5 if v < 3.0 else -0.5),
    ],
)
@for_each("misled", [1.0, 1.4, 0.3])
def test_the_search_never_returns_a_value_above_the_target(excess, misled):
    """Whatever the shape, and however wrong the estimate."""
    found = find_certified_value(
        UNKNOWNS["noise"],
        certify=lambda value: _Fake(excess(value)),
        coarse=lambda value: excess(value / misled),
        estimate=lambda value: excess(value * misled),
    )
    assert excess(found.value) <= 0.0
    assert found.value >= 3.0 * (1 - 1e-9)


@pytest.mark.quick(2)
@for_each(
    ("make", "epsilon", "delta"),
    [
        # Plateaus, where delta at the target hardly depends on the noise.
        (lambda s: ev.Compose([ev.Poisson(1e-5, ev.Gaussian(s)), ev.Gaussian(2.0)]), 2.6, 1e-5),
        (lambda s: ev.Compose([ev.Pure(0.99), ev.Repeat(913, ev.Laplace(s))]), 1.0, 1e-5),
        (lambda s: ev.Repeat(10, ev.Poisson(1e-6, ev.Gaussian(s))), 1.0, 1e-7),
        (lambda s: ev.DiscreteGaussian(s, 1000), 0.1, 1e-5),  # too many outcomes: by rdp
    ],
)
def test_the_search_does_not_stop_short_of_the_target(make, epsilon, delta):
    found = pp.calibrate(make, epsilon=epsilon, delta=delta)
    assert (1 - 1e-3) * epsilon <= found.guarantee.epsilon.upper <= epsilon


def _padded(noise):
    """A bound that jumps at 0.4627 from 8.18 to 7.70: another dummy in each of 31 dimensions."""
    dimensions = (60, 31, 6, 40, "coordinate", "oblivious", "refuse")
    return ev.Repeat(2, ev.SampledShuffle(*dimensions, ev.Laplace(noise)))


@for_each("noise", sweep([0.4627, 0.4885], quick=1))
def test_both_questions_about_a_bound_that_jumps_agree(noise):
    """Delta at an epsilon is no more than where that epsilon was proven."""
    event = _padded(noise)
    asked = {"neighbours": "replace-one"}
    epsilon = bounds_on_epsilon(event, delta=1e-5, **asked).upper
    for more in (1.0, 1.04):
        delta = bounds_on_delta(event, epsilon=epsilon * more, **asked).upper
        assert delta <= 1e-5 * (1.0 + 1e-6)


@pytest.mark.slow
def test_the_search_ends_at_the_edge_of_a_jump():
    found = pp.calibrate(_padded, epsilon=8.0, delta=1e-5, neighbours="replace-one")
    assert found.guarantee.epsilon.upper <= 8.0
    less = pp.account(_padded(found.value * 0.9999), delta=1e-5, neighbours="replace-one")
    assert less.epsilon.upper > 8.0


def test_the_certificate_belongs_to_the_event_that_is_returned():
    """Also if `make_event` answers differently each time."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        found = pp.calibrate(
            lambda noise: ev.Repeat(50, ev.Gaussian(noise * float(rng.uniform(0.9, 1.1)))),
            epsilon=1.0,
            delta=1e-5,
        )
        assert found.guarantee.epsilon.upper <= 1.0
        assert pp.account(found.event, delta=1e-5).epsilon.upper <= 1.0


@for_each(("rate", "rounds"), sweep([(1.0, 1), (0.01, 100)], quick=1))
def test_a_coarse_engine_does_not_pass_the_target_either(rate, rounds):
    found = pp.calibrate(_dp_sgd(rate, rounds), epsilon=1.0, delta=1e-5, engine="microsoft")
    assert found.guarantee.epsilon.upper <= 1.0
    again = pp.account(found.event, delta=1e-5, engine="microsoft")
    assert again.epsilon.upper <= 1.0
