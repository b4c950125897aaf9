"""What closed forms give for a run's phases: limits, textbook formulas, simple composition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from ..description.run_description import Phase
from .conversions import (
    advanced_value,
    concentrated_value,
    dual_value,
    poisson_limit,
    textbook_value,
    uniform_limit,
)
from .reproduction import AccountantValue, Method

LIMIT_NAME: Final = "the central-limit (gdp) accountant of Opacus and TF-Privacy"
UNIFORM_LIMIT_NAME: Final = "the central-limit accountant of TF-Privacy for uniform samples"

_LARGEST_MU: Final = 1e3


def _exactly(name: str, method: Method, value: float) -> Iterator[AccountantValue]:
    if math.isfinite(value) and value > 0.0:
        yield AccountantValue(name, method, value, value)


def limit_values(phases: tuple[Phase, ...], delta: float) -> Iterator[AccountantValue]:
    """Yield the two central-limit values for Gaussian noise; they bound nothing."""
    for name, limit in ((LIMIT_NAME, poisson_limit), (UNIFORM_LIMIT_NAME, uniform_limit)):
        mu = math.sqrt(sum(p.steps * limit(p.noise_multiplier, p.rate) for p in phases))
        if 0.0 < mu < _LARGEST_MU:
            yield from _exactly(name, "clt", dual_value(mu, delta))


def gaussian_forms(phases: tuple[Phase, ...], delta: float) -> Iterator[AccountantValue]:
    """Yield what formulas without an accountant give for Gaussian noise.

    For sampled phases: the small-rate approximation rho = q^2 T/(2 z^2), which bounds nothing, the
    textbook formula, and the textbook formula times the rate.
    """
    rho = sum(p.steps * p.rate**2 / (2.0 * p.noise_multiplier**2) for p in phases)
    if all(p.rate >= 1.0 for p in phases):
        yield from _exactly("the zCDP conversion", "zcdp", concentrated_value(rho, delta))
    else:
        name = "the small-rate approximation q^2 T/(2 z^2) as zCDP"
        yield from _exactly(name, "small-rate-approximation", concentrated_value(rho, delta))
    if len(phases) == 1:
        yield from _textbook_forms(phases[0], delta)


def _textbook_forms(phase: Phase, delta: float) -> Iterator[AccountantValue]:
    noise, rate, steps = phase.noise_multiplier, phase.rate, phase.steps
    single = textbook_value(noise, delta)
    name = "the textbook formula of the Gaussian mechanism"
    yield from _exactly(
        name if steps == 1 else f"{name}, times the number of releases",
        "textbook-gaussian",
        steps * single,
    )
    if steps > 1:
        root = math.sqrt(steps) * single
        yield from _exactly(
            f"{name}, times the root of the number of releases", "textbook-gaussian", root
        )
    if rate < 1.0:
        yield from _exactly(
            f"{name}, times the rate and the root of the number of steps",
            "textbook-gaussian",
            rate * math.sqrt(steps) * single,
        )
        yield from _exactly(
            f"{name}, times the rate and the number of steps",
            "textbook-gaussian",
            rate * steps * single,
        )
    if steps > 1:
        # Half of delta for the releases, half for the composition; each release is amplified.
        each = textbook_value(noise, delta / (2.0 * steps))
        amplified = math.log1p(rate * math.expm1(min(each, 500.0)))
        yield from _exactly(
            "the textbook formula of the Gaussian mechanism with advanced composition",
            "advanced-composition",
            advanced_value(amplified, steps, delta / 2.0),
        )


def pure_forms(phases: tuple[Phase, ...], delta: float | None) -> Iterator[AccountantValue]:
    """Yield the sum of the epsilons of Laplace releases, amplified, and advanced composition."""
    total, amplified = 0.0, 0.0
    for phase in phases:
        epsilon = 1.0 / phase.noise_multiplier
        total += phase.steps * epsilon
        amplified += phase.steps * math.log1p(phase.rate * math.expm1(min(epsilon, 500.0)))
    name = "the sum of the releases' epsilons"
    yield from _exactly(name, "simple-composition", total)
    if amplified < total:
        yield from _exactly(f"{name}, amplified by sampling", "simple-composition", amplified)
    if delta is not None and len(phases) == 1:
        each = amplified / phases[0].steps
        yield from _exactly(
            "advanced composition",
            "advanced-composition",
            advanced_value(each, phases[0].steps, delta),
        )
