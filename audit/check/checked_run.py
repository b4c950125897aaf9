"""A described run as a check sees it: its settings, its claim, and the facts beside both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ...accountant.events import Gaussian
from ..description.fact import Contradiction
from ..description.printed_number import PrintedNumber
from ..description.resolving import settings_of
from ..description.run_description import Phase, RunDescription
from ..description.run_settings import RunSettings
from .flattening import as_phases, as_stated_draws

if TYPE_CHECKING:
    from ...accountant.events import Event

Currency = Literal["epsilon", "rho", "mu"]
CURRENCIES: Final[tuple[Currency, ...]] = ("epsilon", "rho", "mu")

CHOSEN_NOISE_UNIT: Final = 0.05
"""A noise multiplier that is printed to this unit or a coarser one was chosen so."""

PASSES_TOLERANCE: Final = 0.05
"""Relative error by which two counts of passes over the data still agree."""

BEYOND_TOLERANCE: Final = 1e-3
"""Relative error by which a fact beside a stated event may differ from the event."""

PRIVPLAN_EVENT: Final = "privplan event"
"""The format of an event in privplan's own words, which states its sampler."""

FEDERATED_KEYS: Final = (
    "data.users",
    "data.silos",
    "data.records_per_user",
    "sampling.clients_rate",
    "aggregation.weights",
    "aggregation.replies",
    "aggregation.expected_replies",
)
"""Keys that only a federated run has a use for."""


@dataclass(frozen=True)
class CheckedRun:
    """A run: `settings`, its claim in one `currency`, and what else was said of it.

    `known` are the keys that somebody said, that a file says, or that follow from these.
    `event` stands for noise, sampling and schedule where no keys can express them.
    `beyond_event` says which fact beside a stated event is more than that has.
    `noise_slack` and `rate_slack` are how far above the noise and below the rate the true ones
    may lie, given the digits that were printed.
    """

    settings: RunSettings
    known: frozenset[str] = frozenset()
    stated: frozenset[str] = frozenset()
    claim: PrintedNumber | None = None
    currency: Currency = "epsilon"
    event: Event | None = None
    library: str | None = None
    accountant: str | None = None
    delta_rule: str | None = None
    clip: float | None = None
    clip_source: str | None = None
    weights: str | None = None
    normaliser: str | None = None
    expected_replies: int | None = None
    replies: int | None = None
    tuning_runs: int = 1
    noise_slack: float = 0.0
    rate_slack: float = 0.0
    contradictions: tuple[Contradiction, ...] = ()
    from_event: bool = False
    beyond_event: str = ""

    @property
    def federated(self) -> bool:
        """Return whether the run is one of users, silos or clients."""
        return self.settings.unit in ("user", "silo") or not self.known.isdisjoint(FEDERATED_KEYS)

    @property
    def batches_in_draw(self) -> tuple[int, int]:
        """Return how many batches of the stated rate are in one noise draw, at least and at most.

        Where batches are accumulated, the rate may be that of one or of all.  Steps and epochs,
        or batch and records, can tell which.
        """
        batches, settings = self.settings.accumulation, self.settings
        if batches == 1 or settings.phases or settings.rate is None:
            return 1, batches
        both_said = {"sampling.rate", "sampling.batch"} <= self.stated
        if both_said and settings.records is not None and settings.batch is not None:
            size, drawn = settings.rate * settings.records, batches * settings.batch
            if abs(size - drawn) <= PASSES_TOLERANCE * size:
                return 1, 1
        if {"schedule.steps", "schedule.epochs"} <= self.stated and settings.steps:
            passes, epochs = settings.steps * settings.rate, settings.epochs or 0.0
            if abs(passes - epochs) <= PASSES_TOLERANCE * epochs:
                return 1, 1
            if abs(passes * batches - epochs) <= PASSES_TOLERANCE * epochs:
                return batches, batches
        return 1, batches

    @property
    def steps_are_counted(self) -> bool:
        """Return whether somebody counted the noise draws: they do not follow from epochs."""
        said = "schedule.steps" in self.stated or self.from_event or self.event is not None
        return said or bool(self.settings.phases)

    @property
    def least_restarts(self) -> int:
        """Return how often the described steps were certainly made on the same records.

        Steps that follow from epochs may be those of all starts; and where there are as many
        starts as silos or users, each may have had its own records.
        """
        settings = self.settings
        if not self.steps_are_counted or settings.restarts in (settings.silos, settings.users):
            return 1
        return settings.restarts

    @property
    def units(self) -> int | None:
        """Return how many units are protected, where that is known."""
        settings = self.settings
        return {"user": settings.users, "silo": settings.silos}.get(settings.unit, settings.records)

    @classmethod
    def of(cls, description: RunDescription) -> CheckedRun:
        """Return the run that a description describes."""
        named = [name for name in CURRENCIES if f"claim.{name}" in description.facts]
        currency: Currency = named[0] if named else "epsilon"
        settings, event = settings_of(description), description.event
        phases = None if event is None else as_phases(event)
        if phases is not None:
            # Steps of noise multiplier and rate say the same, and leave the sampler to the facts.
            event, settings = None, _with_phases(settings, phases)
            if settings.method == "unknown" and all(phase.rate == 1.0 for phase in phases):
                settings = replace(settings, method="full")
        known = set(filter(description.known, description.facts))
        # Whoever writes `poisson` in privplan's own words says that batches were drawn so.
        if description.event is not None and PRIVPLAN_EVENT in description.formats.values():
            known.add("sampling.method")
            if settings.method == "unknown":
                # The words of an event that is kept whole stay in it.
                drawn = event is None or as_stated_draws(event) is not None
                settings = replace(settings, method="poisson" if drawn else "unknown")
        return cls(
            settings,
            known=frozenset(known),
            stated=frozenset(
                key
                for key, fact in description.facts.items()
                if fact.provenance in ("stated", "read")
            ),
            claim=description.get(f"claim.{currency}", PrintedNumber),
            currency=currency,
            event=event,
            library=description.get("claim.library", str),
            accountant=description.get("claim.accountant", str),
            delta_rule=description.get("claim.delta_rule", str),
            clip=description.get("noise.clip", float),
            clip_source=description.get("noise.clip_source", str),
            weights=description.get("aggregation.weights", str),
            normaliser=description.get("aggregation.normaliser", str),
            expected_replies=description.get("aggregation.expected_replies", int),
            replies=description.get("aggregation.replies", int),
            tuning_runs=description.get("tuning.runs", int) or 1,
            noise_slack=_noise_slack(description),
            rate_slack=_rate_slack(description),
            contradictions=description.contradictions,
            from_event=phases is not None,
            beyond_event=_beyond_event(description),
        )


def _beyond_event(description: RunDescription) -> str:
    """Return the stated fact that is more than the stated event has, as a sentence, or nothing."""
    event = description.event
    draws = None if event is None else as_stated_draws(event)
    if draws is None:
        return ""
    steps = sum(each.steps for each in draws) * (description.get("schedule.restarts", int) or 1)
    noises = [each.draw.noise_multiplier for each in draws if isinstance(each.draw, Gaussian)]
    limits = {
        "schedule.steps": (steps, "more"),
        "sampling.rate": (max(each.rate for each in draws), "more"),
        "noise.noise_multiplier": (min(noises, default=0.0), "less"),
    }
    for key, (value, worse) in limits.items():
        fact = description.facts.get(key)
        if fact is None or fact.provenance not in ("stated", "read"):
            continue
        stated = description.get(key, float) or 0.0
        excess = stated - value if worse == "more" else value - stated
        if excess > max(BEYOND_TOLERANCE * value, fact.half_unit):
            return f"`{key}` is {worse} than the stated event has, which is {value:g}."
    return ""


def _with_phases(settings: RunSettings, phases: tuple[Phase, ...]) -> RunSettings:
    """Return settings with the phases of an event; a single one is noise, rate and steps."""
    if len(phases) > 1:
        return replace(settings, phases=phases, steps=sum(phase.steps for phase in phases))
    (phase,) = phases
    return replace(
        settings,
        noise_multiplier=phase.noise_multiplier,
        rate=phase.rate,
        steps=phase.steps,
        steps_per_epoch=math.ceil(1.0 / phase.rate * (1.0 - 1e-9)),
    )


def _noise_slack(description: RunDescription) -> float:
    """Return half the last digit of a noise multiplier that was rounded when it was printed.

    One decimal place is how people choose a noise multiplier; more are how they print one.
    """
    fact = description.facts.get("noise.noise_multiplier")
    if fact is None or fact.half_unit > 0.5 * CHOSEN_NOISE_UNIT:
        return 0.0
    return fact.half_unit


def _rate_slack(description: RunDescription) -> float:
    """Return half the last digit of a rate that was rounded when it was printed.

    A rate of one digit, or of a whole number of batches, is one that was chosen.
    """
    fact = description.facts.get("sampling.rate")
    if fact is None or not isinstance(fact.value, float) or fact.half_unit <= 0.0:
        return 0.0
    one_digit = fact.value < 20.0 * fact.half_unit
    batches = 1.0 / fact.value
    chosen = abs(batches - round(batches)) <= 1e-9 * batches
    return 0.0 if one_digit or chosen else fact.half_unit
