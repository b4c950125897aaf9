"""Quadrature of a sampled Gaussian's Renyi divergence: its nodes, their step and their reach."""

from __future__ import annotations

import math

import numpy as np

from ...arrays import FloatArray
from .moments import MAX_SHIFT_ANGLE, Pair, mixed, trapezoid_step


def node_step(sigma: float, orders: FloatArray, replaced: bool) -> FloatArray:
    """Return the trapezoid step for each order.

    |1 - q + q e^{x + i y}| <= 1 - q + q e^x for every angle y; under replace-one a ratio is also
    raised to 1 - a, and that modulus is at least cos(y/2) (1 - q + q e^x).
    """
    if replaced:
        return trapezoid_step(sigma, orders - 1.0, MAX_SHIFT_ANGLE)
    return trapezoid_step(sigma, np.zeros_like(orders), math.pi)


def reach_of_nodes(sigma: float, orders: FloatArray, replaced: bool) -> FloatArray:
    """Return how far the nodes lie apart in all, for each order."""
    return (2.0 if replaced else 1.0) * orders + 1.0 + 22.0 * sigma


def gaussian_pair(rate: float, sigma: float, order: float, step: float, replaced: bool) -> Pair:
    """Return quadrature nodes that hold all but 1e-22 of the integral up to `order`.

    The integrand's logarithm has slope (-x + a w(x) + (a-1) w(-x)) / sigma^2 with weights w in
    (0, 1) (add-remove: without the last term), so beyond its last peak, at most at 2a - 1 (a), it
    falls faster than a Gaussian; likewise below 0 (replace-one: -1).
    """
    low = -11.0 * sigma - (1.0 if replaced else 0.0)
    high = 11.0 * sigma + (2.0 if replaced else 1.0) * order
    # Nodes at whole multiples of the step, weights log of normal density times step.
    counted = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64)
    x = np.asarray(counted * step, np.float64)
    z = x / sigma
    scale = sigma * sigma
    weights = -z * z / 2.0 + math.log(step / (sigma * math.sqrt(2.0 * math.pi)))
    # log(1 - q + q N(1)/N(0)) at each node.
    losses = mixed(rate, (x - 0.5) / scale)
    if replaced:
        # Q = (1-q) N(0) + q N(-1) carries the weights; the loss is the difference of both logs.
        other = mixed(rate, (-x - 0.5) / scale)
        weights, losses = weights + other, losses - other
    return Pair(weights, losses)
