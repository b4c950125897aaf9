"""Renyi divergences of one release at given orders, as published accountants compute them.

No guarantees: some of these are what a program prints where no theorem carries it (the formula
for samples without replacement, with noise that is not halved).  Exact curves come from the rdp
engine; here are only those that differ from it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import gammaln, log_ndtr

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.engines.rdp.curves import curve
from .order_grids import ALL_ORDERS, OPACUS

_SERIES_TERMS: Final = 1000
"""dp_accounting gives an order up where its series has not converged after so many terms."""

_SERIES_BLOCK: Final = 125
_CONVERGED: Final = 30.0
_LARGEST_DIFFERENCE: Final = 256
"""Above this order dp_accounting uses the bound without forward differences."""


@lru_cache(maxsize=512)
def exact_curve(family: str, noise_multiplier: float, rate: float) -> FloatArray:
    """Return the divergences of one release at `ALL_ORDERS`, under add-remove.

    `family` is gaussian, discrete-gaussian (whose curve is at most the Gaussian one) or laplace;
    `rate` in (0, 1] is that of a Poisson sample.  Shape: (orders,).  Raises `Unsupported` as the
    rdp engine does.
    Source: Mironov, Talwar and Zhang 2019, arXiv 1908.10530v1; Mironov 2017, arXiv 1702.07476v3.
    """
    return _at(family, noise_multiplier, rate, ALL_ORDERS)


@lru_cache(maxsize=2048)
def opacus_curve(family: str, noise_multiplier: float, rate: float) -> FloatArray:
    """Return the divergences of `exact_curve` at Opacus's orders alone, which costs less."""
    return _at(family, noise_multiplier, rate, OPACUS.orders)


def _at(family: str, noise_multiplier: float, rate: float, orders: FloatArray) -> FloatArray:
    event = ev.Laplace(noise_multiplier) if family == "laplace" else ev.Gaussian(noise_multiplier)
    values = curve(event if rate >= 1.0 else ev.Poisson(rate, event), "add-remove").at(orders)
    values.setflags(write=False)  # cached, and shared by all who ask
    return values


@lru_cache(maxsize=512)
def dp_accounting_curve(noise_multiplier: float, rate: float) -> FloatArray:
    """Return the divergences at `ALL_ORDERS` as dp_accounting 0.6 has them.

    At orders that are no integers it adds the absolute values of a series whose terms alternate,
    and gives the order up (inf) where 1,000 terms do not suffice.
    Source: Mironov, Talwar and Zhang 2019, section 3.3, arXiv 1908.10530v1.
    """
    values = exact_curve("gaussian", noise_multiplier, rate).copy()
    if rate < 1.0:
        fractional = np.round(ALL_ORDERS) != ALL_ORDERS
        orders = ALL_ORDERS[fractional]
        values[fractional] = _absolute_series(noise_multiplier, rate, orders) / (orders - 1.0)
    return values


def _absolute_series(sigma: float, rate: float, orders: FloatArray) -> FloatArray:
    """Return the logarithm of the series at each order, inf where it does not converge."""
    # Noise near 0 overflows to the infinite values that it has.
    with np.errstate(all="ignore"):
        return _summed_series(sigma, rate, orders)


def _summed_series(sigma: float, rate: float, orders: FloatArray) -> FloatArray:
    totals = np.full(orders.shape, -np.inf)
    values = np.full(orders.shape, np.inf)
    last = np.full((2, orders.size), -np.inf)
    going = np.arange(orders.size)
    for start in range(0, _SERIES_TERMS, _SERIES_BLOCK):
        upper, lower = _series_terms(sigma, rate, orders[going], start)
        both = np.stack((upper, lower))
        before = np.concatenate((last[:, going, None], both[:, :, :-1]), axis=2)
        # Running totals in log space, as the program adds one term after the other.
        sums = np.logaddexp.accumulate(
            np.concatenate((totals[going, None], np.logaddexp(upper, lower)), axis=1), axis=1
        )[:, 1:]
        done = (both < before).all(axis=0) & (both.max(axis=0) < sums - _CONVERGED)
        stopped = done.any(axis=1)
        first = done.argmax(axis=1)
        values[going[stopped]] = sums[stopped, first[stopped]]
        totals[going], last[:, going] = sums[:, -1], both[:, :, -1]
        going = going[~stopped]
        if not going.size:
            break
    return values


def _series_terms(
    sigma: float, rate: float, orders: FloatArray, start: int
) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of the terms below and above the crossing point z0."""
    i = np.arange(start, start + _SERIES_BLOCK, dtype=np.float64)
    j = orders[:, None] - i
    crossing = sigma**2 * math.log(1.0 / rate - 1.0) + 0.5
    binomial = gammaln(orders[:, None] + 1.0) - gammaln(i + 1.0) - gammaln(j + 1.0)
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    # log(erfc(x) / 2) is log_ndtr(-sqrt(2) x).
    below = log_ndtr((crossing - i) / sigma) + (i * i - i) / (2.0 * sigma**2)
    above = log_ndtr((j - crossing) / sigma) + (j * j - j) / (2.0 * sigma**2)
    return (
        binomial + i * log_rate + j * log_rest + below,
        binomial + j * log_rate + i * log_rest + above,
    )


@lru_cache(maxsize=128)
def without_replacement_curve(noise_multiplier: float, rate: float) -> FloatArray:
    """Return what dp_accounting (and Flower, which uses it) has for samples without replacement.

    Its relation is replace-one, yet its noise is that of add-remove, not halved.  `rate` is batch
    / records, below 1.  Shape: (orders,), at `ALL_ORDERS`.
    Source: Wang, Balle and Kasiviswanathan 2019, Theorem 27, arXiv 1808.00087v1; dp_accounting
    0.6, rdp.rdp_privacy_accountant.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of noise too little for any number
        return _interpolated_moments(noise_multiplier, rate)


def _interpolated_moments(noise_multiplier: float, rate: float) -> FloatArray:
    moments: dict[int, float] = {1: 0.0}
    differences = _log_forward_differences(noise_multiplier)
    values = np.empty_like(ALL_ORDERS)
    for index, order in enumerate(ALL_ORDERS.tolist()):
        low, high = math.floor(order), math.ceil(order)
        for whole in (low, high):
            if whole not in moments:
                moments[whole] = _moment_bound(noise_multiplier, rate, whole, differences)
        # Moments between integers are interpolated: their logarithm is convex in the order.
        moment = moments[low] + (order - low) * (moments[high] - moments[low])
        values[index] = moment / (order - 1.0)
    return values


def _moment_bound(sigma: float, rate: float, order: int, differences: FloatArray) -> float:
    """Return log(1 + sum over j of C(order, j) rate^j times the bound of the j-th term)."""
    j = np.arange(2, order + 1, dtype=np.float64)
    cumulant = j * (j - 1.0) / (2.0 * sigma**2)
    terms = math.log(2.0) + cumulant
    second = 1.0 / sigma**2
    terms[0] = min(math.log(4.0) + second + math.log1p(-math.exp(-second)), math.log(2.0) + second)
    if order <= _LARGEST_DIFFERENCE and order > 2:
        whole = j[1:].astype(int)
        floor, ceil = 2 * (whole // 2) - 1, 2 * ((whole + 1) // 2) - 1
        by_differences = math.log(4.0) + 0.5 * (differences[floor] + differences[ceil])
        terms[1:] = np.minimum(by_differences, terms[1:])
    binomial = gammaln(order + 1.0) - gammaln(j + 1.0) - gammaln(order - j + 1.0)
    return float(np.logaddexp.reduce(np.append(0.0, terms + j * math.log(rate) + binomial)))


def _log_forward_differences(sigma: float) -> FloatArray:
    """Return log |the (i+1)-th forward difference at -1| of x -> e^(x(x+1)/(2 sigma^2)).

    The signs of differences are kept, as rounding may turn them.
    """
    x = np.arange(-1.0, _LARGEST_DIFFERENCE + 2.0)
    logs = x * (x + 1.0) / (2.0 * sigma**2)
    signs = np.ones(logs.shape)
    results = np.empty(_LARGEST_DIFFERENCE + 2)
    for i in range(results.size):
        logs, signs = _log_difference(logs, signs)
        results[i] = logs[0]
    return results


def _log_difference(logs: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms and signs of next minus this."""
    following, here = logs[1:], logs[:-1]
    larger, smaller = np.maximum(following, here), np.minimum(following, here)
    same = signs[1:] == signs[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.exp(smaller - larger)
        size = larger + np.where(same, np.log1p(-gap), np.log1p(gap))
    size = np.where(np.isneginf(larger), -np.inf, size)
    return size, np.where(same & (following < here), -signs[1:], signs[1:])
