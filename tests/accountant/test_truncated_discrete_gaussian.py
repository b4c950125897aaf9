"""Discrete Gaussian noise with a bound: enumeration, dp_accounting, and its limits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from privplan import account, calibrate
from privplan import events as ev

from ..cases import for_each

SETTINGS = [(2.0, 1, 12), (1.0, 3, 20), (0.7, 4, 9), (5.0, 1, 4)]


def pmf(event: ev.TruncatedDiscreteGaussian) -> dict[int, float]:
    sigma = event.noise_multiplier * event.sensitivity
    weights = {z: math.exp(-0.5 * (z / sigma) ** 2) for z in range(-event.bound, event.bound + 1)}
    total = math.fsum(weights.values())
    return {z: weight / total for z, weight in weights.items()}


def exact_delta(event: ev.TruncatedDiscreteGaussian, epsilon: float, most: int) -> float:
    """The largest hockey stick over all shifts of up to `most`, by enumeration."""
    noise = pmf(event)
    return max(
        math.fsum(
            max(mass - math.exp(epsilon) * noise.get(z + shift, 0.0), 0.0)
            for z, mass in noise.items()
        )
        for shift in range(-most, most + 1)
    )


@for_each("setting", SETTINGS)
@for_each(("relation", "moved"), [("add-remove", 1), ("replace-one", 2)])
@for_each("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_both_ends_hold_the_enumerated_delta(setting, relation, moved, epsilon):
    event = ev.TruncatedDiscreteGaussian(*setting)
    exact = exact_delta(event, epsilon, moved * event.sensitivity)
    answer = account(event, epsilon=epsilon, neighbours=relation).delta
    assert answer.lower <= exact * (1 + 1e-12)
    assert exact <= answer.upper * (1 + 1e-12)
    assert answer.gap <= 1e-3 * exact + 1e-12
    by_rdp = account(event, epsilon=epsilon, neighbours=relation, engine="rdp").delta
    assert by_rdp.upper >= exact * (1 - 1e-12)


@for_each("rate", [0.3])
def test_a_poisson_sample_is_enumerated(rate):
    event = ev.TruncatedDiscreteGaussian(1.0, 2, 6)
    noise = pmf(event)
    mixed = {z: (1 - rate) * noise.get(z, 0.0) + rate * noise.get(z - 2, 0.0) for z in range(-6, 9)}
    for epsilon in (0.2, 1.0):
        order = math.exp(epsilon)
        exact = max(
            math.fsum(max(mixed[z] - order * noise.get(z, 0.0), 0.0) for z in mixed),
            math.fsum(max(noise.get(z, 0.0) - order * mixed[z], 0.0) for z in mixed),
        )
        answer = account(ev.Poisson(rate, event), epsilon=epsilon).delta
        assert answer.lower <= exact <= answer.upper <= exact * 1.001 + 1e-12


def test_three_rounds_are_enumerated():
    event = ev.TruncatedDiscreteGaussian(2.0, 1, 5)
    noise = pmf(event)
    p = np.array([noise.get(z, 0.0) for z in range(-5, 7)])
    q = np.array([noise.get(z - 1, 0.0) for z in range(-5, 7)])
    ps = np.multiply.outer(np.multiply.outer(p, p), p)
    qs = np.multiply.outer(np.multiply.outer(q, q), q)
    for epsilon in (0.5, 2.0):
        exact = float(np.maximum(ps - math.exp(epsilon) * qs, 0.0).sum())
        answer = account(ev.Repeat(3, event), epsilon=epsilon).delta
        assert answer.lower <= exact <= answer.upper <= exact * 1.001


@for_each("setting", [(2.0, 1, 12), (1.0, 3, 20)])
def test_dp_accounting_says_the_same(setting):
    event = ev.TruncatedDiscreteGaussian(*setting)
    theirs = privacy_loss_distribution.from_discrete_gaussian_mechanism(
        event.noise_multiplier * event.sensitivity,
        sensitivity=event.sensitivity,
        truncation_bound=event.bound,
        value_discretization_interval=1e-5,
    )
    for epsilon in (0.3, 1.0):
        answer = account(event, epsilon=epsilon).delta
        assert theirs.get_delta_for_epsilon(epsilon) == pytest.approx(answer.upper, rel=1e-3)


def test_what_only_one_data_set_can_release_is_never_hidden():
    event = ev.TruncatedDiscreteGaussian(2.0, 1, 12)
    edge = pmf(event)[12]
    assert account(event, epsilon=80.0).delta.upper == pytest.approx(edge, rel=1e-6)
    assert account(event, delta=0.99 * edge).epsilon.upper == math.inf
    assert account(event, delta=0.0).epsilon.upper == math.inf
    apart = ev.TruncatedDiscreteGaussian(1.0, 5, 2)  # supports that do not meet
    for engine in ("pld", "rdp"):
        assert account(apart, epsilon=9.0, engine=engine).delta.upper == 1.0


def test_a_bound_far_away_changes_nothing():
    cut, whole = ev.TruncatedDiscreteGaussian(2.0, 1, 60), ev.DiscreteGaussian(2.0, 1)
    for event in (lambda e: e, lambda e: ev.Repeat(20, e), lambda e: ev.Group(2, e)):
        near = account(event(cut), delta=1e-6).epsilon
        assert near.upper == pytest.approx(
            account(event(whole), delta=1e-6).epsilon.upper, rel=1e-4
        )


def test_a_group_moves_the_sum_farther():
    event = ev.TruncatedDiscreteGaussian(1.0, 2, 8)
    answer = account(ev.Group(3, event), epsilon=1.0).delta
    exact = exact_delta(event, 1.0, 6)
    assert answer.lower <= exact * (1 + 1e-9) <= answer.upper * (1 + 2e-9)
    assert answer.upper <= exact * 1.001


def test_noise_with_a_bound_is_calibrated_though_more_noise_fails():
    def cut(s):
        return ev.TruncatedDiscreteGaussian(s, 1, 20)

    result = calibrate(cut, epsilon=1.0, delta=1e-3)
    assert (
        exact_delta(cut(result.value), 1.0, 1)
        <= 1e-3
        < exact_delta(cut(result.value * 0.99), 1.0, 1)
    )
    assert exact_delta(cut(50.0), 1.0, 1) > 1e-3
    assert Fraction(result.value) > 0


Sums = dict[int, float]


def fixed_size(units: tuple[int, ...]) -> Sums:
    batches = list(itertools.combinations(units, 2))
    return summed((sum(batch), 1.0 / len(batches)) for batch in batches)


def with_replacement(units: tuple[int, ...]) -> Sums:
    batches = list(itertools.product(units, repeat=2))
    return summed((sum(batch), 1.0 / len(batches)) for batch in batches)


def truncated_poisson(units: tuple[int, ...]) -> Sums:
    """Each unit joins with probability 0.4; of more than two, two stay at random."""
    weighted = []
    for joined in itertools.product((0, 1), repeat=len(units)):
        weight = math.prod(0.4 if each else 0.6 for each in joined)
        sample = [unit for unit, each in zip(units, joined, strict=True) if each]
        kept = list(itertools.combinations(sample, min(len(sample), 2)))
        weighted += [(sum(batch), weight / len(kept)) for batch in kept]
    return summed(weighted)


def summed(weighted) -> Sums:
    sums: Sums = {}
    for total, weight in weighted:
        sums[total] = sums.get(total, 0.0) + weight
    return sums


@for_each("relation", ["add-remove", "zero-out", "replace-one"])
@for_each(
    ("sampler", "drawn"),
    [
        (lambda inner: ev.FixedSize(2, 4, inner), fixed_size),
        (lambda inner: ev.WithReplacement(2, 4, inner), with_replacement),
        (lambda inner: ev.TruncatedPoisson(0.4, 2, 4, inner), truncated_poisson),
    ],
)
def test_samples_are_enumerated_over_all_data_sets(sampler, drawn, relation):
    noise_event = ev.TruncatedDiscreteGaussian(1.5, 1, 5)
    noise = np.array([pmf(noise_event).get(z, 0.0) for z in range(-9, 10)])

    def output(units: tuple[int, ...]) -> np.ndarray:
        return sum(w * np.roll(noise, total) for total, w in drawn(units).items())

    epsilons = (0.1, 0.8, 2.0)
    exact = [0.0] * len(epsilons)
    for others in itertools.combinations_with_replacement((-1, 0, 1), 3):
        for old, new in itertools.product((-1, 0, 1), repeat=2):
            changed = {
                "add-remove": others,
                "zero-out": (*others, 0),
                "replace-one": (*others, new),
            }
            p, q = output((*others, old)), output(changed[relation])
            for index, epsilon in enumerate(epsilons):
                for a, b in ((p, q), (q, p)):
                    stick = float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum())
                    exact[index] = max(exact[index], stick)
    for epsilon, truth in zip(epsilons, exact, strict=True):
        delta = account(sampler(noise_event), epsilon=epsilon, neighbours=relation).delta
        assert delta.lower <= truth * (1.0 + 1e-9)
        assert truth <= delta.upper * (1.0 + 1e-9)
        if drawn is fixed_size and relation != "zero-out":
            assert delta.gap <= 1e-3 * truth + 1e-9
