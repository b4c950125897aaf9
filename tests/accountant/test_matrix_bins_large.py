"""Balls in bins over more rounds than a matrix is written down for: summed band by band."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.amplification import bins as bins_module
from privplan.accountant.amplification.bins import bin_comparisons
from privplan.accountant.errors import Unsupported

from ..cases import for_each

LARGE = ev.MatrixGaussian(50.0, ev.ToeplitzStrategy(5_000, (1.0, 0.5)), ev.BallsInBins(50))


def _shifts(steps: int, bins: int, coefficients: tuple[float, ...], noise: float) -> np.ndarray:
    """Return <m_i, sum_k m_k> / |sum_k m_k|, in deviations of the noise, from a sparse C."""
    matrix = sparse.diags(coefficients, [-m for m in range(len(coefficients))], (steps, steps))
    members = sparse.csc_array(
        (np.ones(steps), (np.arange(steps), np.arange(steps) % bins)), (steps, bins)
    )
    means = (matrix @ members).toarray()
    total = means.sum(axis=1)
    return means.T @ total / np.linalg.norm(total) / noise


def test_what_is_attained_over_many_rounds_lies_below_the_upper_end() -> None:
    shifts = _shifts(5_000, 50, (1.0, 0.5), 50.0)
    for epsilon in (0.05, 0.1):
        # The average of N(u, 1) against N(0, 1), by numerical integration.
        x = np.arange(-12.0, 14.0, 1e-3)
        losses = np.log(np.mean([np.exp(u * x - 0.5 * u * u) for u in shifts], axis=0))
        ahead = np.maximum(np.exp(losses) - np.exp(epsilon), 0.0)
        attained = float((ahead * norm.pdf(x)).sum() * 1e-3)
        delta = pp.account(LARGE, epsilon=epsilon).delta
        assert attained * (1.0 - 1e-6) <= delta.upper
        assert delta.lower <= delta.upper <= 2.0 * attained


def test_every_question_about_many_rounds_in_bins_has_an_answer() -> None:
    known = pp.account(LARGE, delta=1e-5, engine="gdp").epsilon.upper
    hidden = pp.account(LARGE, delta=1e-5).epsilon
    assert 0.0 < hidden.lower <= hidden.upper < 0.5 * known
    assert pp.gdp(LARGE).mu.upper < 0.23
    assert pp.zcdp(LARGE).rho.upper < 0.026
    assert pp.risk(LARGE).advantage.upper < 0.02


@for_each(
    ("strategy", "bins"),
    [
        (ev.ToeplitzStrategy(17, (1.0, 0.5, -0.25)), 5),
        (ev.ToeplitzStrategy(24, (1.0, 0.8, 0.6, 0.1)), 4),
        (ev.BandedStrategy(((1.0, 2.0, 3.0, 1.0), (0.5, -0.5, 0.25))), 2),
        (ev.BufferedToeplitzStrategy(30, (0.9, 0.5), (0.3, 0.1)), 7),
    ],
)
def test_bands_give_what_the_matrix_gives(
    strategy: ev.Strategy, bins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = ev.MatrixGaussian(2.0, strategy, ev.BallsInBins(bins))
    bin_comparisons.cache_clear()
    from_matrix = bin_comparisons(event)

    def too_large(strategy: ev.Strategy) -> np.ndarray:
        raise Unsupported(f"`{strategy.type}` is too large.")

    monkeypatch.setattr(bins_module, "strategy_matrix", too_large)
    bin_comparisons.cache_clear()
    from_bands = bin_comparisons(event)
    bin_comparisons.cache_clear()
    assert len(from_bands.above) == len(from_matrix.above) > 1
    for one, other in zip(
        from_bands.above + from_bands.below, from_matrix.above + from_matrix.below, strict=True
    ):
        assert one.bins == other.bins
        assert (one.shared, one.hidden) == pytest.approx((other.shared, other.hidden), rel=1e-12)


@for_each(
    ("strategy", "bins"),
    [
        (ev.TreeStrategy(5_000, 2), 50),
        (ev.ToeplitzStrategy(2**20, (1.0, 0.5)), 1_000),
        (ev.ToeplitzStrategy(5_000, (1.0, 0.5)), 1),
    ],
)
def test_what_is_too_large_to_compare_counts_the_bin_as_known(
    strategy: ev.Strategy, bins: int
) -> None:
    event = ev.MatrixGaussian(50.0, strategy, ev.BallsInBins(bins))
    known = pp.account(event, delta=1e-5, engine="gdp").epsilon.upper
    assert pp.account(event, delta=1e-5).epsilon.upper <= known * (1.0 + 1e-3)
    assert len(bin_comparisons(event).above) == 1


@for_each(
    ("event", "relation", "engine"),
    [
        (LARGE, "add-remove", "gdp"),
        (LARGE, "zero-out", "gdp"),
        (ev.Group(2, LARGE), "replace-one", None),
        (ev.Group(2, LARGE), "add-remove", "pld"),
    ],
)
def test_the_words_say_that_a_bin_counts_as_known(
    event: ev.Event, relation: str, engine: str | None
) -> None:
    answer = pp.account(event, delta=1e-5, neighbours=relation, engine=engine)
    said = " ".join(answer.warnings)
    assert answer.epsilon.lower == 0.0
    assert "counts every unit's bin as known" in said
    assert "overlap" not in said
    assert "+1" not in said


@for_each("relation", ["add-remove", "replace-one"])
def test_the_words_say_how_a_hidden_bin_counts(relation: str) -> None:
    small = ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(12, (1.0, 0.5)), ev.BallsInBins(4))
    answer = pp.account(small, delta=1e-5, neighbours=relation)
    said = " ".join(answer.warnings)
    if answer.epsilon.upper > 1.01 * answer.epsilon.lower:
        assert "overlap little" in said
        assert "contributions of +1" in said
    assert "as known" not in said
