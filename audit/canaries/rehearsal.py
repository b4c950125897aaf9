"""A rehearsal: the run's own settings once more, with canaries in the place of people.

Every system is carried by one function, from what is asked to what an observer saw of each canary
(`Carrier`).  A new system needs that function and its line in `CARRIERS`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias, cast

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import account
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.guarantee import Neighbours, as_neighbours
from ...accountant.plan import Plan
from ...accountant.randomness import Streams
from ...fl.frame.phases import shared_out
from ...fl.observers import MODEL, SERVER, SILO, phrase
from ...fl.settings import Settings
from ...fl.system import Opening
from .coins import Flags, Floats, Indices
from .scores import ratios
from .settled import PUBLIC, settled, silos_of

_ATTACKER: Final = 20
"""Names the stream of the attacker's own randomness: coins, signs and columns."""

LARGEST: Final = 2 * 10**8
"""Most canaries x rounds: what is seen of each of them in each round is kept."""


@dataclass(frozen=True)
class Asked:
    """What is rehearsed: settings without private moments, for whom, how many units and rounds."""

    settings: Settings
    observer: str
    canaries: int
    silos: int
    rounds: int | None = None
    seed: int | None = None
    real: bool = False
    note: tuple[str, ...] = ()

    def rng(self) -> np.random.Generator:
        """Return the attacker's randomness: coins, signs and columns.  It protects nobody."""
        if self.seed is None:
            return np.random.default_rng()
        return np.random.default_rng([self.seed, _ATTACKER])

    def streams(self, run: int = 0) -> Streams:
        """Return the protective randomness of the rehearsal's own run number `run`, from 0."""
        return Streams.secure() if self.seed is None else Streams.seeded(self.seed, run)


@dataclass(frozen=True, eq=False)
class Seen:
    """What one observer saw of each of m canaries, as `Rehearsal` describes it.

    `plan` and `opening` are those of the system that was rehearsed, `made` how many of its rounds
    of training were made.  `event` is what is claimed of them, where that is not the plan's own
    view of the observer.
    """

    coins: Flags
    observations: Floats
    shift: float
    rate: float
    plan: Plan
    opening: Opening
    made: int
    groups: Indices | None = None
    note: tuple[str, ...] = ()
    event: ev.Event | None = None


Carrier: TypeAlias = Callable[[Asked], Seen]

REHEARSED: Final = (MODEL, SERVER, SILO)
"""Before whom units can be put in and seen."""

CARRIERS: Final[Mapping[str, tuple[str, str]]] = {
    "fedavg": ("averaging", "carry"),
    "uldp-naive": ("naive", "carry"),
    "uldp-group": ("group", "carry"),
    "uldp-avg": ("weighted", "carry"),
    "uldp-sgd": ("weighted", "carry"),
    "private-weighting": ("hidden", "carry"),
}
"""By system, or by aggregation where that decides: module and function.  Loaded when asked for."""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What an observer saw of canaries that were in or out by fair coins.

    - `coins`: (m,), whether the unit was in.
    - `observations`: (rounds, m), one number for each unit in each round: what the observer saw in
      the unit's direction, with its sign of the round taken out, in units of the noise that is
      claimed, so that noise has variance 1.
    - `shift`: its mean, as claimed, where a unit is in and takes part; where it is out the mean is
      0, or -shift under `replace-one`.  0 where nothing is claimed.
    - `rate`: the probability with which a unit takes part in a round, as far as this observer does
      not know the sample.
    - `groups`: (m,), the silo that a unit lies in, -1 where it lies in all.
    - `event`: what is claimed of all rounds made for this observer, and `claimed` the epsilon that
      it proves at `delta`, certified from above; None where nothing is claimed.
    - `note`: what was assumed, and what was left out.

    Nothing in it depends on a private record.
    """

    system: str
    observer: str
    unit: str
    neighbours: Neighbours
    delta: float
    event: ev.Event | None
    claimed: float | None
    coins: Flags
    observations: Floats
    shift: float
    rate: float
    groups: Indices
    note: tuple[str, ...] = field(default=())
    seeded: bool = False

    @property
    def canaries(self) -> int:
        """How many units there were, in or out."""
        return len(self.coins)

    @property
    def rounds(self) -> int:
        """How many rounds were watched."""
        return len(self.observations)

    @property
    def opposite(self) -> bool:
        """Whether a unit that is out moves the sum the other way."""
        return self.neighbours == "replace-one"

    @cached_property
    def scores(self) -> Floats:
        """The log-likelihood ratio of the claim, in over out, of each unit: (m,)."""
        return ratios(self.observations, self.shift, self.rate, opposite=self.opposite)


def rehearse(
    settings: Settings,
    *,
    canaries: int,
    observer: str = "model",
    rounds: int | None = None,
    seed: int | None = None,
    real: bool = False,
    silos: int | None = None,
) -> Rehearsal:
    """Return what `observer` sees of `canaries` units in the rounds that the settings describe.

    No private record is read, so whatever comes of it may be published.  `rounds` makes fewer
    rounds than planned; what is claimed is then what those prove.  `seed` makes the rehearsal
    reproducible.  With `real` the users of a public data set (digits, breast-cancer) train beside
    the canaries.  `silos` is asked for where neither settings nor data set fix it.

    Raises `InvalidInput` for an observer that the plan does not know, too few canaries and `real`
    with data that are not public, `Unsupported` for a system that cannot be rehearsed, and what
    the system raises.
    """
    validate.count(canaries=canaries)
    if canaries < 2:
        raise InvalidInput(
            "A rehearsal needs 2 canaries or more.",
            "Some must be in and some out.",
            "Give `canaries` in the hundreds, or more.",
        )
    if rounds is not None:
        validate.count(rounds=rounds)
    if seed is not None:
        validate.count_from(0, seed=seed)
    _require_room(canaries, min(settings.run.rounds, rounds or settings.run.rounds))
    if real and settings.data.name not in PUBLIC:
        raise InvalidInput(
            f"The records of {settings.data.name} are not public.",
            "What is measured beside them would be a release of its own.",
            f"Leave `real` out, or rehearse on {' or '.join(PUBLIC)}.",
        )
    places = silos_of(settings, silos)
    own, note = settled(settings, places)
    asked = Asked(own, observer, canaries, places, rounds, seed, real, note)
    return _rehearsal(asked, carrier(own)(asked))


def carrier(settings: Settings) -> Carrier:
    """Return what carries the system of these settings.

    Raises `Unsupported` for a system that none does.
    """
    system, aggregation = settings.run.system, settings.security.aggregation
    name = aggregation if aggregation in CARRIERS else system
    if name not in CARRIERS:
        raise Unsupported(
            f"{system} cannot be rehearsed with canaries.",
            "Nothing here says how one of its units is put in and seen.",
            f"Rehearse one of {', '.join(sorted(CARRIERS))}.",
        )
    module, function = CARRIERS[name]
    return cast("Carrier", getattr(importlib.import_module(f".{module}", __package__), function))


def require_observer(plan: Plan, observer: str) -> None:
    """Raise `InvalidInput` for an observer that the plan does not know.

    Raises `Unsupported` for one that nobody rehearses.
    """
    validate.choice(tuple(plan.guarantees), observer=observer)
    if observer not in REHEARSED:
        raise Unsupported(
            f"What {phrase(observer)} sees is not rehearsed with canaries.",
            "What it holds of a unit, and what its weights tell, would have to be staged for each "
            "silo.",
            f"Give one of {', '.join(REHEARSED)} as `observer`.",
        )


def _require_room(canaries: int, rounds: int) -> None:
    if canaries * rounds > LARGEST:
        raise InvalidInput(
            f"{canaries:,} canaries in {rounds:,} rounds are too many.",
            f"Canaries x rounds are at most {LARGEST:,}: each canary is seen in every round.",
            "Give fewer `canaries`, or fewer `rounds`.",
        )


def _rehearsal(asked: Asked, seen: Seen) -> Rehearsal:
    plan, claim = seen.plan, seen.opening.claim
    event = seen.event or _claimed_event(asked, seen)
    epsilon = None if event is None else _epsilon(event, seen)
    event = None if epsilon is None else event
    groups = np.full(len(seen.coins), -1) if seen.groups is None else seen.groups
    coins_by = "the operating system" if asked.seed is None else f"the seed {asked.seed}"
    return Rehearsal(
        system=asked.settings.run.system,
        observer=asked.observer,
        unit=claim.unit,
        neighbours=as_neighbours(plan.neighbours),
        delta=claim.delta,
        event=event,
        claimed=epsilon,
        coins=seen.coins,
        observations=seen.observations,
        shift=seen.shift if event is not None else 0.0,
        rate=seen.rate,
        groups=groups.astype(np.int64),
        note=(
            "a rehearsal of the settings with canaries; the released model was made by another run",
            f"one fair coin for each unit, from {coins_by}",
            *asked.note,
            *seen.note,
        ),
        seeded=asked.seed is not None,
    )


def _epsilon(event: ev.Event, seen: Seen) -> float | None:
    """Return the epsilon that is claimed: what the event proves, or as published, what is printed.

    What is printed is of all rounds.  None where it is infinite.
    """
    claim = seen.opening.claim
    planned = sum(phase.rounds for phase in seen.plan.phases)
    if seen.opening.as_published and seen.made == planned:
        return claim.epsilon
    proven = account(event, delta=claim.delta, neighbours=claim.neighbours).epsilon.upper
    return proven if math.isfinite(proven) else None


def _claimed_event(asked: Asked, seen: Seen) -> ev.Event | None:
    """Return what the plan claims of the rounds made, before this observer; None for nothing."""
    require_observer(seen.plan, asked.observer)
    event = seen.plan.seen_by(asked.observer, shared_out(seen.plan.phases, seen.made))
    return None if _promises_nothing(event) else event


def _promises_nothing(event: ev.Event) -> bool:
    if isinstance(event, ev.NoGuarantee):
        return True
    if isinstance(event, ev.Compose):
        return any(_promises_nothing(one) for one in event.events)
    inner = getattr(event, "event", None)
    return isinstance(inner, ev.Event) and _promises_nothing(inner)


__all__ = [
    "CARRIERS",
    "Asked",
    "Carrier",
    "Rehearsal",
    "Seen",
    "carrier",
    "rehearse",
    "require_observer",
]
