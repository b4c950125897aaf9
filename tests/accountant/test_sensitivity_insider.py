"""Against a silo: worst neighbours under private weighting, hidden samples, and missing noise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.uldp import insider_release, naive_release, weighted_release

from ..cases import for_each

CAP, LARGEST, SILOS = 20, 1000, 3


def drawn_digits(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Return rows of whole digits for each silo, of norm at most LARGEST, many of them opposite."""
    angle = rng.uniform(0.0, 2.0 * math.pi, (count, SILOS))
    kind = rng.integers(0, 3, (count, SILOS))
    angle = np.choose(kind, [np.zeros_like(angle), np.full_like(angle, math.pi), angle])
    return np.trunc(LARGEST * np.stack([np.cos(angle), np.sin(angle)], axis=2))


def worst_move(
    holds: bool, replaced: bool, rng: np.random.Generator, trials: int = 20_000
) -> float:
    """Return the farthest that neighbours moved the decrypted sum, in bounds, seen from silo 0.

    It holds some of the user, which stays in both data sets, or nothing.  A silo's weight is its
    count over the sum of all counts and 1.
    """
    counts = rng.choice([0, 1, 2, 4, CAP], (trials, SILOS))
    digits, others = drawn_digits(rng, trials), drawn_digits(rng, trials)
    after = np.zeros_like(counts)
    if replaced:
        after = rng.choice([0, 1, 4, CAP], counts.shape)
    if not holds:
        counts[:, 0] = 0
    after[:, 0] = counts[:, 0]
    others[:, 0] = digits[:, 0]
    parts = [
        (held / (held.sum(axis=1, keepdims=True) + 1))[:, None] @ each
        for held, each in ((counts, digits), (after, others))
    ]
    return float(np.linalg.norm(parts[0] - parts[1], axis=2).max()) / LARGEST


@for_each(
    ("holds", "neighbours", "found"),
    [
        (False, "add-remove", 0.97),
        (False, "replace-one", 1.9),
        (True, "add-remove", 1.55),
        (True, "replace-one", 1.8),
    ],
)
def test_nobody_moves_the_decrypted_sum_by_more_than_the_events_leave(
    holds: bool, neighbours: str, found: float
) -> None:
    """Beside the noise of |S|-1 shares; `found` is how far a search gets."""
    given: dict[str, Any] = {"silos": SILOS, "weighting": "records", "hidden_weights": True}
    event = insider_release(5.0, rounds=1, holds_user=holds, neighbours=neighbours, **given).event
    assert isinstance(event, ev.Gaussian)
    reach = 2 if neighbours == "replace-one" else 1
    bound = reach / event.noise_multiplier * 5.0 * math.sqrt((SILOS - 1) / SILOS)
    assert bound == pytest.approx(2.0 if holds or reach == 2 else 1.0, rel=1e-12)
    assert found < worst_move(holds, reach == 2, np.random.default_rng(11)) <= bound * (1 + 1e-12)


STEP = 0.04
AXIS = np.arange(-7.0, 7.0 + STEP / 2, STEP)


def density(middle: tuple[float, float], std: float) -> NDArray[np.float64]:
    """Return a Gaussian in the plane, on the grid."""
    one = [np.exp(-((AXIS - at) ** 2) / (2.0 * std**2)) for at in middle]
    return np.outer(*one) / (2.0 * math.pi * std**2)


Point = tuple[float, float]


def view(rate: float, moved: Point, others: list[Point], std: float) -> NDArray[np.float64]:
    """Return what a silo sees, less what it knows: the user's part and others', each drawn or not.

    Neither the draw of the user nor those of the others are known to it.
    """
    found = np.zeros((AXIS.size, AXIS.size))
    for joins in itertools.product((0, 1), repeat=1 + len(others)):
        chance = math.prod(rate if one else 1.0 - rate for one in joins)
        x, y = 0.0, 0.0
        for one, (a, b) in zip(joins, [moved, *others], strict=True):
            x, y = x + one * a, y + one * b
        found += chance * density((x, y), std)
    return found


def delta_of(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    """Return the larger hockey-stick divergence at e^epsilon, by the midpoint rule."""
    one = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
    other = np.maximum(q - math.exp(epsilon) * p, 0.0).sum()
    return float(max(one, other)) * STEP**2


def points(rng: np.random.Generator) -> Point:
    """Return a point of the unit disc, often on its rim."""
    angle, size = rng.uniform(0.0, 2.0 * math.pi), rng.choice([1.0, 1.0, rng.uniform()])
    return float(size * math.cos(angle)), float(size * math.sin(angle))


@for_each("rate", [0.1, 0.6])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_the_sampled_event_covers_whatever_the_silo_does_not_know(
    neighbours: str, rate: float
) -> None:
    """Users whose records all lie elsewhere, in the plane, by integration: none is worse."""
    silos, delta = 4, 1e-3
    run = insider_release(
        1.0,
        rounds=1,
        silos=silos,
        weighting="records",
        holds_user=False,
        neighbours=neighbours,
        rate=rate,
        knows_sample=False,
    )
    std = math.sqrt((silos - 1) / silos)  # in clips: what is left without the silo's own share
    claimed = pp.account(run.event, delta=delta, neighbours=neighbours).epsilon.upper
    exchanged = neighbours == "replace-one"
    rng, most = np.random.default_rng(5), 0.0
    pairs = [((1.0, 0.0), (-1.0, 0.0) if exchanged else (0.0, 0.0))]
    pairs += [(points(rng), points(rng) if exchanged else (0.0, 0.0)) for _ in range(12)]
    for number, (x, y) in enumerate(pairs):
        others = [points(rng) for _ in range(number % 3)]
        found = delta_of(view(rate, x, others, std), view(rate, y, others, std), claimed)
        assert found <= delta * (1 + 1e-3)
        most = max(most, found)
    assert most > 0.99 * delta  # the first pair attains it


@for_each("neighbours", ["add-remove", "replace-one"])
def test_a_silo_without_the_user_knows_what_a_model_shows_with_less_noise(neighbours: str) -> None:
    given: dict[str, Any] = {"rounds": 7, "neighbours": neighbours, "rate": 0.2}
    silo = insider_release(
        5.0, silos=2, weighting="records", holds_user=False, knows_sample=False, **given
    )
    model = weighted_release(5.0 * math.sqrt(0.5), weights=[[1.0, 0.0], [0.0, 1.0]], **given)
    assert isinstance(silo.event, ev.Repeat)
    assert isinstance(silo.event.event, ev.Poisson)
    both = (
        pp.account(one.event, delta=1e-5, neighbours=neighbours).epsilon.upper
        for one in (silo, model)
    )
    assert next(both) == pytest.approx(next(both), rel=1e-6)


def test_a_sample_that_is_known_counts_for_nothing() -> None:
    plain = insider_release(5.0, rounds=1, silos=5).event
    assert insider_release(5.0, rounds=1, silos=5, rate=0.1).event == plain
    unsampled = insider_release(
        5.0, rounds=1, silos=5, holds_user=False, rate=1.0, knows_sample=False
    )
    assert unsampled.event == plain  # uniform weights stay what they are


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("weighting", ["uniform", "records"])
def test_a_sample_is_refused_against_a_silo_that_holds_a_part(
    neighbours: str, weighting: str
) -> None:
    with pytest.raises(Unsupported, match="holds a part"):
        insider_release(
            5.0,
            rounds=1,
            silos=5,
            weighting=weighting,
            neighbours=neighbours,
            rate=0.5,
            knows_sample=False,
        )


@for_each(("silos", "missing"), [(3, 1), (5, 0), (5, 2), (5, 3), (10, 4)])
@for_each("weighting", ["uniform", "records"])
def test_whoever_is_missing_the_silo_is_left_with_that_much_noise(
    silos: int, missing: int, weighting: str
) -> None:
    event = insider_release(
        5.0,
        rounds=1,
        silos=silos,
        weighting=weighting,
        holds_user=False,
        tolerated_dropouts=missing,
    ).event
    assert isinstance(event, ev.Gaussian)
    share = 5.0 / math.sqrt(silos - missing)  # in clips
    actual = []
    for there in range(silos - missing, silos + 1):
        moved = (there - 1) / silos if weighting == "uniform" else 1.0
        actual.append(moved / (share * math.sqrt(there - 1)))
    assert max(actual) <= 1.0 / event.noise_multiplier * (1 + 1e-12)
    if weighting == "records" or missing == 0:
        assert max(actual) == pytest.approx(1.0 / event.noise_multiplier, rel=1e-12)


@for_each(("silos", "missing", "seen"), [(5, 2, 5), (5, 2, 4), (3, 1, 2), (4, 0, 3)])
def test_naive_with_missing_silos(silos: int, missing: int, seen: int) -> None:
    event = naive_release(5.0, rounds=1, silos=silos, seen=seen, tolerated_dropouts=missing).event
    assert isinstance(event, ev.Gaussian)
    share = 5.0 * silos / math.sqrt(silos - missing)  # in clips; sigma C |S| on all
    for there in range(seen - missing, seen + 1):
        assert 2 * there / (share * math.sqrt(there)) <= 1 / event.noise_multiplier * (1 + 1e-12)
    every_term = 2 * seen / (share * math.sqrt(seen - missing))
    assert 1 / event.noise_multiplier == pytest.approx(every_term, rel=1e-12)


def test_what_leaves_no_noise_is_refused() -> None:
    with pytest.raises(Unsupported, match="left with none"):
        insider_release(1.0, rounds=1, silos=3, tolerated_dropouts=2)
    with pytest.raises(Unsupported, match="No share"):
        naive_release(1.0, rounds=1, silos=3, seen=2, tolerated_dropouts=2)
    with pytest.raises(InvalidInput, match="tolerated_dropouts"):
        insider_release(1.0, rounds=1, silos=3, tolerated_dropouts=-1)
    with pytest.raises(InvalidInput, match="rate"):
        insider_release(1.0, rounds=1, silos=3, rate=1.5)
