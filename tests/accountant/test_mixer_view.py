"""Sums before a shuffler that knows all senders and dummies, against what is computed otherwise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammainc, gammaincc, gammaln

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.amplification.shuffling.mixer import (
    FAILURE,
    MOST_COUNTED,
    mixer_event,
    summed,
    tails,
)

from ..cases import for_each
from ..chance import limits

FLAME_DELTA = 0.01 / 1000**1.1


def above(messages: int, points: np.ndarray) -> np.ndarray:
    """P(sum of so many Laplace variables of scale 1 > x), as a mixture of Erlang laws.

    The sum is the difference of two Gamma variables; X - Y > x >= 0 is a sum over how many of the
    exponentials of X are left when those of Y have all come.
    """
    far = np.abs(points)
    j = np.arange(messages)
    log_weights = gammaln(messages + j) - gammaln(j + 1.0) - gammaln(messages)
    weights = np.exp(log_weights - (messages + j) * math.log(2.0))
    tail = (weights[:, None] * gammaincc((messages - j)[:, None], far[None, :])).sum(axis=0)
    return np.where(points >= 0.0, tail, 1.0 - tail)


def cells(messages: int, shift: float, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The laws of a sum and of the shifted one over cells between points: a post-processing."""
    laws = []
    for moved in (0.0, shift):
        tail = np.concatenate(([1.0], above(messages, points - moved), [0.0]))
        laws.append(-np.diff(tail))
    return laws[0], laws[1]


def events(
    scale: float,
    users: int,
    dimensions: int,
    chosen: int,
    padded_to: int,
    failure: float,
    coarseness: float = 0.0,
) -> list[ev.Event]:
    """All that the theorem gives, whether or not it is worth anything."""
    found = tails(users, dimensions, chosen, padded_to, failure)
    assert found
    message = ev.Laplace(scale)
    return [ev.Compose(summed(message, tail, users, coarseness, failure)) for tail in found]


def proven(event: ev.Event, epsilon: float) -> float:
    return pp.account(event, epsilon=epsilon, neighbours="replace-one").delta.upper


@for_each(
    ("users", "dimensions", "padded_to", "scale", "failure"),
    [
        (40, 2, 15, 0.25, 1e-3),
        (40, 1, 40, 0.25, 1e-3),
        (60, 3, 60, 0.15, 2.0**-40),
        (2000, 1, 1000, 0.0149, 1e-3),
    ],
)
def test_one_coordinate_is_no_worse_than_proven(
    users: int, dimensions: int, padded_to: int, scale: float, failure: float
) -> None:
    """The exact delta of one message among as many others as happen to be there."""
    bounds = events(scale, users, dimensions, 1, padded_to, failure)
    points = np.linspace(-12.0, 12.0, 601) * math.sqrt(2.0 * users)
    others = np.arange(users)
    chances = stats.binom.pmf(others, users - 1, 1.0 / dimensions)
    pairs = [
        (chance, *cells(min(1 + count, padded_to), 2.0 / scale, points))
        for count, chance in zip(others.tolist(), chances, strict=True)
        if chance > 1e-16
    ]
    sharp = []
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 6.0):
        order = math.exp(epsilon)
        exact = sum(chance * np.maximum(p - order * q, 0.0).sum() for chance, p, q in pairs)
        least = min(proven(event, epsilon) for event in bounds)
        assert exact <= least * (1 + 1e-9)
        sharp.append(exact / least)
    assert max(sharp) > (0.95 if users == 2000 else 0.3)  # the bound is of the size of the truth


def test_two_coordinates_are_no_worse_than_proven() -> None:
    """Exact, over how many others sent both, one or none of the user's two of four coordinates."""
    users, dimensions, scale, failure = 36, 4, 0.25, 1e-3
    candidates = events(scale, users, dimensions, 2, users, failure)
    points = np.linspace(-10.0, 10.0, 161) * math.sqrt(2.0 * users / 2)
    laws = {count: cells(count, 2.0 / scale, points) for count in range(1, users + 1)}
    # Of 6 sets, 1 holds both, 4 hold one, 1 holds none.
    joint: dict[tuple[int, int], float] = {}
    for both, first in itertools.product(range(users), repeat=2):
        for second in range(users - both - first):
            none = users - 1 - both - first - second
            chance = stats.multinomial.pmf(
                [both, first, second, none], users - 1, [1 / 6, 1 / 3, 1 / 3, 1 / 6]
            )
            key = (1 + both + first, 1 + both + second)
            joint[key] = joint.get(key, 0.0) + float(chance)
    assert sum(joint.values()) == pytest.approx(1.0)
    epsilons = (1.0, 3.0, 5.0)
    exact = np.zeros(len(epsilons))
    for (left, right), chance in joint.items():
        if chance > 1e-12:
            (p, q), (p_too, q_too) = laws[left], laws[right]
            here, there = np.multiply.outer(p, p_too), np.multiply.outer(q, q_too)
            for at, epsilon in enumerate(epsilons):
                exact[at] += chance * np.maximum(here - math.exp(epsilon) * there, 0.0).sum()
    bounds = [min(proven(event, epsilon) for event in candidates) for epsilon in epsilons]
    assert all(exact <= np.array(bounds))
    assert exact[0] > 0.3 * bounds[0]


@for_each("messages", [20, 1000, 30_000, MOST_COUNTED])
def test_gamma_tails_are_right_as_far_as_they_are_used(messages: int) -> None:
    """P(Gamma_m < x) = P(Poisson(x) >= m), summed term by term; scipy 1.17 fails at 10^6."""
    for deviations in range(-9, 0):
        x = max(messages + deviations * math.sqrt(messages), messages / 8)
        log_first = messages * math.log(x) - x - math.lgamma(messages + 1.0)
        ratios = x / (messages + np.arange(1.0, 60_000.0))
        tail = math.exp(log_first) * (1.0 + np.cumprod(ratios).sum())
        assert gammainc(messages, x) == pytest.approx(tail, rel=1e-9)


@for_each("coarseness", [0.5, 1.0])
def test_a_coarse_grid_is_no_worse_than_proven(coarseness: float) -> None:
    """Laplace noise that is rounded to steps of half the bound, or the bound, exactly."""
    users, scale = 30, 0.2
    (event,) = events(scale, users, 1, 1, users, 1e-3, coarseness)
    steps = scale / coarseness  # the scale of the noise on the grid
    size = 200
    at = np.arange(-size, size + 1)
    tail = np.exp(-(np.abs(at) - 0.5) / steps) * (1.0 - math.exp(-1.0 / steps)) / 2.0
    one = np.where(at == 0, 1.0 - math.exp(-0.5 / steps), tail)
    assert one.sum() == pytest.approx(1.0)
    law = one
    for _ in range(users - 1):
        law = np.convolve(law, one)
    shift = round(2.0 / coarseness)
    here, there = np.pad(law, (0, shift)), np.pad(law, (shift, 0))
    for epsilon in (0.5, 1.0, 2.0):
        exact = np.maximum(here - math.exp(epsilon) * there, 0.0).sum()
        assert exact <= proven(event, epsilon)


@for_each(
    ("users", "dimensions", "chosen", "failure"),
    [(60, 8, 4, 1e-2), (60, 16, 4, 1e-2), (150, 30, 6, 1e-2)],
)
def test_the_tail_holds_in_drawn_rounds(
    users: int, dimensions: int, chosen: int, failure: float
) -> None:
    """Of 2,000 rounds no more fail than what is charged allows.  False alarm: 1e-6 at most."""
    found = tails(users, dimensions, chosen, users, failure)
    assert found
    draws = np.random.default_rng(5)
    rounds = 2000
    ranks = draws.random((rounds, users - 1, dimensions)).argsort(axis=2)
    senders = 1 + (ranks[:, :, :chosen, None] == np.arange(chosen)).any(axis=2).sum(axis=1)
    inverse = 1.0 / draws.gamma(senders)
    for tail in found:
        # The fewest senders count by themselves, as many as the tail allows.
        order = np.argsort(senders, axis=1)[:, tail.apart :]
        passed = np.take_along_axis(inverse, order, axis=1).sum(axis=1) > tail.total
        assert passed.sum() <= limits(stats.binom(rounds, failure), looks=9)[1]
    totals = np.sort(inverse.sum(axis=1))
    least = min(tail.total for tail in found)
    assert least < 2.5 * totals[round(rounds * (1.0 - failure))]


def test_digits_has_this_number_before_the_shuffler() -> None:
    """FLAME's Double, 65 of 650 coordinates of 1,000 users, five rounds at epsilon0 4."""
    event = mixer_event(
        ev.Laplace(0.5), users=1000, dimensions=650, chosen=65, padded_to=333, coarseness=2.0**-21
    )
    assert event is not None
    rounds = pp.account(ev.Repeat(5, event), delta=FLAME_DELTA, neighbours="replace-one")
    local = pp.account(
        ev.Repeat(5 * 65, ev.Laplace(0.5)), delta=FLAME_DELTA, neighbours="replace-one"
    )
    assert rounds.epsilon.upper == pytest.approx(38.62, abs=0.01)
    assert local.epsilon.upper == pytest.approx(1098.7, abs=0.1)
    # As many others as there are on average, with all of their noise: no bound, but near.
    mean = ev.Gaussian(0.5 * math.sqrt(2.0 * 100 / (5 * 65)))
    near = pp.account(mean, delta=FLAME_DELTA, neighbours="replace-one").epsilon.upper
    assert 34.0 < near < rounds.epsilon.upper


def total(**sizes: int) -> float:
    return min(tail.total for tail in tails(*sizes.values(), FAILURE))


def test_more_users_and_places_hide_better() -> None:
    sizes = {"users": 1000, "dimensions": 650, "chosen": 65, "padded_to": 333}
    by_users = [total(**{**sizes, "users": users}) for users in (500, 700, 999, 1000, 2000)]
    assert by_users == sorted(by_users, reverse=True)
    by_places = [total(**{**sizes, "padded_to": places}) for places in (40, 60, 100, 333)]
    assert by_places == sorted(by_places, reverse=True)
    by_dimensions = [total(**{**sizes, "dimensions": size}) for size in (2000, 650, 300, 65)]
    assert by_dimensions == sorted(by_dimensions, reverse=True)
    by_chosen = [
        math.inf if event is None else event.events[0].noise_multiplier
        for chosen in (130, 65, 30)
        for event in [mixer_event(ev.Laplace(0.5), **{**sizes, "chosen": chosen})]
    ]
    assert by_chosen[0] == pytest.approx(by_chosen[1], rel=0.1)  # twice the sums, half as noisy


def test_where_most_coordinates_have_few_senders_some_count_by_themselves() -> None:
    sizes = {"users": 1000, "dimensions": 7850, "chosen": 157, "padded_to": 333}
    event = mixer_event(ev.Laplace(4.0), **sizes)
    assert isinstance(event, ev.Compose)
    assert [type(part) for part in event.events] == [ev.Gaussian, ev.Repeat, ev.Approximate]
    by_sums = pp.account(event, delta=FLAME_DELTA, neighbours="replace-one").epsilon.upper
    assert by_sums < 9.0  # by the messages themselves 40.3


@for_each(
    ("message", "users", "padded_to"),
    [
        (ev.Laplace(0.5), 12, 12),
        (ev.Laplace(0.5), 1, 333),
        (ev.Laplace(0.5), 1000, 1),
        (ev.Laplace(0.5), -1, 333),
        (ev.Laplace(0.5), 1000, 2),
        (ev.RandomizedResponse(4.0, 17), 1000, 333),
        (ev.Local(4.0), 1000, 333),
        (ev.Gaussian(0.5), 1000, 333),
    ],
)
def test_nothing_is_proven_by_sums_that_hide_nothing(
    message: ev.Event, users: int, padded_to: int
) -> None:
    sizes = {"users": users, "dimensions": 650, "chosen": 65, "padded_to": padded_to}
    assert mixer_event(message, **sizes) is None
