"""What `privplan plan` plans: phases as a person describes them, and the variations to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...accountant.plan import Phase, Plan

MECHANISMS: Final = ("gaussian", "laplace")
SPLITS: Final = ("equal-noise", "weights", "cheapest")
COSTS: Final = ("variance", "deviation", "average", "largest")
SAMPLERS: Final = ("poisson", "fixed-size", "shuffled")

PLAN_EXAMPLE: Final = (
    "privplan plan --epsilon 2 --delta 1e-5 --records 60000 --batch 256 --epochs 2,5,10,20"
)

MAX_DESIGNS: Final = 200
"""Most designs that one call compares."""

Complaint = tuple[str, str, str]
"""What is wrong, why, and what to do."""


@dataclass(frozen=True)
class PhaseDesign:
    """One phase: a mechanism whose noise is sought, or a fixed `event`, and how often it is used.

    A schedule is `rounds` of all records; `rate` with `rounds` or `epochs`; or `records`, `batch`
    and `epochs`, sampled by `poisson` (the default), `fixed-size` or `shuffled`.  `views` are
    observers who see the same release with another share of the noise.
    """

    name: str
    mechanism: str | None
    event: Event | None = None
    rounds: int | None = None
    rate: float | None = None
    records: int | None = None
    batch: int | None = None
    epochs: float | None = None
    sampling: str | None = None
    observers: tuple[str, ...] = ("model",)
    weight: float = 1.0
    scale: float = 1.0
    views: tuple[tuple[str, float], ...] = ()

    def complaint(self) -> Complaint | None:
        """Return what is wrong with the keys that are given together, or None."""
        given = {
            key
            for key in ("rounds", "rate", "records", "batch", "epochs", "sampling")
            if getattr(self, key) is not None
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
        if self.sampling not in (None, "poisson") and "records" not in given:
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
        # Fixed-size and shuffled sampling know no rate: the nearest batch stands for it.
        if self.records is not None and self.sampling in ("fixed-size", "shuffled"):
            return replace(phase, batch=max(1, round(rate * self.records)))
        return replace(phase, rate=rate, records=None, batch=None)

    def phase(self) -> Phase:
        """Return the phase that is planned."""
        from ...accountant.plan import Phase

        if self.event is not None:
            return Phase(self.name, self.event, self.rounds or 1, self.observers)
        around, rounds = self._schedule()
        views = {
            # A view has a share of the noise: whoever knows the rest of it subtracts that.
            observer: lambda noise, share=share: around(self._release(share * noise))
            for observer, share in self.views
        }
        return Phase(
            self.name,
            lambda noise: around(self._release(noise)),
            rounds,
            self.observers,
            self.weight,
            self.scale,
            views,
        )

    @property
    def shuffles(self) -> bool:
        """Whether Poisson sampling is assumed of what is usually a loader that shuffles."""
        return (
            self.epochs is not None
            and self.sampling in (None, "poisson")
            and not self._uses_all_records
        )

    @property
    def _uses_all_records(self) -> bool:
        return self.rate == 1.0 or (self.batch is not None and self.batch == self.records)

    def _release(self, noise: float) -> Event:
        from ...accountant import events as ev

        return ev.Laplace(noise) if self.mechanism == "laplace" else ev.Gaussian(noise)

    def _schedule(self) -> tuple[Callable[[Event], Event], int]:
        """Return the sampling around one release, and the number of rounds."""
        from ...accountant import events as ev
        from .schedule import from_epochs

        if self.records is not None:
            assert self.batch is not None
            records, batch = self.records, self.batch
            schedule = from_epochs(records, batch, self.epochs)
            # An epoch of shuffled batches is one event, so epochs are counted and not steps.
            if self.sampling == "shuffled":
                assert schedule.passes is not None
                return lambda release: ev.ShuffledBatches(-(-records // batch), release), (
                    schedule.passes
                )
            if self.sampling == "fixed-size" and batch < records:
                return lambda release: ev.FixedSize(batch, records, release), schedule.rounds
            rate, rounds = schedule.rate, schedule.rounds
        else:
            rate = 1.0 if self.rate is None else self.rate
            rounds = steps(rate, self.epochs) if self.epochs is not None else self.rounds or 1
        return lambda release: release if rate == 1.0 else ev.Poisson(rate, release), rounds


def steps(rate: float, epochs: float) -> int:
    """Return epochs / rate, rounded up, exactly: both are the decimal numbers that were given.

    >>> steps(0.1, 3.0), steps(0.3, 1.0)
    (30, 4)
    """
    from fractions import Fraction

    if rate == 0.0:
        raise InvalidInput(
            "`rate` must be above 0 where `epochs` are given; it is 0.",
            "At rate 0 nobody is ever used, and no number of steps makes an epoch.",
            "Give a rate in (0, 1].",
        )
    # The decimals as typed: a float is a little off, and the ceiling would count that.
    quotient = Fraction(repr(epochs)) / Fraction(repr(rate))
    return -(-quotient.numerator // quotient.denominator)


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

    @property
    def records(self) -> int | None:
        """The most records that a phase states, which bounds the units; None where none does."""
        return max(
            (phase.records for phase in self.phases if phase.records is not None), default=None
        )

    def planned(self) -> Plan:
        """Return the plan."""
        from ...accountant.plan import plan

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
