"""Groups of stated guarantees: no lower end lies above what chains of such mechanisms can show."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

import privplan as pp
from privplan import account, calibrate
from privplan import events as ev

from ..cases import for_each


def most_shown(size: int, epsilon: float, delta: float, at: float) -> float:
    """Bound delta at `at` over chains of `size` (epsilon, delta)-DP steps, on a grid of tests.

    A test with false positive rate x has the rate G(x) = min(d + e^eps x, 1 - e^-eps (1 - d - x))
    at most after one step, and G^k(x) after k.
    """

    def step(x: float) -> float:
        grown = min(delta + math.exp(epsilon) * x, 1.0)
        return min(grown, 1.0 - math.exp(-epsilon) * max(1.0 - delta - x, 0.0))

    def power(x: float) -> float:
        for _ in range(size):
            x = step(x)
        return x

    # The kinks of G^k are where an iterate meets the corner of G.
    rates = {0.0, 1.0}
    corner = (1.0 - delta) / (1.0 + math.exp(epsilon))
    for power_before in range(size):
        x = corner
        for _ in range(power_before):
            inverse = max((x - delta) * math.exp(-epsilon), 0.0)
            x = inverse if step(inverse) >= x - 1e-15 else 1.0 - delta - math.exp(epsilon) * (1 - x)
        rates.add(min(max(x, 0.0), 1.0))
    rates.update(k / 512 for k in range(513))
    return max(power(x) - math.exp(at) * x for x in rates)


CASES = [(2, 1.0, 0.0), (3, 0.5, 0.0), (2, 1.0, 0.1), (3, 8.0, 1e-6), (5, 0.1, 0.01)]


def test_the_oracle_of_one_step_is_the_worst_mechanism():
    for at in (0.0, 0.5):
        exact = account(ev.Approximate(1.0, 0.1), epsilon=at).delta
        assert exact.lower == pytest.approx(most_shown(1, 1.0, 0.1, at), rel=1e-6)
    assert most_shown(2, 1.0, 0.0, 0.0) == pytest.approx(0.63212, abs=1e-5)


@for_each(("size", "epsilon", "delta"), CASES)
@for_each("share", [0.0, 0.5, 1.0])
def test_no_lower_end_exceeds_what_a_chain_shows(size, epsilon, delta, share):
    at = share * size * epsilon
    most = most_shown(size, epsilon, delta, at)
    events = [ev.Approximate(epsilon, delta)]
    events += [] if delta else [ev.Pure(epsilon), ev.Local(epsilon)]
    for event in events:
        group = ev.Group(size, event)
        for wrapped in (group, ev.Poisson(1.0, group), ev.ClientSampled(1.0, group)):
            answer = account(wrapped, epsilon=at).delta
            assert answer.lower <= most * (1 + 1e-9)
            assert answer.upper >= most * (1 - 1e-9) - 1e-14  # the oracle is as far off
            assert account(wrapped, epsilon=at, engine="pld").delta.lower <= most * (1 + 1e-9)


@for_each("inner", [ev.Pure(1.0), ev.RandomizedResponse(1.0, 2)])
def test_draws_of_the_same_unit_claim_no_more(inner):
    most = most_shown(2, 1.0, 0.0, 0.0)
    for event in (ev.WithReplacement(2, 1, inner), ev.Group(2, inner)):
        for relation in ("replace-one", "zero-out"):
            assert account(event, epsilon=0.0, neighbours=relation).delta.lower <= most


def test_a_batch_that_is_everybody_claims_no_more():
    event = ev.FixedSize(10, 10, ev.Group(2, ev.Pure(1.0)))
    answer = account(event, epsilon=0.0, neighbours="replace-one").delta
    assert answer.lower <= most_shown(2, 1.0, 0.0, 0.0)


def test_many_rounds_claim_no_more_than_their_groups_allow():
    # From one round's largest power, 30 rounds at most: (G^2)^30 composed is at most their sum.
    answer = account(ev.Repeat(30, ev.Group(2, ev.Pure(0.1))), epsilon=0.0).delta
    assert 0.0 < answer.lower <= answer.upper < 30 * most_shown(2, 0.1, 0.0, 0.0)


def test_one_record_keeps_the_worst_of_its_class():
    for event in (ev.Pure(1.0), ev.Group(1, ev.Pure(1.0))):
        assert account(event, epsilon=0.5).delta.gap < 1e-6
    mixed = account(ev.Compose((ev.Pure(1.0), ev.Group(2, ev.Pure(0.3)))), epsilon=0.5).delta
    assert mixed.lower > account(ev.Pure(1.0), epsilon=0.5).delta.upper
    assert mixed.lower <= mixed.upper <= mixed.lower * (1 + 1e-3)


def test_curves_of_a_group_claim_no_more():
    # A chain of two finds most, for a Gaussian, at the level 1 / (e (1 + e)): e / (1 + e).
    group = ev.Group(2, ev.Pure(1.0))
    enough = norm.isf(1.0 / (math.e * (1.0 + math.e))) + norm.ppf(math.e / (1.0 + math.e))
    assert enough == pytest.approx(1.90364, abs=1e-5)
    assert pp.gdp(group).mu.lower <= enough <= pp.gdp(group).mu.upper
    assert pp.risk(group).mu_everywhere.lower <= enough <= pp.risk(group).mu_everywhere.upper
    assert pp.rdp(group, [2.0]).lower[0] == 0.0
    assert pp.rdp(ev.Pure(1.0), [2.0]).lower[0] > 0.0
    assert (
        pp.rdp(ev.WithReplacement(2, 1, ev.Pure(1.0)), [2.0], neighbours="zero-out").lower[0] == 0
    )


def test_the_warning_says_what_is_not_proven():
    answer = account(ev.Group(3, ev.Approximate(8.0, 1e-6)), delta=1e-5)
    assert answer.epsilon.upper == math.inf
    (text,) = [text for text in answer.warnings if "unit of 3 records" in text]
    assert "nothing is proven of it" in text


def test_a_calibration_claims_no_more():
    found = calibrate(lambda s: ev.Group(2, ev.Pure(1.0 / s)), epsilon=1.0, delta=0.0)
    assert found.guarantee.epsilon.lower <= 2.0 / found.value <= 1.0
