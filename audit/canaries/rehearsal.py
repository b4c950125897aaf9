"""A rehearsal: the run's settings trained once more, with canaries in the place of units.

How canaries enter a system, and what reaches an observer of them, is the system's own matter
(`fl.canaries.Carrier`, which its declaration names); here it is held against what is claimed.

**Scores** of canaries from their observations in all rounds: the higher, the likelier in.

ratio     the log-likelihood ratio of the claimed mechanism; the best there is if the claim is true
sum       the sum over rounds; it does not believe in the claim's sample or noise
fitted    the rounds weighted by what separates some canaries best; noise that is used again,
          in whatever pattern, shows as rounds that cancel each other
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import account
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.guarantee import Neighbours, as_neighbours
from ...fl.canaries import (
    PUBLIC_DATASETS,
    CanaryObservations,
    RehearsalRequest,
    by_phase,
    carrier_of,
    rehearsal_settings,
    require_observer,
    rounds_to_simulate,
    silos_of,
)
from ...fl.settings.schema import Settings


def likelihood_ratios(
    observations: FloatArray,
    shift: float,
    rate: float,
    *,
    opposite: bool = False,
    pattern: FloatArray | None = None,
) -> FloatArray:
    """Return the log-likelihood ratio of each unit, in over out, under the claim: (m,).

    With x ~ N(0, 1) where it is out or not drawn, N(shift, 1) where it is in and drawn, and drawn
    with probability `rate` in each round (`opposite`: N(-shift, 1) where it is out and drawn):

        sum over rounds of log(1 - q + q exp(shift x - shift^2 / 2))

    less the same with -shift, if `opposite`.  With a `pattern`, (rows,), the shift of each row is
    so many times `shift`, and the ratio is the matched filter.  Without a shift it is the sum of
    the observations, weighted by the pattern.
    """
    if pattern is not None:
        return _matched(observations, shift, rate, pattern, opposite=opposite)
    if shift == 0.0:
        return np.asarray(observations.sum(axis=0))
    if rate >= 1.0:
        total = observations.sum(axis=0)
        if opposite:
            return np.asarray(2.0 * shift * total)
        # log N(x; shift, 1) / N(x; 0, 1) = shift x - shift^2 / 2, summed over rounds.
        return np.asarray(shift * total - len(observations) * shift * shift / 2.0)
    ratios = np.zeros(observations.shape[1])
    for row in observations:  # round by round, so that no table is made four times
        ratios += _log_mixture(shift * row, shift, rate)
        if opposite:
            ratios -= _log_mixture(-shift * row, shift, rate)
    return ratios


def _matched(
    observations: FloatArray, shift: float, rate: float, pattern: FloatArray, *, opposite: bool
) -> FloatArray:
    """Return `likelihood_ratios` of rows whose shifts differ."""
    if shift == 0.0:
        return np.asarray(pattern @ observations)
    ratios = np.zeros(observations.shape[1])
    # A row that the unit does not move tells nothing of it.
    for row in np.flatnonzero(pattern):
        of_round = observations[row : row + 1]
        ratios += likelihood_ratios(of_round, shift * float(pattern[row]), rate, opposite=opposite)
    return ratios


def fisher_weights(observations: FloatArray, coins: BoolArray) -> FloatArray | None:
    """Return a weight for each round, (rounds,), from units whose coins are known; None if too few.

    Fisher's discriminant: S^-1 (mean of those in - mean of those out), S their common covariance.
    It needs ten units for each round on either side.
    """
    rounds = len(observations)
    into, out = observations[:, coins], observations[:, ~coins]
    if rounds < 2 or min(into.shape[1], out.shape[1]) < 10 * rounds:
        return None
    # Difference of means (rounds,), and the sum of both covariances (rounds, rounds).
    difference = into.mean(axis=1) - out.mean(axis=1)
    spread = np.atleast_2d(np.cov(into)) + np.atleast_2d(np.cov(out))
    # Where noise repeats exactly the matrix has no inverse, and a little more noise gives it one.
    spread += np.eye(rounds) * (1e-9 * float(np.trace(spread)) / rounds)
    try:
        weights: FloatArray = np.linalg.solve(spread, difference)
    except np.linalg.LinAlgError:
        return None
    return weights if np.isfinite(weights).all() else None


def _log_mixture(exponent: FloatArray, shift: float, rate: float) -> FloatArray:
    """Return log(1 - q + q exp(exponent - shift^2 / 2)), for any exponent."""
    # In logarithms: exp(exponent) overflows for a score of 710 or more.
    inside = exponent - shift * shift / 2.0 + math.log(rate)
    return np.asarray(np.logaddexp(inside, math.log1p(-rate)))


MAX_OBSERVATIONS: Final = 2 * 10**8
"""Most canaries x rounds: one observation of each of them in each round is kept in memory."""


@dataclass(frozen=True, eq=False)
class CanaryRehearsal:
    """What an observer saw of canaries that were in or out by fair coins.

    - `coins`: (m,), whether the unit was in.
    - `observations`: (rounds x looks, m), one number for each unit in each of so many looks at a
      round: what the observer saw in the unit's direction, with its sign of the round taken out,
      in units of the noise that is claimed, so that noise has variance 1.
    - `shift`: its mean, as claimed, where a unit is in and takes part; where it is out the mean is
      0, or -shift under `replace-one`.  0 where nothing is claimed.
    - `rate`: the probability with which a unit takes part in a round, as far as this observer does
      not know the sample.
    - `pattern`: (rounds x looks,), by how much of `shift` a unit that takes part moves each row;
      None: by all of it.
    - `groups`: (m,), the silo that a unit lies in, -1 where it lies in all.
    - `event`: what is claimed of all rounds made for this observer, and `claimed` the epsilon that
      it proves at `delta`, certified from above; None where nothing is claimed.
    - `note`: what was assumed, and what was left out.
    - `partial`: whether `event` and `claimed` are those of a part of the plan.
    - `share`: how far units are told apart, as a share of what the claim allows.

    Nothing in it depends on a private record.
    """

    system: str
    observer: str
    unit: str
    neighbours: Neighbours
    delta: float
    event: ev.Event | None
    claimed: float | None
    coins: BoolArray
    observations: FloatArray
    shift: float
    rate: float
    groups: IntArray
    note: tuple[str, ...] = field(default=())
    seeded: bool = False
    looks: int = 1
    partial: bool = False
    pattern: FloatArray | None = None
    share: float = 1.0

    @property
    def canaries(self) -> int:
        """Number of canaries, in or out."""
        return len(self.coins)

    @property
    def rounds(self) -> int:
        """Number of observed rounds."""
        return len(self.observations) // self.looks

    @property
    def opposite(self) -> bool:
        """Whether a unit that is out moves the sum by -shift, as under `replace-one`."""
        return self.neighbours == "replace-one"

    @property
    def shifts(self) -> list[float]:
        """How far a unit that takes part moves each row of observations, as claimed."""
        moved = np.ones(len(self.observations)) if self.pattern is None else self.pattern
        return [self.shift * float(times) for times in moved]

    @cached_property
    def scores(self) -> FloatArray:
        """The log-likelihood ratio of the claim, in over out, of each unit: (m,)."""
        return likelihood_ratios(
            self.observations,
            self.shift,
            self.rate,
            opposite=self.opposite,
            pattern=self.pattern,
        )


def rehearse(
    settings: Settings,
    *,
    canaries: int,
    observer: str = "model",
    rounds: int | None = None,
    seed: int | None = None,
    real: bool = False,
    silos: int | None = None,
) -> CanaryRehearsal:
    """Return what `observer` sees of `canaries` units in the rounds that the settings describe.

    No private record is read, so whatever comes of it may be published.  `rounds` makes fewer
    rounds than planned; what is claimed is then what those prove.  `seed` makes the rehearsal
    reproducible.  With `real` the users of a public data set (digits, breast-cancer) train with
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
    _require_memory(canaries, min(settings.run.rounds, rounds or settings.run.rounds))
    if real and settings.data.name not in PUBLIC_DATASETS:
        raise InvalidInput(
            f"The records of {settings.data.name} are not public.",
            "What is measured with them would be a release of its own.",
            f"Leave `real` out, or rehearse on {' or '.join(PUBLIC_DATASETS)}.",
        )
    places = silos_of(settings, silos)
    rehearsed, note = rehearsal_settings(settings, places)
    asked = RehearsalRequest(rehearsed, observer, canaries, places, rounds, seed, real, note)
    return _rehearsal(asked, carrier_of(rehearsed)(asked))


def _require_memory(canaries: int, rounds: int) -> None:
    if canaries * rounds > MAX_OBSERVATIONS:
        raise InvalidInput(
            f"{canaries:,} canaries in {rounds:,} rounds are too many.",
            f"Canaries x rounds are at most {MAX_OBSERVATIONS:,}: each canary is seen in every "
            "round.",
            "Give fewer `canaries`, or fewer `rounds`.",
        )


def _rehearsal(asked: RehearsalRequest, seen: CanaryObservations) -> CanaryRehearsal:
    plan, claim = seen.plan, seen.opening.claim
    event = seen.event or _claimed_event(asked, seen)
    epsilon = None if event is None else _epsilon(event, seen)
    # An infinite epsilon claims nothing, so there is no event to test against.
    event = None if epsilon is None else event
    groups = np.full(len(seen.coins), -1) if seen.groups is None else seen.groups
    coins_by = "the operating system" if asked.seed is None else f"the seed {asked.seed}"
    return CanaryRehearsal(
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
        looks=seen.looks,
        partial=seen.partial,
        pattern=seen.pattern,
        share=seen.share,
    )


def _epsilon(event: ev.Event, seen: CanaryObservations) -> float | None:
    """Return the epsilon that is claimed: what the event proves, or as published, what is printed.

    What is printed is of all rounds.  None where it is infinite.
    """
    claim = seen.opening.claim
    whole = seen.rounds == rounds_to_simulate(seen.plan) and not seen.partial
    if seen.opening.as_published and whole:
        return claim.epsilon
    # Certified from above: a claim below the truth would be contradicted by a sound run.
    proven = account(event, delta=claim.delta, neighbours=claim.neighbours).epsilon.upper
    return proven if math.isfinite(proven) else None


def _claimed_event(asked: RehearsalRequest, seen: CanaryObservations) -> ev.Event | None:
    """Return what the plan claims of the rounds made, before this observer; None for nothing."""
    require_observer(seen.plan, asked.observer, seen.rehearsable)
    event = seen.plan.seen_by(asked.observer, by_phase(seen.plan, seen.rounds))
    return None if _promises_nothing(event) else event


def _promises_nothing(event: ev.Event) -> bool:
    if isinstance(event, ev.NoGuarantee):
        return True
    if isinstance(event, ev.Compose):
        return any(_promises_nothing(part) for part in event.events)
    inner = getattr(event, "event", None)
    return isinstance(inner, ev.Event) and _promises_nothing(inner)


__all__ = [
    "MAX_OBSERVATIONS",
    "CanaryRehearsal",
    "fisher_weights",
    "likelihood_ratios",
    "rehearse",
]
