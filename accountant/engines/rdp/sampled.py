"""Renyi curves under Poisson sampling.

A unit that is present takes part with probability q.  Given the others' draws, its outputs are
(1-q) Q + q P with it and Q without it; mixing over the others' draws does not raise a divergence
(joint quasi-convexity), so E_Q[(1 - q + q P/Q)^a] is what has to be bounded.

**One direction suffices** where an involution swaps P and Q, as it does for every pair here.
With r = P/Q and A = 1 - q + q r, the involution gives E_Q[f(r)] = E_Q[f(r) + r f(1/r)] / 2.  For
f = A^a - A^{1-a} the bracket is, with r >= 1, s = log(1 - q + q r), t = -log(1 - q + q/r) and
k = a - 1/2, 2 e^{s/2} sinh(k s) - 2 r e^{-t/2} sinh(k t).  It is 0 at k = 1/2, where both terms
are q (r - 1); s >= t because r/2 + 1/(2r) >= 1; and sinh(k s)/sinh(s/2) increases with s for
k > 1/2.  So the bracket is never negative: removing the unit costs at least as much as adding it.
This is Theorem 5 of Mironov, Talwar and Zhang 2019, arXiv 1908.10530v1, without smoothness.

**Replace-one.**  The outputs are (1-q) A + q B and (1-q) A + q B': the unit absent, with one
value, with the other.  For c >= 1 and any test S the hockey stick is

    q B(S) - c q B'(S) - (c-1)(1-q) A(S).

Given B(S), the other two are at least what the best test between noise centred one bound (for A)
and two bounds (for B') away leaves; on the line with monotone likelihood ratios one half-line
attains both.  So the centres 0 (A), 1 (B) and -1 (B') on the line are the worst case for every c,
and by symmetry for c < 1.  That needs noise for which a spread-out contribution is no worse than
one along a line: Gaussian (rotation) and Laplace (see `_laplace`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ... import events as ev
from ...arrays import BoolArray, FloatArray
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import Registry, contribution, sampled_instead
from . import sampled_gaussian
from .curves import (
    NOTHING,
    Curve,
    capped,
    curve,
    gaussian,
    interpolated,
    laplace_pair,
    lowered,
    of_pair,
    pure_pair,
    set_aside,
    shift_ratio,
)
from .moments import (
    MAX_QUADRATURE_NODES,
    MAX_QUADRATURE_NOISE,
    MIN_QUADRATURE_NOISE,
    QUADRATURE_MISSED_MASS,
    RENYI_OUTWARD_FACTOR,
    Pair,
    mixed,
    renyi,
    renyi_from_below,
)
from .releases import approximate, no_guarantee

Sampler = Callable[[float], Curve]
"""From the sampling rate, strictly between 0 and 1, to the curve."""

_under_poisson: Registry[Sampler] = Registry("rdp")


@curve.register(ev.Poisson)
def poisson(event: ev.Poisson, neighbours: Neighbours) -> Curve:
    """The curve of a release on a Poisson sample, for any of the three relations.

    Raises `Unsupported` for a base event whose sampled curve is not known here, and for a
    stated epsilon under replace-one and zero-out.
    """
    if event.rate == 1.0:
        return curve(event.event, neighbours)
    sampler = _sampler(event.event, neighbours)
    return NOTHING if event.rate == 0.0 else sampler(event.rate)


def _sampler(inner: ev.Event, neighbours: Neighbours) -> Sampler:
    if isinstance(inner, ev.ZCDP):
        raise _no_sampled_rho(inner, neighbours)
    if type(inner) not in SAMPLED_EVENTS:
        raise Unsupported(
            f"The rdp engine cannot account for Poisson sampling of `{inner.type}`.",
            "Its Renyi curve alone does not bound what a sample of it reveals.",
            "Leave the choice of the engine to privplan, or account for it without sampling.",
            otherwise=sampled_instead(inner),
        )
    return _under_poisson(inner, neighbours)


def _no_sampled_rho(inner: ev.ZCDP, neighbours: Neighbours) -> Unsupported:
    """Return the refusal of a stated rho on a sample, with the noise that it may stand for."""
    advice = "State the mechanism itself."
    if inner.rho > 0.0:
        # rho = c^2/(2 s^2), solved for the noise of a Gaussian sum.
        noise = contribution(neighbours) / math.sqrt(2.0 * inner.rho)
        advice = (
            f"If it is a sum with Gaussian noise, state that: Gaussian({noise:.6g}) has this rho "
            f"under {neighbours}."
        )
    return Unsupported(
        "No engine can account for Poisson sampling of `zcdp`.",
        "A stated rho names no mechanism, and what sampling gains is only known here for "
        "mechanisms whose own distributions are.",
        f"{advice} {sampled_instead(inner)}",
    )


@_under_poisson.register(ev.Gaussian)
def _gaussian(inner: ev.Gaussian, neighbours: Neighbours) -> Sampler:
    """The sampled Gaussian mechanism, at real orders.

    Add-remove and zero-out: P = (1-q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2); removing is
    the worse direction.  Source: Mironov, Talwar and Zhang 2019, Theorems 4 and 5,
    arXiv 1908.10530v1.

    Replace-one: P = (1-q) N(0, s^2) + q N(1, s^2) against Q = (1-q) N(0, s^2) + q N(-1, s^2),
    in bounds on one unit's contribution; x -> -x swaps them.  Source: the docstring of this
    module; dominating pairs are those of Zhu, Dong and Wang 2022, arXiv 2106.08567v4.
    """
    sigma = inner.noise_multiplier
    replaced = neighbours == "replace-one"
    unsampled = gaussian(inner, neighbours)
    if replaced:
        source = "Zhu, Dong and Wang 2022, arXiv 2106.08567v4 (dominating pairs)"
        statement = "N(0) mixed with N(1) against N(0) mixed with N(-1)"
        conditions = ("noise is not halved: the pair already holds both values",)
    else:
        source = "Mironov, Talwar and Zhang 2019, Theorems 4 and 5, arXiv 1908.10530v1"
        statement = "N(0) mixed with N(1) against N(0)"
        conditions = ("removing a unit is the worse direction",)

    def sampler(rate: float) -> Curve:
        def nodes(orders: FloatArray) -> tuple[BoolArray, Pair | None]:
            """Return which orders the trapezoid rule reaches, and its nodes for them."""
            if not MIN_QUADRATURE_NOISE < sigma < MAX_QUADRATURE_NOISE:
                return np.zeros(orders.shape, np.bool_), None
            steps = sampled_gaussian.node_step(sigma, orders, replaced)
            fits = (
                sampled_gaussian.reach_of_nodes(sigma, orders, replaced) / steps
                < MAX_QUADRATURE_NODES
            )
            if not fits.any():
                return fits, None
            largest, step = float(orders[fits].max()), float(steps[fits].min())
            return fits, sampled_gaussian.gaussian_pair(rate, sigma, largest, step, replaced)

        def at(orders: FloatArray) -> FloatArray:
            # A sample reveals no more than the release: the unsampled curve is always a bound.
            values = unsampled.at(orders)
            fits, pair = nodes(orders)
            if pair is not None:
                # The rule's missed mass m adds at most log(1 + m)/(a - 1) <= m/(a - 1).
                sampled = renyi(pair, orders[fits]) + QUADRATURE_MISSED_MASS / (orders[fits] - 1.0)
                values[fits] = np.minimum(values[fits], sampled)
            return values

        def lower(orders: FloatArray) -> FloatArray:
            # The same nodes, with all that the rule may have added taken off.
            values = np.zeros_like(orders)
            fits, pair = nodes(orders)
            if pair is not None:
                values[fits] = renyi_from_below(pair, orders[fits], QUADRATURE_MISSED_MASS)
            return values

        steps = (*unsampled.steps, _step_of(rate, statement, source, conditions))
        return Curve(at, math.inf, steps, lower=lower)

    return sampler


def _step_of(rate: float, statement: str, source: str, conditions: tuple[str, ...] = ()) -> Step:
    return Step("sampling", f"Poisson sample, rate {rate:.6g}: {statement}.", source, conditions)


@_under_poisson.register(ev.DiscreteGaussian)
def _discrete_gaussian(inner: ev.DiscreteGaussian, neighbours: Neighbours) -> Sampler:
    """The sampled discrete Gaussian: equal to the continuous one at integer orders.

    There E_Q[(1 - q + q P/Q)^a] is a binomial sum of E_Q[(P/Q)^k] = e^{k(k-1)/(2 s^2)}, the same
    for both; between integers (a-1) R(a) is interpolated.
    Source: Mironov, Talwar and Zhang 2019, Section 3.3, arXiv 1908.10530v1.
    """
    _refuse_replacement(inner, neighbours)
    unsampled = curve(inner, neighbours)
    continuous = _gaussian(ev.Gaussian(inner.noise_multiplier), neighbours)

    def sampler(rate: float) -> Curve:
        # Equal at integers, a chord between them: an upper bound everywhere.
        between = interpolated(continuous(rate).at)
        return Curve(
            lambda orders: np.minimum(between(orders), unsampled.at(orders)),
            math.inf,
            (
                *unsampled.steps,
                _step_of(
                    rate,
                    "as with continuous noise at integer orders, interpolated between them",
                    "Mironov, Talwar and Zhang 2019, Section 3.3, arXiv 1908.10530v1",
                    ("removing a unit is the worse direction",),
                ),
            ),
        )

    return sampler


@_under_poisson.register(ev.Laplace)
def _laplace(inner: ev.Laplace, neighbours: Neighbours) -> Sampler:
    """The sampled Laplace mechanism, through the points of `laplace_pair`.

    A contribution spread over coordinates is dominated by one in a single coordinate: going from
    Q to P one coordinate at a time composes trade-off functions, and for log-concave noise on the
    line that composition is the trade-off function of the whole shift.
    Source: Dong, Roth and Su 2022, Section 2.5 and Proposition A.3, arXiv 1905.02383v3.
    """
    return _laplace_sampler(inner, neighbours, inner.noise_multiplier, None)


@_under_poisson.register(ev.DiscreteLaplace)
def _discrete_laplace(inner: ev.DiscreteLaplace, neighbours: Neighbours) -> Sampler:
    """The sampled discrete Laplace mechanism, likewise."""
    return _laplace_sampler(inner, neighbours, inner.noise_multiplier, inner.sensitivity)


def _laplace_sampler(
    inner: ev.Event, neighbours: Neighbours, noise: float, steps: int | None
) -> Sampler:
    t = shift_ratio(1, noise)
    unsampled, half = curve(inner, neighbours), laplace_pair(t, steps)
    if neighbours != "replace-one":
        return _of_symmetric(unsampled, half)
    centre = [np.log(np.tanh((half.losses[1] + t) / 2.0 / 2.0))]
    right, flat = half.losses[1:], np.full(half.losses.size, -t)
    weights = np.concatenate((half.log_weights[:0:-1], centre, half.log_weights[1:]))
    up = np.concatenate((flat, right))
    return _of_three(unsampled, weights, up, up[::-1])


def _of_three(
    unsampled: Curve, log_weights: FloatArray, up: FloatArray, down: FloatArray
) -> Sampler:
    """Return the replace-one sampler of three symmetric distributions.

    The points carry masses of the noise centred at 0, and the losses against it of the noise
    centred one bound up and down.
    """

    def sampler(rate: float) -> Curve:
        low, high = mixed(rate, down), mixed(rate, up)
        limit = min(unsampled.limit, float((high - low).max()) * RENYI_OUTWARD_FACTOR)
        return Curve(
            capped(of_pair(Pair(log_weights + low, high - low)), limit),
            limit,
            (
                *unsampled.steps,
                _step_of(
                    rate,
                    "noise at 0 mixed with noise at 1 against noise at 0 mixed with noise at -1",
                    "the docstring of privplan.accountant.engines.rdp.sampled; Zhu, Dong and Wang "
                    "2022, arXiv 2106.08567v4 (dominating pairs)",
                    ("monotone likelihood ratios, so one half-line is the best test for both",),
                ),
            ),
        )

    return sampler


def _of_symmetric(unsampled: Curve, pair: Pair, attained: bool = False) -> Sampler:
    """Return the sampler of a pair (P, Q) that an involution swaps.

    `attained` says whether it is that of two data sets, and not only a bound.
    """

    def sampler(rate: float) -> Curve:
        if unsampled.limit == 0.0:
            return NOTHING
        limit = float(mixed(rate, np.array([unsampled.limit]))[0]) * RENYI_OUTWARD_FACTOR
        values = capped(of_pair(Pair(pair.log_weights, mixed(rate, pair.losses))), limit)
        return Curve(
            values,
            limit,
            lower=lowered(values) if attained else None,
            steps=(
                *unsampled.steps,
                _step_of(
                    rate,
                    "the mixture (1-q) Q + q P against Q",
                    "Mironov, Talwar and Zhang 2019, Theorem 5, arXiv 1908.10530v1; without "
                    "smoothness in the docstring of privplan.accountant.engines.rdp.sampled",
                    ("an involution swaps P and Q, so removing a unit is the worse direction",),
                ),
            ),
        )

    return sampler


@_under_poisson.register(ev.Pure)
@_under_poisson.register(ev.Local)
@_under_poisson.register(ev.RandomizedResponse)
@_under_poisson.register(ev.Exponential)
def _stated_epsilon(inner: Any, neighbours: Neighbours) -> Sampler:
    """The sampled worst case of all epsilon-DP mechanisms: binary randomized response.

    The bounded range of `Exponential` is not used: its worst pair changes with the order.
    """
    _refuse_stated(inner, neighbours)
    unsampled = curve(ev.Pure(inner.epsilon), neighbours)
    attained = isinstance(inner, (ev.Pure, ev.Local))
    return _of_symmetric(unsampled, pure_pair(inner.epsilon), attained)


@_under_poisson.register(ev.Approximate)
def _approximate(inner: ev.Approximate, neighbours: Neighbours) -> Sampler:
    """A Poisson sample of an (eps, delta)-DP release is (log(1 + q(e^eps - 1)), q delta)-DP.

    Let P and Q be the outputs with and without the unit and m = 1 + q(e^eps - 1).  On every set,
    P <= e^eps Q + delta gives (1-q) Q + q P <= m Q + q delta, and P >= e^-eps (Q - delta) gives
    Q - m ((1-q) Q + q P) <= Q (1 - m (1 - q + q e^-eps)) + m q e^-eps delta, where the bracket
    is at most 0 and m e^-eps at most 1.  The result is then read as one `Approximate` event.
    Source: Balle, Barthe and Gaboardi 2018, Theorem 8, arXiv 1807.01647v2.
    """
    _refuse_stated(inner, neighbours)
    unsampled = approximate(inner, neighbours)

    def sampler(rate: float) -> Curve:
        epsilon = float(mixed(rate, np.array([inner.epsilon]))[0]) * RENYI_OUTWARD_FACTOR
        possible = rate > 0.0 and inner.delta > 0.0
        delta = set_aside(rate * inner.delta * (1.0 + 1e-15)) if possible else 0.0
        smaller = approximate(ev.Approximate(epsilon, delta), neighbours)
        return replace(
            smaller,
            steps=(
                *unsampled.steps,
                _step_of(
                    rate,
                    f"epsilon {epsilon:.6g} and delta {delta:.6g}",
                    "Balle, Barthe and Gaboardi 2018, Theorem 8, arXiv 1807.01647v2",
                ),
            ),
        )

    return sampler


@_under_poisson.register(ev.NoGuarantee)
def _no_guarantee(inner: ev.NoGuarantee, neighbours: Neighbours) -> Sampler:
    return lambda _rate: no_guarantee(inner, neighbours)


SAMPLED_EVENTS: Final = _under_poisson.types


def _refuse_replacement(inner: ev.Event, neighbours: Neighbours) -> None:
    if neighbours == "replace-one":
        raise Unsupported(
            f"The rdp engine cannot account for Poisson sampling of `{inner.type}` under "
            "replace-one.",
            "The unit takes part with one value or with the other, so neither output is free "
            "of it.",
            "Leave the choice of the engine to privplan (pld can), or ask under add-remove.",
            otherwise="Ask under add-remove, or account for it without sampling.",
        )


def _refuse_stated(inner: ev.Event, neighbours: Neighbours) -> None:
    if neighbours != "add-remove":
        raise Unsupported(
            f"Poisson sampling of `{inner.type}` cannot be accounted under {neighbours}.",
            "Its numbers then compare two values of a unit that is present, and sampling needs "
            "to compare the unit present with the unit absent.",
            "State a guarantee that holds under add-remove and account under add-remove, or name "
            "the mechanism itself (Gaussian, Laplace, ...).",
        )
