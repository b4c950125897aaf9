"""The worst of a class of mechanisms on a sample, in a shuffle, in a client: by their outcomes."""

from __future__ import annotations

import itertools
import math

import pytest

from privplan import account
from privplan import events as ev

from ..cases import for_each

Law = dict[tuple[int, ...], float]


def response(epsilon: float, value: int, categories: int = 2) -> dict[int, float]:
    weights = {each: math.exp(epsilon) if each == value else 1.0 for each in range(categories)}
    return {each: weight / sum(weights.values()) for each, weight in weights.items()}


def mixed(rate: float, present: dict[int, float], absent: dict[int, float]) -> dict[int, float]:
    return {each: rate * present[each] + (1.0 - rate) * absent[each] for each in absent}


def several(laws: list[dict[int, float]], *, shuffled: bool = False) -> Law:
    joint: Law = {}
    for answers in itertools.product(*(law for law in laws)):
        probability = math.prod(law[a] for law, a in zip(laws, answers, strict=True))
        seen = tuple(sorted(answers)) if shuffled else answers
        joint[seen] = joint.get(seen, 0.0) + probability
    return joint


def worse_stick(p: Law, q: Law, epsilon: float) -> float:
    return max(
        sum(max(a[each] - math.exp(epsilon) * b[each], 0.0) for each in p)
        for a, b in ((p, q), (q, p))
    )


@for_each("at", [0.0, 0.05, 0.1])
@for_each("rounds", [1, 3])
@for_each(
    ("sampler", "relation"),
    [
        (lambda inner: ev.Poisson(0.3, inner), "add-remove"),
        (lambda inner: ev.FixedSize(3, 10, inner), "replace-one"),
    ],
)
@for_each("inner", [ev.Pure(1.0), ev.Local(1.0), ev.Approximate(1.0, 0.0)])
def test_answers_about_who_is_in_a_sample(inner, sampler, relation, rounds, at):
    """Randomized response about whether the unit's value is in the sample, in every round."""
    p = several([mixed(0.3, response(1.0, 1), response(1.0, 0))] * rounds)
    q = several([response(1.0, 0)] * rounds)
    exact = worse_stick(p, q, at)
    delta = account(ev.Repeat(rounds, sampler(inner)), epsilon=at, neighbours=relation).delta
    assert delta.lower == pytest.approx(exact, rel=1e-2)
    assert delta.lower <= exact * (1.0 + 1e-9)
    assert exact <= delta.upper * (1.0 + 1e-9)


@for_each(
    ("event", "relation", "losses"),
    [
        (ev.Poisson(0.3, ev.Pure(1.0)), "add-remove", (0.3 * math.e + 0.7, 0.3 / math.e + 0.7)),
        (ev.FixedSize(1, 4, ev.Local(1.0)), "replace-one", (0.25 * math.e + 0.75, 1.0)),
    ],
)
def test_the_largest_loss_of_a_sample_is_attained_at_delta_0(event, relation, losses):
    exact = 2.0 * max(math.log(losses[0]), -math.log(losses[1]))
    epsilon = account(ev.Repeat(2, event), delta=0.0, neighbours=relation).epsilon
    assert epsilon.lower == pytest.approx(exact, rel=1e-12)
    assert epsilon.lower <= exact * (1 + 1e-15)
    assert exact <= epsilon.upper * (1 + 1e-15)


@for_each("delta", [0.0, 1e-7])
def test_what_reveals_all_attains_an_infinite_epsilon(delta):
    for event in (ev.Approximate(1.0, 1e-6), ev.Group(2, ev.Approximate(1.0, 1e-6))):
        assert account(event, delta=delta).epsilon.lower == math.inf


@for_each("others", [0, 1, 3])
def test_a_zeroed_value_is_one_of_the_categories(others):
    """The message of the unit is 1 or 0, the others' 2; the multiset of messages is seen."""
    crowd = [response(1.0, 2, 3)] * others
    p, q = (several([response(1.0, value, 3), *crowd], shuffled=True) for value in (1, 0))
    event = ev.Shuffle(others + 1, ev.Local(1.0))
    for at in (0.0, 0.2):
        exact = worse_stick(p, q, at)
        zeroed, replaced = (
            account(event, epsilon=at, neighbours=relation).delta
            for relation in ("zero-out", "replace-one")
        )
        assert exact <= zeroed.upper * (1.0 + 1e-9)
        assert 0.0 < zeroed.lower <= zeroed.upper
        assert zeroed.lower == replaced.lower
    # Alone, binary randomized response is the worst there is.
    if others == 0:
        exact = worse_stick(several([response(1.0, 1)]), several([response(1.0, 0)]), 0.2)
        assert zeroed.lower == pytest.approx(exact, rel=1e-9)
        assert zeroed.lower <= exact * (1.0 + 1e-12)


@for_each("at", [0.0, 0.5, 1.2])
def test_a_client_shows_the_worst_of_all_that_it_releases(at):
    p, q = (several([response(1.0, value), response(0.5, value)]) for value in (1, 0))
    exact = 0.3 * worse_stick(p, q, at)
    inner = ev.Compose([ev.Pure(1.0), ev.Local(0.5)])
    delta = account(ev.ClientSampled(0.3, inner), epsilon=at).delta
    assert delta.lower == pytest.approx(exact, rel=1e-3)
    assert delta.lower <= exact * (1.0 + 1e-9)
    assert exact <= delta.upper * (1.0 + 1e-9)
    # Of numbers that were grown by the lemma no chain is known to show as much.
    grown = ev.ClientSampled(0.3, ev.Repeat(2, ev.Group(2, ev.Pure(1.0))))
    assert account(grown, epsilon=at).delta.lower == 0.0


@for_each(
    ("event", "relation"),
    [
        (ev.FixedSize(1, 4, ev.Pure(1.0)), "add-remove"),
        (ev.FixedSize(1, 4, ev.Pure(1.0)), "zero-out"),
        (ev.WithReplacement(1, 4, ev.Pure(1.0)), "replace-one"),
        (ev.ShuffledBatches(3, ev.Pure(1.0)), "add-remove"),
        (ev.TruncatedPoisson(0.3, 2, 4, ev.Pure(1.0)), "add-remove"),
    ],
)
def test_two_steps_of_a_class_have_no_lower_end(event, relation):
    assert account(event, epsilon=0.3, neighbours=relation).delta.lower == 0.0
    assert account(event, delta=1e-3, neighbours=relation).epsilon.lower == 0.0
