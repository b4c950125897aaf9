"""A described run as a check sees it: its settings, its claim, and the facts about both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Self

from ...accountant.errors import InvalidInput
from ...accountant.events import Gaussian
from ...accountant.guarantee import Neighbours, as_neighbours
from ..description.agreement import WorkingFacts
from ..description.merging import assuming
from ..description.printed_number import PrintedNumber
from ..description.run_description import Contradiction, Phase, RunDescription
from ..description.run_settings import RunSettings, settings_of
from ..description.sampling_facts import (
    RATE_TOLERANCE,
    batch_is_of_uncounted,
    drawn_by_rate,
    kinds_of_batch,
)
from .event_comparison import contradictions_with_event
from .flattening import as_phases, as_stated_draws
from .printed_facts import (
    SAID,
    noise_was_logged,
    open_digits,
    rests_on_a_chosen_rate,
    was_printed,
    was_said,
)

if TYPE_CHECKING:
    from ...accountant.events import Event

Currency = Literal["epsilon", "rho", "mu"]
CURRENCIES: Final[tuple[Currency, ...]] = ("epsilon", "rho", "mu")

PASSES_TOLERANCE: Final = 0.05
"""Relative error by which two counts of passes over the data still agree."""

BEYOND_TOLERANCE: Final = 1e-3
"""Relative error by which a fact with a stated event may differ from the event."""

PRIVPLAN_EVENT: Final = "privplan event"
"""The format of an event in privplan's own words, which states its sampler."""

FLOWER_STATE: Final = "Flower accountant state"

UNSAMPLED: Final = ("full", "unknown")
"""Words of `sampling.method` that name no draw of batches."""

KEYS_OF_USERS: Final = ("data.users", "data.records_per_user", "sampling.clients_rate")
"""Keys that mention users, so that either a record or a user may be what is protected."""

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
    `beyond_event` says which fact with a stated event is more than that has.
    `upper_only` says why the run may lose less than its facts tell, where that is so, and
    `chosen_rate` that a rate is taken to be exact as it is printed.
    `digits` are how far the last printed digits leave the number of a key open, `read` the keys
    that a file of a program says.  `of_users` is the same description with users protected, where
    it leaves that open.  `uncounted` says that rate and batch are of what nobody counted, and
    `rate_follows` that a stated rate says no more than the batch and what it is drawn from.
    `records_of_user` are the most of one user, whoever is protected; `among_users` says that users
    may be protected as well as records.  A program printed the phases where they `were_printed`.
    With `several_starts`, steps and epochs may be those of one start or of all.
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
    digits: Mapping[str, float] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    records_public: bool | None = None
    noise_was_logged: bool = False
    contradictions: tuple[Contradiction, ...] = ()
    from_event: bool = False
    beyond_event: str = ""
    upper_only: str = ""
    chosen_rate: bool = False
    of_users: CheckedRun | None = None
    phases_were_printed: bool = False
    records_of_user: int | None = None
    among_users: bool = False
    several_starts: bool = False
    uncounted: bool = False
    rate_follows: bool = False

    @property
    def federated(self) -> bool:
        """Return whether the run is one of users, silos or clients."""
        return self.settings.unit in ("user", "silo") or not self.known.isdisjoint(FEDERATED_KEYS)

    @property
    def steps_are_counted(self) -> bool:
        """Return whether somebody counted the noise draws: they do not follow from epochs."""
        said = "schedule.steps" in self.stated or self.from_event or self.event is not None
        return said or bool(self.settings.phases)

    def half_unit(self, key: str) -> float:
        """Return how far the last printed digit leaves the number of a key open."""
        return self.digits.get(key, 0.0)

    @property
    def units(self) -> int | None:
        """Return how many units are protected, where that is known."""
        settings = self.settings
        return {"user": settings.users, "silo": settings.silos}.get(settings.unit, settings.records)

    @classmethod
    def of(cls, description: RunDescription, currency: Currency | None = None) -> CheckedRun:
        """Return the run that a description describes, with its claim in a currency."""
        currency = currency or claimed_currencies(description)[0]
        settings, event = settings_of(description), description.event
        of_user = settings.records_per_user
        if settings.unit != "user":
            # A record is no more than one, and a silo is hidden by no sample of its users' records.
            settings = replace(settings, records_per_user=None)
        digits, batch = open_digits(description), description.facts.get("sampling.batch")
        of_epoch = description.known("schedule.records_per_epoch")
        is_open = "sampling.rate" in digits or of_epoch
        if is_open and batch is not None and batch.provenance == "derived":
            # A batch that follows from a rate is no more exact than that, nor is what it is of.
            settings = replace(settings, batch=None)
        said = frozenset(key for key, fact in description.facts.items() if fact.provenance in SAID)
        facts = WorkingFacts(description.facts)
        if settings.sampled is None:
            settings = replace(settings, sampled=drawn_by_rate(facts))
        uncounted = batch_is_of_uncounted(facts)
        if uncounted:
            # With a rate it tells how many there are of what nobody counted, and no more.
            settings, said = replace(settings, batch=None), said - {"sampling.batch"}
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
            stated=said,
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
            digits=digits,
            read=frozenset(
                key for key, fact in description.facts.items() if fact.provenance == "read"
            ),
            records_public=description.get("data.records_public", bool),
            noise_was_logged=noise_was_logged(description),
            contradictions=(*description.contradictions, *contradictions_with_event(description)),
            from_event=phases is not None,
            beyond_event=_beyond_event(description),
            upper_only=_upper_only(description),
            chosen_rate=rests_on_a_chosen_rate(description),
            of_users=_of_users(description, currency),
            several_starts=settings.restarts > 1,
            records_of_user=of_user,
            phases_were_printed=was_printed(description, "schedule.phases"),
            uncounted=uncounted,
            rate_follows=_rate_follows(description, settings),
        )

    @property
    def relation(self) -> Neighbours:
        """Return the neighbouring relation of the claim."""
        return as_neighbours(self.settings.neighbours)

    def under(self, neighbours: Neighbours) -> Self:
        """Return the run under a neighbouring relation."""
        return self.with_settings(neighbours=neighbours)

    def with_settings(self, **changes: object) -> Self:
        """Return the run with other settings, whoever is protected."""
        users = None if self.of_users is None else self.of_users.with_settings(**changes)
        settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        return replace(self, settings=settings, of_users=users)


def _of_users(description: RunDescription, currency: Currency) -> CheckedRun | None:
    """Return the run with users protected, where users are mentioned and the unit is not."""
    if description.known("claim.unit") or description.get("claim.unit", str) == "user":
        return None
    if not any(map(description.known, KEYS_OF_USERS)):
        return None
    if description.get("data.records_per_user", int) == 1:
        return None  # a user is a record
    try:
        run = CheckedRun.of(assuming(description, "claim.unit", "user"), currency)
    except InvalidInput:
        return None
    return None if run.contradictions else run


def _rate_follows(description: RunDescription, settings: RunSettings) -> bool:
    """Return whether a stated rate is the share of a stated batch of all that it is drawn from.

    It says no more than these do, and is not one over the batches of a loader.
    """
    facts, rate, batch = WorkingFacts(description.facts), settings.rate, settings.batch
    said = all(was_said(description, key) for key in ("sampling.rate", "sampling.batch"))
    if not said or rate is None or batch is None or settings.method == "full":
        return False
    sizes = [
        description.get(key, int) for key in kinds_of_batch(facts) if was_said(description, key)
    ]
    return any(
        size is not None and abs(rate - batch / size) <= RATE_TOLERANCE * rate for size in sizes
    )


def normaliser_is_harmless(run: CheckedRun) -> bool:
    """Return whether all neighbours have batches of one and the same size."""
    fixed = run.settings.method in ("shuffled", "fixed-size", "with-replacement", "full")
    return fixed and run.settings.neighbours != "add-remove"


def claimed_currencies(description: RunDescription) -> tuple[Currency, ...]:
    """Return what numbers are claimed: epsilon, rho, mu; epsilon where none is."""
    named = tuple(name for name in CURRENCIES if f"claim.{name}" in description.facts)
    return named or ("epsilon",)


def _upper_only(description: RunDescription) -> str:
    """Return why the run may lose less than its facts tell; empty where that is not so.

    Whoever states method and rate says what Flower's accountant was not told.
    """
    facts = (description.facts.get(key) for key in ("sampling.method", "sampling.rate"))
    stated = all(fact is not None and fact.provenance == "stated" for fact in facts)
    told = stated and FLOWER_STATE in description.formats.values()
    return _counted_in_full(description) or ("" if told else description.upper_only)


def _counted_in_full(description: RunDescription) -> str:
    """Return that an event samples nothing, where somebody says that batches were drawn."""
    event, method = description.event, description.facts.get("sampling.method")
    draws = None if event is None else as_stated_draws(event)
    drawn = method is not None and method.provenance in SAID
    if draws is None or not drawn or description.get("sampling.method", str) in UNSAMPLED:
        return ""
    if any(each.rate < 1.0 for each in draws):
        return ""
    return "The stated event counts every step in full, and batches were drawn."


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
        if fact is None or fact.provenance not in SAID:
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
