"""Exact Renyi divergences of a few releases, and streams of claims on blocks, for the tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath

from privplan.accountant import events as ev

ORDERS = (4.0, 12.0, 40.0)


def exact_divergence(event: ev.Event, order: int) -> Fraction:
    """Return R(order) under add-remove with 50 digits, of what it is known of in closed form."""
    with mpmath.workdps(60):
        return Fraction(int(mpmath.nint(_divergence(event, mpmath.mpf(order)) * 10**50)), 10**50)


def _divergence(event: ev.Event, order: mpmath.mpf) -> mpmath.mpf:
    match event:
        case ev.Repeat(count, inner):
            return count * _divergence(inner, order)
        case ev.Compose(parts):
            return mpmath.fsum(_divergence(part, order) for part in parts)
        case ev.Gaussian(noise):
            return order / (2 * mpmath.mpf(noise) ** 2)
        case ev.Laplace(noise):
            loss = 1 / mpmath.mpf(noise)
            up = order / (2 * order - 1) * mpmath.exp((order - 1) * loss)
            down = (order - 1) / (2 * order - 1) * mpmath.exp(-order * loss)
            return mpmath.log(up + down) / (order - 1)
        case ev.Pure(epsilon):
            high = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
            low = 1 - high
            moment = high**order * low ** (1 - order) + low**order * high ** (1 - order)
            return mpmath.log(moment) / (order - 1)
        case ev.Poisson(rate, ev.Gaussian(noise)):
            q, precision = mpmath.mpf(rate), 1 / mpmath.mpf(noise) ** 2
            terms = [
                mpmath.binomial(order, k)
                * (1 - q) ** (order - k)
                * q**k
                * mpmath.exp(k * (k - 1) * precision / 2)
                for k in range(int(order) + 1)
            ]
            return mpmath.log(mpmath.fsum(terms)) / (order - 1)
    raise AssertionError(event)


def random_event(pick: random.Random) -> ev.Event:
    """Return one of a few shapes of releases, of which several hundred make a budget of 8."""
    kind = pick.randrange(5)
    if kind == 0:
        return ev.Gaussian(pick.choice([8.0, 14.2, 30.0]))
    if kind == 1:
        return ev.Laplace(pick.choice([9.0, 17.3]))
    if kind == 2:
        return ev.Repeat(pick.randint(1, 9), ev.Poisson(0.02, ev.Gaussian(1.1)))
    if kind == 3:
        return ev.Pure(pick.choice([0.05, 0.11]))
    return ev.Compose([ev.Gaussian(25.0), ev.Poisson(0.003, ev.Gaussian(0.9))])


def claims(pick: random.Random, blocks: list[str]) -> Iterator[tuple[ev.Event, list[str] | None]]:
    """Yield events with the blocks that they touch; None is all."""
    while True:
        named = None if pick.random() < 0.1 else pick.sample(blocks, pick.randint(1, len(blocks)))
        yield random_event(pick), named
