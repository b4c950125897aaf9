"""What `privplan plan` plans: phases as a person describes them, and the variations to compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput, kind_of
from ...fl.declarations.toml_key import key, text
from . import options
from .described_run import noisy_sum
from .schedule import FULL, IN_PASSES, POISSON, SAMPLERS, Schedule, from_epochs, steps

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...accountant.plan import Phase, Plan

MAX_DESIGNS: Final = 200
"""Most designs that one call compares."""

Complaint = tuple[str, str, str]
"""What is wrong, why, and what to do."""


ANSWERS_OF_A_PLAN: Final = 20
"""How often the noise that a plan looks for is accounted for, some of it again from memory."""


def _event(*, event: object) -> Event:
    from ...accountant.events import from_json

    return from_json(event)


def _observers(*, observers: object) -> tuple[str, ...]:
    names = [observers] if isinstance(observers, str) else observers
    listed = names if isinstance(names, list) else []
    if not listed or not all(isinstance(name, str) and name.strip() for name in listed):
        raise InvalidInput(
            f"`observers` must be one or more names; it is {observers!r:.60}.",
            next_step='Write observers = ["model", "server"].',
        )
    return tuple(dict.fromkeys(listed))


def _views(*, views: object) -> tuple[tuple[str, float], ...]:
    if not isinstance(views, dict):
        raise InvalidInput(
            f"`views` must be a table; it is {kind_of(views)}.",
            next_step="Write views = {server = 0.5}.",
        )
    return tuple((name, validate.positive(**{name: share})) for name, share in views.items())


@dataclass(frozen=True)
class PhaseDesign:
    """One phase: a mechanism whose noise is sought, or a fixed `event`, and how often it is used.

    A schedule is `rounds` of all records; `rate` with `rounds` or `epochs`; or `records`, `batch`
    and `epochs`, sampled as `sampling` says (a word of `SAMPLERS`; None is `poisson`).  `views`
    are observers who see the same release with another share of the noise.
    """

    name: str = key("what it is called", text)
    mechanism: str | None = key(
        "the shape of the noise that is sought",
        words=options.MECHANISMS,
        default=None,
        why=options.REASON_BY_OPTION["mechanism"],
    )
    event: Event | None = key(
        "what is released, where its noise is fixed",
        _event,
        default=None,
        why="It is what the phase releases, as `privplan account` reads it.",
    )
    rounds: int | None = key(
        "how often it releases",
        validate.count,
        default=None,
        why="It is how often the phase makes its release.",
    )
    rate: float | None = key(
        "sampling rate of a round",
        validate.probability,
        default=None,
        why="It is the probability with which a record joins one round.",
    )
    records: int | None = key(
        "records in the data set",
        validate.count,
        default=None,
        why=options.REASON_BY_OPTION["records"],
    )
    batch: int | None = key(
        "records of a round, on average",
        validate.count,
        default=None,
        why="It is the number of records in one round.",
    )
    epochs: float | None = key(
        "passes over the data",
        validate.positive,
        default=None,
        why=options.REASON_BY_OPTION["epochs"],
    )
    sampling: str | None = key(
        "how a batch is drawn",
        words=SAMPLERS,
        default=None,
        why=options.REASON_BY_OPTION["sampling"],
    )
    observers: tuple[str, ...] = key(
        "all who see the release, or anything that depends on it",
        _observers,
        default=("model",),
        why="They are all who see the release, or anything that depends on it.",
    )
    weight: float = key(
        "noise relative to the other phases",
        validate.positive,
        default=1.0,
        why="It is the noise of this phase, relative to the others.",
    )
    scale: float = key(
        "noise that the cost counts, over the noise multiplier",
        validate.positive,
        default=1.0,
        why="It turns a noise multiplier into the noise that the cost counts.",
    )
    views: tuple[tuple[str, float], ...] = key(
        "the share of the noise that hides the release from other observers",
        _views,
        default=(),
        why="It says which share of the noise hides the release from another observer.",
    )

    def complaint(self) -> Complaint | None:
        """Return what is wrong with the keys that are given together, or None."""
        given = {
            name
            for name in ("rounds", "rate", "records", "batch", "epochs", "sampling")
            if getattr(self, name) is not None
        }
        if self.event is not None:
            extra = sorted(given - {"rounds"}) + (["views"] if self.views else [])
            if extra:
                return (
                    f"has both `event` and `{extra[0]}`",
                    "A fixed event says by itself how it is sampled.",
                    f"Leave `{extra[0]}` out, and write the sampling into the event.",
                )
            return None
        schedules = (
            {"rounds"},
            {"rate", "rounds"},
            {"rate", "epochs"},
            {"records", "batch", "epochs"},
        )
        if given - {"sampling"} not in schedules:
            shown = ", ".join(sorted(given - {"sampling"})) or "nothing"
            return (
                f"needs a schedule, and has {shown},",
                "The noise depends on how often a record is used, and one description decides it.",
                "Give rounds; rate and rounds; rate and epochs; or records, batch and epochs.",
            )
        if self.sampling == FULL:
            return None if self._uses_all_records else _NOT_FULL
        if self.sampling not in (None, POISSON) and "records" not in given:
            return (
                f"needs `records`, `batch` and `epochs` for sampling {self.sampling!r}",
                "Only Poisson sampling is described by a rate.",
                "Give them, or leave `sampling` out.",
            )
        if self.records is not None and self.batch is not None and self.batch > self.records:
            return (
                f"has a batch ({self.batch}) above its records ({self.records})",
                "A step cannot use more records than there are.",
                "Make the batch smaller, or give the size of the whole data set.",
            )
        return None

    def varied(self, *, epochs: float | None, rate: float | None) -> PhaseDesign:
        """Return the phase with other epochs or another rate, where it has them."""
        phase = self
        if epochs is not None and self.epochs is not None:
            phase = replace(phase, epochs=epochs)
        if rate is None or (self.rate is None and self.batch is None):
            return phase
        # Other samplers than Poisson's know no rate: the nearest batch stands for it.
        if self.records is not None and self.sampling not in (None, POISSON):
            return replace(phase, batch=max(1, round(rate * self.records)))
        return replace(phase, rate=rate, records=None, batch=None)

    def samples_by(self, sampler: str) -> bool:
        """Return whether the phase is drawn as a sampler draws already."""
        return sampler == (FULL if self._uses_all_records else POISSON)

    def drawn_by(self, sampler: str) -> PhaseDesign:
        """Return the phase under another sampler, where it samples as Poisson does.

        A phase of all records, a fixed event and a phase that names its sampler stay as they are.
        """
        sampled = self.event is None and not self._uses_all_records
        if not sampled or self.sampling not in (None, POISSON):
            return self
        return replace(self, sampling=sampler)

    def phase(self) -> Phase:
        """Return the phase that is planned."""
        from ...accountant.plan import Phase

        if self.event is not None:
            return Phase(self.name, self.event, self.rounds or 1, self.observers)
        schedule = self._schedule()

        def at(noise: float) -> Event:
            return schedule.sampled(noisy_sum(self.mechanism, noise))

        views = {
            # A view has a share of the noise: whoever knows the rest of it subtracts that.
            observer: lambda noise, share=share: at(share * noise)
            for observer, share in self.views
        }
        return Phase(
            self.name,
            at,
            schedule.repeats,
            self.observers,
            self.weight,
            self.scale,
            views,
            draws=self.draws,
        )

    @property
    def draws(self) -> int:
        """How often noise is drawn in what is repeated: once, or once for each batch of a pass."""
        if self.event is not None:
            return 1
        schedule = self._schedule()
        passes = schedule.sampling in IN_PASSES and schedule.rate < 1.0
        return schedule.batches if passes else 1

    @property
    def shuffles(self) -> bool:
        """Whether Poisson sampling is assumed of what is usually a loader that shuffles."""
        return (
            self.epochs is not None
            and self.sampling in (None, POISSON)
            and not self._uses_all_records
        )

    @property
    def _uses_all_records(self) -> bool:
        if self.batch is None and self.rate is None:
            return True
        return self.rate == 1.0 or (self.batch is not None and self.batch == self.records)

    def _schedule(self) -> Schedule:
        """Return how often, and on which sample, noise is added."""
        if self.records is not None:
            schedule = from_epochs(self.records, self.batch, self.epochs)
        else:
            rate = 1.0 if self.rate is None else self.rate
            rounds = steps(rate, self.epochs) if self.epochs is not None else self.rounds or 1
            schedule = Schedule(rounds, rate)
        return schedule.drawn_by(self.sampling)


_NOT_FULL: Final = (
    "uses a part of its records in each round, and its sampling is 'full'",
    "Full means that every record is in every round.",
    "Give rounds alone, or name the sampler of the parts.",
)


@dataclass(frozen=True)
class Design:
    """Phases and a target; None where it is not given yet."""

    phases: tuple[PhaseDesign, ...]
    epsilon: float | None = None
    delta: float | None = None
    neighbours: str | None = None
    group: int = 1
    unit: str = "record"
    split: str = "equal-noise"
    cost: str = "variance"

    def drawn_by(self, sampler: str) -> Design:
        """Return the design with its Poisson samples drawn by another sampler.

        Raises `InvalidInput` where no phase samples so, and where one lacks what the sampler needs.
        """
        phases = tuple(phase.drawn_by(sampler) for phase in self.phases)
        if all(drawn is phase for drawn, phase in zip(phases, self.phases, strict=True)):
            raise InvalidInput(
                "No phase of this plan has a Poisson sample that could be drawn otherwise.",
                "A phase of all records, a fixed event and a phase that names its sampler stay.",
                "Change `sampling` in the file, or leave --sampling out.",
            )
        for phase in phases:
            if (complaint := phase.complaint()) is not None:
                what, why, step = complaint
                raise InvalidInput(f"The phase {phase.name!r} {what}.", why, step)
        return replace(self, phases=phases)

    @property
    def records(self) -> int | None:
        """The most records that a phase states, which bounds the units; None where none does."""
        return max(
            (phase.records for phase in self.phases if phase.records is not None), default=None
        )

    def _released(self) -> Event:
        """Return what all phases release, with some noise."""
        from ...accountant import events as ev

        released: list[Event] = []
        for phase in self.phases:
            planned = phase.phase()
            event = planned.make_event
            if not isinstance(event, ev.Event):
                event = event(1.0)
            released.append(ev.Repeat(planned.rounds, event))
        return ev.Group(self.group, ev.Compose(tuple(released)))

    def planned(self) -> Plan:
        """Return the plan; raise `Unsupported` where finding it takes too much work."""
        from ...accountant.plan import plan
        from ...accountant.work_limit import MOST_WORK, require_little_work

        require_little_work(self._released(), most=MOST_WORK // ANSWERS_OF_A_PLAN)
        assert self.epsilon is not None
        assert self.delta is not None
        return plan(
            [phase.phase() for phase in self.phases],
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours or "add-remove",
            split=self.split,
            cost=self.cost,
            group=self.group,
            unit=self.unit,
        )


@dataclass(frozen=True)
class Variation:
    """One design of a table, and what was varied in it (None: as described)."""

    design: Design
    epochs: float | None = None
    rate: float | None = None
    group: int | None = None


def variations(
    design: Design, epochs: Sequence[float], rates: Sequence[float], groups: Sequence[int]
) -> Iterator[Variation]:
    """Yield a design for each combination; an empty list leaves what the design says.

    Raises `InvalidInput` for more than `MAX_DESIGNS`, and where nothing would vary.
    """
    number = max(1, len(epochs)) * max(1, len(rates)) * max(1, len(groups))
    if number > MAX_DESIGNS:
        raise InvalidInput(
            f"These are {number:,} designs; at most {MAX_DESIGNS} are compared.",
            "Every one of them is certified, which takes a while.",
            "Vary fewer things at once.",
        )
    for name, values in (("epochs", epochs), ("rate", rates)):
        change = {"epochs": None, "rate": None, name: values[0] if values else None}
        if values and all(phase.varied(**change) is phase for phase in design.phases):
            raise InvalidInput(
                f"No phase of this plan has {name} that could be varied.",
                "Only what a phase states can be replaced.",
                f"Describe a phase by its {name}.",
            )
    for size, rate, passes in product(groups or (None,), rates or (None,), epochs or (None,)):
        phases = tuple(phase.varied(epochs=passes, rate=rate) for phase in design.phases)
        changed = replace(design, phases=phases, group=design.group if size is None else size)
        yield Variation(changed, passes, rate, size)
