"""The trapezoid rule for Renyi moments of mixtures of Gaussians: its step, and what it may miss.

An integrand that is analytic in a strip about the real line is integrated by equal steps with an
error that falls exponentially with the strip's width over the step.
Source: Trefethen and Weideman 2014, Theorem 5.1, SIAM Review 56(3).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ...arrays import FloatArray

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
