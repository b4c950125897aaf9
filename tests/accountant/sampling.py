"""Hockey-stick divergences by quadrature, for the tests of sampling."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld import PldEngine

ENGINE = PldEngine()
RELATIONS = ("add-remove", "replace-one", "zero-out")
ORDERS = np.exp(np.array([-2.5, -1.0, -0.3, -0.05, 0.0, 0.05, 0.3, 1.0, 2.5]))


def epsilon(event, delta, neighbours="add-remove"):
    return ENGINE.epsilon(Composition.of(event), delta, neighbours).bounds


def delta(event, eps, neighbours="add-remove"):
    return ENGINE.delta(Composition.of(event), eps, neighbours).bounds


def hockey_stick(pair, order, points=20_001):
    """The hockey stick of a pair at one order, from its masses in fine bins of the loss."""
    total = 0.0
    if pair.continuous is not None:
        low, high = pair.continuous.loss_range(1e-16)
        log_p, log_q = pair.continuous.log_masses(np.linspace(low, high, points))
        total += np.maximum(np.exp(log_p) - order * np.exp(log_q), 0.0).sum()
    if pair.atoms is not None:
        p, q = np.exp(pair.atoms.log_p), np.exp(pair.atoms.log_q)
        total += np.maximum(p - order * q, 0.0).sum()
    return float(total)


def curve_of(pair):
    return np.array([hockey_stick(pair, order) for order in ORDERS])


def hockey_sticks(p, q, cell):
    """The hockey sticks of two densities on cells of equal size."""
    return np.array([np.maximum(p - order * q, 0.0).sum() * cell for order in ORDERS])


def density(event, x, centres):
    """The density at x of the release around each centre, averaged."""
    scale = event.noise_multiplier
    if isinstance(event, ev.Gaussian):
        return norm.pdf((x[:, None] - centres) / scale).mean(axis=1) / scale
    return np.exp(-np.abs(x[:, None] - centres) / scale).mean(axis=1) / (2.0 * scale)


def neighbours_of(values, relation, grid):
    """Every data set next to `values` by what its first unit does."""
    others = values[1:]
    if relation == "add-remove":
        return [others]
    if relation == "zero-out":
        return [(0.0, *others)]
    return [(other, *others) for other in grid if other != values[0]]


def ratios(sigma, points=241):
    """A grid of releases in one step: cell masses at 0, and their ratios at +1 and -1."""
    x, cell = np.linspace(-8.0, 8.0, points, retstep=True)
    z = x * sigma
    plain = norm.pdf(x) * cell
    return plain, np.exp((2 * z - 1) / (2 * sigma**2)), np.exp((-2 * z - 1) / (2 * sigma**2))
