"""Exponential selection, by enumeration over small sets of scores."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.selection import draw_range, exponent_as_published, release

from ..cases import for_each

ETA, BOUND = 0.7, 1.0


def changes(change: str, candidates: int) -> list[np.ndarray]:
    """Extreme moves of the scores, and a few inside."""
    grid = {"generic": (-1.0, 0.4, 1.0), "one-sided": (0.0, 0.4, 1.0), "single": (-1.0, 0.4, 1.0)}
    if change == "single":
        unit = np.eye(candidates)
        return [size * axis for axis in unit for size in grid["single"]]
    return [np.array(move) for move in itertools.product(grid[change], repeat=candidates)]


def log_law(scores: np.ndarray) -> np.ndarray:
    return ETA * scores - math.log(np.exp(ETA * scores).sum())


def log_sequence(scores: np.ndarray, order: tuple[int, ...]) -> float:
    """Log probability of drawing candidates in an order, without replacement."""
    left, total = list(range(len(scores))), 0.0
    for pick in order:
        total += float(log_law(scores[left])[left.index(pick)])
        left.remove(pick)
    return total


@for_each("change", ["generic", "one-sided", "single"])
def test_one_draw_stays_in_its_range(change: str) -> None:
    allowed = draw_range(ETA, BOUND, change=change)
    rng = np.random.default_rng(0)
    spans, pure = [], []
    for scores in (*rng.uniform(-3, 3, (30, 3)), np.zeros(3), np.array([30.0, -30.0, 0.0])):
        for move in changes(change, 3):
            for before, after in ((scores, scores + move), (scores + move, scores)):
                losses = log_law(before) - log_law(after)
                spans.append(float(np.ptp(losses)))
                pure.append(float(np.abs(losses).max()))
    assert max(spans) <= allowed * (1 + 1e-12)
    assert max(spans) == pytest.approx(allowed, rel=1e-9)
    assert max(pure) <= allowed * (1 + 1e-12)
    assert max(pure) == pytest.approx(allowed, rel=1e-3)


def test_the_one_sided_range_does_not_hold_for_a_generic_change() -> None:
    up_and_down = log_law(np.array([0.0, 0.0])) - log_law(np.array([1.0, -1.0]))
    assert np.ptp(up_and_down) > draw_range(ETA, BOUND, change="one-sided") * 1.9


@for_each("change", ["generic", "one-sided", "single"])
@for_each("draws", [1, 2, 3])
def test_draws_without_replacement_compose(change: str, draws: int) -> None:
    """The Renyi divergence of whole sequences, summed exactly, is below the event's curve."""
    from privplan.accountant.engines.rdp.curves import curve

    run = release(ETA, candidates=4, change=change, draws=draws)
    once = run.event.event if isinstance(run.event, ev.Repeat) else run.event
    assert isinstance(once, ev.Exponential)
    orders = np.array([1.5, 2.0, 8.0])
    allowed = draws * curve(once, "replace-one").at(orders)
    sequences = list(itertools.permutations(range(4), draws))
    rng = np.random.default_rng(1)
    for scores in rng.uniform(-1, 1, (3, 4)):
        for move in changes(change, 4)[:: 1 if change == "single" else 7]:
            p = np.array([log_sequence(scores, order) for order in sequences])
            q = np.array([log_sequence(scores + move, order) for order in sequences])
            assert np.exp(p).sum() == pytest.approx(1.0)
            found = [math.log(np.exp(a * p + (1 - a) * q).sum()) / (a - 1) for a in orders]
            assert (found <= allowed + 1e-12).all()
            assert np.abs(p - q).max() <= draws * once.epsilon * (1 + 1e-12)


def test_delm_numbers() -> None:
    """eps_3 = 3, n = 100, k = 50 of 100, m = 3, T = 250: 562.5, generic 1,125; zCDP 8.0, 18.2."""
    eta = exponent_as_published(3.0, 100)
    assert eta == Fraction(3, 200)
    for change, pure, concentrated in (("single", 562.5, 8.0), ("generic", 1125.0, 18.2)):
        run = release(eta, candidates=100, draws=50, layers=3, rounds=250, change=change)
        assert isinstance(run.event, ev.Repeat)
        count, once = run.event.count, run.event.event
        assert count * once.epsilon == pytest.approx(pure, rel=1e-12)
        rho = count * once.epsilon**2 / 8
        assert rho + 2 * math.sqrt(rho * math.log(1e5)) == pytest.approx(concentrated, abs=0.05)
        proven = pp.account(run.event, delta=1e-5, neighbours="replace-one").epsilon.upper
        assert 0.85 * concentrated < proven < concentrated
    assert rho / 4 == pytest.approx(1.055, abs=1e-3)
    assert math.exp(eta) == pytest.approx(1.015, abs=5e-4)


def test_selecting_by_privatised_scores_is_free() -> None:
    run = release(1.0, candidates=10, draws=3, rounds=50, scores="privatised")
    assert run.event == ev.Compose(())
    assert pp.account(run.event, delta=1e-5).epsilon.upper == 0.0


def test_ranges_are_rounded_up_and_scale() -> None:
    for eta in (0.1, 1 / 3, 2.7):
        for bound in (0.3, 1.0):
            generic = draw_range(eta, bound)
            assert Fraction(generic) >= 2 * Fraction(eta) * Fraction(bound)
            assert generic == pytest.approx(2 * draw_range(eta, bound, change="single"))


def test_misuse_is_refused() -> None:
    with pytest.raises(InvalidInput, match="draws"):
        release(1.0, candidates=3, draws=4)
    with pytest.raises(Unsupported, match="private data"):
        release(1.0, candidates=3, bound_source="private")
    with pytest.raises(InvalidInput, match="change"):
        release(1.0, candidates=3, change="parallel")
    with pytest.raises(InvalidInput, match="scores"):
        release(1.0, candidates=3, scores="public")
    with pytest.raises(InvalidInput, match="exponent"):
        release(0.0, candidates=3)
    with pytest.raises(InvalidInput, match="exponent"):
        release(Fraction(-1), candidates=3)
