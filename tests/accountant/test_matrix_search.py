"""Bounds where patterns are too many to look at each: windows of bands, and bounds by rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.sensitivity.matrix import bounds as bounds_module
from privplan.accountant.sensitivity.matrix import directions as directions_module
from privplan.accountant.sensitivity.matrix import sensitivity_bounds
from privplan.accountant.sensitivity.matrix import separated as separated_module
from privplan.accountant.sensitivity.matrix.participations import SeparatedRounds

from ..cases import for_each
from .strategies import by_magnitudes, by_signs, by_vectors, patterns

TIGHT = 1e-9


def separated(most: int, separation: int) -> ev.SeparatedParticipation:
    return ev.SeparatedParticipation(most, separation)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Count every number of patterns as too many to look at each, and leave eigenvalues out."""
    monkeypatch.setattr(bounds_module, "MAX_PATTERNS", 0)
    monkeypatch.setattr(directions_module, "MAX_SPECTRUM_STEPS", 0)
    sensitivity_bounds.cache_clear()
    yield monkeypatch
    sensitivity_bounds.cache_clear()


@pytest.mark.usefixtures("searched")
@pytest.mark.quick(3)
@for_each("seed", range(6))
def test_windows_give_the_largest_sum_of_magnitudes(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(10):
        steps, bands = int(generator.integers(5, 9)), int(generator.integers(2, 6))
        lower = np.tril(generator.standard_normal((steps, steps)).round(2))
        rows = np.triu(lower, 1 - bands) + 3 * np.eye(steps)
        participation = separated(int(generator.integers(2, 5)), int(generator.integers(1, 3)))
        found = sensitivity_bounds(ev.DenseStrategy(rows.tolist()), participation)
        magnitudes = by_magnitudes(rows, participation)
        assert found.source == bounds_module.WINDOWS
        assert found.bounds.lower <= magnitudes <= found.bounds.upper <= magnitudes * (1 + TIGHT)


@pytest.mark.quick(6)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("steps_allowed", [1e9, 0])
def test_bounds_by_rows_hold(seed: int, steps_allowed: float, searched: pytest.MonkeyPatch) -> None:
    """Sound from above and attained from below, by exact and by quicker bounds for each row."""
    searched.setattr(bounds_module, "MAX_WINDOW_STATES", 0)
    searched.setattr(separated_module, "MAX_ROW_STEPS", steps_allowed)
    generator = np.random.default_rng(seed)
    widest = 0.0
    for _ in range(10):
        steps = int(generator.integers(5, 9))
        rows = generator.standard_normal((steps, steps)).round(3) + 2 * np.eye(steps)
        participation = separated(int(generator.integers(2, 5)), int(generator.integers(1, 3)))
        found = sensitivity_bounds(ev.DenseStrategy(rows.tolist()), participation)
        magnitudes = by_magnitudes(rows, participation)
        assert found.source == bounds_module.ROW_SUMS
        assert found.bounds.lower <= magnitudes <= found.bounds.upper
        best = max(by_signs(rows, participation), 1e-9)
        assert found.bounds.lower >= 0.7 * best
        widest = max(widest, found.bounds.upper / magnitudes)
    assert widest > 1.0


def test_exact_bounds_for_rows_are_the_best_pattern_of_each() -> None:
    generator = np.random.default_rng(2)
    magnitudes = np.abs(generator.standard_normal((7, 7)))
    for most, apart in ((1, 1), (2, 2), (3, 1), (3, 2), (4, 3)):
        allowed = SeparatedRounds(7, min(most, -(-7 // apart)), apart)
        held = [
            max(
                magnitudes[index, rounds].sum()
                for rounds in patterns(separated(most, apart), 7)
                if index in rounds
            )
            for index in range(7)
        ]
        assert separated_module.row_bounds(magnitudes, allowed) == pytest.approx(held)


@pytest.mark.usefixtures("searched")
def test_windows_of_signs_that_do_not_cancel_are_exact() -> None:
    """Toeplitz [1, -.5, .3], 5 of 100 rounds: signs alternate in rounds that follow each other."""
    strategy = ev.ToeplitzStrategy(100, [1.0, -0.5, 0.3])
    found = sensitivity_bounds(strategy, separated(5, 1))
    assert found.exact
    whole = [1.0, -0.5, 0.3]
    signs = [1.0, -1.0, 1.0, -1.0, 1.0]
    moved = float(np.linalg.norm(np.convolve(whole, signs)))
    assert found.bounds.lower <= moved <= found.bounds.upper


@pytest.mark.quick(3)
@pytest.mark.parametrize("seed", range(6))
def test_eigenvalues_bound_every_pattern(seed: int, searched: pytest.MonkeyPatch) -> None:
    searched.setattr(directions_module, "MAX_SPECTRUM_STEPS", 100)
    generator = np.random.default_rng(seed)
    taken = 0
    for _ in range(10):
        steps = int(generator.integers(6, 9))
        turned, _ = np.linalg.qr(generator.standard_normal((steps, steps)))
        rows = turned * generator.uniform(0.8, 1.2, (steps, 1))
        participation = separated(int(generator.integers(3, 6)), 1)
        found = sensitivity_bounds(ev.DenseStrategy(rows.tolist()), participation)
        taken += found.source == bounds_module.SPECTRUM
        assert by_signs(rows, participation) <= found.bounds.upper
        vectors = by_vectors(rows, participation, generator, 3, 50)
        assert vectors <= found.bounds.upper <= by_magnitudes(rows, participation) * (1 + TIGHT)
    assert taken > 0
