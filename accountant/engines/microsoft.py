"""prv_accountant as a second opinion: privacy loss random variables, composed between bounds.

Each leaf is a privacy loss random variable Y = ln P(x)/Q(x), x ~ P.  The library puts it on a mesh
of width h that keeps its mean, convolves, and brackets

    delta(epsilon + error) - slack  <=  true delta  <=  delta(epsilon - error) + slack

`comparison` lists what is worked around so that both ends are guarantees.
Source: Gopi, Lee, Wutschitz: Numerical Composition of Differential Privacy, arXiv 2106.02848,
Theorem 5.5 and Remark 5.6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..composition import Composition
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step, unique_steps
from .base import Answer, Registry, contribution, refuse_unattained
from .comparison import (
    LIBRARY_OUTWARD_RELATIVE,
    NUMERIC_FAILURES,
    Library,
    laplace_step,
    parameters_step,
    release_step,
    sampling_step,
)

_PRV: Final = (
    "prv_accountant 0.2; Gopi, Lee, Wutschitz: Numerical Composition of Differential Privacy, "
    "arXiv 2106.02848"
)
_PRV_ACCOUNTANT: Final = Library(
    "prv_accountant",
    (*NUMERIC_FAILURES, AssertionError, RuntimeError),
    "Allow it another error, MicrosoftEngine(eps_error=...), or leave the choice of the engine to "
    "privplan.",
    trailing=".",
)

MESH_RENYI_ORDERS: Final = (*range(2, 64), 96, 128, 256)
MAX_MESH_POINTS: Final = 2**22
MIN_DELTA_SLACK: Final = 1e-10


@dataclass(frozen=True)
class _LossVariable:
    """One privacy loss random variable as the library takes it, and its exact mean."""

    prv: Any
    mean: float


@dataclass(frozen=True)
class _Loss:
    """What one leaf loses, one way round and the other.

    `renyi` bounds the Renyi divergence of both at an integer order; `atom` is the largest finite
    loss that has a probability of its own; `attained` says that one pair of data sets has exactly
    this loss in every round, so that a lower bound for it is one for the mechanism.
    """

    forwards: _LossVariable
    backwards: _LossVariable
    renyi: Callable[[int], float]
    step: Step
    atom: float = 0.0
    attained: bool = True


_loss: Final[Registry[_Loss]] = Registry("microsoft")


@dataclass(frozen=True)
class _Composition:
    """The library's composition, with every error that its two readings must allow for."""

    result: Any
    error: float
    slack: float

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return bounds on epsilon at `delta`."""
        read = self.result.compute_epsilon
        lower, _, upper = _PRV_ACCOUNTANT.call(lambda: read(delta, self.slack, self.error))
        return _checked(float(lower), float(upper))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds on delta at `epsilon`."""
        read = self.result.compute_delta_estimate
        lower, upper = _PRV_ACCOUNTANT.call(
            lambda: (float(read(epsilon + self.error)), float(read(epsilon - self.error)))
        )
        return _checked(lower - self.slack, upper + self.slack)


class MicrosoftEngine:
    """Bounds from prv_accountant, from both sides for Gaussian, Laplace and sampled Gaussian noise.

    `eps_error` is half the width of the answer in epsilon, a number above 0: time grows with its
    inverse.  `Pure` and `Approximate` are composed too, with the lower end 0.

    Neighbours: all three for unsampled events, add-remove and zero-out for Poisson-sampled ones.

    Raises `Unsupported` for every other event, and where the library crashes, would run out of
    memory, or would lose delta in rounding.

    >>> answer = MicrosoftEngine().epsilon(Composition.of(ev.Gaussian(1.0)), 1e-5, "add-remove")
    >>> answer.bounds.lower < 4.377 < answer.bounds.upper
    True
    """

    name = "microsoft"

    def __init__(self, eps_error: float = 0.01) -> None:
        self._error = validate.positive(eps_error=eps_error)

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at `delta`, strictly between 0 and 1, in nats."""
        target = validate.open_probability(delta=delta)
        slack = target / 1000.0
        return self._answer(
            composition, neighbours, lambda _: slack, lambda total: total.epsilon(target)
        )

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at `epsilon`, 0 or above, in nats.

        The upper end is 1e-10 at least, and more beyond 10,000 releases.
        """
        point = validate.non_negative(epsilon=epsilon)

        def slack(runs: int) -> float:
            return MIN_DELTA_SLACK * max(1.0, runs / 1e4)

        return self._answer(
            composition, neighbours, slack, lambda total: total.delta(point), most=1.0
        )

    def _answer(
        self,
        composition: Composition,
        neighbours: Neighbours,
        slack_of: Callable[[int], float],
        read: Callable[[_Composition], tuple[float, float]],
        most: float = math.inf,
    ) -> Answer:
        """Return the larger reading of both directions, outward, and never above `most`."""
        refuse_unattained(composition, self.name)
        with np.errstate(all="ignore"):
            parts = _PRV_ACCOUNTANT.call(
                lambda: [
                    (_loss(leaf.event, neighbours), leaf.count)
                    for leaf in composition
                    if not (isinstance(leaf.event, ev.Poisson) and leaf.event.rate == 0.0)
                ]
            )
            losses, counts = [loss for loss, _ in parts], [count for _, count in parts]
            runs = sum(counts)
            readings = [(0.0, 0.0)]
            if parts:
                totals = self._compositions(losses, counts, slack_of(runs))
                readings = [read(total) for total in totals]
        lower, upper = (max(ends) for ends in zip(*readings, strict=True))
        attained = all(loss.attained for loss in losses)
        composed = Step("composition", f"{runs} loss variables are convolved by FFT.", _PRV)
        conversion = Step(
            "conversion",
            f"The bounds are those of prv_accountant at an error of {self._error:g} in epsilon; "
            + (
                "the lower end is that of a pair of data sets which attains every loss."
                if attained
                else "the lower end is 0, because a stated parameter is only an upper bound."
            ),
            _PRV,
            (
                "Both directions were composed and the larger answer was taken.",
                "The error of the library's means, times the count, was added to the width.",
                "The ends are rounded outward.",
            ),
        )
        low = max(0.0, lower * (1.0 - LIBRARY_OUTWARD_RELATIVE)) if attained else 0.0
        high = max(0.0, min(most, upper) * (1.0 + LIBRARY_OUTWARD_RELATIVE))
        steps = [*(loss.step for loss in losses), composed, conversion]
        return Answer(Bounds(low, high), unique_steps(steps))

    def _compositions(
        self, losses: Sequence[_Loss], counts: Sequence[int], slack: float
    ) -> list[_Composition]:
        """Return the composition of one direction or, where they differ, of both."""
        reach = _reach(losses, counts, self._error, slack)
        # Where both directions have one loss variable, one composition answers for both.
        directions = [[loss.forwards for loss in losses], [loss.backwards for loss in losses]]
        if directions[0] == directions[1]:
            directions.pop()
        return [_compose(direction, counts, self._error, slack, reach) for direction in directions]


def _checked(lower: float, upper: float) -> tuple[float, float]:
    if math.isnan(lower) or math.isnan(upper) or lower > upper:
        raise _PRV_ACCOUNTANT.refusal(f"It answered [{lower}, {upper}].")
    return lower, upper


def _compose(
    variables: Sequence[_LossVariable],
    counts: Sequence[int],
    error: float,
    slack: float,
    reach: float,
) -> _Composition:
    runs = sum(counts)
    # Rounding of the cdf differences and of the convolutions; see `comparison`.
    rounding = runs * (1e-15 + 3200.0 * float(np.finfo(np.longdouble).eps))
    if rounding > slack:
        raise Unsupported(
            f"The microsoft engine cannot resolve delta here: {runs} releases lose "
            f"{rounding:.1g} of it in rounding.",
            f"At most {slack:.1g} may be lost.",
            "Ask for a larger delta, or leave the choice of the engine to privplan.",
        )

    def build() -> _Composition:
        from prv_accountant import PRVAccountant

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            accountant = PRVAccountant(
                prvs=[variable.prv for variable in variables],
                eps_error=error,
                delta_error=slack,
                max_self_compositions=list(counts),
                eps_max=reach,
            )
            # The distance of the means on the mesh to the exact ones widens the answer.
            drift = sum(
                count * abs(float(np.dot(part.domain.ts(), part.pmf)) - variable.mean)
                for part, variable, count in zip(
                    accountant.composer.prvs, variables, counts, strict=True
                )
            )
            result = accountant.compute_composition(list(counts))
        return _Composition(result, error + drift, slack + rounding)

    return _PRV_ACCOUNTANT.call(build)


def _reach(losses: Sequence[_Loss], counts: Sequence[int], error: float, slack: float) -> float:
    """Return how far the mesh must reach: Remark 5.6, from Renyi bounds at integer orders."""
    runs = sum(counts)
    curves = [np.array([loss.renyi(order) for order in MESH_RENYI_ORDERS]) for loss in losses]
    total = sum(curve * count for curve, count in zip(curves, counts, strict=True))
    tails = [_epsilon_of(np.asarray(total), slack / 4.0)]
    tails += [_epsilon_of(curve, slack / (8.0 * runs)) for curve in curves]
    # The composed loss leaves the mesh, or one loss does, with a share of the slack at most.
    reach = max(error, *tails, *(loss.atom for loss in losses)) + 3.0
    # Theorem 5.5: the mesh at which the error in epsilon is met for so many runs.
    mesh = error / math.sqrt(runs / 2.0 * math.log(12.0 / slack))
    points = 2.0 * reach / mesh
    if not points <= MAX_MESH_POINTS:
        raise Unsupported(
            f"The microsoft engine would need a grid of {points:.2g} points.",
            f"The loss may reach {reach:.3g}, and an error of {error:g} in epsilon over {runs} "
            f"releases needs a mesh of {mesh:.2g}.",
            f"Allow a larger error: MicrosoftEngine(eps_error={error * 10:g}).",
        )
    return reach


def _epsilon_of(curve: FloatArray, delta: float) -> float:
    """Return epsilon at `delta` from a curve over `MESH_RENYI_ORDERS`; inf where it has none."""
    orders = np.array(MESH_RENYI_ORDERS, dtype=float)
    epsilons = curve + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)
    return float(np.min(np.where(np.isnan(epsilons), np.inf, epsilons)))


# --- one function per event ---------------------------------------------------------------------


@_loss.register(ev.Gaussian)
def _gaussian(event: ev.Gaussian, neighbours: Neighbours) -> _Loss:
    from prv_accountant import GaussianMechanism

    sensitivity = contribution(neighbours)
    noise = event.noise_multiplier / sensitivity
    squared = noise**-2.0
    variable = _LossVariable(GaussianMechanism(noise), squared / 2.0)
    how = (
        f"Gaussian noise of {event.noise_multiplier:g} contribution bounds against a sum that "
        f"moves by {sensitivity}."
    )
    step = release_step(how, neighbours, _PRV)
    return _Loss(variable, variable, lambda order: order * squared / 2.0, step)


@_loss.register(ev.Laplace)
def _laplace(event: ev.Laplace, neighbours: Neighbours) -> _Loss:
    from prv_accountant import LaplaceMechanism

    largest = contribution(neighbours) / event.noise_multiplier
    variable = _LossVariable(LaplaceMechanism(mu=largest), largest + math.expm1(-largest))

    def renyi(order: int) -> float:
        twice = 2.0 * order - 1.0
        return _two_point(order, math.log(order / twice), math.log((order - 1.0) / twice), largest)

    step = laplace_step(event, neighbours, _PRV)
    return _Loss(variable, variable, renyi, step, atom=largest)


@_loss.register(ev.Pure)
@_loss.register(ev.Approximate)
def _parameters(event: ev.Pure | ev.Approximate, neighbours: Neighbours) -> _Loss:
    from prv_accountant import ApproximateDPMechanism

    epsilon, delta = event.epsilon, event.delta if isinstance(event, ev.Approximate) else 0.0
    if delta == 1.0 or epsilon > 700.0:
        raise Unsupported(
            f"The microsoft engine cannot represent ({epsilon:g}, {delta:g})-DP.",
            "The library divides by 1 - delta and by 1 + e^epsilon.",
            "Leave the choice of the engine to privplan.",
        )
    mean = epsilon * math.tanh(epsilon / 2.0)
    variable = _LossVariable(ApproximateDPMechanism(epsilon, delta), mean)

    def renyi(order: int) -> float:
        likely = -math.log1p(math.exp(-epsilon))
        return _two_point(order, likely, likely, epsilon)

    step = parameters_step(epsilon, delta, neighbours, _PRV)
    return _Loss(variable, variable, renyi, step, atom=epsilon, attained=False)


def _two_point(order: int, log_up: float, log_down: float, loss: float) -> float:
    """Return 1/(a-1) log(u e^((a-1) loss) + v e^(-a loss)) from log u and log v."""
    moment = np.logaddexp(log_up + (order - 1.0) * loss, log_down - order * loss)
    return float(moment) / (order - 1.0)


@_loss.register(ev.Poisson)
def _poisson(event: ev.Poisson, neighbours: Neighbours) -> _Loss:
    if event.rate == 1.0:
        return _loss(event.event, neighbours)
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
        f"{_PRV}; for the way round that the library lacks, Zhu, Dong, Wang, arXiv 2106.08567; "
        "its Renyi divergence is the smaller one (Mironov, Talwar, Zhang, arXiv 1908.10530)"
    )
    return _Loss(
        _LossVariable(removed, forward),
        _LossVariable(_AddedUnitLoss(rate, noise), backward),
        lambda order: float(_PRV_ACCOUNTANT.call(lambda: removed.rdp(order))),
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
