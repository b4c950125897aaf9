"""FedPower: each notion of neighbours against a search for worse ones; observers; numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity import fedpower
from privplan.accountant.sensitivity.fedpower import (
    PowerStep,
    client_sensitivity,
    drifting_sensitivity,
    element_as_published,
    entry_sensitivity,
    entry_shift,
    pair_sensitivity,
    row_sensitivity,
    sensitivity,
)
from privplan.accountant.sensitivity.fedpower_views import release

from ..cases import for_each
from .fedpower import D, R, orthonormal


def row(theta: np.ndarray) -> np.ndarray:
    """Any vector of norm at most R; most often on the sphere."""
    return theta * (R / max(float(np.linalg.norm(theta)), 1.0))


def worst(value: Callable[[np.ndarray], float], size: int, *, starts: int = 12) -> float:
    """The largest value found by hill climbing from random and axis-parallel starts."""
    rng = np.random.default_rng(11)
    top = 0.0
    for start in range(starts):
        theta = rng.normal(size=size)
        if start % 2:
            theta = np.round(theta) + rng.normal(scale=1e-3, size=size)
        best, spread = value(theta), 1.0
        for _ in range(250):
            moved = theta + rng.normal(scale=spread, size=size)
            reached = value(moved)
            if reached > best:
                theta, best = moved, reached
            else:
                spread = max(spread * 0.98, 1e-4)
        top = max(top, best)
    return top


def moved(change: np.ndarray, z: np.ndarray) -> float:
    return float(np.linalg.norm(change @ z))


@for_each(
    ("neighbours", "rank"),
    [("add-remove", 1), ("zero-out", 3), ("replace-one", 1), ("replace-one", 2)],
)
def test_row(neighbours: str, rank: int) -> None:
    step = PowerStep(R, rank, divisor=5.0)

    def value(theta: np.ndarray) -> float:
        a, b = row(theta[:D]), row(theta[D : 2 * D])
        if neighbours != "replace-one":
            b = 0.0 * b
        return moved(np.outer(a, a) - np.outer(b, b), orthonormal(theta[2 * D :], rank)) / 5.0

    bound = row_sensitivity(step, neighbours).l2
    found = worst(value, 2 * D + D * rank)
    assert 0.97 * bound < found <= bound * (1 + 1e-12)
    expected = math.sqrt(2) if neighbours == "replace-one" and rank > 1 else 1.0
    assert bound == pytest.approx(expected * R**2 / 5.0)


@for_each("rank", [1, 2])
def test_row_renormalised(rank: int) -> None:
    rows = 2

    def value(theta: np.ndarray) -> float:
        data = np.array([row(theta[i * D : (i + 1) * D]) for i in range(rows)])
        a = row(theta[rows * D : (rows + 1) * D])
        before = data.T @ data / rows
        after = (data.T @ data + np.outer(a, a)) / (rows + 1)
        return moved(after - before, orthonormal(theta[(rows + 1) * D :], rank))

    bound = row_sensitivity(PowerStep(R, rank, divisor=rows), renormalised=True).l2
    found = worst(value, (rows + 1) * D + D * rank, starts=20)
    assert 0.95 * bound < found <= bound * (1 + 1e-12)
    z, axes = np.eye(D)[:, :rank], np.eye(D) * R
    other = axes[1] if rank > 1 else axes[0] * 0.0
    data = np.stack([other] * rows)
    after = (data.T @ data + np.outer(axes[0], axes[0])) / (rows + 1)
    attained = moved(after - data.T @ data / rows, z)
    assert attained == pytest.approx(bound, rel=1e-12)


@for_each(
    ("change", "rank"), [(0.3, 2), (1.5, 1), (1.5, 3), (2.0, 2), (4.0, 1), (4.0, 2), (6.0, 3)]
)
def test_entry(change: float, rank: int) -> None:
    step = PowerStep(R, rank, divisor=2.0)

    def value(theta: np.ndarray) -> float:
        a = row(theta[:D])
        size = change * math.tanh(theta[D])
        after = a.copy()
        after[0] += size
        if np.linalg.norm(after) > R:
            return 0.0
        return entry_shift(a, 0, size, orthonormal(theta[D + 1 :], rank), divisor=2.0)

    bound = entry_sensitivity(step, change).l2
    found = worst(value, D + 1 + D * rank, starts=16)
    assert found <= bound * (1 + 1e-12)
    if rank > 1:
        assert found > 0.93 * bound


@for_each("change", [0.3, 1.9, 2.1, 4.0])
def test_entry_is_attained_with_a_whole_axis_in_the_span(change: float) -> None:
    """Below 2R/3 by a row on the axis, above by one that flips the sign of its entry."""
    if change < 2 * R / 3:
        a = np.array([R - change, 0.0, 0.0, 0.0])
    else:
        a = np.array([-change / 2, math.sqrt(R**2 - change**2 / 4), 0.0, 0.0])
    attained = entry_shift(a, 0, change, np.eye(D)[:, :2])
    assert attained == pytest.approx(entry_sensitivity(PowerStep(R, 2), change).l2, rel=1e-12)


def test_entry_shift_is_the_norm_of_the_difference() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        a, z = rng.normal(size=D), rng.normal(size=(D, 2))
        column, change = int(rng.integers(D)), float(rng.normal())
        after = a.copy()
        after[column] += change
        direct = moved(np.outer(after, after) - np.outer(a, a), z) / 7.0
        assert entry_shift(a, column, change, z, divisor=7.0) == pytest.approx(direct)


@for_each("clip", [0.2, 0.45])
def test_clipped_entries_of_z(clip: float) -> None:
    """After clipping, Z is not orthonormal, and the norm of its rows is what is bounded."""
    rank = 2
    step = PowerStep(R, rank, entry_clip=clip)

    def z_of(theta: np.ndarray) -> np.ndarray:
        return np.clip(orthonormal(theta, rank), -clip, clip)

    def pair(theta: np.ndarray) -> float:
        change = np.zeros((D, D))
        change[0, 1] = change[1, 0] = 0.5
        return moved(change, z_of(theta))

    def entry(theta: np.ndarray) -> float:
        a = row(theta[:D])
        after = a.copy()
        after[0] += 0.7
        if np.linalg.norm(after) > R:
            return 0.0
        return entry_shift(a, 0, 0.7, z_of(theta[D:]))

    def present(theta: np.ndarray) -> float:
        a = row(theta[:D])
        return moved(np.outer(a, a), z_of(theta[D:]))

    assert worst(pair, D * rank) <= pair_sensitivity(step, 0.5).l2 * (1 + 1e-12)
    assert worst(entry, D + D * rank) <= entry_sensitivity(step, 0.7).l2 * (1 + 1e-12)
    assert worst(present, D + D * rank) <= row_sensitivity(step).l2 * (1 + 1e-12)
    assert step.spectral_square == rank
    with_l1 = row_sensitivity(step, l1_norm=R * math.sqrt(D)).l2
    assert worst(present, D + D * rank) <= with_l1 * (1 + 1e-12)
    assert with_l1 <= row_sensitivity(step).l2


def test_pair_is_attained() -> None:
    step = PowerStep(R, 4, entry_clip=0.25, spectral=1.0)
    z = np.zeros((D, 4))
    z[0], z[1] = 0.25, [0.25, 0.25, -0.25, -0.25]
    assert np.linalg.norm(z, 2) <= 1.0
    change = np.zeros((D, D))
    change[0, 1] = change[1, 0] = 3.0
    assert moved(change, z) == pytest.approx(pair_sensitivity(step, 3.0).l2, rel=1e-12)


@for_each("rank", [1, 2])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_client(neighbours: str, rank: int) -> None:
    rows = 2

    def value(theta: np.ndarray) -> float:
        data = np.array([row(theta[i * D : (i + 1) * D]) for i in range(2 * rows)])
        mine, other = data[:rows], data[rows:]
        if neighbours == "add-remove":
            other = 0.0 * other
        change = (mine.T @ mine - other.T @ other) / rows
        return moved(change, orthonormal(theta[2 * rows * D :], rank))

    step = PowerStep(R, rank, divisor=3.0)
    bound = client_sensitivity(step, neighbours).l2
    found = worst(value, 2 * rows * D + D * rank, starts=16)
    assert found <= bound * (1 + 1e-12)
    axes, z = np.eye(D) * R, np.eye(D)[:, :rank]
    other = np.outer(axes[1], axes[1]) * (neighbours == "replace-one")
    assert moved(np.outer(axes[0], axes[0]) - other, z) == pytest.approx(bound, rel=1e-12)
    summed = client_sensitivity(step, neighbours, rows=7).l2
    assert summed == pytest.approx(bound * 7 / 3)


@for_each("rank", [2, 3])
def test_one_element_of_m_is_not_what_data_change(rank: int) -> None:
    """Removing a record moves Y by more than the printed bound for the same M, s and Z."""
    rng = np.random.default_rng(2)
    data = np.abs(np.array([row(theta) for theta in rng.normal(size=(5, D))]))
    m = data.T @ data / 5
    z = np.clip(np.linalg.eigh(m)[1][:, -rank:], -0.2, 0.2)
    printed = element_as_published(rank, 0.05 * float(m.max()), 0.2)
    assert moved(np.outer(data[0], data[0]) / 5, z) > printed
    assert not isinstance(printed, fedpower.Sensitivity)
    with pytest.raises(InvalidInput, match="must be a Sensitivity"):
        release("private", printed, noise=1.0, rounds=1, clients=2)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="no unit of data"):
        sensitivity("element", PowerStep(R, rank))


def test_the_dispatcher_gives_each_notion() -> None:
    step = PowerStep(R, 2, divisor=4.0)
    assert sensitivity("row", step, "replace-one") == row_sensitivity(step, "replace-one")
    assert sensitivity("client", step) == client_sensitivity(step)
    assert sensitivity("entry", step, largest_change=1.0) == entry_sensitivity(step, 1.0)
    assert sensitivity("pair", step, largest_change=1.0) == pair_sensitivity(step, 1.0)
    with pytest.raises(InvalidInput, match="largest_change"):
        sensitivity("entry", step)


def test_an_entry_never_moves_more_than_its_row_and_grows_with_the_change() -> None:
    step = PowerStep(R, 3, divisor=2.0, entry_clip=0.3)
    changes = np.linspace(0.01, 2.5 * R, 200)
    values = [entry_sensitivity(step, float(change)).l2 for change in changes]
    assert values == sorted(values)
    assert values[-1] == row_sensitivity(step, "replace-one").l2


def test_local_steps_move_more_than_one_product_does() -> None:
    """Removals of a row, after unnoised local steps: above |a|^2/s, never above 2 R^2."""
    rng = np.random.default_rng(0)
    rank, rows, steps, above, largest = 2, 4, 3, 0, 0.0
    bound = drifting_sensitivity(PowerStep(R, rank)).l2
    assert bound == pytest.approx(2 * R**2)
    for _ in range(60):
        data = np.array([row(theta) for theta in rng.normal(size=(rows, D))])
        start = orthonormal(rng.normal(size=D * rank), rank)
        sent = []
        for seen in (data, data[1:]):
            m, z, y = seen.T @ seen / len(seen), start, start
            for _ in range(steps):
                y = m @ z
                z = np.linalg.qr(y)[0]
            sent.append(y)
        gap = float(np.linalg.norm(sent[0] - sent[1]))
        assert gap <= bound
        above += gap > row_sensitivity(PowerStep(R, rank, divisor=3.0), renormalised=True).l2
        largest = max(largest, gap)
    assert above > 0
    assert largest > R**2 / 3


def test_bounds_are_rounded_up_and_multipliers_down() -> None:
    for norm, divisor in ((0.1, 3.0), (1.7, 7.0), (92.0, 9.0)):
        step = PowerStep(norm, 3, divisor=divisor)
        exact = Fraction(norm) ** 2 / Fraction(divisor)
        present, swapped = row_sensitivity(step), row_sensitivity(step, "replace-one")
        assert exact <= Fraction(present.l2) <= exact * (1 + Fraction(1, 2**52))
        assert 2 * exact**2 <= Fraction(swapped.l2) ** 2 <= 2 * exact**2 * (1 + Fraction(1, 2**51))
        run = release("private", swapped, noise=0.3, rounds=1, clients=3)
        assert isinstance(run.event, ev.Gaussian)
        assert Fraction(run.event.noise_multiplier) <= 2 * Fraction(0.3) / Fraction(swapped.l2)
