"""Conversion of events to and from those of dp_accounting, wherever both sides mean the same.

The two vocabularies agree on what a noise multiplier is (noise over the contribution bound of one
unit) and leave the neighbouring relation to the accountant, so most events carry over number by
number.  Some change their parameter:

    DiscreteLaplace      their a in exp(-a |z|) is 1 / (noise_multiplier * sensitivity)
    RandomizedResponse   their p, the chance of a uniform answer, is k / (k - 1 + e^epsilon)
    BestOf               their shape: infinity is Poisson, 1 geometric, 0 logarithmic, else
                         truncated negative binomial
    DiscreteGaussian     their sigma is noise_multiplier * sensitivity, their dimension 1
    Pure, Approximate    their EpsilonDelta, with delta 0 and as it is
    Group                of Poisson samples with Gaussian noise: their MixtureOfGaussians
    GaussianMixture      their MixtureOfGaussians, with what is left of 1 at sensitivity 0

Several of their classes are newer than the version that is installed may be: whatever is missing
there is refused, and the refusal says so.  The rest is refused rather than approximated.  `reason`
of a `NoGuarantee` is lost on the way out. What their classes mean here: dp_event_converters.py.

Source: dp_accounting 0.6.0 and its main branch of 2026, dp_event.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..errors import InvalidInput, kind_of
from . import definitions as ev
from .contributions import MAX_LISTED_RECORDS, binomial_weights, distribution
from .dp_event_converters import (
    RENAMED,
    SHAPES,
    Position,
    converted,
    no_counterpart,
    response_epsilon,
)

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


F = TypeVar("F", bound=Callable[..., Any])
_exports: dict[type[ev.Event], Callable[..., Any]] = {}

_RENAMED: Final[Mapping[type[ev.Event], tuple[str, Mapping[str, str]]]] = {
    ev.Gaussian: ("GaussianDpEvent", {"noise_multiplier": "noise_multiplier"}),
    ev.Laplace: ("LaplaceDpEvent", {"noise_multiplier": "noise_multiplier"}),
    ev.ZCDP: ("ZCDpEvent", {"rho": "rho"}),
    ev.NoGuarantee: ("NonPrivateDpEvent", {}),
    ev.RandomAllocation: (
        "RandomAllocationDpEvent",
        {"event": "event", "num_selected": "chosen", "num_steps": "steps"},
    ),
    **{ours: (theirs, fields) for theirs, (ours, fields) in RENAMED.items()},
}
"""What carries over field by field; the first five are more than that on the way in."""


def to_dp_event(event: ev.Event) -> DpEvent:
    """Return the dp_accounting event with the same meaning.

    Raises `Unsupported`, naming the part and the reason, where dp_accounting has no event that
    means the same, and `InvalidInput` for nesting deeper than `MAX_DEPTH`.

    >>> to_dp_event(ev.Poisson(0.01, ev.Gaussian(1.0))).sampling_probability
    0.01
    """
    return _export(event, Position("event"))


def from_dp_event(dp_event: DpEvent) -> ev.Event:
    """Return our event with the same meaning as a dp_accounting event.

    Raises `Unsupported`, naming the part and the reason, where there is none, and `InvalidInput`
    for a parameter outside its range (dp_accounting does not check them when an event is made).

    >>> from_dp_event(to_dp_event(ev.Repeat(3, ev.Laplace(2.0))))
    Repeat(count=3, event=Laplace(noise_multiplier=2.0))
    """
    return converted(dp_event, Position("event", _opened))


ev.Event.export = to_dp_event


# --- to dp_accounting -----------------------------------------------------------------------------


def _exports_as(event_type: type[ev.Event]) -> Callable[[F], F]:
    def enter(function: F) -> F:
        _exports[event_type] = function
        return function

    return enter


def _export(event: ev.Event, at: Position) -> Any:
    at.enter()
    function = _exports.get(type(event))
    if function is not None:
        return function(event, at)
    if type(event) not in _RENAMED:
        name = getattr(event, "type", "") or type(event).__name__
        raise no_counterpart(at, name, f"dp_accounting has no event that means `{name}`")
    theirs, fields = _RENAMED[type(event)]
    cls, given = _newer(theirs, event, at), {key: getattr(event, fields[key]) for key in fields}
    if "event" in given:
        given["event"] = _export(given["event"], at.inner("event"))
    return cls(**given)


@_exports_as(ev.MatrixGaussian)
def _matrix_gaussian(event: ev.MatrixGaussian, at: Position) -> Any:
    strategy = event.strategy
    binary = isinstance(strategy, ev.TreeStrategy) and strategy.fan_out == 2
    if not (binary and isinstance(event.participation, ev.SingleParticipation)):
        raise no_counterpart(
            at,
            event.type,
            "dp_accounting knows correlated noise as a binary tree of which a unit is in one round",
        )
    assert isinstance(strategy, ev.TreeStrategy)
    return _dp_events().SingleEpochTreeAggregationDpEvent(event.noise_multiplier, strategy.steps)


@_exports_as(ev.DiscreteLaplace)
def _discrete_laplace(event: ev.DiscreteLaplace, _at: Position) -> Any:
    parameter = 1.0 / (event.noise_multiplier * event.sensitivity)
    return _dp_events().DiscreteLaplaceDpEvent(parameter, event.sensitivity)


@_exports_as(ev.RandomizedResponse)
def _randomized_response(event: ev.RandomizedResponse, at: Position) -> Any:
    try:
        odds = math.expm1(event.epsilon)
    except OverflowError:
        raise no_counterpart(
            at, event.type, f"at epsilon {event.epsilon} the chance of a uniform answer is 0.0"
        ) from None
    # k / (k - 1 + e^epsilon), refused where a float of it loses epsilon.
    parameter = event.categories / (odds + event.categories)
    if parameter == 0.0 or abs(response_epsilon(parameter, event.categories) - event.epsilon) > (
        1e-6 * event.epsilon
    ):
        raise no_counterpart(
            at, event.type, "the chance of a uniform answer would not give its epsilon back"
        )
    return _dp_events().RandomizedResponseDpEvent(parameter, event.categories)


@_exports_as(ev.TruncatedPoisson)
def _truncated_poisson(event: ev.TruncatedPoisson, at: Position) -> Any:
    if not isinstance(event.event, ev.Gaussian):
        raise no_counterpart(
            at.inner("event"),
            event.event.type,
            "dp_accounting knows truncated Poisson sampling of Gaussian noise only",
        )
    return _dp_events().TruncatedSubsampledGaussianDpEvent(
        dataset_size=event.population,
        sampling_probability=event.rate,
        truncated_batch_size=event.batch,
        noise_multiplier=event.event.noise_multiplier,
    )


@_exports_as(ev.Compose)
def _compose(event: ev.Compose, at: Position) -> Any:
    if not event.events:
        return _dp_events().NoOpDpEvent()
    return _dp_events().ComposedDpEvent(
        [_export(part, at.inner(f"events[{index}]")) for index, part in enumerate(event.events)]
    )


@_exports_as(ev.BestOf)
def _best_of(event: ev.BestOf, at: Position) -> Any:
    shape = SHAPES.get(event.distribution, event.shape)
    if shape is None:
        raise no_counterpart(
            at, event.type, "dp_accounting selects from a random number of runs, never a fixed one"
        )
    inner = _export(event.event, at.inner("event"))
    return _dp_events().RepeatAndSelectDpEvent(inner, event.mean, shape)


@_exports_as(ev.Pure)
def _pure(event: ev.Pure, at: Position) -> Any:
    return _newer("EpsilonDeltaDpEvent", event, at)(event.epsilon, 0.0)


@_exports_as(ev.Approximate)
def _approximate(event: ev.Approximate, at: Position) -> Any:
    return _newer("EpsilonDeltaDpEvent", event, at)(event.epsilon, event.delta)


@_exports_as(ev.DiscreteGaussian)
def _discrete_gaussian(event: ev.DiscreteGaussian, at: Position) -> Any:
    return _newer("DiscreteGaussianDpEvent", event, at)(
        sigma=event.noise_multiplier * event.sensitivity,
        sensitivity=float(event.sensitivity),
        dimension=1,
    )


@_exports_as(ev.GaussianMixture)
def _gaussian_mixture(event: ev.GaussianMixture, at: Position) -> Any:
    amounts = distribution(event)
    if len(amounts) > MAX_LISTED_RECORDS + 1:
        raise no_counterpart(
            at, event.type, f"at most {MAX_LISTED_RECORDS + 1} sensitivities are listed"
        )
    return _dp_events().MixtureOfGaussiansDpEvent(
        event.noise_multiplier, list(amounts), list(amounts.values())
    )


@_exports_as(ev.Group)
def _group(event: ev.Group, at: Position) -> Any:
    sampled = event.event
    if not (
        isinstance(sampled, ev.Poisson)
        and isinstance(sampled.event, ev.Gaussian)
        and event.size <= MAX_LISTED_RECORDS
    ):
        raise no_counterpart(
            at,
            event.type,
            "dp_accounting has a mixture for several records of a Poisson sample with Gaussian "
            f"noise, here of up to {MAX_LISTED_RECORDS}, and no other groups",
        )
    return _dp_events().MixtureOfGaussiansDpEvent(
        sampled.event.noise_multiplier,
        [float(count) for count in range(event.size + 1)],
        binomial_weights(event.size, sampled.rate),
    )


# --- from dp_accounting ---------------------------------------------------------------------------


def _opened(source: Any, at: Position) -> tuple[str, Any]:
    """Return the class name of a dp_accounting event, and the event; refuse anything else."""
    dp_events = _dp_events()
    if not isinstance(source, dp_events.DpEvent):
        raise InvalidInput(
            f"`{at.path}` must be a dp_accounting event; it is {kind_of(source)}.",
            next_step="Give an event such as dp_accounting.GaussianDpEvent(1.0).",
        )
    name = type(source).__name__
    # Exactly their classes: a subclass may mean something else.
    if type(source) is not getattr(dp_events, name, None):
        raise no_counterpart(at, name, f"there is no event here that means `{name}`")
    return name, source


# --- shared -------------------------------------------------------------------------------------


def _dp_events() -> Any:
    """Return the module of dp_accounting's events: loaded when needed, as it takes a second."""
    from dp_accounting import dp_event

    return dp_event


def _newer(name: str, event: ev.Event, at: Position) -> Any:
    """Return a class of dp_accounting; refuse the part where the installed version lacks it."""
    found = getattr(_dp_events(), name, None)
    if found is None:
        from importlib import metadata

        version = metadata.version("dp-accounting")
        raise no_counterpart(
            at, event.type, f"it is their {name}, which the installed version, {version}, lacks"
        )
    return found
