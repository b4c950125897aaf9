"""What a plan is made of: phases whose noise is to be listed, and phases whose noise is known.

Planned phases, whose noise is known, prove something to each observer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from .. import events as ev
from .. import validate
from ..account import account
from ..errors import InvalidInput, kind_of
from ..guarantee import Guarantee, Step
from ..neighbours import Neighbours

MakeEvent: TypeAlias = Callable[[float], ev.Event] | ev.Event
"""The event of one round: a function of the noise multiplier, or fixed."""


@dataclass(frozen=True)
class Phase:
    """A release that is made `rounds` times, with noise that the plan has to find.

    `make_event(noise)` is the event of one round; its epsilon must not grow with the noise.  An
    event in its place is a release whose noise is fixed, which the plan only pays for.
    `observer` (one name or several) is whoever sees the release *or anything that depends on it*:
    a phase whose result steers later phases is seen by all who see those.  `views` says what
    others see of the same release, as events of the same noise (a server that sees each share of
    the noise, say).  `weight` is the noise relative to other phases, for the split `weights`;
    `scale` turns a noise multiplier into the noise that a cost counts (a clip norm, say).
    `counted` is how many of the rounds are of one unit at most, by a public schedule that is fixed
    before the first release; None: all of them.  `draws` is how often noise is drawn in one round,
    as in a pass of several batches: a cost counts every draw.  `blocks` is for correlated noise:
    the event is that of a whole block of rounds, of which there are so many; None: of one round.

    Range: `rounds` and `draws` 1 or above, `rounds` a multiple of `blocks`, `counted` from 1 to
    `rounds`, `weight` and `scale` above 0.  Raises `InvalidInput`.
    """

    name: str
    make_event: MakeEvent
    rounds: int
    observer: str | Sequence[str] = "model"
    weight: float = 1.0
    scale: float = 1.0
    views: Mapping[str, MakeEvent] = field(default_factory=dict)
    counted: int | None = None
    draws: int = 1
    blocks: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInput("A phase needs a name.", next_step="Give `name` some text.")
        validate.count(rounds=self.rounds)
        validate.count(draws=self.draws)
        require_counted(self.name, self.rounds, self.counted)
        require_blocks(self.name, self.rounds, self.counted, self.blocks)
        validate.positive(weight=self.weight)
        validate.positive(scale=self.scale)
        observers = (self.observer,) if isinstance(self.observer, str) else self.observer
        listed = isinstance(observers, (list, tuple)) and len(observers) > 0
        if not listed or not all(isinstance(name, str) and name.strip() for name in observers):
            raise InvalidInput(
                f"`observer` of phase {self.name!r} must be one or more names; it is "
                f"{observers!r:.60}.",
                next_step="Name who sees the release, for example 'model'.",
            )
        if not all(isinstance(name, str) and name.strip() for name in self.views):
            raise InvalidInput(
                f"`views` of phase {self.name!r} must be by name; it is {list(self.views)!r:.60}.",
                next_step="Name who sees the release, for example 'server'.",
            )
        # One observer sees one thing of a release: the event itself, or a view of its own.
        in_both = set(observers) & set(self.views)
        if in_both:
            raise InvalidInput(
                f"Phase {self.name!r} names {sorted(in_both)[0]!r} as observer and in `views`.",
                next_step="Name it in one of them.",
            )
        for event in (self.make_event, *self.views.values()):
            if not callable(event) and not isinstance(event, ev.Event):
                raise InvalidInput(
                    f"`make_event` of phase {self.name!r} must be callable, or an event; it is "
                    f"{kind_of(event)}.",
                    next_step="Give a function from the noise multiplier to an event.",
                )

    @property
    def fixed(self) -> bool:
        """Whether its noise is fixed."""
        return isinstance(self.make_event, ev.Event)

    @property
    def seen(self) -> dict[str, MakeEvent]:
        """What each observer sees, as a function of the noise."""
        observers = (self.observer,) if isinstance(self.observer, str) else self.observer
        return {**dict.fromkeys(observers, self.make_event), **self.views}

    def at(self, noise: float) -> PlannedPhase:
        """Return the phase with its noise."""
        views = {
            observer: self.event_at(make_event, noise) for observer, make_event in self.seen.items()
        }
        event = self.event_at(self.make_event, noise)
        # A fixed event has no noise multiplier to show.
        shown = None if self.fixed else noise
        return PlannedPhase(self.name, shown, event, self.rounds, views, self.counted, self.blocks)

    @property
    def events_of_a_unit(self) -> int:
        """How many of its events are of one unit at most."""
        return events_of_a_unit(self.rounds, self.counted, self.blocks)

    def event_at(self, make_event: MakeEvent, noise: float) -> ev.Event:
        """Return the event at this noise; raise `InvalidInput` if it is none."""
        event = make_event if isinstance(make_event, ev.Event) else make_event(noise)
        if not isinstance(event, ev.Event):
            raise InvalidInput(
                f"`make_event` of phase {self.name!r} must return an event; it returned "
                f"{kind_of(event)}."
            )
        return event

    def made(self, make_event: MakeEvent, noise: float) -> ev.Event:
        """Return `event_at`: its earlier name, which callers of the front door may use."""
        return self.event_at(make_event, noise)


@dataclass(frozen=True)
class PlannedPhase:
    """A phase with its noise: `event` is one round, `views` one round as each observer sees it.

    `noise_multiplier` is None where the event was fixed.  Of its `rounds`, at most `counted` are of
    one unit, and so many it pays for; None: all of them.  With `blocks` the event is that of a
    whole block of rounds (`Phase`).
    """

    name: str
    noise_multiplier: float | None
    event: ev.Event
    rounds: int
    views: Mapping[str, ev.Event]
    counted: int | None = None
    blocks: int | None = None

    @property
    def events(self) -> int:
        """How many events it consists of: one for each round, or for each block of rounds."""
        return self.rounds if self.blocks is None else self.blocks

    @property
    def events_of_a_unit(self) -> int:
        """How many of its events are of one unit at most."""
        return events_of_a_unit(self.rounds, self.counted, self.blocks)

    @property
    def observers(self) -> tuple[str, ...]:
        """Who sees it, in some way."""
        return tuple(self.views)

    def seen_by(self, observer: str, rounds: int | None = None) -> ev.Event | None:
        """Return what an observer sees of so many rounds, or blocks of them; None if nothing.

        Without a number: of all that are of one unit.
        """
        count = self.events_of_a_unit if rounds is None else rounds
        view = self.views.get(observer)
        return None if view is None or count == 0 else ev.Repeat(count, view)


def checked(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Return the phases; raise `InvalidInput` if there are none or two have one name."""
    listed = tuple(phases)
    if not listed or not all(isinstance(phase, Phase) for phase in listed):
        raise InvalidInput(
            "A plan needs a list of one or more phases.",
            next_step="Give [Phase('train', lambda noise: Gaussian(noise), 10)].",
        )
    if all(phase.fixed for phase in listed):
        raise InvalidInput(
            "Every phase is fixed, so there is no noise to find.",
            "A fixed event has a cost, which `account` states.",
            "Give at least one phase a function of the noise multiplier.",
        )
    refuse_twice([phase.name for phase in listed])
    return listed


def require_counted(name: str, rounds: int, counted: int | None) -> None:
    """Raise `InvalidInput` where more rounds are of one unit than there are, or none."""
    if counted is not None and validate.count(counted=counted) > rounds:
        raise InvalidInput(
            f"`counted` of phase {name!r} must be at most {rounds:,}; it is {counted:,}.",
            "It is how many of the rounds are of one unit at most.",
            "Leave it out where every round is of every unit.",
        )


def require_blocks(name: str, rounds: int, counted: int | None, blocks: int | None) -> None:
    """Raise `InvalidInput` where rounds are not whole blocks, or are counted by silo as well."""
    if blocks is None:
        return
    if rounds % validate.count(blocks=blocks) or counted is not None:
        raise InvalidInput(
            f"The {rounds:,} rounds of phase {name!r} must be {blocks:,} blocks of equal length, "
            "of which every unit counts all.",
            "One event is paid for each block.",
            "Give a number of rounds that is a multiple of `blocks`, and no `counted`.",
        )


def events_of_a_unit(rounds: int, counted: int | None, blocks: int | None) -> int:
    """Return how many events are of one unit at most: of its rounds, or of blocks of rounds."""
    if blocks is not None:
        return blocks
    return rounds if counted is None else counted


def require_single_units(phases: Sequence[Phase | PlannedPhase], group: int) -> None:
    """Raise `InvalidInput` where a schedule is counted for units of many records."""
    for phase in phases:
        if phase.counted is not None and group > 1:
            raise InvalidInput(
                f"Phase {phase.name!r} counts the rounds of one silo, and a unit has {group:,} "
                "records.",
                "Each record of a unit may lie in another silo, so all rounds touch it.",
                "Leave `counted` out, or promise for single records.",
            )


def refuse_twice(names: Sequence[str]) -> None:
    """Raise `InvalidInput` where two phases have one name."""
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"Two phases are called {name!r}.", next_step="Give each phase a name of its own."
            )


def composed(phases: Sequence[PlannedPhase], observer: str, group: int) -> ev.Event:
    """Return all that an observer sees, as a unit of `group` records sees it."""
    return grouped([part for phase in phases if (part := phase.seen_by(observer))], group)


def grouped(parts: Sequence[ev.Event], group: int) -> ev.Event:
    """Return the composition of events, as a unit of `group` records sees it."""
    event = parts[0] if len(parts) == 1 else ev.Compose(tuple(parts))
    return event if group == 1 else ev.Group(group, event)


def observers_of(seen: Sequence[Iterable[str]]) -> tuple[str, ...]:
    """Return all observers, the one that sees most phases first; `seen` lists them by phase."""
    by_phase = [tuple(names) for names in seen]
    names = list(dict.fromkeys(name for names in by_phase for name in names))
    return tuple(sorted(names, key=lambda name: -sum(name in phase for phase in by_phase)))


def proven(
    phases: Sequence[PlannedPhase],
    observer: str,
    *,
    delta: float,
    relation: Neighbours,
    group: int,
    known: dict[ev.Event, Guarantee] | None = None,
) -> Guarantee:
    """Return the guarantee of all that an observer sees, with the scope that the plan gives it.

    `known` keeps what each event proves at this `delta` and relation: observers who see the same
    are accounted for once.
    """
    seen, accounted = composed(phases, observer, group), {} if known is None else known
    if seen not in accounted:
        accounted[seen] = account(seen, delta=delta, neighbours=relation)
    guarantee = accounted[seen]
    # The scope states what was counted, and that the rest reaches this observer in no way.
    names = [phase.name for phase in phases if observer in phase.views]
    hidden = [phase.name for phase in phases if observer not in phase.views]
    scope = Step(
        "composition",
        f"What {observer!r} sees: {', '.join(names)}.",
        "by the definition of the plan",
        (
            "the plan is fixed before the first release",
            *(f"nothing it sees depends on what {name!r} released" for name in hidden),
            *(
                f"by a public schedule, at most {phase.counted:,} of {phase.rounds:,} rounds of "
                f"{phase.name!r} depend on the silo of one unit"
                for phase in phases
                if phase.counted is not None
            ),
        ),
    )
    return replace(guarantee, observer=observer, derivation=(scope, *guarantee.derivation))


def of_units(guarantees: Mapping[str, Guarantee], unit: str) -> dict[str, Guarantee]:
    """Return guarantees that call a record by the name of the unit that it stands for."""
    return {
        who: replace(known, unit=unit_named(known.unit, unit)) for who, known in guarantees.items()
    }


def unit_named(counted: str, unit: str) -> str:
    """Return what `unit_of` says of records, said of units."""
    if not isinstance(unit, str) or not unit.strip():
        raise InvalidInput("A unit needs a name.", next_step="Give `unit` a name such as 'user'.")
    return counted.replace("record", unit)
