"""From divergences, mu or rho to the epsilon that published programs print.

No guarantees: these are their formulas, sound or not, and say which.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.arrays import FloatArray


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
