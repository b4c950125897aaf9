"""The Renyi divergence of a pair of distributions that is given as weighted points.

A pair (P, Q) is two arrays: the logarithm of the Q-mass of each point, and the loss log(P/Q)
there.  Then, for every real order a > 1,

    R(a) = 1/(a-1) log E_Q[(P/Q)^a],   E_Q[(P/Q)^a] - 1 = E_Q[(1+u)^a - 1 - a u],  u = P/Q - 1.

The second form holds because E_Q[u] = 0.  Its summands are never negative, so a divergence of
1e-20 keeps its digits, and points that are left out can be bounded one by one.

**The trapezoid rule** for Renyi moments of mixtures of Gaussians: its step, and what it may miss.

An integrand that is analytic in a strip about the real line is integrated by equal steps with an
error that falls exponentially with the strip's width over the step.
Source: Trefethen and Weideman 2014, Theorem 5.1, SIAM Review 56(3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...arrays import FloatArray

RENYI_OUTWARD_FACTOR: Final = 1.0 + 1e-11
"""Every computed divergence is raised by this factor: far more than its rounding error."""

_MAX_DIRECT_EXPONENT: Final = 300.0
"""Exponents beyond this are summed in log space, where the `- 1` no longer matters."""


@dataclass(frozen=True)
class Pair:
    """Two distributions P and Q on finitely many points: log Q-masses, and losses log(P/Q)."""

    log_weights: FloatArray
    losses: FloatArray


def mixed(rate: float, losses: FloatArray) -> FloatArray:
    """Return log(1 - rate + rate e^loss): the losses of (1-rate) Q + rate P against Q."""
    # log(1 + q (e^l - 1)) keeps small losses; log-add-exp keeps large ones.
    near = np.log1p(rate * np.expm1(np.minimum(losses, 1.0)))
    by_log_add = np.logaddexp(np.log1p(-rate), np.log(rate) + losses)
    # Where the sum falls well below 1, the first form has lost 1 - rate to rounding.
    return np.where((losses > 1.0) | (near < -0.5), by_log_add, near)


def renyi(pair: Pair, orders: FloatArray) -> FloatArray:
    """Return R(a) for each order a > 1, rounded outward."""
    beta = orders[:, None] - 1.0
    # Shape (orders, points): log of Q (P/Q)^a = P (P/Q)^(a-1), the summands of E_Q[(P/Q)^a].  By
    # P: a large loss times an order close to 1 would leave its rounding next to a small moment.
    exponents = beta * pair.losses + (pair.log_weights + pair.losses)
    peaks = exponents.max(axis=1)
    small = peaks < _MAX_DIRECT_EXPONENT
    moments = np.empty_like(orders)
    if small.any():
        # Moments near 1 through their excess over 1, so that tiny divergences keep digits.
        moments[small] = np.log1p(_excess(pair, beta[small], exponents[small]))
    large = ~small
    if large.any():
        # Large ones by log-sum-exp around the largest summand.
        scaled = np.exp(exponents[large] - peaks[large, None])
        moments[large] = peaks[large] + np.log(scaled.sum(axis=1))
    return np.maximum(moments, 0.0) / beta[:, 0] * RENYI_OUTWARD_FACTOR


def renyi_from_below(pair: Pair, orders: FloatArray, missed: float) -> FloatArray:
    """Return what R(a) is at least, where each sum over the points errs by at most `missed`.

    `missed` is the share by which sums of Q-mass, of P-mass and of Q (P/Q)^a may be too large;
    E_Q[(1+u)^a - 1 - a u] is made of these, a + 1 times the first two.
    """
    # log(M - e) >= log M - e/(M - e), e at most missed (M + 2 a + 1), and M at least 1.
    above = missed * (2.0 * orders + 2.0) * (1.0 + 1e-6)
    moments = renyi(pair, orders) * (orders - 1.0) * (2.0 - RENYI_OUTWARD_FACTOR**4)
    return np.asarray(np.maximum(moments - above, 0.0) / (orders - 1.0) * (1.0 - 1e-14))


def _excess(pair: Pair, beta: FloatArray, exponents: FloatArray) -> FloatArray:
    """Return E_Q[(1+u)^a - 1 - a u] = E_Q[(1+u)((1+u)^b - 1) - b u], with b = a - 1."""
    q = np.exp(pair.log_weights)
    p = np.exp(pair.log_weights + pair.losses)
    u = np.expm1(np.minimum(pair.losses, 1.0))
    # q u = p - q, by expm1 where the loss is small.
    shift = np.where(pair.losses < 1.0, q * u, p - q)
    grown = beta * pair.losses
    terms = np.where(grown > 1.0, np.exp(exponents) - p, p * np.expm1(np.minimum(grown, 1.0))) - (
        beta * shift
    )
    # For small u the two terms cancel: the Taylor series of (1+u)^a - 1 - a u instead.
    near = np.abs(u) < 1e-2
    if near.any():
        v, b = u[near], beta
        series = 1.0 + (b - 5.0) * v / 7.0
        for k in (4.0, 3.0, 2.0, 1.0):
            series = 1.0 + (b - k) * v / (k + 2.0) * series
        series = series * ((b + 1.0) * b / 2.0) * (q[near] * v * v)
        terms[:, near] = np.where(np.abs(b * v) < 0.05, series, terms[:, near])
    return np.asarray(terms.sum(axis=1))


MAX_QUADRATURE_NODES: Final = 20_000
"""Orders that would need more nodes get another bound instead."""

MIN_QUADRATURE_NOISE, MAX_QUADRATURE_NOISE = 1e-4, 1e50
"""Beyond these, too."""

QUADRATURE_LOG_ACCURACY: Final = 40.0
"""The rule is exact up to about e^-40 of the integral."""

QUADRATURE_MISSED_MASS: Final = 2e-17
"""What it may miss of E_Q[(P/Q)^a], which is at least 1: more than e^-40."""

MAX_SHIFT_ANGLE: Final = 2.5
"""Largest angle v, below pi, to which the line of integration moves where v costs something."""


def trapezoid_step(noise: float, exponent: FloatArray, widest: float) -> FloatArray:
    """Return the step h at which the rule errs by at most about e^-40 of the integral.

    Moving the line of integration by t = v s^2, s the noise, multiplies the integral by at most
    e^(v^2 s^2/2) and, where ratios are raised to negative powers, by cos(v/2)^(-b), b the
    `exponent` (0 or above); v is at most `widest`, below or at pi.  The error is then that factor
    times 2/(e^(2 pi t/h) - 1).
    """
    variance = noise**2
    # v where both factors together cost about as much as the accuracy that is asked for.
    half_angle_cost = variance / 2.0 + exponent / 8.0
    angle = np.minimum(widest, np.sqrt(QUADRATURE_LOG_ACCURACY / half_angle_cost))
    cost = QUADRATURE_LOG_ACCURACY + angle**2 * variance / 2.0
    # With exponent 0 this adds nothing, at v = pi neither.
    cost = cost - exponent * np.log(np.cos(angle / 2.0))
    return np.asarray(2.0 * math.pi * angle * variance / cost)
