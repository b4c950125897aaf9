"""The privacy loss random variables of prv_accountant, one function for each type of event."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .. import events as ev
from ..errors import Unsupported
from ..guarantee import Neighbours, Step
from .base import Registry, contribution
from .library_workarounds import (
    NUMERIC_FAILURES,
    Library,
    laplace_step,
    parameters_step,
    release_step,
    sampling_step,
)

PRV: Final = (
    "prv_accountant 0.2; Gopi, Lee, Wutschitz: Numerical Composition of Differential Privacy, "
    "arXiv 2106.02848"
)

PRV_ACCOUNTANT: Final = Library(
    "prv_accountant",
    (*NUMERIC_FAILURES, AssertionError, RuntimeError),
    "Allow it another error, MicrosoftEngine(eps_error=...), or leave the choice of the engine to "
    "privplan.",
    trailing=".",
)


@dataclass(frozen=True)
class LossVariable:
    """One privacy loss random variable as the library takes it, and its exact mean."""

    prv: Any
    mean: float


@dataclass(frozen=True)
class LeafLoss:
    """What one leaf loses, one way round and the other.

    `renyi` bounds the Renyi divergence of both at an integer order; `atom` is the largest finite
    loss that has a probability of its own; `attained` says that one pair of data sets has exactly
    this loss in every round, so that a lower bound for it is one for the mechanism.
    """

    forwards: LossVariable
    backwards: LossVariable
    renyi: Callable[[int], float]
    step: Step
    atom: float = 0.0
    attained: bool = True


leaf_loss: Final[Registry[LeafLoss]] = Registry("microsoft")


# --- one function per event ---------------------------------------------------------------------


@leaf_loss.register(ev.Gaussian)
def _gaussian(event: ev.Gaussian, neighbours: Neighbours) -> LeafLoss:
    from prv_accountant import GaussianMechanism

    sensitivity = contribution(neighbours)
    noise = event.noise_multiplier / sensitivity
    squared = noise**-2.0
    variable = LossVariable(GaussianMechanism(noise), squared / 2.0)
    how = (
        f"Gaussian noise of {event.noise_multiplier:g} contribution bounds against a sum that "
        f"moves by {sensitivity}."
    )
    step = release_step(how, neighbours, PRV)
    return LeafLoss(variable, variable, lambda order: order * squared / 2.0, step)


@leaf_loss.register(ev.Laplace)
def _laplace(event: ev.Laplace, neighbours: Neighbours) -> LeafLoss:
    from prv_accountant import LaplaceMechanism

    largest = contribution(neighbours) / event.noise_multiplier
    variable = LossVariable(LaplaceMechanism(mu=largest), largest + math.expm1(-largest))

    def renyi(order: int) -> float:
        twice = 2.0 * order - 1.0
        return _two_point(order, math.log(order / twice), math.log((order - 1.0) / twice), largest)

    step = laplace_step(event, neighbours, PRV)
    return LeafLoss(variable, variable, renyi, step, atom=largest)


@leaf_loss.register(ev.Pure)
@leaf_loss.register(ev.Approximate)
def _parameters(event: ev.Pure | ev.Approximate, neighbours: Neighbours) -> LeafLoss:
    from prv_accountant import ApproximateDPMechanism

    epsilon, delta = event.epsilon, event.delta if isinstance(event, ev.Approximate) else 0.0
    if delta == 1.0 or epsilon > 700.0:
        raise Unsupported(
            f"The microsoft engine cannot represent ({epsilon:g}, {delta:g})-DP.",
            "The library divides by 1 - delta and by 1 + e^epsilon.",
            "Leave the choice of the engine to privplan.",
        )
    mean = epsilon * math.tanh(epsilon / 2.0)
    variable = LossVariable(ApproximateDPMechanism(epsilon, delta), mean)

    def renyi(order: int) -> float:
        likely = -math.log1p(math.exp(-epsilon))
        return _two_point(order, likely, likely, epsilon)

    step = parameters_step(epsilon, delta, neighbours, PRV)
    return LeafLoss(variable, variable, renyi, step, atom=epsilon, attained=False)


def _two_point(order: int, log_up: float, log_down: float, loss: float) -> float:
    """Return 1/(a-1) log(u e^((a-1) loss) + v e^(-a loss)) from log u and log v."""
    moment = np.logaddexp(log_up + (order - 1.0) * loss, log_down - order * loss)
    return float(moment) / (order - 1.0)


@leaf_loss.register(ev.Poisson)
def _poisson(event: ev.Poisson, neighbours: Neighbours) -> LeafLoss:
    if event.rate == 1.0:
        return leaf_loss(event.event, neighbours)
    if not isinstance(event.event, ev.Gaussian):
        raise Unsupported(
            "The microsoft engine has no mathematics for Poisson sampling of "
            f"`{event.event.type}`.",
            "prv_accountant has the loss of sampled Gaussian noise only.",
            "Leave the choice of the engine to privplan.",
        )
    if neighbours == "replace-one":
        raise Unsupported(
            "The microsoft engine has no mathematics for Poisson sampling when one unit is "
            "replaced.",
            "prv_accountant compares a sample with a unit to one without it.",
            "Ask for add-remove, or leave the choice of the engine to privplan.",
        )
    from prv_accountant import PoissonSubsampledGaussianMechanism

    rate, noise = event.rate, event.event.noise_multiplier
    removed = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
    forward, backward = _sampled_means(rate, noise)
    how = (
        f"Gaussian noise {noise:g} on a Poisson sample of rate q = {rate:g}: "
        "(1-q) N(0) + q N(1) against N(0), both ways round."
    )
    source = (
        f"{PRV}; for the way round that the library lacks, Zhu, Dong, Wang, arXiv 2106.08567; "
        "its Renyi divergence is the smaller one (Mironov, Talwar, Zhang, arXiv 1908.10530)"
    )
    return LeafLoss(
        LossVariable(removed, forward),
        LossVariable(_AddedUnitLoss(rate, noise), backward),
        lambda order: float(PRV_ACCOUNTANT.call(lambda: removed.rdp(order))),
        sampling_step(how, neighbours, source),
    )


@dataclass(frozen=True)
class _AddedUnitLoss:
    """The loss of adding a unit to a Poisson sample, in the shape in which the library takes it.

    Y = -ln(1 - q + q e^((2x - 1) / (2 noise^2))) for x ~ N(0, noise^2), so Y <= t exactly when
    x >= noise^2 ln((e^-t - 1 + q) / q) + 1/2, and always once e^-t <= 1 - q.
    """

    rate: float
    noise: float

    @property
    def pm_inf(self) -> float:
        """Probability of an infinite loss."""
        return 0.0

    def cdf(self, loss: Any) -> Any:
        """Return P[Y <= loss]."""
        from scipy.special import ndtr

        # In long doubles: e^-t - 1 + q cancels where the loss is near its largest value.
        weight = np.expm1(-np.asarray(loss, dtype=np.longdouble)) + self.rate
        inside = weight > 0.0
        odds = np.log(np.where(inside, weight, 1.0) / self.rate)
        edge = self.noise * odds + 0.5 / self.noise
        return np.where(inside, ndtr(-np.asarray(edge, dtype=float)), 1.0)

    def probability(self, low: Any, high: Any) -> Any:
        """Return P[low < Y <= high]."""
        return self.cdf(high) - self.cdf(low)


def _sampled_means(rate: float, noise: float) -> tuple[float, float]:
    """Return the means of both losses, by the trapezoidal rule.

    The integrands are analytic in a strip of half-width pi noise^2 about the real line, so the
    rule converges exponentially once its step is well below that.
    """
    step = min(noise / 16.0, noise * noise / 2.0)
    points = math.ceil((24.0 * noise + 1.0) / step)
    if points > 2**20:
        raise Unsupported(
            f"The microsoft engine cannot resolve Gaussian noise {noise:g}.",
            "Its loss changes too fast for the rule that checks the library's mean.",
            "Leave the choice of the engine to privplan.",
        )
    x = np.linspace(-12.0 * noise, 1.0 + 12.0 * noise, points + 1)
    width = (1.0 + 24.0 * noise) / points
    # Probabilities of the cells, without the unit and with it, then the loss log(1 - q + q r).
    absent = np.exp(-0.5 * (x / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi)) * width
    present = np.exp(-0.5 * ((x - 1.0) / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi)) * width
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + (2.0 * x - 1.0) / (2.0 * noise**2))
    mixture = (1.0 - rate) * absent + rate * present
    return float(np.dot(mixture, loss)), float(-np.dot(absent, loss))
