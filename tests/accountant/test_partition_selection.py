"""Partition selection: enumeration of what is released of every key, published thresholds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import laplace, norm

from privplan import account
from privplan import events as ev

from ..cases import for_each

EPSILONS = (0.0, 0.2, 0.7, 1.0, 1.6, 3.0)


def keep_probabilities(epsilon: float, delta: float, most: int = 400) -> list[float]:
    kept = [0.0]
    while len(kept) <= most and kept[-1] < 1.0:
        last = kept[-1]
        kept.append(
            min(math.exp(epsilon) * last + delta, 1 - math.exp(-epsilon) * (1 - last - delta), 1.0)
        )
    return [*kept, 1.0]


def hockey_stick(ps, qs, epsilon: float) -> float:
    p, q = np.ones(1), np.ones(1)
    for one, other in zip(ps, qs, strict=True):
        p = np.multiply.outer(p, [one, 1 - one]).ravel()
        q = np.multiply.outer(q, [other, 1 - other]).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def largest_delta(kept, keys: int, epsilon: float) -> float:
    """Over all counts of all keys, as the unit comes and as it goes."""
    steps = list(itertools.pairwise(kept))
    return max(
        max(
            hockey_stick([b for _, b in chosen], [a for a, _ in chosen], epsilon),
            hockey_stick([a for a, _ in chosen], [b for _, b in chosen], epsilon),
        )
        for chosen in itertools.combinations_with_replacement(steps, keys)
    )


@for_each(("eps", "delta"), [(1.0, 1e-5), (0.5, 0.01), (2.0, 0.3), (0.1, 1e-3)])
def test_one_key_is_exact_over_all_counts(eps, delta):
    event = ev.TruncatedGeometricSelection(eps, delta, 1)
    kept = keep_probabilities(eps, delta)
    for epsilon in EPSILONS:
        exact = largest_delta(kept, 1, epsilon)
        answer = account(event, epsilon=epsilon).delta
        assert answer.lower <= exact * (1 + 1e-9)
        assert exact <= answer.upper * (1 + 1e-9)
        assert answer.upper <= exact * 1.001 + 1e-12
    assert account(event, epsilon=eps).delta.upper == pytest.approx(delta, rel=1e-4)


@for_each(("eps", "delta"), [(1.0, 1e-3), (0.7, 0.05)])
@for_each("keys", [2, 3])
def test_several_keys_are_bounded_for_all_counts_of_all_keys(eps, delta, keys):
    event = ev.TruncatedGeometricSelection(eps, delta, keys)
    kept = keep_probabilities(eps, delta)
    for epsilon in (0.3, eps, 1.5 * eps):
        exact = largest_delta(kept, keys, epsilon)
        answer = account(event, epsilon=epsilon).delta
        assert answer.lower <= exact * (1 + 1e-9)
        assert exact <= answer.upper * (1 + 1e-9)
        assert answer.upper <= 1.35 * exact
        assert answer.lower >= 0.35 * exact


def test_a_new_key_is_all_that_tells_at_a_large_epsilon():
    event = ev.TruncatedGeometricSelection(1.0, 1e-4, 3)
    answer = account(event, epsilon=50.0).delta
    exact = -math.expm1(3 * math.log1p(-1e-4))
    assert answer.lower <= exact * (1 + 1e-9)
    assert exact <= answer.upper * (1 + 1e-9)
    assert answer.gap <= 1e-6 * exact
    assert account(event, delta=1e-4).epsilon.upper == math.inf


def test_replacing_a_unit_moves_as_many_keys_again():
    eps, delta = 0.8, 1e-3
    kept = keep_probabilities(eps, delta)
    steps = list(itertools.pairwise(kept))
    event = ev.TruncatedGeometricSelection(eps, delta, 1)
    for epsilon in (0.5, 1.2):
        exact = max(
            hockey_stick([new[1], old[0]], [new[0], old[1]], epsilon)
            for new, old in itertools.product(steps, steps)
        )
        answer = account(event, epsilon=epsilon, neighbours="replace-one").delta
        assert answer.lower <= exact <= answer.upper * (1 + 1e-9) <= 1.3 * exact
        plain = account(event, epsilon=epsilon).delta
        assert answer.upper >= plain.upper


def test_the_rule_of_sums_is_never_tighter():
    event = ev.TruncatedGeometricSelection(0.5, 1e-6, 20)
    found = account(event, delta=1e-4)
    assert found.epsilon.upper < 20 * 0.5
    plain = account(ev.Repeat(20, ev.Approximate(0.5, 1e-6)), delta=1e-4)
    assert found.epsilon.upper <= plain.epsilon.upper * (1 + 1e-6)
    assert found.epsilon.lower > 0.9 * found.epsilon.upper
    assert account(event, delta=1e-4, engine="rdp").epsilon.upper >= found.epsilon.upper


def threshold_delta(event: ev.ThresholdSelection, epsilon: float, count: int) -> float:
    """One key of `count` units and one more, by fine cells of what is released."""
    law = (norm if event.noise == "gaussian" else laplace)(scale=event.noise_scale)
    x = event.threshold + np.linspace(0.0, 60.0 * event.noise_scale, 100_001)
    with_unit = np.append(np.diff(law.cdf(x - count - 1)), law.cdf(event.threshold - count - 1))
    without = np.append(np.diff(law.cdf(x - count)), law.cdf(event.threshold - count))
    if count == 0:
        without = np.append(np.zeros(x.size - 1), 1.0)
    order = math.exp(epsilon)
    return max(
        float(np.maximum(with_unit - order * without, 0.0).sum()),
        float(np.maximum(without - order * with_unit, 0.0).sum()),
    )


@for_each(("noise", "scale", "threshold"), [("laplace", 2.0, 12.0), ("gaussian", 2.0, 6.0)])
def test_no_count_of_a_key_shows_more_than_the_threshold_bound(noise, scale, threshold):
    event = ev.ThresholdSelection(noise, scale, threshold, 1)
    for epsilon in (0.1, 0.6, 2.0):
        exact = max(threshold_delta(event, epsilon, n) for n in (0, 1, 3, 8, 30, 200))
        answer = account(event, epsilon=epsilon).delta
        assert answer.lower <= exact * 1.001 + 1e-9
        assert exact <= answer.upper * (1 + 1e-6)
        assert answer.upper <= 2.0 * exact + 1e-12
        alone = threshold_delta(event, epsilon, 0)
        assert answer.lower >= alone * (1 - 1e-4)


def test_published_thresholds_hold():
    """Laplace noise k / eps, threshold 1 - k log(2 d) / eps, d = 1 - (1 - delta)^(1/k)."""
    for epsilon, delta, keys in ((1.0, 1e-5, 1), (0.5, 1e-6, 4)):
        scale = keys / epsilon
        each = -math.expm1(math.log1p(-delta) / keys)
        event = ev.ThresholdSelection("laplace", scale, 1.0 - scale * math.log(2.0 * each), keys)
        answer = account(event, epsilon=epsilon * (1 + 1e-12)).delta
        assert answer.upper == pytest.approx(delta, rel=1e-6)
        assert answer.lower == pytest.approx(delta, rel=1e-6)


def test_thresholds_under_replacement_and_in_rdp():
    event = ev.ThresholdSelection("gaussian", 4.0, 25.0, 2)
    plain = account(event, delta=1e-5)
    replaced = account(event, delta=1e-5, neighbours="replace-one")
    assert plain.epsilon.lower <= plain.epsilon.upper < replaced.epsilon.upper
    # Four counts move by one, as one count by two: at noise 4, and a little for new keys.
    assert replaced.epsilon.upper >= account(ev.Gaussian(2.0), delta=1e-5).epsilon.lower
    for relation in ("add-remove", "replace-one"):
        own = account(event, delta=1e-5, neighbours=relation).epsilon
        by_rdp = account(event, delta=1e-5, neighbours=relation, engine="rdp").epsilon
        assert own.lower <= own.upper <= by_rdp.upper
    assert account(event, delta=0.0).epsilon.upper == math.inf


def test_a_low_threshold_hides_no_new_key():
    event = ev.ThresholdSelection("laplace", 1.0, 0.5, 1)
    assert account(event, epsilon=5.0).delta.lower == pytest.approx(laplace.sf(-0.5), rel=1e-6)


@for_each(
    ("eps", "delta", "keys"), [(1.0, 1e-3, 1), (1.0, 1e-3, 2), (2.0, 0.05, 1), (0.5, 0.01, 1)]
)
def test_one_key_comes_and_another_goes(eps, delta, keys):
    steps = list(itertools.pairwise(keep_probabilities(eps, delta)))
    event = ev.TruncatedGeometricSelection(eps, delta, keys)
    for epsilon in (0.2, 0.5 * eps, eps):
        exact = max(
            hockey_stick([b] * keys + [c] * keys, [a] * keys + [d] * keys, epsilon)
            for (a, b), (c, d) in itertools.product(steps, repeat=2)
        )
        answer = account(event, epsilon=epsilon, neighbours="replace-one").delta
        assert 0.8 * exact <= answer.lower <= exact * (1 + 1e-9)
        assert exact <= answer.upper * (1 + 1e-9)


@for_each(("eps", "delta", "least"), [(13.0, 1e-3, 0.998), (18.0, 1e-6, 0.999), (1.0, 0.9, 0.98)])
@for_each("relation", ["add-remove", "replace-one"])
def test_keys_of_a_large_epsilon_or_delta_show_most_units(eps, delta, least, relation):
    steps = list(itertools.pairwise(keep_probabilities(eps, delta, 20)))
    rising = max(hockey_stick([b] * 2, [a] * 2, 1.0) for a, b in steps)
    event = ev.TruncatedGeometricSelection(eps, delta, 2)
    answer = account(event, epsilon=1.0, neighbours=relation).delta
    assert answer.lower >= least
    if relation == "add-remove":
        assert answer.lower <= rising * (1 + 1e-9)
    assert rising <= answer.upper * (1 + 1e-9)


@for_each(("epsilon", "delta"), [(1.0, 1e-5), (0.5, 1e-6), (2.0, 1e-8), (13.0, 1e-3)])
def test_one_key_is_by_definition_as_private_as_it_says(epsilon: float, delta: float) -> None:
    event = ev.TruncatedGeometricSelection(epsilon, delta, 1)
    answer = account(event, delta=delta).epsilon
    # (epsilon, delta)-DP at just these numbers, and the counts 1 and 2 show that at no less: a key
    # is kept with probability delta, then with e^epsilon delta + delta.
    assert answer.lower <= epsilon <= answer.upper <= epsilon * (1.0 + 1e-12)
    # Less delta than the key of a single unit has leaves it in the open.
    assert account(event, delta=delta * (1.0 - 1e-9)).epsilon.upper == math.inf


def test_several_keys_answer_at_the_sum_of_their_deltas() -> None:
    event = ev.TruncatedGeometricSelection(1.0, 1e-5, 3)
    assert account(event, delta=3e-5).epsilon.upper <= 3.0 * (1.0 + 1e-12)
    # A unit with 3 keys of its own is seen with probability 1 - (1 - d)^3.
    seen = 1.0 - (1.0 - 1e-5) ** 3
    assert account(event, delta=seen * (1.0 - 1e-6)).epsilon.upper == math.inf
