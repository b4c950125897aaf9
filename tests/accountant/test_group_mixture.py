"""The Renyi curve of k records together under Poisson sampling with Gaussian noise."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.engines.rdp import RdpEngine
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.engines.rdp.mixture import Mixture

from ..cases import for_each
from ..sweeps import sweep

ENGINE = RdpEngine()
ADD, REPLACE = "add-remove", "replace-one"


def _mixture_truth(size, rate, noise, order, replaced, backwards):
    with mp.workdps(30):
        q, s, a = mp.mpf(rate), mp.mpf(noise), mp.mpf(order)
        weights = [mp.binomial(size, i) * q**i * (1 - q) ** (size - i) for i in range(size + 1)]

        def mixture(x, sign):
            return sum(
                w * mp.exp(-((x - sign * i) ** 2) / (2 * s * s)) for i, w in enumerate(weights)
            ) / (s * mp.sqrt(2 * mp.pi))

        def still(x):
            return mp.exp(-x * x / (2 * s * s)) / (s * mp.sqrt(2 * mp.pi))

        def integrand(x):
            p = mixture(x, 1)
            r = mixture(x, -1) if replaced else still(x)
            return r**a * p ** (1 - a) if backwards else p**a * r ** (1 - a)

        reach = (2 * order + 1) * size + 12 * noise
        pieces = [(-1 + mp.mpf(j) / 12) * reach for j in range(25)]
        return float(mp.log(mp.quad(integrand, pieces)) / (a - 1))


SETTINGS = [(3, 0.3, 2.0, 2.5), (2, 0.1, 1.0, 1.3), (5, 0.01, 1.5, 4.1), (4, 0.7, 4.0, 7.7)]


@for_each("replaced", [False, True])
@for_each(("size", "rate", "noise", "order"), sweep(SETTINGS, quick=1))
def test_the_mixture_equals_quadrature(size, rate, noise, order, replaced):
    truth = max(
        _mixture_truth(size, rate, noise, order, replaced, backwards)
        for backwards in ((False,) if replaced else (False, True))
    )
    result = float(Mixture(size, rate, noise, replaced).at(np.array([order]))[0])
    assert truth * (1 - 1e-12) <= result <= truth * (1 + 1e-9) + 1e-12


@for_each(("size", "rate", "noise"), [(2, 0.3, 1.0), (6, 0.05, 0.7), (40, 0.01, 5.0)])
def test_the_mixture_at_integer_orders_is_a_finite_sum(size, rate, noise):
    """E[(P/Q)^a] sums e^((S^2 - sum of i^2)/(2 s^2)) over a independent draws i, S their sum."""
    weights = np.array(
        [math.comb(size, i) * rate**i * (1 - rate) ** (size - i) for i in range(size + 1)]
    )
    i = np.arange(size + 1.0)
    tilted = weights * np.exp(-i * i / (2 * noise**2))
    law = np.ones(1)
    for order in range(1, 5):
        law = np.convolve(law, tilted)
        if order == 1:
            continue
        total = np.arange(law.size)
        truth = math.log((law * np.exp(total**2 / (2 * noise**2))).sum()) / (order - 1)
        result = float(
            Mixture(size, rate, noise, False)._direction(np.array([float(order)]), False)[0]
        )
        assert truth * (1 - 1e-11) <= result <= truth * (1 + 1e-7) + 1e-11


def test_one_record_is_the_sampled_gaussian():
    orders = np.array([1.1, 2.0, 5.5, 20.0])
    for neighbours in (ADD, REPLACE):
        ours = Mixture(1, 0.02, 2.0, neighbours == REPLACE).at(orders)
        theirs = curve(ev.Poisson(0.02, ev.Gaussian(2.0)), neighbours).at(orders)
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_the_mixture_is_silent_beyond_its_means():
    orders = np.array([2.0])
    assert math.isinf(Mixture(2, 0.1, 1e-5, False).at(orders)[0])
    assert math.isinf(Mixture(200_000, 0.1, 1.0, False).at(orders)[0])
    assert math.isinf(Mixture(3, 0.1, 0.01, True).at(np.array([1e6]))[0])
    assert math.isfinite(Mixture(10_000, 0.01, 5.0, False).at(np.array([1.001]))[0])
