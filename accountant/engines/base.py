"""What every engine offers, and the registry through which it learns about events."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from .. import events as ev
from ..composition import Composition
from ..errors import Unsupported
from ..event_tree import events_inside
from ..guarantee import Bounds, Neighbours, Step

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What one engine found: the bounds of the quantity asked for, and the steps to it.

    `lower_of_class`: the lower end is that of the worst mechanism of a class (`Guarantee`).
    """

    bounds: Bounds
    steps: tuple[Step, ...]
    warnings: tuple[str, ...] = ()
    lower_of_class: bool = False


class Engine(Protocol):
    """One way of turning leaves into numbers.

    Both questions raise `Unsupported` when a leaf, or the relation, has no sound mathematics in
    this engine.  An answer's upper end is never below the truth, its lower end never above it;
    an engine without a lower bound answers 0.
    """

    @property
    def name(self) -> str:
        """The word that `account(..., engine=...)` takes."""

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at which `composition` is (epsilon, delta)-DP."""

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at which `composition` is (epsilon, delta)-DP."""


class Registry(Generic[T]):
    """A table from event type to the one function by which an engine understands that type.

    `homes` names modules, relative to `package`, that enter more types when they are loaded, which
    is when such an event is first met.
    """

    def __init__(
        self, engine: str, homes: Mapping[type[ev.Event], str] | None = None, package: str = ""
    ) -> None:
        self._engine = engine
        self._homes = dict(homes or {})
        self._package = package
        self._functions: dict[type[ev.Event], Callable[..., T]] = {}

    def register(
        self, event_type: type[ev.Event]
    ) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Return a decorator that enters a function for `event_type`."""

        def enter(function: Callable[..., T]) -> Callable[..., T]:
            self._functions[event_type] = function
            return function

        return enter

    @property
    def types(self) -> frozenset[type[ev.Event]]:
        """The types that were entered so far."""
        return frozenset(self._functions)

    def __call__(self, event: ev.Event, neighbours: Neighbours) -> T:
        """Return what the function for this event's type makes of it; else `Unsupported`."""
        # A module enters its types when it is loaded: here, on the first event of such a type.
        home = self._homes.get(type(event))
        if home is not None and type(event) not in self._functions:
            importlib.import_module(home, self._package)
        function = self._functions.get(type(event))
        if function is None:
            raise Unsupported(
                f"The {self._engine} engine has no mathematics for `{event.type}`.",
                next_step="Leave the choice of the engine to privplan, or see: "
                "privplan explain engines",
            )
        return function(event, neighbours)


@contextlib.contextmanager
def guarded(engine: str) -> Iterator[None]:
    """Turn arithmetic that breaks down, at parameters beyond all use, into `Unsupported`."""
    import numpy as np

    try:
        # What overflows here is caught as a number that is not finite, before it can be used.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (ArithmeticError, MemoryError) as error:
        raise Unsupported(
            f"The numbers of this event are too extreme for the {engine} engine.",
            f"Its arithmetic broke down ({type(error).__name__}), so it gives no number.",
            "Check the noise, the rates and the counts.",
        ) from error


def contribution(neighbours: Neighbours) -> int:
    """Return by how many contribution bounds a sum can move: 2 under replace-one, else 1."""
    return 2 if neighbours == "replace-one" else 1


def refuse_unattained(composition: Composition, engine: str) -> None:
    """Raise `Unsupported` where not all that a leaf releases is seen.

    For engines whose lower end assumes that it is.
    """
    if not composition.fully_observed:
        raise Unsupported(
            f"The {engine} engine cannot treat the best of several runs.",
            "It bounds what all runs release, from below too, and only one of them is seen.",
            "Use pld or rdp, or leave the choice of the engine to privplan.",
        )


SIZED_RELEASES: Final = (
    ev.FixedSize,
    ev.WithReplacement,
    ev.TruncatedPoisson,
    ev.ShuffledBatches,
    ev.Shuffle,
    ev.SampledShuffle,
)
"""Releases that say how many units they hold, which is not known of a sample."""


def sized_release(event: ev.Event) -> ev.Event | None:
    """Return a release that says how many units it holds, at any depth; None where there is none.

    >>> sized_release(ev.ClientSampled(0.5, ev.Compose([ev.Shuffle(9, ev.Local(1.0))]))).type
    'shuffle'
    """
    return next((each for each in events_inside(event) if isinstance(each, SIZED_RELEASES)), None)


def sampled_instead(inner: ev.Event) -> str:
    """Return what to do where no engine knows a Poisson sample of a release.

    A release on a sample is a mixture, over who else is drawn, of the release with the unit and
    without it, so it reveals no more than the release itself; unless that says how many units
    take part.
    """
    # Taken off the sample, such a release would count other units than those that it names.
    if sized_release(inner) is not None:
        return "Sample the innermost release, if that is what runs."
    return "Account for it without sampling: a sample reveals no more than that."


def cut_instead(inner: ev.Event) -> str:
    """Return what to do where no engine knows a sample that is cut at a size.

    A unit that joins a full sample drives another one out, so the release is that of a replaced
    unit, and not that of one that comes or goes.
    """
    if sized_release(inner) is not None:
        return "Sample the innermost release, if that is what runs."
    return (
        "Account for it without sampling, under replace-one: a unit that joins a full sample "
        "drives another one out."
    )


def drawn_instead(batch: int) -> str:
    """Return what to do where no engine knows a release on `batch` draws with replacement.

    A unit that is drawn j times contributes j times, and takes the places of other units.
    """
    if batch == 1:
        return "Account for it without sampling, under replace-one: it is drawn at most once."
    return (
        f"Account for a group of {batch:,} without sampling, under replace-one: a unit that is "
        "drawn several times contributes as often."
    )


def require_both_drawn(batch: int, population: int, neighbours: Neighbours) -> None:
    """Raise `Unsupported` where a batch cannot be drawn from the smaller of two data sets."""
    if batch == population and neighbours == "add-remove":
        raise Unsupported(
            f"A batch of {batch:,} cannot be drawn from {population:,} units of which one is gone.",
            "Both data sets must hold as many units as the batch has.",
            "Leave out the sampling if every unit takes part, or ask under replace-one or "
            "zero-out.",
        )
