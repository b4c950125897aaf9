"""dp_accounting as a second opinion: its privacy loss distributions, with our meaning of events.

A leaf becomes a discretised privacy loss distribution (PLD) that dominates the true one, leaves
are convolved, and the hockey-stick divergence of the result is read off:

    delta(epsilon) = P[loss = inf] + E[(1 - e^(epsilon - loss))_+]

The upper end is a guarantee, the lower end 0; `library_workarounds` lists what is worked around.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .. import events as ev
from .. import validate
from ..composition import Composition, Leaf
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step, unique_steps
from .base import Answer, Registry, contribution
from .library_workarounds import (
    LIBRARY_OUTWARD_RELATIVE,
    NUMERIC_FAILURES,
    Library,
    laplace_step,
    parameters_step,
    release_step,
    sampling_step,
)

_PLD: Final = "dp_accounting 0.6, privacy_loss_distribution"
_DOTS: Final = (
    f"{_PLD}; Doroshenko, Ghazi, Kamath, Kumar, Manurangsi: Connect the Dots, arXiv 2207.04380"
)
_DP_ACCOUNTING: Final = Library(
    "dp_accounting",
    NUMERIC_FAILURES,
    "Try another grid width, or leave the choice of the engine to privplan.",
)

MAX_PLD_POINTS_PER_RUN: Final = 2**22
MAX_PLD_POINTS_COMPOSED: Final = 2**23
PROBE_WIDTH_FACTOR: Final = 100
DELTA_ROUNDING_PER_CONVOLUTION: Final = 4e-13


@dataclass(frozen=True)
class _Loss:
    """The PLD of one run, from the width of its grid; the largest loss; the derivation.

    `build` is None where nothing is guaranteed.
    """

    build: Callable[[float], Any] | None
    reach: float
    step: Step


_loss: Final[Registry[_Loss]] = Registry("google")


class GoogleEngine:
    """Upper bounds from dp_accounting's privacy loss distributions; the lower end is always 0.

    `discretisation` is the width of the grid of losses, a number above 0: narrower is tighter
    (the excess in epsilon is about 0.6 x runs x discretisation^2) and slower in proportion.

    Neighbours: all three for unsampled sums and stated parameters and for Poisson-sampled Gaussian
    noise; add-remove and zero-out for other Poisson-sampled sums.

    Raises `Unsupported` for every other event, and where the grid would not fit into memory.

    >>> answer = GoogleEngine().epsilon(Composition.of(ev.Gaussian(1.0)), 1e-5, "add-remove")
    >>> round(answer.bounds.upper, 3)
    4.377
    """

    name = "google"

    def __init__(self, discretisation: float = 1e-4) -> None:
        self._width = validate.positive(discretisation=discretisation)

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at `delta` in [0, 1], in nats."""
        target = validate.probability(delta=delta)
        total = self._compose(composition, neighbours)
        if total.pld is None:
            return total.answer(math.inf, "An event protects nobody, so epsilon is infinite.")
        upper = _DP_ACCOUNTING.call(lambda: _epsilon_at(total.pld, target - total.rounding))
        if math.isinf(upper):
            unresolved = float(total.pld.get_delta_for_epsilon(math.inf)) + total.rounding
            return total.answer(
                upper,
                f"delta {target:g} lies below what this engine can resolve here (probability "
                f"{unresolved:.1g} counts as certain loss), so its epsilon is infinite.",
            )
        if upper > 745.0:
            return total.answer(
                upper,
                "Above epsilon 745 dp_accounting rounds e^-loss to 0: the bound holds, but it is "
                "too large.",
            )
        return total.answer(upper)

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at `epsilon`, 0 or above, in nats."""
        point = validate.non_negative(epsilon=epsilon)
        total = self._compose(composition, neighbours)
        if total.pld is None:
            return total.answer(1.0, "An event protects nobody, so delta is 1.")
        estimate = float(_DP_ACCOUNTING.call(lambda: total.pld.get_delta_for_epsilon(point)))
        # A delta that underflows to 0 is not known to be 0.
        upper = max(estimate, 1e-300) * (1.0 + LIBRARY_OUTWARD_RELATIVE) + total.rounding
        return total.answer(min(1.0, upper))

    def _compose(self, composition: Composition, neighbours: Neighbours) -> _ComposedLoss:
        losses = [(_loss(leaf.event, neighbours), leaf.count) for leaf in _gathered(composition)]
        parts = [(loss, count) for loss, count in losses if loss.reach > 0.0]
        runs = sum(count for _, count in parts)
        composed = Step(
            "composition",
            f"{runs} privacy loss distributions on a grid of width {self._width:g} are convolved.",
            _DOTS,
            ("Each distribution dominates, so the convolution does, even of adaptive runs.",),
        )
        steps = (*(loss.step for loss, _ in losses), composed)
        if any(loss.build is None for loss, _ in parts):
            return _ComposedLoss(None, 0.0, steps)
        # Convolving is where memory or time may run out.
        pld = _DP_ACCOUNTING.call(lambda: self._convolve(parts))
        convolutions = runs + len(parts) if runs > 1 else 0
        return _ComposedLoss(pld, convolutions * DELTA_ROUNDING_PER_CONVOLUTION, steps)

    def _convolve(self, parts: Sequence[tuple[_Loss, int]]) -> Any:
        total: Any = None
        for loss, count in parts:
            assert loss.build is not None
            # The library would fill memory, so sizes are looked at first, on a coarser grid.
            self._require_points(2.0 * loss.reach / self._width, MAX_PLD_POINTS_PER_RUN)
            if count > 1:
                coarse = _window(loss.build(self._width * PROBE_WIDTH_FACTOR), count)
                self._require_points(PROBE_WIDTH_FACTOR * coarse, MAX_PLD_POINTS_COMPOSED)
            # The library rounds losses up (pessimistic), so every part dominates.
            part = loss.build(self._width)
            if count > 1:
                part = part.self_compose(count)
            total = part if total is None else total.compose(part)
        return _pld("identity")(self._width) if total is None else total

    def _require_points(self, points: float, most: int) -> None:
        if points > most:
            raise Unsupported(
                f"The google engine would need a grid of {points:.2g} points.",
                f"The losses spread too far for a grid of width {self._width:g}.",
                f"Use a wider grid: GoogleEngine(discretisation={self._width * 10:g}).",
            )


@dataclass(frozen=True)
class _ComposedLoss:
    """The composed PLD (None: no guarantee), the delta set aside for rounding, the derivation."""

    pld: Any
    rounding: float
    steps: tuple[Step, ...]

    def answer(self, upper: float, *warnings: str) -> Answer:
        conversion = Step(
            "conversion",
            "The upper end is the hockey-stick divergence of the composed distribution; the lower "
            "end is 0, because the library's optimistic estimate is too loose to be of use.",
            _PLD,
            (
                f"delta {self.rounding:.1g} is set aside for the rounding of the convolutions.",
                "The upper end is rounded outward.",
            ),
        )
        steps = unique_steps([*self.steps, conversion])
        return Answer(Bounds(0.0, max(0.0, upper)), steps, warnings)


def _epsilon_at(pld: Any, delta: float) -> float:
    """Return an epsilon, rounded outward, at which the PLD's own delta is at most `delta`."""
    if delta < 0.0:
        return math.inf
    estimate = float(pld.get_epsilon_for_delta(delta))
    if estimate == 0.0 and float(pld.get_delta_for_epsilon(0.0)) <= delta:
        return 0.0
    # Moved up until the library's other reading agrees that delta is met.
    margin = LIBRARY_OUTWARD_RELATIVE * max(estimate, 1e-3)
    while math.isfinite(estimate):
        upper = estimate + margin
        if float(pld.get_delta_for_epsilon(upper)) <= delta:
            return upper
        if margin > 1.0 + estimate:
            return math.inf
        margin *= 8.0
    return estimate


def _window(pld: Any, count: int) -> int:
    """Return how many points the library keeps of a `count`-fold convolution, without doing it."""
    from dp_accounting.pld import common

    # As many as `self_compose` would keep, from the library's own rule for cutting tails.
    probabilities = pld._pmf_remove.to_dense_pmf()._probs
    lowest, highest = common.compute_self_convolve_bounds(probabilities, count, 1e-15)
    return int(highest) - int(lowest) + 1


def _gathered(composition: Composition) -> list[Leaf]:
    """Return the leaves with all unsampled Gaussians as one, of the same total precision."""
    others = [leaf for leaf in composition if not isinstance(leaf.event, ev.Gaussian)]
    # N(0, s^2) n times is N(0, s^2/n) once: signal-to-noise ratios add in squares.
    means = [
        math.sqrt(leaf.count) / leaf.event.noise_multiplier
        for leaf in composition
        if isinstance(leaf.event, ev.Gaussian)
    ]
    if not means:
        return others
    mean = math.hypot(*means)
    if not 0.0 < mean < math.inf:
        raise Unsupported(
            "The google engine cannot represent this Gaussian noise.",
            f"Its signal-to-noise ratio is {mean:g} as a floating-point number.",
            "Rescale the noise, or leave the choice of the engine to privplan.",
        )
    return [Leaf(ev.Gaussian(1.0 / mean), 1), *others]


# --- one function per event; `rate` is that of a Poisson sample ---------------------------------


def _pld(mechanism: str, *arguments: Any, **options: Any) -> Callable[[float], Any]:
    """Return what builds a PLD of the library from the width of its grid."""

    def build(width: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution

        constructor = getattr(privacy_loss_distribution, mechanism)
        return constructor(*arguments, value_discretization_interval=width, **options)

    return build


@_loss.register(ev.Gaussian)
def _gaussian(event: ev.Gaussian, neighbours: Neighbours, rate: float = 1.0) -> _Loss:
    from dp_accounting.privacy_accountant import NeighboringRelation as Relation

    noise, sensitivity = event.noise_multiplier, contribution(neighbours)
    mean = sensitivity / noise
    replaced = rate < 1.0 and neighbours == "replace-one"
    other = "(1-q) N(0) + q N(-1)" if replaced else "N(0), both ways round"
    build = _pld(
        "from_gaussian_mechanism",
        noise,
        sensitivity=1 if replaced else sensitivity,
        sampling_prob=rate,
        neighboring_relation=Relation.REPLACE_ONE if replaced else Relation.ADD_OR_REMOVE_ONE,
    )
    how = (
        f"Gaussian noise of {noise:.6g} contribution bounds (all unsampled Gaussians together) "
        f"against a sum that moves by {sensitivity}."
    )
    step = release_step(how, neighbours, _DOTS)
    if rate < 1.0:
        pair = f"(1-q) N(0) + q N(1) against {other}"
        step = _sampled_step(f"Gaussian noise {noise:g}", rate, pair, neighbours)
    # The loss at the tail of mass e^-50, where the library cuts, or a little more.
    return _Loss(build, mean * mean / 2.0 + 10.0 * mean, step)


@_loss.register(ev.Laplace)
def _laplace(event: ev.Laplace, neighbours: Neighbours, rate: float = 1.0) -> _Loss:
    noise, sensitivity = event.noise_multiplier, contribution(neighbours)
    step = laplace_step(event, neighbours, _DOTS)
    if rate < 1.0:
        _refuse_replacement(event, neighbours)
        pair = "(1-q) L(0) + q L(1) against L(0), both ways round"
        step = _sampled_step(f"Laplace noise {noise:g}", rate, pair, neighbours)
    build = _pld("from_laplace_mechanism", noise, sensitivity=sensitivity, sampling_prob=rate)
    return _Loss(build, sensitivity / noise, step)


@_loss.register(ev.DiscreteLaplace)
@_loss.register(ev.DiscreteGaussian)
def _discrete(
    event: ev.DiscreteLaplace | ev.DiscreteGaussian, neighbours: Neighbours, rate: float = 1.0
) -> _Loss:
    if rate < 1.0:
        _refuse_replacement(event, neighbours)
    sensitivity = contribution(neighbours) * event.sensitivity
    scale = event.noise_multiplier * event.sensitivity
    # What the library cuts off lies beyond 12 scales for Gaussian noise; Laplace noise has a bound.
    law, parameter, reach = "laplace", 1.0 / scale, sensitivity / scale
    if isinstance(event, ev.DiscreteGaussian):
        law, parameter = "gaussian", scale
        reach = sensitivity * (12.0 * scale + sensitivity) / scale**2
    sample = f" on a Poisson sample of rate {rate:g}" if rate < 1.0 else ""
    how = (
        f"Discrete {law.title()} noise of scale {scale:g}{sample} against an integer sum that "
        f"moves by at most {sensitivity}."
    )
    scalar = "One number is released, not a vector."
    step = release_step(how, neighbours, _DOTS, scalar, stage="sampling" if sample else "mechanism")
    options = {"sensitivity": sensitivity, "sampling_prob": rate, "use_connect_dots": True}
    build = _pld(f"from_discrete_{law}_mechanism", parameter, **options)
    return _Loss(build, reach, step)


@_loss.register(ev.RandomizedResponse)
def _randomized_response(event: ev.RandomizedResponse, neighbours: Neighbours) -> _Loss:
    if neighbours != "replace-one" or not 1e-12 < event.epsilon < 30.0:
        return _parameters(ev.Pure(event.epsilon), neighbours)
    uniform = event.categories / (math.expm1(event.epsilon) + event.categories)
    step = Step(
        "mechanism",
        f"Randomized response over {event.categories} values, the true one "
        f"e^{event.epsilon:g} times as likely as any other.",
        _PLD,
        ("One person's value is replaced by another.",),
    )
    build = _pld("from_randomized_response", uniform, event.categories)
    return _Loss(build, event.epsilon, step)


@_loss.register(ev.Pure)
@_loss.register(ev.Local)
@_loss.register(ev.Exponential)
@_loss.register(ev.Approximate)
def _parameters(
    event: ev.Pure | ev.Local | ev.Exponential | ev.Approximate, neighbours: Neighbours
) -> _Loss:
    from dp_accounting.pld import common

    epsilon, delta = event.epsilon, event.delta if isinstance(event, ev.Approximate) else 0.0
    if epsilon > 700.0:
        raise Unsupported(
            f"The google engine cannot represent epsilon {epsilon:g}.",
            "e^epsilon is beyond floating-point numbers there.",
            "Leave the choice of the engine to privplan.",
        )
    build = _pld("from_privacy_parameters", common.DifferentialPrivacyParameters(epsilon, delta))
    step = parameters_step(epsilon, delta, neighbours, _PLD)
    return _Loss(build, max(epsilon, delta), step)


@_loss.register(ev.NoGuarantee)
def _no_guarantee(event: ev.NoGuarantee, _neighbours: Neighbours) -> _Loss:
    step = Step("mechanism", f"Nothing is guaranteed: {event.reason}", "the event itself")
    return _Loss(None, math.inf, step)


@_loss.register(ev.Poisson)
def _poisson(event: ev.Poisson, neighbours: Neighbours) -> _Loss:
    if event.rate == 0.0:
        step = Step("sampling", "An empty sample releases nothing about anybody.", "definition")
        return _Loss(_pld("identity"), 0.0, step)
    if event.rate == 1.0:
        return _loss(event.event, neighbours)
    function = _SAMPLED.get(type(event.event))
    if function is None:
        raise Unsupported(
            f"The google engine has no mathematics for Poisson sampling of `{event.event.type}`.",
            "The library has a dominating pair for sampled sums with known noise only.",
            "Leave the choice of the engine to privplan.",
        )
    return function(event.event, neighbours, event.rate)


_SAMPLED: Final[dict[type[ev.Event], Callable[[Any, Neighbours, float], _Loss]]] = {
    ev.Gaussian: _gaussian,
    ev.Laplace: _laplace,
    ev.DiscreteLaplace: _discrete,
    ev.DiscreteGaussian: _discrete,
}


def _refuse_replacement(event: ev.Event, neighbours: Neighbours) -> None:
    if neighbours == "replace-one":
        raise Unsupported(
            f"The google engine has no mathematics for Poisson sampling of `{event.type}` when "
            "one unit is replaced.",
            "dp_accounting has the dominating pair of that relation for Gaussian noise only.",
            "Ask for add-remove, or leave the choice of the engine to privplan.",
        )


def _sampled_step(noise: str, rate: float, pair: str, neighbours: Neighbours) -> Step:
    source = (
        f"{_DOTS}; Zhu, Dong, Wang: Optimal Accounting of Differential Privacy via Characteristic "
        "Function, arXiv 2106.08567"
    )
    how = f"{noise} on a Poisson sample of rate q = {rate:g}: the dominating pair is {pair}."
    return sampling_step(how, neighbours, source)
