"""The second opinion of prv_accountant: privacy loss random variables, composed between bounds.

Each leaf is a privacy loss random variable Y = ln P(x)/Q(x), x ~ P.  The library puts it on a mesh
of width h that keeps its mean, convolves, and brackets

    delta(epsilon + error) - slack  <=  true delta  <=  delta(epsilon - error) + slack

What is added here, because a guarantee needs it:

* Both directions.  The library has the loss of removing a unit from a Poisson sample.  Over
  several rounds the loss of adding one need not be smaller (Lebeda, Regehr, Kamath, Steinke,
  arXiv 2405.20769), so it is composed too and the larger answer counts.
* The size of the grid.  The library takes it from Renyi bounds, and its bound for pure mechanisms,
  (a-1) epsilon / a, lies below the truth; correct ones are used here, at integer orders only,
  where none of its loops can run on for ever.
* The mean.  The library finds it by adaptive quadrature, which can step over a jump of the
  distribution; its distance to the exact mean, times the count, widens the answer.

Source: Gopi, Lee, Wutschitz: Numerical Composition of Differential Privacy, arXiv 2106.02848,
Theorem 5.5 and Remark 5.6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from .. import events as ev
from .. import validate
from ..composition import Leaf
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step, unique_steps
from .base import Answer, Registry, contribution, refuse_unattained

_NAME: Final = "microsoft"
_SOURCE: Final = (
    "prv_accountant 0.2; Gopi, Lee, Wutschitz: Numerical Composition of Differential Privacy, "
    "arXiv 2106.02848"
)

_ORDERS: Final = (*range(2, 64), 96, 128, 256)
_MOST_POINTS: Final = 2**22
_SMALLEST_SLACK: Final = 1e-10
_OUTWARD: Final = 1e-9

R = TypeVar("R")
Reals = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class _Variable:
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

    forwards: _Variable
    backwards: _Variable
    renyi: Callable[[int], float]
    step: Step
    atom: float = 0.0
    attained: bool = True


_loss: Final[Registry[_Loss]] = Registry(_NAME)


class MicrosoftEngine:
    """Bounds from prv_accountant, from both sides for Gaussian, Laplace and sampled Gaussian noise.

    `eps_error` is half the width of the answer in epsilon, a number above 0: time grows with its
    inverse.  `Pure` and `Approximate` are composed too, with the lower end 0.

    Neighbours: all three for unsampled events, add-remove and zero-out for Poisson-sampled ones.

    Raises `Unsupported` for every other event, and where the library crashes, would run out of
    memory, or would lose delta in rounding.

    >>> answer = MicrosoftEngine().epsilon([Leaf(ev.Gaussian(1.0), 1)], 1e-5, "add-remove")
    >>> answer.bounds.lower < 4.377 < answer.bounds.upper
    True
    """

    def __init__(self, eps_error: float = 0.01) -> None:
        self._error = validate.positive(eps_error=eps_error)

    @property
    def name(self) -> str:
        """The word that `account(..., engine=...)` takes."""
        return _NAME

    def epsilon(self, leaves: Sequence[Leaf], delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at which `leaves` are (epsilon, delta)-DP.

        `delta` is strictly between 0 and 1.  Raises `Unsupported` as the class says.
        """
        target = validate.open_probability(delta=delta)
        parts, steps = _understood(leaves, neighbours)
        if not parts:
            return self._answer(0.0, 0.0, parts, steps)
        found = [composed.epsilon(target) for composed in self._directions(parts, target / 1000.0)]
        lower, upper = max(pair[0] for pair in found), max(pair[1] for pair in found)
        return self._answer(lower, upper, parts, steps)

    def delta(self, leaves: Sequence[Leaf], epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at which `leaves` are (epsilon, delta)-DP.

        `epsilon` is 0 or above.  The upper end is 1e-10 at least, and more
        beyond 10,000 releases.  Raises `Unsupported` as the
        class says.
        """
        point = validate.non_negative(epsilon=epsilon)
        parts, steps = _understood(leaves, neighbours)
        if not parts:
            return self._answer(0.0, 0.0, parts, steps)
        slack = _SMALLEST_SLACK * max(1.0, sum(count for _, count in parts) / 1e4)
        found = [composed.delta(point) for composed in self._directions(parts, slack)]
        lower, upper = max(pair[0] for pair in found), max(pair[1] for pair in found)
        return self._answer(lower, min(1.0, upper), parts, steps)

    def _directions(self, parts: Sequence[tuple[_Loss, int]], slack: float) -> list[_Composed]:
        counts = [count for _, count in parts]
        reach = _reach([loss for loss, _ in parts], counts, self._error, slack)
        ways = [[loss.forwards for loss, _ in parts], [loss.backwards for loss, _ in parts]]
        if ways[0] == ways[1]:
            ways.pop()
        return [_compose(way, counts, self._error, slack, reach) for way in ways]

    def _answer(
        self,
        lower: float,
        upper: float,
        parts: Sequence[tuple[_Loss, int]],
        steps: Sequence[Step],
    ) -> Answer:
        attained = all(loss.attained for loss, _ in parts)
        conversion = Step(
            "conversion",
            f"The bounds are those of prv_accountant at an error of {self._error:g} in epsilon; "
            + (
                "the lower end is that of a pair of data sets which attains every loss."
                if attained
                else "the lower end is 0, because a bare parameter is only an upper bound."
            ),
            _SOURCE,
            (
                "Both directions were composed and the larger answer was taken.",
                "The error of the library's means, times the count, was added to the width.",
                "The ends are rounded outward.",
            ),
        )
        low = max(0.0, lower * (1.0 - _OUTWARD)) if attained else 0.0
        high = max(0.0, upper * (1.0 + _OUTWARD))
        return Answer(Bounds(low, high), unique_steps([*steps, conversion]))


@dataclass(frozen=True)
class _Composed:
    """The library's composition, with every error that its two readings must allow for."""

    result: Any
    error: float
    slack: float

    def epsilon(self, delta: float) -> tuple[float, float]:
        def read() -> tuple[float, float, float]:
            bounds: tuple[float, float, float] = self.result.compute_epsilon(
                delta, self.slack, self.error
            )
            return bounds

        lower, _, upper = _guarded(read)
        return _numbers(float(lower), float(upper))

    def delta(self, epsilon: float) -> tuple[float, float]:
        read = self.result.compute_delta_estimate
        lower = _guarded(lambda: float(read(epsilon + self.error))) - self.slack
        upper = _guarded(lambda: float(read(epsilon - self.error))) + self.slack
        return _numbers(lower, upper)


def _understood(
    leaves: Sequence[Leaf], neighbours: Neighbours
) -> tuple[list[tuple[_Loss, int]], list[Step]]:
    """Return what each leaf loses and how often, without those that lose nothing, and the steps."""
    refuse_unattained(leaves, _NAME)
    parts = _guarded(
        lambda: [(_loss(leaf.event, neighbours), leaf.count) for leaf in leaves if not _idle(leaf)]
    )
    steps = [loss.step for loss, _ in parts]
    runs = sum(count for _, count in parts)
    steps.append(Step("composition", f"{runs} loss variables are convolved by FFT.", _SOURCE))
    return parts, steps


def _idle(leaf: Leaf) -> bool:
    return isinstance(leaf.event, ev.Poisson) and leaf.event.rate == 0.0


def _compose(
    variables: Sequence[_Variable],
    counts: Sequence[int],
    error: float,
    slack: float,
    reach: float,
) -> _Composed:
    runs = sum(counts)
    # Differences of a cdf are off by a few units of 1e-16 and telescope under a monotone weight;
    # the convolutions add what google.py says of them, at the precision of a long double.
    rounding = runs * (1e-15 + 3200.0 * float(np.finfo(np.longdouble).eps))
    if rounding > slack:
        raise Unsupported(
            f"The microsoft engine cannot resolve delta here: {runs} releases lose "
            f"{rounding:.1g} of it in rounding.",
            f"At most {slack:.1g} may be lost.",
            "Ask for a larger delta, or leave the choice of the engine to privplan.",
        )

    def build() -> _Composed:
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
            drift = sum(
                count * abs(float(np.dot(part.domain.ts(), part.pmf)) - variable.mean)
                for part, variable, count in zip(
                    accountant.composer.prvs, variables, counts, strict=True
                )
            )
            result = accountant.compute_composition(list(counts))
        return _Composed(result, error + drift, slack + rounding)

    return _guarded(build)


def _reach(losses: Sequence[_Loss], counts: Sequence[int], error: float, slack: float) -> float:
    """Return how far the grid must reach: Remark 5.6, from Renyi bounds at integer orders."""
    runs = sum(counts)
    reach = error
    with np.errstate(all="ignore"):
        curves = [np.array([loss.renyi(order) for order in _ORDERS]) for loss in losses]
        total = sum(curve * count for curve, count in zip(curves, counts, strict=True))
        reach = max(reach, _epsilon_of(np.asarray(total), slack / 4.0))
        for curve in curves:
            reach = max(reach, _epsilon_of(curve, slack / (8.0 * runs)))
    reach = max(reach, *(loss.atom for loss in losses)) + 3.0
    mesh = error / math.sqrt(runs / 2.0 * math.log(12.0 / slack))
    points = 2.0 * reach / mesh
    if not points <= _MOST_POINTS:
        raise Unsupported(
            f"The microsoft engine would need a grid of {points:.2g} points.",
            f"The loss may reach {reach:.3g}, and an error of {error:g} in epsilon over {runs} "
            f"releases needs a mesh of {mesh:.2g}.",
            f"Allow a larger error: MicrosoftEngine(eps_error={error * 10:g}).",
        )
    return reach


def _epsilon_of(curve: Reals, delta: float) -> float:
    """Return epsilon at `delta` from a Renyi curve over `_ORDERS`; infinity where it has none."""
    orders = np.array(_ORDERS, dtype=float)
    found = curve + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)
    return float(np.min(np.where(np.isnan(found), np.inf, found)))


# --- one function per event ---------------------------------------------------------------------


@_loss.register(ev.Gaussian)
def _gaussian(event: ev.Gaussian, neighbours: Neighbours) -> _Loss:
    from prv_accountant import GaussianMechanism

    moves = contribution(neighbours)
    noise = event.noise_multiplier / moves
    squared = noise**-2.0
    variable = _Variable(_guarded(lambda: GaussianMechanism(noise)), squared / 2.0)
    return _Loss(
        variable,
        variable,
        lambda order: order * squared / 2.0,
        Step(
            "mechanism",
            f"Gaussian noise of {event.noise_multiplier:g} contribution bounds against a sum that "
            f"moves by {moves}.",
            _SOURCE,
            (f"Neighbours are {neighbours}.",),
        ),
    )


@_loss.register(ev.Laplace)
def _laplace(event: ev.Laplace, neighbours: Neighbours) -> _Loss:
    from prv_accountant import LaplaceMechanism

    moves = contribution(neighbours)
    largest = moves / event.noise_multiplier
    variable = _Variable(
        _guarded(lambda: LaplaceMechanism(mu=largest)), largest + math.expm1(-largest)
    )

    def renyi(order: int) -> float:
        heavy = math.log(order / (2.0 * order - 1.0)) + (order - 1.0) * largest
        light = math.log((order - 1.0) / (2.0 * order - 1.0)) - order * largest
        return float(np.logaddexp(heavy, light)) / (order - 1.0)

    return _Loss(
        variable,
        variable,
        renyi,
        Step(
            "mechanism",
            f"Laplace noise of scale {event.noise_multiplier:g} contribution bounds against a sum "
            f"that moves by {moves}.",
            _SOURCE,
            (f"Neighbours are {neighbours}.",),
        ),
        atom=largest,
    )


@_loss.register(ev.Pure)
def _pure(event: ev.Pure, neighbours: Neighbours) -> _Loss:
    return _approximate(ev.Approximate(event.epsilon, 0.0), neighbours)


@_loss.register(ev.Approximate)
def _approximate(event: ev.Approximate, neighbours: Neighbours) -> _Loss:
    from prv_accountant import ApproximateDPMechanism

    epsilon = event.epsilon
    if event.delta == 1.0 or epsilon > 700.0:
        raise Unsupported(
            f"The microsoft engine cannot represent ({epsilon:g}, {event.delta:g})-DP.",
            "The library divides by 1 - delta and by 1 + e^epsilon.",
            "Leave the choice of the engine to privplan.",
        )
    variable = _Variable(
        ApproximateDPMechanism(epsilon, event.delta), epsilon * math.tanh(epsilon / 2.0)
    )

    def renyi(order: int) -> float:
        likely = -math.log1p(math.exp(-epsilon))
        upper = likely + (order - 1.0) * epsilon
        return float(np.logaddexp(upper, likely - order * epsilon)) / (order - 1.0)

    return _Loss(
        variable,
        variable,
        renyi,
        Step(
            "mechanism",
            f"Any ({epsilon:g}, {event.delta:g})-DP mechanism is dominated by the three-point loss "
            "inf, +epsilon, -epsilon.",
            f"{_SOURCE}; Kairouz, Oh, Viswanath: The Composition Theorem for Differential "
            "Privacy, arXiv 1311.0776",
            (f"The parameters hold for {neighbours} neighbours.",),
        ),
        atom=epsilon,
        attained=False,
    )


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
    return _sampled_gaussian(event.rate, event.event.noise_multiplier, neighbours)


def _sampled_gaussian(rate: float, noise: float, neighbours: Neighbours) -> _Loss:
    from prv_accountant import PoissonSubsampledGaussianMechanism

    remove = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=noise)
    forward, backward = _sampled_means(rate, noise)

    def renyi(order: int) -> float:
        return float(_guarded(lambda: remove.rdp(order)))

    return _Loss(
        _Variable(remove, forward),
        _Variable(_Adding(rate, noise), backward),
        renyi,
        Step(
            "sampling",
            f"Gaussian noise {noise:g} on a Poisson sample of rate q = {rate:g}: "
            "(1-q) N(0) + q N(1) against N(0), both ways round.",
            f"{_SOURCE}; for the way round that the library lacks, Zhu, Dong, Wang, "
            "arXiv 2106.08567; its Renyi divergence is the smaller one (Mironov, Talwar, Zhang, "
            "arXiv 1908.10530)",
            (
                f"Neighbours are {neighbours}.",
                "Every unit is drawn independently, afresh each run.",
            ),
        ),
    )


@dataclass(frozen=True)
class _Adding:
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
    at = np.linspace(-12.0 * noise, 1.0 + 12.0 * noise, points + 1)
    width = (1.0 + 24.0 * noise) / points
    absent = np.exp(-0.5 * (at / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi)) * width
    present = np.exp(-0.5 * ((at - 1.0) / noise) ** 2) / (noise * math.sqrt(2.0 * math.pi)) * width
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + (2.0 * at - 1.0) / (2.0 * noise**2))
    mixture = (1.0 - rate) * absent + rate * present
    return float(np.dot(mixture, loss)), float(-np.dot(absent, loss))


# --- shared -------------------------------------------------------------------------------------


def _guarded(compute: Callable[[], R]) -> R:
    """Return what the library computes; its failures become `Unsupported`."""
    try:
        with np.errstate(all="ignore"):
            return compute()
    except (
        ArithmeticError,
        AssertionError,
        IndexError,
        MemoryError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        _refuse(f"It stopped with {type(error).__name__}: {error}", error)


def _numbers(lower: float, upper: float) -> tuple[float, float]:
    if math.isnan(lower) or math.isnan(upper) or lower > upper:
        _refuse(f"It answered [{lower}, {upper}]", None)
    return lower, upper


def _refuse(why: str, cause: Exception | None) -> NoReturn:
    raise Unsupported(
        "prv_accountant could not account for this event.",
        why.rstrip(".") + ".",
        "Allow it another error, MicrosoftEngine(eps_error=...), or leave the choice of the "
        "engine to privplan.",
    ) from cause
