"""A run before it is begun: what each observer would learn of it, and what would lower that.

Nothing is written and nothing is drawn from private data but the public shape of a federation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...accountant.errors import PrivplanError
from ...accountant.guarantee import Bounds
from ..frame.opening import Aggregation
from ..frame.phases import last_round, training_phase
from ..frame.private_system import PrivateSystem
from ..frame.system import System, build
from ..observers.assumptions import assumptions_of
from ..observers.stated_assumptions import reach_assumptions
from ..settings.schema import Settings, circumstances_of
from .preparation import local_of, prepare, require_small_delta
from .prepared_run import PreparedRun

WITH_RECORDS_SUFFIX: Final = "-with-records"

DOUBLE_NOISE: Final = "twice the noise"
HALF_ROUNDS: Final = "half the rounds"

_STRICTLY_LOWER_FACTOR: Final = 1.0 - 1e-9
"""Epsilon that differs by rounding alone is not lower."""

_MAX_SUGGESTED_SLOTS: Final = 256

_STRONGER_AGGREGATION: Final[Mapping[str, Aggregation]] = {
    "plain": "masked",
    "masked": "private-weighting",
}
"""One step on in what is kept from the server; `shares` has none, and a peer learns there what a
silo does under masks."""


@dataclass(frozen=True)
class Change:
    """Another setting of the same run, and the epsilon that one observer would have under it."""

    name: str
    epsilon: float


@dataclass(frozen=True)
class ObserverForecast:
    """What one observer would learn of a run.

    `rests_on` is what the number supposes, `lowered_by` the change that lowers it most.
    """

    observer: str
    epsilon: Bounds
    rests_on: tuple[str, ...]
    lowered_by: Change | None


@dataclass(frozen=True, eq=False)
class Forecast:
    """A run that was planned and not begun.

    `noise_multiplier` is that of the training, None for a run without noise.
    """

    prepared: PreparedRun
    noise_multiplier: float | None
    observers: tuple[ObserverForecast, ...]

    @property
    def rounds(self) -> int:
        """How many rounds the plan holds."""
        return self.prepared.rounds


def forecast(settings: Settings) -> Forecast:
    """Return what a run would prove to each observer, without beginning it.

    Every change keeps the noise multiplier that was given or found, unless it is the change.
    Raises as `prepare`, and for a delta that a run would refuse (`require_small_delta`).
    """
    prepared = prepare(settings)
    require_small_delta(prepared)
    noise = training_phase(prepared.plan.phases).noise_multiplier
    changes = [] if noise is None or not prepared.promises else [*_changed(prepared, noise)]
    return Forecast(
        prepared,
        noise,
        tuple(
            ObserverForecast(
                observer,
                guarantee.epsilon,
                all_assumptions(prepared, observer, guarantee.epsilon.upper),
                _best(observer, guarantee.epsilon.upper, changes),
            )
            for observer, guarantee in prepared.plan.guarantees.items()
        ),
    )


def all_assumptions(prepared: PreparedRun, observer: str, epsilon: float) -> tuple[str, ...]:
    """Return what a number rests on, with what its system assumes; nothing where there is none."""
    if math.isinf(epsilon):
        return ()
    known = replace(
        circumstances_of(prepared.settings, prepared.federation.silos),
        each=told_every_message(prepared.system),
    )
    return (*assumptions_of(observer, known), *_assumed(prepared.system, observer))


def told_every_message(system: System) -> frozenset[str]:
    """Return the observers that are counted as if every message of a round reached them."""
    stated = system.stated_reaches() if isinstance(system, PrivateSystem) else None
    return frozenset(name for name, reach in (stated or {}).items() if reach.sees == "each")


def _assumed(system: System, observer: str) -> tuple[str, ...]:
    """Return what is stated to reach an observer supposes, as an audit will say of the log."""
    if not isinstance(system, PrivateSystem):
        return ()
    opened = system.opening()
    return reach_assumptions(system.stated_reaches(), observer, opened.aggregation, opened.security)


def _best(
    observer: str, epsilon: float, changes: list[tuple[str, Mapping[str, float]]]
) -> Change | None:
    """Return the change under which an observer learns least; None where none lowers it.

    Where a changed plan says nothing apart of who holds a part of the unit, who holds nothing of it
    stands for both; of whom else it is silent, nothing is said.
    """
    without = observer.removesuffix(WITH_RECORDS_SUFFIX)
    lowered = [
        Change(name, upper)
        for name, epsilons in changes
        if (upper := epsilons.get(observer, epsilons.get(without, math.inf)))
        < epsilon * _STRICTLY_LOWER_FACTOR
    ]
    return min(lowered, key=lambda change: change.epsilon, default=None)


def _changed(prepared: PreparedRun, noise: float) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield every change that this system takes, with the epsilon of each observer under it."""
    privacy = replace(prepared.settings.privacy, epsilon=None, noise_multiplier=noise)
    # The noise is fixed first: with epsilon, every change would only move the noise.
    fixed = replace(
        prepared.settings,
        privacy=privacy,
        run=replace(prepared.settings.run, rounds=prepared.rounds),
    )
    for name, settings in _alternatives(fixed):
        try:
            yield name, _epsilons(prepared, settings)
        except PrivplanError:
            continue  # the system has no such setting


def _alternatives(settings: Settings) -> Iterator[tuple[str, Settings]]:
    """Yield settings that differ in one thing that a person may change."""
    run, privacy, training = settings.run, settings.privacy, settings.training
    security = settings.security
    step = _STRONGER_AGGREGATION.get(security.aggregation)
    if step == "masked":
        yield (
            f'aggregation = "{step}"',
            replace(settings, security=replace(security, aggregation=step)),
        )
    if step == "private-weighting" and training.weighting == "records":
        hidden = replace(security, aggregation=step, dropouts=0)
        yield f'aggregation = "{step}"', replace(settings, security=hidden)
    if training.weighting == "records" and security.aggregation != "private-weighting":
        even = replace(training, weighting="uniform")
        yield 'weighting = "uniform"', replace(settings, training=even)
    slots = _slots(settings)
    if slots is not None:
        yield f"slots = {slots}", replace(settings, security=replace(security, slots=slots))
    if run.rounds > 1:
        yield HALF_ROUNDS, replace(settings, run=replace(run, rounds=run.rounds // 2))
    assert privacy.noise_multiplier is not None
    moments = privacy.normalisation_noise
    louder = replace(
        privacy,
        noise_multiplier=2.0 * privacy.noise_multiplier,
        normalisation_noise=None if moments is None else 2.0 * moments,
    )
    votes = settings.evaluation.held_out_noise
    quieter = replace(settings.evaluation, held_out_noise=None if votes is None else 2.0 * votes)
    yield DOUBLE_NOISE, replace(settings, privacy=louder, evaluation=quieter)


def _slots(settings: Settings) -> int | None:
    """Return the fewest slots by which nobody knows who is drawn; None where that is no choice."""
    rate, security = settings.privacy.sampling_rate, settings.security
    hidden = security.aggregation == "private-weighting" and not settings.as_published
    if not hidden or security.slots is not None or rate == 1.0:
        return None
    fits = (
        slots for slots in range(2, _MAX_SUGGESTED_SLOTS + 1) if round(rate * slots) / slots == rate
    )
    return next((slots for slots in fits if 0 < round(rate * slots) < slots), None)


def _epsilons(prepared: PreparedRun, settings: Settings) -> dict[str, float]:
    local = local_of(settings, prepared.federation, prepared.trained)
    system = build(settings, prepared.federation, local, prepared.streams)
    plan = system.plan()
    # A plan that pays for fewer rounds is another run: its smaller epsilon lowers nothing here.
    if last_round(system.phases) != settings.run.rounds:
        return {"model": math.inf}
    return {who: proven.epsilon.upper for who, proven in plan.guarantees.items()}
