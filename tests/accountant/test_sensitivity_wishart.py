"""The Wishart mechanism: exact failure against simulation and mpmath; the sound replacement."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import privplan as pp
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.wishart import (
    LAYOUTS,
    failure,
    failure_reversed,
    gaussian_release,
    gaussian_sensitivity,
    one_row_delta,
)

from ..cases import for_each
from ..chance import limits


def draw(count: int, d: int, freedom: int, scale: float, seed: int) -> np.ndarray:
    z = np.random.default_rng(seed).normal(scale=math.sqrt(scale), size=(count, d, freedom))
    return z @ z.transpose(0, 2, 1)


def unit(d: int) -> np.ndarray:
    x = np.arange(1.0, d + 1)
    return x / np.linalg.norm(x)


@for_each(("epsilon", "delta"), [(0.6, 0.451), (1.0, 0.632), (1 / 3, 0.283)])
def test_known_failures(epsilon: float, delta: float) -> None:
    assert failure(epsilon) == pytest.approx(delta, abs=5e-4)
    assert failure(epsilon, privacy_epsilon=1000.0) == failure(epsilon)
    assert failure(epsilon, privacy_epsilon=epsilon, neighbours="replace-one") == failure(epsilon)


@for_each("epsilon", [0.0, 0.2, 1.0, 2.9, 3.0, 8.0])
@for_each("norm_square", [1.0, 2.0])
def test_both_directions_at_one_extra_degree(epsilon: float, norm_square: float) -> None:
    """Two exponential laws, a shift apart, integrated by hand."""
    claimed = 1.5
    rate = 2 * claimed / 2  # of c chi^2_2, with c = 1/(2 claimed)
    bounds = one_row_delta(
        epsilon, extra_freedom=1, scale=1 / (2 * claimed), norm_square=norm_square
    )
    exact = failure(claimed, privacy_epsilon=epsilon, norm_square=norm_square)
    assert bounds.lower <= exact <= bounds.upper
    assert bounds.gap < 1e-8
    step = 1e-4
    t = np.arange(step / 2, 40.0, step)
    p = rate * np.exp(-rate * t)
    q = np.where(t > norm_square, rate * np.exp(-rate * (t - norm_square)), 0.0)
    removal = np.maximum(p - np.exp(epsilon) * q, 0.0).sum() * step
    addition = np.maximum(q - np.exp(epsilon) * p, 0.0).sum() * step
    assert exact == pytest.approx(removal, abs=1e-3)
    reverse = failure_reversed(claimed, privacy_epsilon=epsilon, norm_square=norm_square)
    assert reverse == pytest.approx(addition, abs=1e-3)
    assert reverse <= exact


@for_each("extra", [1, 2, 5, 34, 361])
@for_each("epsilon", [0.0, 0.139, 0.4, 1.0, 3.0])
@for_each(("scale", "norm_square"), [(1.0, 1.0), (0.3, 2.0)])
def test_the_one_row_curve_against_mpmath(
    extra: int, epsilon: float, scale: float, norm_square: float
) -> None:
    """The two densities are compared, and the better side of their crossing integrated."""
    bounds = one_row_delta(epsilon, extra_freedom=extra, scale=scale, norm_square=norm_square)
    with mp.workdps(40):
        half, c, n = mp.mpf(extra + 1) / 2, 2 * mp.mpf(scale), mp.mpf(norm_square)

        def loss(t: mp.mpf) -> mp.mpf:
            """Log density without the row over that with it, falling in t."""
            return (half - 1) * (mp.log(t) - mp.log(t - n)) - n / c

        def crossing(target: float) -> mp.mpf:
            low, high = n, n + 1
            while loss(high) > target:
                high *= 2
            for _ in range(150):
                middle = (low + high) / 2
                low, high = (middle, high) if loss(middle) > target else (low, middle)
            return low

        def below(t: mp.mpf) -> mp.mpf:
            return mp.gammainc(half, 0, max(t, 0) / c, regularized=True)

        def above(t: mp.mpf) -> mp.mpf:
            return mp.gammainc(half, t / c, mp.inf, regularized=True)

        grown = mp.e**epsilon
        t = crossing(epsilon) if extra > 1 else n
        exact = below(t) - grown * below(t - n)
        if epsilon < norm_square / (2 * scale):
            t = crossing(-epsilon) if extra > 1 else n
            exact = max(exact, above(t - n) - grown * above(t))
        assert bounds.lower <= exact <= bounds.upper
        assert bounds.gap <= 1e-8 * bounds.upper


def test_how_much_freedom_is_enough() -> None:
    """At scale B^2 I and delta 1e-5: 34 for epsilon 1, 66 for .5; the smallest are 33 and 65."""

    def least(epsilon: float) -> int:
        return next(
            extra
            for extra in range(1, 200)
            if one_row_delta(epsilon, extra_freedom=extra, scale=1.0).upper <= 1e-5
        )

    assert least(1.0) == 33
    assert least(0.5) == 65
    assert one_row_delta(1.0, extra_freedom=34, scale=1.0).upper <= 1e-5
    assert one_row_delta(0.5, extra_freedom=66, scale=1.0).upper <= 1e-5


def test_sheffets_degrees_of_freedom_are_very_conservative() -> None:
    extra = math.floor(14 * 2 * math.log(4 / 1e-5))
    assert one_row_delta(0.139, extra_freedom=extra, scale=1.0).upper <= 1e-5
    assert one_row_delta(0.138, extra_freedom=extra, scale=1.0).lower > 1e-5


def test_shorter_rows_and_more_freedom_fail_less() -> None:
    for epsilon in (0.0, 0.5, 2.0):
        by_norm = [
            one_row_delta(epsilon, extra_freedom=3, scale=0.5, norm_square=n).upper
            for n in (0.1, 0.5, 1.0, 4.0)
        ]
        by_freedom = [
            one_row_delta(epsilon, extra_freedom=k, scale=0.5).upper for k in (1, 2, 5, 30)
        ]
        assert by_norm == sorted(by_norm)
        assert by_freedom == sorted(by_freedom, reverse=True)
    cube = failure(0.5, norm_square=10.0)  # |x_j| <= 1, d = 10
    assert cube == pytest.approx(1 - math.exp(-5.0))


def test_replaced_rows_of_the_ball_by_simulation() -> None:
    """No pair of the ball does worse than a row against nothing.  False alarm: 1e-6."""
    d, epsilon, count = 3, 1.0, 4000
    noise = draw(count, d, d + 1, 1 / (2 * epsilon), seed=9)
    rng = np.random.default_rng(2)
    _, most = limits(stats.binom(count, failure(epsilon)), looks=20)
    for _ in range(20):
        x, other = (v / np.linalg.norm(v) for v in rng.normal(size=(2, d)))
        x = x * rng.uniform(0.0, 1.0)
        beyond = np.linalg.eigvalsh(noise + np.outer(x, x) - np.outer(other, other))[:, 0] < 0.0
        assert beyond.sum() <= most


def laid_out(matrix: np.ndarray, layout: str) -> np.ndarray:
    """Coordinates in which the noise of a layout is white."""
    if layout == "full":
        return matrix.reshape(*matrix.shape[:-2], -1)
    i, j = np.triu_indices(matrix.shape[-1])
    weight = math.sqrt(2.0) if layout == "isometric" else 1.0
    return matrix[..., i, j] * np.where(i == j, 1.0, weight)


@for_each("layout", LAYOUTS)
@for_each("d", [1, 2, 4])
def test_gaussian_sensitivity_is_attained_and_never_exceeded(layout: str, d: int) -> None:
    b = 1.5
    present = gaussian_sensitivity(b, layout=layout, dimension=d).l2
    swapped = gaussian_sensitivity(b, "replace-one", layout=layout, dimension=d).l2
    axes = np.eye(d) * b
    first, last = np.outer(axes[0], axes[0]), np.outer(axes[-1], axes[-1])
    assert np.linalg.norm(laid_out(first, layout)) == pytest.approx(present)
    gap = first - (last if d > 1 else 0.0)
    assert np.linalg.norm(laid_out(gap, layout)) == pytest.approx(swapped)
    rng = np.random.default_rng(d)
    pairs = rng.normal(size=(4000, 2, d))
    pairs[::2] = np.round(pairs[::2])
    length = np.maximum(np.linalg.norm(pairs, axis=2, keepdims=True), 1e-9)
    rows = pairs / length * b
    squares = rows[..., :, None] * rows[..., None, :]
    for moved, bound in ((squares[:, 0], present), (squares[:, 0] - squares[:, 1], swapped)):
        assert np.linalg.norm(laid_out(moved, layout), axis=1).max() <= bound * (1 + 1e-12)


def test_the_sound_replacement_as_an_event() -> None:
    for neighbours, bound in (("add-remove", 4.0), ("replace-one", 4.0 * math.sqrt(2.0))):
        run = gaussian_release(gaussian_sensitivity(2.0, neighbours), noise=12.0, rounds=3)
        mu = math.sqrt(3) * bound / 12.0
        direct = pp.account(pp.events.Gaussian(1 / mu), delta=1e-5).epsilon.upper
        got = pp.account(run.event, delta=1e-5, neighbours=run.neighbours).epsilon.upper
        assert got == pytest.approx(direct, rel=1e-12)


def test_many_degrees_of_freedom_are_exact_or_refused() -> None:
    """scipy's tail is 3% too small at 10^8 degrees; the truth here is by mpmath."""
    for extra, delta in ((10_000, "2.5"), (100_000, "2.5")):
        scale = float(delta) / math.sqrt(2 * extra)
        found = one_row_delta(3.0, extra_freedom=extra, scale=scale)
        half, n = mp.mpf(extra + 1) / 2, mp.mpf(1)
        with mp.workdps(40):
            scale_ = mp.mpf(scale)
            t = n / -mp.expm1(-(3 + n / (2 * scale_)) / (half - 1))
            truth = lower_tail(half, t / (2 * scale_))
            truth -= mp.exp(3) * lower_tail(half, (t - n) / (2 * scale_))
        assert 0 < truth < 1e-9
        assert found.lower <= truth <= found.upper
    for extra, norm_square in ((100_001, 1.0), (10**8, 1.0), (34, 1e-300), (34, 5e-324)):
        with pytest.raises(Unsupported, match="too extreme"):
            one_row_delta(0.5, extra_freedom=extra, scale=1.0, norm_square=norm_square)


def lower_tail(half: mp.mpf, x: mp.mpf) -> mp.mpf:
    """The series of the regularised lower incomplete gamma function, until it converges."""
    total = term = 1 / half
    index = 0
    while term > total * mp.mpf(10) ** -30:
        index += 1
        term *= x / (half + index)
        total += term
    return total * mp.exp(half * mp.log(x) - x - mp.loggamma(half))


def test_bad_input_is_refused() -> None:
    with pytest.raises(Unsupported, match="only known from epsilon"):
        failure(1.0, privacy_epsilon=0.5, neighbours="replace-one")
    with pytest.raises(InvalidInput, match="extra_freedom"):
        one_row_delta(1.0, extra_freedom=0, scale=1.0)
    with pytest.raises(Unsupported, match="private data"):
        gaussian_sensitivity(1.0, bound_source="private")
    with pytest.raises(InvalidInput, match="layout"):
        gaussian_sensitivity(1.0, layout="lower")
