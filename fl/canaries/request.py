"""What a carrier of canaries is asked, and the observations that it returns, which are checked.

A system whose declaration names a carrier (`fl.declarations.declaration.Declaration.carrier`) can
be rehearsed and attacked.  A carrier is one function, from `RehearsalRequest` to
`CanaryObservations`: it builds the system of the settings, puts canaries into it, lets it make its
rounds, and returns what one observer saw of each of them.  It judges nothing; scores, thresholds
and verdicts are the audit's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.plan import Plan
from ...accountant.randomness import Streams
from ..frame.opening import OpeningStatement
from ..observers.names import MODEL, SERVER, SILO
from ..observers.words import phrase
from ..settings.schema import Settings
from .memory_log import RecordingAggregator

_ATTACKER: Final = 20
"""Names the stream of the attacker's own randomness: coins, signs and columns."""

OBSERVER_SILO: Final = 0
"""The index of the observing silo, where the observer is a silo."""

REHEARSABLE_OBSERVERS: Final = (MODEL, SERVER, SILO)
"""The observers that a rehearsal can have, where a carrier names no others."""


@dataclass(frozen=True)
class RehearsalRequest:
    """A request to rehearse a system with canaries before one observer.

    - `settings`: those of `fl.canaries.rehearsal_settings`, without private moments.
    - `observer`: whose observations are returned; a carrier refuses what it cannot rehearse
      (`require_observer`).
    - `canaries`: how many units are put in or left out, 2 or above; `silos`: how many silos.
    - `rounds`: fewer rounds than planned; None: all.
    - `seed`: makes the rehearsal repeatable; None: the operating system decides.
    - `real`: public records train with the canaries, where the carrier can do that.
    - `note`: what was left out of the settings.
    """

    settings: Settings
    observer: str
    canaries: int
    silos: int
    rounds: int | None = None
    seed: int | None = None
    real: bool = False
    note: tuple[str, ...] = ()

    @property
    def sees_each_silo(self) -> bool:
        """Whether the observer sees what each silo sends by itself."""
        return self.observer == SERVER and self.settings.security.aggregation == "plain"

    @property
    def holders(self) -> IntArray:
        """The silos in which units may lie: there in every round, and not the observer's."""
        first = OBSERVER_SILO + 1 if self.observer == SILO else 0
        return np.arange(first, self.missing.start)

    @property
    def missing(self) -> range:
        """The silos that send nothing in any round: as many as may be missing."""
        return range(self.silos - self.settings.security.dropouts, self.silos)

    @property
    def shares(self) -> int:
        """How many silos' shares of noise are in what the observer does not know of a sum."""
        return 1 if self.sees_each_silo else self.missing.start - (self.observer == SILO)

    @property
    def silo_of(self) -> IntArray:
        """The silo of each unit that lies in one: every holder in its turn, (m,)."""
        return np.asarray(self.holders[np.arange(self.canaries) % len(self.holders)])

    def arriving(
        self, recorder: RecordingAggregator, parts: FloatArray
    ) -> list[tuple[IntArray, FloatArray]]:
        """Return the integers that reach the observer, each with the weights of n units in it.

        `parts` (n, silos) are the weights of the silos where each is seen; a sum has weight 1.
        """
        if self.sees_each_silo:
            return [(recorder.sent[silo], parts[:, silo]) for silo in self.holders.tolist()]
        assert recorder.sum is not None
        # Modulo 2^64, as the sum is.
        known = recorder.sent[OBSERVER_SILO] if self.observer == SILO else 0
        return [(recorder.sum.total - known, np.ones(len(parts)))]

    def rng(self) -> np.random.Generator:
        """Return the attacker's randomness: coins, signs and columns.  It protects nobody."""
        if self.seed is None:
            return np.random.default_rng()
        return np.random.default_rng([self.seed, _ATTACKER])

    def streams(self, run: int = 0) -> Streams:
        """Return the protective randomness of the rehearsal's own run number `run`, from 0."""
        return Streams.secure() if self.seed is None else Streams.seeded(self.seed, run)


@dataclass(frozen=True, eq=False)
class CanaryObservations:
    """The observations of one observer: one number for each of m canaries in each round.

    - `coins`: (m,), whether the unit was in, by a fair coin of its own (`flip`).
    - `observations`: (rounds x looks, m), one number for each unit in each look at a round: what
      the observer saw in the unit's direction, with its sign of the round taken out, in units of
      the noise that is claimed, so that honest noise has variance 1.
    - `shift`: its mean, as claimed, where a unit is in and takes part; where it is out the mean is
      0, or -shift under `replace-one`.
    - `rate`: the probability with which a unit takes part in a round, as far as this observer does
      not know the sample; in (0, 1].
    - `pattern`: (rounds x looks,), by how much of `shift` a unit that takes part moves each row;
      None: by all of it.
    - `plan`, `opening`: those of the system that was rehearsed; `rounds`: how many of its rounds
      were made (`simulate_rounds`).
    - `looks`: how many numbers of a round are looked at for each unit: parts of what is released
      whose noise is drawn apart, and which a unit moves alike, each by `shift`.
    - `groups`: (m,), the silo that a unit lies in, -1 where it lies in all; None: in all.
    - `note`: what was assumed, and what was left out, a sentence each.
    - `event`: what is claimed of the rounds, where that is not the plan's own view of the observer.
    - `rehearsable`: the observers that the carrier can rehearse.
    - `partial`: whether a part of the plan is rehearsed by itself, such as what is released before
      the training; what is claimed is then what `event` proves.
    - `share`: how far units are told apart, as a share of what the claim allows; in (0, 1].

    Raises `InvalidInput` for arrays that do not fit one another, a rate or a share outside (0, 1]
    and a shift that is negative or not finite: of such a thing no test could be made.
    """

    coins: BoolArray
    observations: FloatArray
    shift: float
    rate: float
    plan: Plan
    opening: OpeningStatement
    rounds: int
    groups: IntArray | None = None
    note: tuple[str, ...] = ()
    event: ev.Event | None = None
    looks: int = 1
    rehearsable: tuple[str, ...] = REHEARSABLE_OBSERVERS
    partial: bool = False
    pattern: FloatArray | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        units, rows = len(self.coins), self.rounds * validate.count(looks=self.looks)
        seen, pattern = self.observations, self.pattern
        moved = pattern is None or (pattern.shape == (rows,) and bool(np.isfinite(pattern).all()))
        numbers = f"({rows}, {units}), one number for each unit in each look at a round"
        # A carrier is another package's code: what it returns is checked before any test.
        for name, fits, wanted in (
            ("coins", self.coins.shape == (units,) and self.coins.dtype == bool, "(m,) of bools"),
            ("observations", seen.shape == (rows, units), numbers),
            ("pattern", moved, f"({rows},), one finite number for each look at a round"),
            ("groups", self.groups is None or self.groups.shape == (units,), f"({units},)"),
        ):
            if not fits:
                raise _wrong(name, wanted, "Units would be taken for one another.")
        validate.non_negative(shift=self.shift)
        wanted = "a number in (0, 1]; it is 0"
        if validate.probability(rate=self.rate) == 0.0:
            raise _wrong("rate", wanted, "A unit that never takes part shows nothing.")
        if validate.probability(share=self.share) == 0.0:
            raise _wrong("share", wanted, "Units that cannot be told apart show nothing.")


def _wrong(name: str, wanted: str, why: str) -> InvalidInput:
    said = f"`{name}` of what a carrier saw must be {wanted}."
    return InvalidInput(said, why, "Correct the carrier of the system.")


class Carrier(Protocol):
    """The function that puts canaries into a system and returns what an observer sees of them.

    A declaration names it as `module:attribute`.  Its parts are here for every package:
    `canary_training` where units enter by training, `canary_rows` where they enter by their rows,
    and `CanaryHarness` for all else.  It goes through the system's own clip, weights, sample and
    noise: a canary that is put in after the clip would not show that the clip is missing.

    It draws coins from `request.rng()` and noise from `request.streams()`, and from nothing else,
    so that a seeded rehearsal repeats; it reads no private record and writes nothing.  It raises
    `InvalidInput` for an observer that the plan does not know, and `Unsupported`, with what to do
    instead, for what it cannot rehearse.
    """

    def __call__(self, request: RehearsalRequest, /) -> CanaryObservations:
        """Return what `request.observer` sees of `request.canaries` units."""


def require_observer(
    plan: Plan, observer: str, rehearsable: Sequence[str] = REHEARSABLE_OBSERVERS
) -> None:
    """Raise `InvalidInput` for an observer that the plan does not know.

    Raises `Unsupported` for one that is not `rehearsable` by the carrier.
    """
    validate.choice(tuple(plan.guarantees), observer=observer)
    if observer not in rehearsable:
        raise Unsupported(
            f"What {phrase(observer)} sees is not rehearsed with canaries.",
            "What it holds of a unit, and what its weights tell, would have to be staged for each "
            "silo.",
            f"Give one of {', '.join(rehearsable)} as `observer`.",
        )


def refuse_real_users(request: RehearsalRequest, why: str) -> None:
    """Raise `InvalidInput` where real users were requested with the canaries."""
    if request.real:
        raise InvalidInput(
            f"Nobody trains with the canaries of {request.settings.run.system}.",
            why,
            "Leave `real` out.",
        )
