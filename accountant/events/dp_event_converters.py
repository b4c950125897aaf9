"""What each event of dp_accounting means here: one converter for each class name.

A converter takes anything that has the fields of the class as attributes: an event of dp_accounting
itself, or fields that were read from data (dp_event_tuples.py).  So nothing here imports
dp_accounting, and no name that stands in data is ever imported.

    class                          here
    GaussianDpEvent, LaplaceDpEvent  NoGuarantee where their noise multiplier is 0
    EpsilonDeltaDpEvent            Pure where its delta is 0, else Approximate
    DiscreteGaussianDpEvent        DiscreteGaussian where its dimension is 1 and its sensitivity an
                                   integer; else ZCDP with rho = sensitivity^2 / (2 sigma^2), which
                                   holds in every dimension, for the relation of that sensitivity
    ExponentialMechanismDpEvent    Exponential with the same number: over there it is an
                                   epsilon-DP mechanism whose loss has range epsilon (weights
                                   exp(epsilon u / (2 sensitivity))), which is what it is here
    PermuteAndFlipDpEvent          Pure: it is epsilon-DP; nothing sharper is claimed
    RandomAllocationDpEvent        RandomAllocation
    RepeatAndSelectDpEvent         BestOf, of any shape
    MixtureOfGaussiansDpEvent      Group of Poisson of Gaussian, where the weights are binomial
                                   (contributions.py)

Source: dp_accounting 0.6.0 and its main branch of 2026, dp_event.py; permute-and-flip: McKenna,
Sheldon 2020, arXiv 2010.12603; bounded range: Dong, Durfee, Rogers 2019, arXiv 1905.04273; discrete
Gaussian: Canonne, Kamath, Steinke 2020, Theorem 14, arXiv 2004.00010.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from .. import validate
from ..errors import InvalidInput, Unsupported, kind_of, with_article
from . import definitions as ev
from .contributions import from_mixture

SHAPES: Final = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}
"""Their shape of each distribution of the number of runs."""

MAX_PARTS: Final = 200_000
"""Most parts of one event: more, or one that holds itself, is surely a mistake."""

RENAMED: Final[Mapping[str, tuple[type[ev.Event], Mapping[str, str]]]] = {
    "PoissonSampledDpEvent": (ev.Poisson, {"sampling_probability": "rate", "event": "event"}),
    "SampledWithoutReplacementDpEvent": (
        ev.FixedSize,
        {"source_dataset_size": "population", "sample_size": "batch", "event": "event"},
    ),
    "SampledWithReplacementDpEvent": (
        ev.WithReplacement,
        {"source_dataset_size": "population", "sample_size": "batch", "event": "event"},
    ),
    "SelfComposedDpEvent": (ev.Repeat, {"count": "count", "event": "event"}),
    "ExponentialMechanismDpEvent": (ev.Exponential, {"epsilon": "epsilon"}),
}
"""What means the same on both sides: their class, ours, and what each of their fields is here."""

Opener = Callable[[Any, "Position"], tuple[str, Any]]
"""What stands at a position -> its class name, and an object that has its fields."""


@dataclass
class _Parts:
    """How many parts were met so far."""

    count: int = 0


@dataclass(frozen=True)
class Position:
    """A position in the tree of events: its path, for error texts, and its depth.

    `opened` reads what stands there; it is unused on the way out.
    """

    path: str
    opened: Opener | None = None
    depth: int = 0
    parts: _Parts = field(default_factory=_Parts)

    def inner(self, name: str) -> Position:
        """Return the position of a field of the event that stands here."""
        return replace(self, path=f"{self.path}.{name}", depth=self.depth + 1)

    def enter(self) -> None:
        """Raise `InvalidInput` where the tree is too deep, or has too many parts."""
        if self.depth > ev.MAX_DEPTH:
            raise InvalidInput(
                f"The event is nested more than {ev.MAX_DEPTH} levels deep, at `{self.path[:60]}`.",
                next_step="Flatten it: composition can hold the same steps in fewer levels.",
            )
        self.parts.count += 1
        if self.parts.count > MAX_PARTS:
            raise InvalidInput(
                f"The event has more than {MAX_PARTS:,} parts, at `{self.path[:60]}`.",
                next_step="Write equal parts as one part that is repeated.",
            )


def no_counterpart(at: Position, name: str, why: str) -> Unsupported:
    """Return the refusal of a part that has no meaning on the other side."""
    return Unsupported(
        f"`{at.path}`, {with_article(name)}, cannot be exchanged with dp_accounting.",
        f"The reason: {why}.",
        "Leave that part out, or state it in a form that both sides know.",
    )


F = TypeVar("F", bound=Callable[..., ev.Event])
_converters: dict[str, Callable[..., ev.Event]] = {}


def _converts(name: str) -> Callable[[F], F]:
    def enter(function: F) -> F:
        _converters[name] = function
        return function

    return enter


def converted(source: Any, at: Position) -> ev.Event:
    """Return our event with the meaning of what stands at a position.

    Raises `Unsupported` where there is none, `InvalidInput` for what is no event and for fields
    outside their range; both name the part.
    """
    at.enter()
    assert at.opened is not None
    name, fields = at.opened(source, at)
    function = _converters.get(name)
    if function is None and name not in RENAMED:
        raise no_counterpart(at, name, f"there is no event here that means `{name}`")
    try:
        return function(fields, at) if function is not None else _renamed(name, fields, at)
    except InvalidInput as error:
        if error.what.startswith(("In `", "The event ")) or f"`{at.path}." in error.what:
            raise
        raise InvalidInput(
            f"In `{at.path}` ({name}): {error.what}", error.why, error.next_step
        ) from None


def _renamed(name: str, source: Any, at: Position) -> ev.Event:
    ours, fields = RENAMED[name]
    given = {mine: getattr(source, theirs) for theirs, mine in fields.items()}
    if "event" in given:
        given["event"] = converted(given["event"], at.inner("event"))
    return ours(**given)


_WITHOUT_NOISE: Final = ev.NoGuarantee("the noise multiplier is 0")


def _is_zero(noise_multiplier: object) -> bool:
    """Return whether no noise is added: epsilon is infinite then, over there as well."""
    return not isinstance(noise_multiplier, bool) and noise_multiplier == 0


@_converts("GaussianDpEvent")
def _from_gaussian(source: Any, _at: Position) -> ev.Event:
    if _is_zero(source.noise_multiplier):
        return _WITHOUT_NOISE
    return ev.Gaussian(source.noise_multiplier)


@_converts("LaplaceDpEvent")
def _from_laplace(source: Any, _at: Position) -> ev.Event:
    if _is_zero(source.noise_multiplier):
        return _WITHOUT_NOISE
    return ev.Laplace(source.noise_multiplier)


@_converts("DiscreteLaplaceDpEvent")
def _from_discrete_laplace(source: Any, _at: Position) -> ev.Event:
    parameter = validate.positive(noise_parameter=source.noise_parameter)
    sensitivity = validate.count(sensitivity=source.sensitivity)
    return ev.DiscreteLaplace(_inverse_scale(parameter, sensitivity), sensitivity)


@_converts("RandomizedResponseDpEvent")
def _from_randomized_response(source: Any, _at: Position) -> ev.Event:
    categories = validate.count_from(2, num_buckets=source.num_buckets)
    parameter = validate.probability(noise_parameter=source.noise_parameter)
    validate.positive(noise_parameter=parameter)
    return ev.RandomizedResponse(response_epsilon(parameter, categories), categories)


def response_epsilon(parameter: float, categories: int) -> float:
    """Return the epsilon of a response that is uniform with probability `parameter`."""
    return math.log1p(categories * (1.0 - parameter) / parameter)


@_converts("ZCDpEvent")
def _from_zcdp(source: Any, at: Position) -> ev.Event:
    if validate.non_negative(xi=source.xi) != 0.0:
        raise no_counterpart(
            at, "ZCDpEvent", f"its xi is {source.xi}, and zcdp here is the case xi = 0"
        )
    return ev.ZCDP(source.rho)


@_converts("NonPrivateDpEvent")
def _from_non_private(_source: Any, _at: Position) -> ev.Event:
    return ev.NoGuarantee("dp_accounting calls it a NonPrivateDpEvent")


@_converts("NoOpDpEvent")
def _from_no_op(_source: Any, _at: Position) -> ev.Event:
    return ev.Compose(())


@_converts("TruncatedSubsampledGaussianDpEvent")
def _from_truncated(source: Any, _at: Position) -> ev.Event:
    return ev.TruncatedPoisson(
        source.sampling_probability,
        source.truncated_batch_size,
        source.dataset_size,
        ev.Gaussian(source.noise_multiplier),
    )


@_converts("ComposedDpEvent")
def _from_composed(source: Any, at: Position) -> ev.Event:
    if isinstance(source.events, (str, bytes)) or not isinstance(source.events, Iterable):
        raise InvalidInput(f"`events` must be a list of events; it is {kind_of(source.events)}.")
    parts = (
        converted(part, at.inner(f"events[{index}]")) for index, part in enumerate(source.events)
    )
    return ev.Compose(tuple(parts))


@_converts("RepeatAndSelectDpEvent")
def _from_repeat_and_select(source: Any, at: Position) -> ev.Event:
    known = {shape: distribution for distribution, shape in SHAPES.items()}
    try:
        distribution = known.get(float(source.shape))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"`shape` must be a number; it is {source.shape!r}.") from None
    mean = validate.positive(mean=source.mean)
    inner = converted(source.event, at.inner("event"))
    if distribution is None:
        return ev.BestOf("negative-binomial", mean, inner, source.shape)
    return ev.BestOf(distribution, mean, inner)


@_converts("EpsilonDeltaDpEvent")
def _from_epsilon_delta(source: Any, _at: Position) -> ev.Event:
    epsilon = validate.non_negative(epsilon=source.epsilon)
    delta = validate.probability(delta=source.delta)
    return ev.Pure(epsilon) if delta == 0.0 else ev.Approximate(epsilon, delta)


@_converts("DiscreteGaussianDpEvent")
def _from_discrete_gaussian(source: Any, _at: Position) -> ev.Event:
    sigma = validate.positive(sigma=source.sigma)
    sensitivity = validate.positive(sensitivity=source.sensitivity)
    dimension = source.dimension
    if dimension is not None:
        dimension = validate.count(dimension=dimension)
    if dimension == 1 and sensitivity.is_integer():
        whole = validate.count(sensitivity=int(sensitivity))
        return ev.DiscreteGaussian(_multiplier(sigma, whole), whole)
    ratio = sensitivity / sigma
    return ev.ZCDP(ratio * ratio / 2.0 * (1.0 + 1e-15))


@_converts("PermuteAndFlipDpEvent")
def _from_permute_and_flip(source: Any, _at: Position) -> ev.Event:
    return ev.Pure(source.epsilon)


@_converts("RandomAllocationDpEvent")
def _from_random_allocation(source: Any, at: Position) -> ev.Event:
    steps = validate.count(num_steps=source.num_steps)
    chosen = validate.count(num_selected=source.num_selected)
    if chosen > steps:
        raise InvalidInput(
            f"`num_selected` must be at most `num_steps` ({steps}); it is {chosen}.",
            next_step="Choose fewer steps for each record.",
        )
    return ev.RandomAllocation(steps, chosen, converted(source.event, at.inner("event")))


@_converts("SingleEpochTreeAggregationDpEvent")
def _from_tree(source: Any, _at: Position) -> ev.Event:
    """Of several trees a record is in one only, so the tallest of them says what it can move."""
    counts = source.step_counts
    listed = isinstance(counts, Iterable) and not isinstance(counts, (str, bytes))
    steps = [validate.count(step_counts=each) for each in (counts if listed else [counts])]
    if not steps:
        raise InvalidInput("`step_counts` must hold at least one tree; it is empty.")
    tree = ev.TreeStrategy(max(steps), 2)
    return ev.MatrixGaussian(source.noise_multiplier, tree, ev.SingleParticipation())


@_converts("MixtureOfGaussiansDpEvent")
def _from_mixture(source: Any, at: Position) -> ev.Event:
    mixture = from_mixture(source.standard_deviation, source.sensitivities, source.sampling_probs)
    if isinstance(mixture, str):
        raise no_counterpart(at, "MixtureOfGaussiansDpEvent", mixture)
    return mixture


def _multiplier(sigma: float, sensitivity: int) -> float:
    """Return the noise multiplier whose product with the sensitivity is sigma, where one is."""
    multiplier = sigma / sensitivity
    near = (multiplier, math.nextafter(multiplier, 0.0), math.nextafter(multiplier, math.inf))
    return next((each for each in near if each * sensitivity == sigma), multiplier)


def _inverse_scale(parameter: float, sensitivity: int) -> float:
    """Return the noise multiplier whose export is `parameter` again, where a float has that."""
    # The reciprocal of a reciprocal may be off by one step: try the neighbours.
    multiplier = 1.0 / (parameter * sensitivity)
    for candidate in (
        multiplier,
        math.nextafter(multiplier, 0.0),
        math.nextafter(multiplier, math.inf),
    ):
        if candidate > 0.0 and 1.0 / (candidate * sensitivity) == parameter:
            return candidate
    return multiplier
