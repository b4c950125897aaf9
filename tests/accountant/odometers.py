"""Events and divergences that the tests of the odometer share."""

from __future__ import annotations

import mpmath

from privplan.accountant import events as ev

SAMPLED = ev.Poisson(0.01, ev.Gaussian(1.0))


def budget_at(order, epsilon, delta):
    """Return the largest R(order) that gives (epsilon, delta)."""
    b = mpmath.mpf(order) - 1
    log = mpmath.log
    return epsilon + (log(delta) + log(order)) / b + log(order / b)
