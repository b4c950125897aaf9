"""What a training loop of somebody else plans, and what one of its steps does.

A plan is public: everything in it stands in the log in clear.  So a rate that was computed from a
private number of records has no business here.  Where no public rate is known, the number of
records is public and the relation is replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

from ...accountant import events as ev
from ...accountant import rounding, validate
from ...accountant.account import account
from ...accountant.delta_checks import delta_below_half
from ...accountant.errors import BudgetExceeded, InvalidInput
from ...accountant.guarantee import Guarantee
from ...accountant.neighbours import as_neighbours
from ...accountant.records import Contribution, Noise, RoundIntent, Sampling
from ...accountant.records.facts import Unit
from ...fl.observers.names import MODEL

Sampler = Literal["poisson", "truncated-poisson", "shuffled", "fixed-size", "none"]
SAMPLERS: Final[tuple[Sampler, ...]] = (
    "poisson",
    "truncated-poisson",
    "shuffled",
    "fixed-size",
    "none",
)

BY_CHANCE: Final = ("poisson", "truncated-poisson")
"""Samplers that draw each unit by itself, with one probability."""

SIZED: Final = ("fixed-size", "truncated-poisson")
"""Samplers in which it counts how many units there are, and how many may be in a batch."""

PHASE: Final = "training"

CLIP_COUNT: Final = "clip-count"
"""The phase of noisy counts by which a clip adapts: part of a step, and not one of the plan's."""

STEPS_PER_INTENT: Final = 100
"""Like steps that one intent covers: a run that is cut off loses no more than these."""

DEVIATION_ROUNDING: Final = 1e-12
"""Relative difference of two standard deviations that a division and a product explain."""

_RATE_EXAMPLE: Final = (
    "TrainingPlan(steps=1000, noise_multiplier=1.0, clip=1.0, delta=1e-5, rate=0.01, "
    'rate_source="256 of 25,600 records, both published")'
)


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The steps that a training may make, fixed before the first of them; all of it is public.

    - `steps`: how many sums with noise are released at most.
    - `noise_multiplier`: the standard deviation of the noise divided by `clip`.
    - `clip`: the L2 norm to which the gradient of one unit is clipped.
    - `delta`, `epsilon`: the promise; epsilon None is what the plan proves.
    - `neighbours`, `unit`: what is hidden.
    - `sampling`: how a batch is drawn: `poisson`, `truncated-poisson` (and cut at random to
      `batch` units), `shuffled` (an order, cut into batches), `fixed-size` (without replacement,
      anew for each step) or `none` (all units, or who knows).
    - `rate`: the probability that a unit joins a step, a public constant; `rate_source` says from
      where it is known.
    - `records`, `batch`: where these are public: the number of units, and that of a batch.
    - `groups`: of how many groups of equal size each has its turn, and is drawn from; None for one.
    - `divisor`: what a noisy sum is divided by, a public constant; None where sums are released.
    - `steps_per_intent`: how many like steps one line of the log announces.

    Range: counts and numbers above 0, `delta` in (0, 0.5), `rate` in (0, 1].  Raises
    `InvalidInput`; `BudgetExceeded` where the plan proves more than `epsilon`.

    >>> plan = TrainingPlan(steps=1000, noise_multiplier=1.0, clip=1.0, delta=1e-5, rate=0.01,
    ...     rate_source="published")
    >>> round(plan.guarantee.epsilon.upper, 3)
    1.828
    """

    steps: int
    noise_multiplier: float
    clip: float
    delta: float
    epsilon: float | None = None
    neighbours: str = "add-remove"
    unit: Unit = "record"
    sampling: Sampler = "poisson"
    rate: float | None = None
    rate_source: str = ""
    records: int | None = None
    batch: int | None = None
    groups: int | None = None
    divisor: float | None = None
    steps_per_intent: int = STEPS_PER_INTENT

    def __post_init__(self) -> None:
        validate.count(steps=self.steps)
        validate.positive(noise_multiplier=self.noise_multiplier)
        validate.positive(clip=self.clip)
        delta_below_half(delta=self.delta)
        as_neighbours(self.neighbours)
        validate.choice(("record", "user"), unit=self.unit)
        validate.choice(SAMPLERS, sampling=self.sampling)
        validate.count(steps_per_intent=self.steps_per_intent)
        for name in ("records", "batch", "groups"):
            if getattr(self, name) is not None:
                validate.count(**{name: getattr(self, name)})
        if self.divisor is not None:
            validate.positive(divisor=self.divisor)
        self._require_rate()
        if self.epsilon is not None:
            validate.positive(epsilon=self.epsilon)
            if self.guarantee.epsilon.upper > self.epsilon:
                raise BudgetExceeded(
                    f"The plan proves epsilon {self.guarantee.epsilon.upper:.6g}, and "
                    f"{self.epsilon:g} is promised.",
                    "What is released cannot be taken back, so it is planned before.",
                    "Plan fewer steps or more noise: privplan calibrate.",
                )

    def _require_rate(self) -> None:
        """Raise `InvalidInput` where the rate is not public, or not known."""
        if self.sampling == "poisson" and self.rate is None:
            if self.records is None or self.batch is None:
                raise InvalidInput(
                    "`rate` must be given: the probability with which a unit joins a step.",
                    "It stands in the log, so it must be public; where only the number of records "
                    "is, give `records` and `batch`.",
                    f"Give {_RATE_EXAMPLE}.",
                )
            if self.neighbours == "add-remove":
                raise InvalidInput(
                    "A rate that follows the number of records cannot hide that number.",
                    "With one record more it is another rate, so add-remove is not protected.",
                    'Give `rate` and `rate_source`, or neighbours="replace-one".',
                )
        if self.rate is not None:
            validate.positive(rate=validate.probability(rate=self.rate))
            if self.sampling in BY_CHANCE and not self.rate_source.strip():
                raise InvalidInput(
                    "`rate_source` must say from where the rate is publicly known.",
                    "A rate that was computed from a private number of records shows it.",
                    f"Give {_RATE_EXAMPLE}.",
                )
        if self.sampling in SIZED and (self.records is None or self.batch is None):
            raise InvalidInput(
                f"`records` and `batch` must be given for {self.sampling} samples.",
                "How much a sample of at most b of n units hides depends on both.",
                "Give both, where they are public.",
            )
        if self.sampling == "truncated-poisson" and self.rate is None:
            raise InvalidInput(
                "`rate` must be given: the probability with which a unit is drawn before the cut.",
                "How often a sample is cut follows from it.",
                f"Give {_RATE_EXAMPLE}.",
            )
        if self.groups is not None and self.groups > (self.records or self.groups):
            raise InvalidInput(
                f"{self.records:,} units cannot be dealt to {self.groups:,} groups.",
                "Each group has a unit at least.",
                "Give fewer groups.",
            )

    @property
    def population(self) -> int | None:
        """How many units a draw is from: all of them, or one of the groups."""
        return None if self.records is None else self.records // (self.groups or 1)

    @property
    def sampling_rate(self) -> float:
        """The rate of a Poisson draw, before any cut; 1 for other samplers."""
        if self.sampling not in BY_CHANCE:
            return 1.0
        if self.rate is not None:
            return self.rate
        assert self.records is not None
        assert self.batch is not None
        return 1.0 / max(1, -(-self.records // self.batch))

    @property
    def intents(self) -> tuple[int, ...]:
        """How many steps each intent covers, if nothing goes wrong."""
        whole, rest = divmod(self.steps, self.steps_per_intent)
        return (*([self.steps_per_intent] * whole), *([rest] if rest else []))

    @property
    def event(self) -> ev.Event:
        """All steps of the plan, as one event."""
        whole, rest = divmod(self.steps, self.steps_per_intent)
        facts = StepFacts.of(self)
        parts: list[ev.Event] = []
        if whole:
            parts.append(ev.Repeat(whole, facts.event(self, self.steps_per_intent)))
        if rest:
            parts.append(facts.event(self, rest))
        return parts[0] if len(parts) == 1 else ev.Compose(tuple(parts))

    @property
    def guarantee(self) -> Guarantee:
        """What all steps of the plan prove at its delta."""
        return account(self.event, delta=self.delta, neighbours=self.neighbours)

    @property
    def promised(self) -> float:
        """The epsilon of the promise: as stated, or what the plan proves, rounded up."""
        if self.epsilon is not None:
            return self.epsilon
        return float(rounding.plain(self.guarantee.epsilon.upper))

    def to_json(self) -> dict[str, object]:
        """Return the plan as the first line of a log holds it, every number as a string."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            name: repr(value) if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None and value != ""
        }

    @classmethod
    def from_json(cls, source: object) -> Self:
        """Return the plan that the first line of a log holds.

        Raises `InvalidInput` for what no plan wrote there.
        """
        fields = cls.__dataclass_fields__
        if not isinstance(source, Mapping) or not set(source) <= set(fields):
            raise InvalidInput(
                "The log states no plan of a training that could be read.",
                "What is measured is held against what was planned.",
                "Give the folder of a training as it was logged.",
            )
        numbers = [name for name, field in fields.items() if "float" in str(field.type)]
        given: dict[str, Any] = dict(source)
        try:
            for name in given.keys() & set(numbers):
                given[name] = float(given[name])
            return cls(**given)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"The log states a plan that is none: {error}") from None


@dataclass(frozen=True)
class StepFacts:
    """What a step does, as far as it may be known in public: equal facts share one intent.

    `noise` is the standard deviation of the noise in the sum, 0 for none; `clip` bounds what one
    unit adds to it.  `batches` are how many draws of a batch the sum holds, each of which may hold
    a unit.  `bounded` is False where a unit may be drawn several times, so that nothing bounds it.
    `divisor` is what the sum is divided by; `realised` says that the divisor follows the data.
    `released` says that the clip follows from what was released before, with noise; `phase` is
    `CLIP_COUNT` where it is the count that does so.
    """

    noise: float
    clip: float
    sampler: Sampler
    rate: float
    batches: int = 1
    bounded: bool = True
    divisor: float | None = None
    realised: bool = False
    released: bool = False
    phase: str = PHASE

    @classmethod
    def of(cls, plan: TrainingPlan) -> StepFacts:
        """Return the facts of a step that keeps to its plan."""
        return cls(
            noise=plan.noise_multiplier * plan.clip,
            clip=plan.clip,
            sampler=plan.sampling,
            rate=plan.sampling_rate,
            divisor=plan.divisor,
        )

    @property
    def bound(self) -> float:
        """By how much one unit may move the sum where it comes or goes."""
        return self.clip * self.batches

    @property
    def counted(self) -> tuple[float, float]:
        """Noise multiplier and rate of the step; no noise where no number holds by itself.

        That is so without a bound or a public divisor, and where one unit moves others in a sample.
        """
        if not self.bounded or self.realised or self.sampler not in ("poisson", "none"):
            return 0.0, 1.0
        rate = min(1.0, self.rate * self.batches) if self.sampler == "poisson" else 1.0
        return self.noise / self.bound, rate

    def keeps_to(self, planned: StepFacts) -> bool:
        """Return whether a step keeps to its plan, which may leave a constant divisor open."""
        return self == (
            planned if planned.divisor is not None else replace(planned, divisor=self.divisor)
        )

    def event(self, plan: TrainingPlan, steps: int) -> ev.Event:
        """Return what the loop accounts of so many steps: the plan's sampler, and the noise added.

        That is what its library counts; whether the facts support it, an audit decides.
        """
        if self.noise <= 0.0:
            return ev.NoGuarantee("a step was made without noise")
        multiplier = self.noise / self.bound
        step: ev.Event = ev.Gaussian(multiplier)
        if plan.sampling == "poisson":
            rate = min(1.0, self.rate * self.batches) if self.sampler == "poisson" else self.rate
            step = step if rate >= 1.0 else ev.Poisson(rate, step)
        elif plan.sampling in SIZED:
            assert plan.batch is not None
            assert plan.population is not None
            if plan.sampling == "fixed-size":
                step = ev.FixedSize(plan.batch, plan.population, step)
            else:
                step = ev.TruncatedPoisson(self.rate, plan.batch, plan.population, step)
        elif plan.sampling == "shuffled" and plan.neighbours == "add-remove":
            # Who leaves an order moves others into other batches: the sum moves twice as far.
            step = ev.Gaussian(multiplier / 2.0)
        return step if steps == 1 else ev.Repeat(steps, step)

    def intent(self, plan: TrainingPlan, number: int, steps: int) -> RoundIntent:
        """Return the line that announces so many of such steps."""
        family: Literal["gaussian", "none"] = "gaussian" if self.noise > 0.0 else "none"
        replaced = 2.0 if plan.neighbours == "replace-one" else 1.0
        poisson = self.sampler == "poisson"
        rate = min(1.0, self.rate * self.batches) if self.sampler in BY_CHANCE else 1.0
        source: Literal["public", "released", "private"] = "private"
        # Several samples that were cut, in one sum, are no such sample: nothing is proven of them.
        if self.bounded and (self.batches == 1 or self.sampler != "truncated-poisson"):
            source = "released" if self.released else "public"
        public_size = self.sampler in SIZED or plan.neighbours != "add-remove"
        return RoundIntent(
            number,
            self.phase,
            self.event(plan, steps),
            Contribution(self.bound, "l2", plan.unit, source=source),
            Noise(family, self.noise, draws=steps),
            math.nextafter(self.bound * replaced, math.inf) if replaced > 1.0 else self.bound,
            sampling=Sampling(
                self.sampler,
                plan.unit,
                rate,
                "nobody" if self.sampler == "none" else "server",
                batch=plan.batch if public_size and not poisson else None,
                population=plan.population if public_size and not poisson else None,
                moves_others=True if self.sampler == "shuffled" else None,
            ),
        )


def unknown_draw(plan: TrainingPlan) -> Sampler:
    """Return what is said of a draw that nobody knows: it hides nothing, and may move others."""
    return "shuffled" if plan.neighbours == "add-remove" else "none"


def as_planned(value: float, planned: float) -> float:
    """Return the planned value for one that differs from it by a rounding of quotients."""
    return planned if math.isclose(value, planned, rel_tol=DEVIATION_ROUNDING) else value


def counted_of(step: ev.Event) -> tuple[float, float]:
    """Return noise multiplier and rate of the event of a step that an intent announced."""
    rate = step.rate if isinstance(step, ev.Poisson) else 1.0
    sampled = (ev.Poisson, ev.FixedSize, ev.TruncatedPoisson)
    noisy = step.event if isinstance(step, sampled) else step
    return (noisy.noise_multiplier if isinstance(noisy, ev.Gaussian) else 0.0), rate


OBSERVER: Final = MODEL
"""Who sees the released steps: a loop in one process has no other."""
