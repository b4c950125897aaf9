"""Conversion of events to and from those of dp_accounting, wherever both sides mean the same.

The two vocabularies agree on what a noise multiplier is (noise over the contribution bound of one
unit) and leave the neighbouring relation to the accountant, so most events carry over number by
number.  Three change their parameter:

    DiscreteLaplace      their a in exp(-a |z|) is 1 / (noise_multiplier * sensitivity)
    RandomizedResponse   their p, the chance of a uniform answer, is k / (k - 1 + e^epsilon)
    BestOf               their shape: infinity is Poisson, 1 geometric, 0 logarithmic

The rest is refused rather than approximated: a bare epsilon has no event over there, trees and
sampling with replacement have none here.  `reason` of a `NoGuarantee` is lost on the way out.

Source: dp_accounting 0.6.0, dp_event.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .. import validate
from ..errors import InvalidInput, Unsupported, kind_of, with_article
from . import definitions as ev

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_SHAPES: Final = {"poisson": math.inf, "geometric": 1.0, "logarithmic": 0.0}


@dataclass(frozen=True)
class _Position:
    """A position in the tree of events: its path, for error texts, and its depth."""

    path: str
    depth: int = 0

    def inner(self, name: str) -> _Position:
        return _Position(f"{self.path}.{name}", self.depth + 1)

    def check_depth(self) -> None:
        if self.depth > ev.MAX_DEPTH:
            raise InvalidInput(
                f"The event is nested more than {ev.MAX_DEPTH} levels deep.",
                next_step="Flatten it: composition can hold the same steps in fewer levels.",
            )


F = TypeVar("F", bound=Callable[..., Any])
_exports: dict[type[ev.Event], Callable[..., Any]] = {}
_imports: dict[str, Callable[..., ev.Event]] = {}


def to_dp_event(event: ev.Event) -> DpEvent:
    """Return the dp_accounting event with the same meaning.

    Raises `Unsupported`, naming the part and the reason, where dp_accounting has no event that
    means the same, and `InvalidInput` for nesting deeper than `MAX_DEPTH`.

    >>> to_dp_event(ev.Poisson(0.01, ev.Gaussian(1.0))).sampling_probability
    0.01
    """
    return _export(event, _Position("event"))


def from_dp_event(dp_event: DpEvent) -> ev.Event:
    """Return our event with the same meaning as a dp_accounting event.

    Raises `Unsupported`, naming the part and the reason, where there is none, and `InvalidInput`
    for a parameter outside its range (dp_accounting does not check them when an event is made).

    >>> from_dp_event(to_dp_event(ev.Repeat(3, ev.Laplace(2.0))))
    Repeat(count=3, event=Laplace(noise_multiplier=2.0))
    """
    return _import(dp_event, _Position("event"))


ev.Event.export = to_dp_event


# --- to dp_accounting -----------------------------------------------------------------------------


def _exports_as(event_type: type[ev.Event]) -> Callable[[F], F]:
    def enter(function: F) -> F:
        _exports[event_type] = function
        return function

    return enter


def _export(event: ev.Event, at: _Position) -> Any:
    at.check_depth()
    function = _exports.get(type(event))
    if function is None:
        name = getattr(event, "type", "") or type(event).__name__
        raise _no_counterpart(at, name, f"dp_accounting has no event that means `{name}`")
    return function(event, at)


@_exports_as(ev.Gaussian)
def _gaussian(event: ev.Gaussian, _at: _Position) -> Any:
    return _dp_events().GaussianDpEvent(event.noise_multiplier)


@_exports_as(ev.Laplace)
def _laplace(event: ev.Laplace, _at: _Position) -> Any:
    return _dp_events().LaplaceDpEvent(event.noise_multiplier)


@_exports_as(ev.DiscreteLaplace)
def _discrete_laplace(event: ev.DiscreteLaplace, _at: _Position) -> Any:
    parameter = 1.0 / (event.noise_multiplier * event.sensitivity)
    return _dp_events().DiscreteLaplaceDpEvent(parameter, event.sensitivity)


@_exports_as(ev.RandomizedResponse)
def _randomized_response(event: ev.RandomizedResponse, at: _Position) -> Any:
    try:
        odds = math.expm1(event.epsilon)
    except OverflowError:
        raise _no_counterpart(
            at, event.type, f"at epsilon {event.epsilon} the chance of a uniform answer is 0.0"
        ) from None
    # k / (k - 1 + e^epsilon), refused where a float of it loses epsilon.
    parameter = event.categories / (odds + event.categories)
    if parameter == 0.0 or abs(_response_epsilon(parameter, event.categories) - event.epsilon) > (
        1e-6 * event.epsilon
    ):
        raise _no_counterpart(
            at, event.type, "the chance of a uniform answer would not give its epsilon back"
        )
    return _dp_events().RandomizedResponseDpEvent(parameter, event.categories)


@_exports_as(ev.ZCDP)
def _zcdp(event: ev.ZCDP, _at: _Position) -> Any:
    return _dp_events().ZCDpEvent(event.rho)


@_exports_as(ev.NoGuarantee)
def _no_guarantee(_event: ev.NoGuarantee, _at: _Position) -> Any:
    return _dp_events().NonPrivateDpEvent()


@_exports_as(ev.Poisson)
def _poisson(event: ev.Poisson, at: _Position) -> Any:
    inner = _export(event.event, at.inner("event"))
    return _dp_events().PoissonSampledDpEvent(event.rate, inner)


@_exports_as(ev.TruncatedPoisson)
def _truncated_poisson(event: ev.TruncatedPoisson, at: _Position) -> Any:
    if not isinstance(event.event, ev.Gaussian):
        raise _no_counterpart(
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


@_exports_as(ev.FixedSize)
def _fixed_size(event: ev.FixedSize, at: _Position) -> Any:
    return _dp_events().SampledWithoutReplacementDpEvent(
        source_dataset_size=event.population,
        sample_size=event.batch,
        event=_export(event.event, at.inner("event")),
    )


@_exports_as(ev.Compose)
def _compose(event: ev.Compose, at: _Position) -> Any:
    if not event.events:
        return _dp_events().NoOpDpEvent()
    return _dp_events().ComposedDpEvent(
        [_export(part, at.inner(f"events[{index}]")) for index, part in enumerate(event.events)]
    )


@_exports_as(ev.Repeat)
def _repeat(event: ev.Repeat, at: _Position) -> Any:
    inner = _export(event.event, at.inner("event"))
    return _dp_events().SelfComposedDpEvent(inner, event.count)


@_exports_as(ev.BestOf)
def _best_of(event: ev.BestOf, at: _Position) -> Any:
    shape = _SHAPES.get(event.distribution)
    if shape is None:
        raise _no_counterpart(
            at, event.type, "dp_accounting selects from a random number of runs, never a fixed one"
        )
    if event.distribution != "poisson" and event.mean < 1.0:
        raise _no_counterpart(
            at,
            event.type,
            f"a {event.distribution} number of runs is 1 at least, so its mean cannot be "
            f"{event.mean}",
        )
    inner = _export(event.event, at.inner("event"))
    return _dp_events().RepeatAndSelectDpEvent(inner, event.mean, shape)


# --- from dp_accounting ---------------------------------------------------------------------------


def _imports_from(name: str) -> Callable[[F], F]:
    def enter(function: F) -> F:
        _imports[name] = function
        return function

    return enter


def _import(source: Any, at: _Position) -> ev.Event:
    at.check_depth()
    dp_events = _dp_events()
    if not isinstance(source, dp_events.DpEvent):
        raise InvalidInput(
            f"`{at.path}` must be a dp_accounting event; it is {kind_of(source)}.",
            next_step="Give an event such as dp_accounting.GaussianDpEvent(1.0).",
        )
    # Converters are entered by class name: entering them must not load dp_accounting.
    name = type(source).__name__
    function = _imports.get(name)
    # Exactly their classes: a subclass may mean something else.
    if function is None or type(source) is not getattr(dp_events, name, None):
        raise _no_counterpart(at, name, f"there is no event here that means `{name}`")
    try:
        return function(source, at)
    except InvalidInput as error:
        if error.what.startswith("In `"):
            raise
        raise InvalidInput(
            f"In `{at.path}` ({name}): {error.what}", error.why, error.next_step
        ) from None


@_imports_from("GaussianDpEvent")
def _from_gaussian(source: Any, _at: _Position) -> ev.Event:
    return ev.Gaussian(source.noise_multiplier)


@_imports_from("LaplaceDpEvent")
def _from_laplace(source: Any, _at: _Position) -> ev.Event:
    return ev.Laplace(source.noise_multiplier)


@_imports_from("DiscreteLaplaceDpEvent")
def _from_discrete_laplace(source: Any, _at: _Position) -> ev.Event:
    parameter = validate.positive(noise_parameter=source.noise_parameter)
    sensitivity = validate.count(sensitivity=source.sensitivity)
    return ev.DiscreteLaplace(_inverse_scale(parameter, sensitivity), sensitivity)


@_imports_from("RandomizedResponseDpEvent")
def _from_randomized_response(source: Any, _at: _Position) -> ev.Event:
    categories = validate.count_from(2, num_buckets=source.num_buckets)
    parameter = validate.probability(noise_parameter=source.noise_parameter)
    validate.positive(noise_parameter=parameter)
    return ev.RandomizedResponse(_response_epsilon(parameter, categories), categories)


def _response_epsilon(parameter: float, categories: int) -> float:
    """Return the epsilon of a response that is uniform with probability `parameter`."""
    return math.log1p(categories * (1.0 - parameter) / parameter)


@_imports_from("ZCDpEvent")
def _from_zcdp(source: Any, at: _Position) -> ev.Event:
    if validate.non_negative(xi=source.xi) != 0.0:
        raise _no_counterpart(
            at, "ZCDpEvent", f"its xi is {source.xi}, and zcdp here is the case xi = 0"
        )
    return ev.ZCDP(source.rho)


@_imports_from("NonPrivateDpEvent")
def _from_non_private(_source: Any, _at: _Position) -> ev.Event:
    return ev.NoGuarantee("dp_accounting calls it a NonPrivateDpEvent")


@_imports_from("NoOpDpEvent")
def _from_no_op(_source: Any, _at: _Position) -> ev.Event:
    return ev.Compose(())


@_imports_from("PoissonSampledDpEvent")
def _from_poisson(source: Any, at: _Position) -> ev.Event:
    inner = _import(source.event, at.inner("event"))
    return ev.Poisson(source.sampling_probability, inner)


@_imports_from("TruncatedSubsampledGaussianDpEvent")
def _from_truncated(source: Any, _at: _Position) -> ev.Event:
    return ev.TruncatedPoisson(
        source.sampling_probability,
        source.truncated_batch_size,
        source.dataset_size,
        ev.Gaussian(source.noise_multiplier),
    )


@_imports_from("SampledWithoutReplacementDpEvent")
def _from_without_replacement(source: Any, at: _Position) -> ev.Event:
    inner = _import(source.event, at.inner("event"))
    return ev.FixedSize(source.sample_size, source.source_dataset_size, inner)


@_imports_from("ComposedDpEvent")
def _from_composed(source: Any, at: _Position) -> ev.Event:
    if not isinstance(source.events, Iterable):
        raise InvalidInput(f"`events` must be a list of events; it is {kind_of(source.events)}.")
    return ev.Compose(
        tuple(
            _import(part, at.inner(f"events[{index}]")) for index, part in enumerate(source.events)
        )
    )


@_imports_from("SelfComposedDpEvent")
def _from_self_composed(source: Any, at: _Position) -> ev.Event:
    inner = _import(source.event, at.inner("event"))
    return ev.Repeat(source.count, inner)


@_imports_from("RepeatAndSelectDpEvent")
def _from_repeat_and_select(source: Any, at: _Position) -> ev.Event:
    known = {shape: distribution for distribution, shape in _SHAPES.items()}
    try:
        distribution = known.get(float(source.shape))
    except (TypeError, ValueError):
        raise InvalidInput(f"`shape` must be a number; it is {source.shape!r}.") from None
    if distribution is None:
        raise _no_counterpart(
            at,
            "RepeatAndSelectDpEvent",
            f"shape {source.shape} is a truncated negative binomial number of runs, and here that "
            "number is Poisson (shape infinity), geometric (1) or logarithmic (0)",
        )
    mean = validate.positive(mean=source.mean)
    if distribution != "poisson" and mean < 1.0:
        raise InvalidInput(
            f"`mean` must be 1 or above for a {distribution} number of runs; it is {mean}.",
            next_step="Give `mean` a value in that range.",
        )
    return ev.BestOf(distribution, mean, _import(source.event, at.inner("event")))


# --- shared -------------------------------------------------------------------------------------


def _dp_events() -> Any:
    """Return the module of dp_accounting's events: loaded when needed, as it takes a second."""
    from dp_accounting import dp_event

    return dp_event


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


def _no_counterpart(at: _Position, name: str, why: str) -> Unsupported:
    return Unsupported(
        f"`{at.path}`, {with_article(name)}, cannot be exchanged with dp_accounting.",
        f"The reason: {why}.",
        "Leave that part out, or state it in a form that both sides know.",
    )
