"""What closed forms give for a run's phases: limits, textbook formulas, simple composition.

Besides, conversions from divergences, mu or rho to the epsilon that published programs print.  No
guarantees: these are their formulas, sound or not, and say which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.special import ndtr

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.arrays import FloatArray
from ..description.run_description import Phase
from .reproduction import AccountantValue, Method


def classical_value(orders: FloatArray, divergences: FloatArray, delta: float) -> FloatArray:
    """Return min over orders of R(a) + log(1/delta)/(a - 1).

    `divergences` has the shape (..., orders); the result (...).
    Source: Mironov 2017, Proposition 3, arXiv 1702.07476v3.
    """
    return np.asarray((divergences - math.log(delta) / (orders - 1.0)).min(axis=-1))


def improved_value(orders: FloatArray, divergences: FloatArray, delta: float) -> FloatArray:
    """Return min over orders of R(a) - (log delta + log a)/(a - 1) + log((a - 1)/a), or 0.

    Shapes as in `classical_value`.
    Source: Canonne, Kamath and Steinke 2020, Proposition 12, arXiv 2004.00010v4, as Opacus and
    dp_accounting 0.6 use it.
    """
    values = divergences - math.log(delta) / (orders - 1.0)
    values += np.log1p(-1.0 / orders) - np.log(orders) / (orders - 1.0)
    return np.asarray(np.maximum(values.min(axis=-1), 0.0))


def dual_value(mu: float, delta: float) -> float:
    """Return the epsilon of N(0, 1) against N(mu, 1) at `delta`.

    Source: Dong, Roth and Su 2022, Corollary 2.13, arXiv 1905.02383v3.
    """
    return account(ev.Gaussian(1.0 / mu), delta=delta, engine="gdp").epsilon.upper


def poisson_limit(noise_multiplier: float, rate: float) -> float:
    """Return mu^2 of one step by the central limit theorem: q^2 (e^(1/z^2) - 1); no bound.

    Source: Bu, Dong, Long and Su 2020, arXiv 1911.11607v3; Opacus's gdp accountant.
    """
    return rate**2 * _expm1(noise_multiplier**-2)


def uniform_limit(noise_multiplier: float, rate: float) -> float:
    """Return mu^2 of one step by the central limit theorem, for uniform samples; no bound.

    2 q^2 (e^(1/z^2) Phi(1.5/z) + 3 Phi(-.5/z) - 2).
    Source: Bu, Dong, Long and Su 2020, arXiv 1911.11607v3; TF-Privacy's gdp_accountant.
    """
    z = noise_multiplier
    grown = (_expm1(z**-2) + 1.0) * float(ndtr(1.5 / z))
    return max(0.0, 2.0 * rate**2 * (grown + 3.0 * float(ndtr(-0.5 / z)) - 2.0))


def _expm1(exponent: float) -> float:
    return math.expm1(exponent) if exponent < 700.0 else math.inf


def concentrated_value(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho log(1/delta)).

    Source: Bun and Steinke 2016, Proposition 1.3, arXiv 1605.02065v1.
    """
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def textbook_value(noise_multiplier: float, delta: float) -> float:
    """Return sqrt(2 log(1.25/delta)) / z, a theorem for results below 1 only.

    Source: Dwork and Roth 2014, Theorem A.1.
    """
    return math.sqrt(2.0 * math.log(1.25 / delta)) / noise_multiplier


def advanced_value(epsilon: float, releases: int, slack: float) -> float:
    """Return the epsilon of `releases` releases by advanced composition, with `slack` in delta.

    sqrt(2 k log(1/slack)) e + k e (e^e - 1).
    Source: Dwork, Rothblum and Vadhan 2010, Theorem III.3.
    """
    spread = math.sqrt(2.0 * releases * math.log(1.0 / slack)) * epsilon
    return spread + releases * epsilon * _expm1(epsilon)


LIMIT_NAME: Final = "the central-limit (gdp) accountant of Opacus and TF-Privacy"
UNIFORM_LIMIT_NAME: Final = "the central-limit accountant of TF-Privacy for uniform samples"

_LARGEST_MU: Final = 1e3


def _exactly(name: str, method: Method, value: float) -> Iterator[AccountantValue]:
    if math.isfinite(value) and value > 0.0:
        yield AccountantValue(name, method, value, value)


def limit_values(phases: tuple[Phase, ...], delta: float) -> Iterator[AccountantValue]:
    """Yield the two central-limit values for Gaussian noise; they bound nothing."""
    for name, limit in ((LIMIT_NAME, poisson_limit), (UNIFORM_LIMIT_NAME, uniform_limit)):
        mu = math.sqrt(sum(p.steps * limit(p.noise_multiplier, p.rate) for p in phases))
        if 0.0 < mu < _LARGEST_MU:
            yield from _exactly(name, "clt", dual_value(mu, delta))


def gaussian_forms(phases: tuple[Phase, ...], delta: float) -> Iterator[AccountantValue]:
    """Yield what formulas without an accountant give for Gaussian noise.

    For sampled phases: the small-rate approximation rho = q^2 T/(2 z^2), which bounds nothing, the
    textbook formula, and the textbook formula times the rate.
    """
    rho = sum(p.steps * p.rate**2 / (2.0 * p.noise_multiplier**2) for p in phases)
    if all(p.rate >= 1.0 for p in phases):
        yield from _exactly("the zCDP conversion", "zcdp", concentrated_value(rho, delta))
    else:
        name = "the small-rate approximation q^2 T/(2 z^2) as zCDP"
        yield from _exactly(name, "small-rate-approximation", concentrated_value(rho, delta))
    if len(phases) == 1:
        yield from _textbook_forms(phases[0], delta)


def _textbook_forms(phase: Phase, delta: float) -> Iterator[AccountantValue]:
    noise, rate, steps = phase.noise_multiplier, phase.rate, phase.steps
    single = textbook_value(noise, delta)
    name = "the textbook formula of the Gaussian mechanism"
    yield from _exactly(
        name if steps == 1 else f"{name}, times the number of releases",
        "textbook-gaussian",
        steps * single,
    )
    if steps > 1:
        root = math.sqrt(steps) * single
        yield from _exactly(
            f"{name}, times the root of the number of releases", "textbook-gaussian", root
        )
    if rate < 1.0:
        yield from _exactly(
            f"{name}, times the rate and the root of the number of steps",
            "textbook-gaussian",
            rate * math.sqrt(steps) * single,
        )
        yield from _exactly(
            f"{name}, times the rate and the number of steps",
            "textbook-gaussian",
            rate * steps * single,
        )
    if steps > 1:
        # Half of delta for the releases, half for the composition; each release is amplified.
        each = textbook_value(noise, delta / (2.0 * steps))
        amplified = math.log1p(rate * math.expm1(min(each, 500.0)))
        yield from _exactly(
            "the textbook formula of the Gaussian mechanism with advanced composition",
            "advanced-composition",
            advanced_value(amplified, steps, delta / 2.0),
        )


def pure_forms(phases: tuple[Phase, ...], delta: float | None) -> Iterator[AccountantValue]:
    """Yield the sum of the epsilons of Laplace releases, amplified, and advanced composition."""
    total, amplified = 0.0, 0.0
    for phase in phases:
        epsilon = 1.0 / phase.noise_multiplier
        total += phase.steps * epsilon
        amplified += phase.steps * math.log1p(phase.rate * math.expm1(min(epsilon, 500.0)))
    name = "the sum of the releases' epsilons"
    yield from _exactly(name, "simple-composition", total)
    if amplified < total:
        yield from _exactly(f"{name}, amplified by sampling", "simple-composition", amplified)
    if delta is not None and len(phases) == 1:
        each = amplified / phases[0].steps
        yield from _exactly(
            "advanced composition",
            "advanced-composition",
            advanced_value(each, phases[0].steps, delta),
        )
