"""Cut overflow, repeated rounds and calibration over shuffles, against enumerated rounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

import privplan as pp
from privplan import events as ev

from ..cases import for_each
from ..sweeps import sweep
from .rounds import Rounds, Set, hockey_stick, subsets

Laws = tuple[np.ndarray, np.ndarray]


def sent(chosen: Set, values: tuple[int, ...], dimensions: int) -> list[int]:
    """Return values by dimension, from those of the chosen ones."""
    found = [0] * dimensions
    for j, value in zip(chosen, values, strict=True):
        found[j] = value
    return found


def cut_rounds(
    rounds: Rounds, users: int, dimensions: int, chosen: int, absent: bool
) -> Iterator[Laws]:
    """Both orders of all neighbours: any sets and values of the user, any of the others."""
    anybody = [
        (each, sent(each, values, dimensions))
        for each in subsets(dimensions, chosen)
        for values in itertools.product(range(rounds.categories), repeat=chosen)
    ]
    for others in itertools.combinations_with_replacement(anybody, users - 1):
        sets, values = [each for each, _ in others], [each for _, each in others]
        laws = [
            rounds.given_sets([mine, *sets], [own, *values], dimensions, stops=False)
            for mine, own in anybody
        ]
        if absent:
            without = rounds.given_sets(sets, values, dimensions, stops=False)
            yield from ((law, without) for law in laws)
            yield from ((without, law) for law in laws)
        else:
            yield from itertools.permutations(laws, 2)


@for_each("relation", ["replace-one", "add-remove"])
@for_each(
    ("categories", "users", "dimensions", "chosen", "padded_to", "closest"),
    [
        (2, 2, 2, 1, 1, 0.99),
        (2, 3, 2, 1, 2, 0.7),
        (3, 3, 2, 1, 2, 0.7),
        (2, 4, 2, 1, 3, 0.6),
        (2, 4, 2, 1, 1, 0.99),
        (2, 3, 2, 2, 2, 0.4),
        (2, 2, 4, 2, 1, 0.7),  # 2 k copies above and k below
        (2, 2, 3, 1, 2, 0.6),  # room for all
    ],
)
def test_cut_rounds_lie_between_the_ends(
    categories: int,
    users: int,
    dimensions: int,
    chosen: int,
    padded_to: int,
    closest: float,
    relation: str,
) -> None:
    rounds = Rounds(1.0, categories, padded_to)
    sizes = users, dimensions, chosen, padded_to
    overflow = "cap" if padded_to < users else "refuse"
    event, bare = (
        ev.SampledShuffle(*sizes, "coordinate", "data-dependent", overflow, inner)
        for inner in (ev.RandomizedResponse(1.0, categories), ev.Local(1.0))
    )
    pairs = list(cut_rounds(rounds, users, dimensions, chosen, relation == "add-remove"))
    reached = 0.0
    for epsilon in (0.0, 0.2, 0.6, 1.2):
        truth = max(hockey_stick(*pair, epsilon) for pair in pairs)
        found = pp.account(event, epsilon=epsilon, neighbours=relation).delta
        assert found.lower <= truth * (1 + 1e-9) + 1e-15
        assert truth <= found.upper
        assert truth <= pp.account(bare, epsilon=epsilon, neighbours=relation).delta.upper
        reached = max(reached, truth / found.upper if found.upper else 0.0)
    assert reached > (closest if relation == "replace-one" else 0.5 * closest)


def product(one: np.ndarray, other: np.ndarray, count: int) -> Laws:
    """Return `count` rounds; outcomes of equal loss are taken together."""
    p, q = one, other
    for _ in range(count - 1):
        p, q = _by_loss(np.multiply.outer(p, one).ravel(), np.multiply.outer(q, other).ravel())
    return p, q


def _by_loss(p: np.ndarray, q: np.ndarray) -> Laws:
    seen = (p > 0.0) | (q > 0.0)
    with np.errstate(divide="ignore"):
        losses = np.round(np.log(p[seen]) - np.log(q[seen]), 11)
    _, place = np.unique(losses, return_inverse=True)
    return np.bincount(place, p[seen]), np.bincount(place, q[seen])


REPEATED = [
    # epsilon0, users, dimensions, padded_to, rounds, overflow, relation
    (0.5, 5, 3, 5, 3, "refuse", "replace-one"),
    (0.3, 4, 2, 3, 2, "cap", "replace-one"),
    (0.4, 3, 2, 2, 3, "cap", "add-remove"),
    (0.4, 3, 2, 2, 2, "refuse", "add-remove"),  # who comes may stop a round
    (0.4, 4, 2, 3, 3, "refuse", "add-remove"),
]


@for_each(
    ("epsilon0", "users", "dimensions", "padded_to", "count", "overflow", "relation"), REPEATED
)
def test_what_is_charged_is_charged_in_every_round(
    epsilon0: float,
    users: int,
    dimensions: int,
    padded_to: int,
    count: int,
    overflow: str,
    relation: str,
) -> None:
    rounds, stops = Rounds(epsilon0, 2, padded_to), overflow == "refuse"
    inner = ev.RandomizedResponse(epsilon0, 2)
    event = ev.Repeat(
        count,
        ev.SampledShuffle(
            users, dimensions, 1, padded_to, "coordinate", "oblivious", overflow, inner
        ),
    )
    pairs = []
    for mine in ([0] * dimensions, [j % 2 for j in range(dimensions)]):
        for friend in (0, 1):
            others = [[friend] * dimensions] * (users - 1)
            changed = [[1 - value for value in mine]] if relation == "replace-one" else []
            one = rounds.oblivious([mine, *others], dimensions, 1, stops)
            other = rounds.oblivious([*changed, *others], dimensions, 1, stops)
            pairs += [product(one, other, count), product(other, one, count)]

    def truth(epsilon: float) -> float:
        return max(hockey_stick(*pair, epsilon) for pair in pairs)

    closest = 0.0
    for epsilon in (0.0, 0.2, 0.5):
        found = pp.account(event, epsilon=epsilon, neighbours=relation).delta
        assert found.lower <= truth(epsilon) * (1 + 1e-9)
        assert truth(epsilon) <= found.upper
        closest = max(closest, truth(epsilon) / found.upper)
    assert closest > (0.8 if stops and relation == "add-remove" else 0.3)
    for delta in (0.005, 0.06, 0.3):
        asked = pp.account(event, delta=delta, neighbours=relation).epsilon
        if asked.upper < math.inf:
            assert truth(asked.upper) <= delta
        if asked.lower > 0.0:
            assert truth(asked.lower * (1 - 1e-9)) >= delta * (1 - 1e-6)


def shuffled(epsilon0: float, categories: int, users: int, count: int) -> list[Laws]:
    """Return `count` rounds of plain shuffling: 0 against 1, among any values of the others."""
    rounds = Rounds(epsilon0, categories, users)
    found = []
    for friends in itertools.combinations_with_replacement(range(categories), users - 1):
        one, other = (rounds.dimension((mine, *friends)) for mine in (0, 1))
        found += [product(one, other, count), product(other, one, count)]
    return found


@for_each(
    ("users", "categories", "count", "epsilon", "delta"),
    sweep([(4, 2, 2, 0.3, 0.05), (5, 3, 1, 0.2, 0.01), (5, 2, 3, 0.4, 1e-3)], quick=1),
)
def test_calibrated_shuffles_meet_their_target(
    users: int, categories: int, count: int, epsilon: float, delta: float
) -> None:
    """As noise, the inverse of the local epsilon; the gap is what is true of the value found."""

    def event(noise: float) -> ev.Event:
        return ev.Repeat(count, ev.Shuffle(users, ev.RandomizedResponse(1.0 / noise, categories)))

    found = pp.calibrate(event, epsilon=epsilon, delta=delta, neighbours="replace-one")
    pairs = shuffled(1.0 / found.value, categories, users, count)
    truth = max(hockey_stick(*pair, epsilon) for pair in pairs)
    assert 0.8 * delta <= truth <= delta
    below = max(hockey_stick(*pair, epsilon - found.gap - 1e-9) for pair in pairs)
    assert below >= delta * (1 - 1e-6)
    assert found.guarantee.epsilon.upper <= epsilon
    less = pp.account(event(found.value * (1 - 1e-3)), delta=delta, neighbours="replace-one")
    assert less.epsilon.upper > epsilon


def test_calibrated_numbers_of_shuffles_meet_their_target() -> None:
    def event(count: int) -> ev.Event:
        return ev.Repeat(count, ev.Shuffle(3, ev.RandomizedResponse(0.3, 2)))

    found = pp.calibrate(event, epsilon=0.5, delta=0.05, neighbours="replace-one", unknown="rounds")
    truth = [
        max(hockey_stick(*pair, 0.5) for pair in shuffled(0.3, 2, 3, count))
        for count in (int(found.value), int(found.value) + 2)
    ]
    assert truth[0] <= 0.05 < truth[1]


@for_each(("epsilon", "delta"), sweep([(0.1, 0.05), (0.05, 0.1)], quick=1))
def test_calibrated_sampled_shuffles_meet_their_target(epsilon: float, delta: float) -> None:
    """What is charged changes with delta and the noise; the certificate is of the very value."""

    def event(noise: float) -> ev.Event:
        inner = ev.RandomizedResponse(1.0 / noise, 2)
        return ev.SampledShuffle(5, 3, 1, 5, "coordinate", "oblivious", "refuse", inner)

    found = pp.calibrate(event, epsilon=epsilon, delta=delta, neighbours="replace-one")
    assert found.guarantee.derivation[0].statement.startswith("Double")
    rounds = Rounds(1.0 / found.value, 2, 5)
    for mine, friend in itertools.product(([0, 0, 0], [0, 1, 0]), (0, 1)):
        one, other = (
            rounds.oblivious([own, *[[friend] * 3] * 4], 3, 1, stops=True)
            for own in (mine, [1 - value for value in mine])
        )
        assert max(hockey_stick(one, other, epsilon), hockey_stick(other, one, epsilon)) <= delta
    # A plan passes its check at its delta and at its epsilon; with less noise one of them fails.
    for noise, passes in ((found.value, True), (0.8 * found.value, False)):
        at_delta = pp.account(event(noise), delta=delta, neighbours="replace-one").epsilon.upper
        at_epsilon = pp.account(event(noise), epsilon=epsilon, neighbours="replace-one").delta.upper
        assert (at_delta <= epsilon and at_epsilon <= delta) is passes
