"""Noise against epsilon, rounds, rate or group size: what calibrations and plans need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.calibration_aims import Calibration
from ...accountant.errors import InvalidInput, kind_of
from ...accountant.event_tree import group_sizes
from ...accountant.plan import Plan
from .chart import Axis, Chart, Line, Mark, Points, conditions, stairs

Against = Literal["epsilon", "rounds", "rate", "group"]
AGAINST: Final[tuple[Against, ...]] = get_args(Against)
Sized: TypeAlias = Calibration | Plan

LABELS: Final = {
    "epsilon": "target epsilon (nats)",
    "rounds": "rounds",
    "rate": "sampling rate (share of the units in a round)",
    "group": "records of one unit",
}
NOISE_LABEL: Final = "noise multiplier (noise / contribution bound)"

LOG_FROM_RATIO: Final = 8.0
"""An axis whose ends are so many times apart is logarithmic."""


@dataclass(frozen=True)
class _Design:
    """What one result was sized for, and the noise of each of its phases."""

    epsilon: float
    rounds: int | None
    rate: float | None
    noise: tuple[tuple[str, float], ...]
    relation: str
    delta: float
    group: int
    unit: str
    missed: float

    @classmethod
    def of(cls, result: Sized) -> _Design:
        if isinstance(result, Calibration):
            if result.measure != "epsilon":
                raise InvalidInput(
                    f"A calibration to {result.measure} has no target epsilon.",
                    "This plot shows the noise that meets an epsilon.",
                    "Give calibrations to an epsilon at a delta.",
                )
            proven = result.guarantee
            return cls(
                result.target,
                *_schedule(result.event),
                (("noise that is proven to be enough", result.value),),
                proven.neighbours,
                proven.delta.upper,
                max(group_sizes(result.event), default=1),
                "record",
                result.gap,
            )
        if not isinstance(result, Plan):
            raise InvalidInput(
                f"A result must be a calibration or a plan; it is {kind_of(result)}.",
                next_step="Give what `calibrate` or `plan` returned.",
            )
        rates = {_schedule(phase.event)[1] for phase in result.phases}
        worst = max(each.epsilon.upper for each in result.guarantees.values())
        lower = max(each.epsilon.lower for each in result.guarantees.values())
        return cls(
            result.epsilon,
            sum(phase.rounds for phase in result.phases),
            rates.pop() if len(rates) == 1 else None,
            tuple(
                (f"phase {name}" if len(result.noise) > 1 else "noise of the plan", noise)
                for name, noise in result.noise.items()
            ),
            result.neighbours,
            result.delta,
            result.group,
            result.unit if result.group == 1 else "record",
            max(worst - lower, result.epsilon - lower),
        )


def noise_chart(results: Sequence[Sized], against: str | None = None) -> Chart:
    """Return the noise of each result against what differs among them.

    Raises `InvalidInput` without results, where nothing or several things differ and `against` does
    not say which counts, and where a result does not say that number.
    """
    designs = [_Design.of(each) for each in results]
    if not designs:
        raise InvalidInput("There is nothing to plot: no result is given.")
    key = _key(designs, against)
    designs.sort(key=lambda design: getattr(design, key))
    x = [float(getattr(design, key)) for design in designs]
    # Between two points noise is known to be enough where nothing else differs.
    alone = not [each for each in AGAINST if each != key and _differs(designs, each)]
    marks: list[Mark] = []
    for name in dict.fromkeys(name for design in designs for name, _ in design.noise):
        known = [
            (at, dict(d.noise)[name])
            for at, d in zip(x, designs, strict=True)
            if name in dict(d.noise)
        ]
        at, noise = zip(*known, strict=True)
        if alone and len(set(at)) > 1 and _is_monotone(noise):
            steps = stairs(at, noise, noise)
            x_steps, enough = (at[0], *steps.x), (noise[0], *steps.upper)
            marks.append(Line(f"{name}, in between too", x_steps, enough, "reference"))
        marks.append(Points(name, at, noise, "series"))
    all_noise = [noise for design in designs for _, noise in design.noise]
    first = designs[0]
    said: dict[str, object] = {
        "unit": "group of records"
        if key == "group"
        else _common(_unit(design) for design in designs)
    }
    said["neighbours"] = _common(d.relation for d in designs)
    said["delta"] = _common(f"{d.delta:g}" for d in designs)
    for other in AGAINST:
        if other in (key, "group") or _differs(designs, other):
            continue
        if getattr(first, other) is not None:
            value = getattr(first, other)
            said[other] = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    missed = max(design.missed for design in designs)
    return Chart(
        f"Noise against {key}",
        conditions(**said),
        Axis(LABELS[key], _scale(x), _ends(x), whole=key in ("rounds", "group")),
        Axis(NOISE_LABEL, _scale(all_noise), _ends(all_noise)),
        tuple(marks),
        (f"No epsilon more than {missed:.2g} below the target is true of this noise.",),
    )


def _key(designs: Sequence[_Design], against: str | None) -> Against:
    if against is not None:
        validate.choice(AGAINST, against=against)
        key: Against = against  # type: ignore[assignment]
    else:
        differing = [each for each in AGAINST if _differs(designs, each)]
        if len(differing) > 1 and "rate" in differing and "rounds" in differing:
            differing = ["rounds"]  # passes of the same data: more rounds at a smaller rate
        if len(differing) > 1:
            raise InvalidInput(
                f"Results differ in {' and '.join(differing)}.",
                "A plot has one horizontal axis.",
                "Say which one counts: against='rounds'.",
            )
        key = differing[0] if differing else "epsilon"
    if any(getattr(design, key) is None for design in designs):
        raise InvalidInput(
            f"A result does not say its {key}.",
            "Its event is made of different rounds.",
            "Plot the noise against epsilon, or give results of one kind of round.",
        )
    return key


def _differs(designs: Sequence[_Design], key: str) -> bool:
    return len({getattr(design, key) for design in designs}) > 1


def _unit(design: _Design) -> str:
    if design.group == 1:
        return design.unit
    return f"group of {design.group:,} {design.unit}s"


def _common(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _is_monotone(values: Sequence[float]) -> bool:
    return list(values) in (sorted(values), sorted(values, reverse=True))


def _scale(values: Sequence[float]) -> Literal["linear", "log"]:
    spread = min(values) > 0.0 and max(values) >= LOG_FROM_RATIO * min(values)
    return "log" if spread else "linear"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return ends of an axis with room at both."""
    low, high = min(values), max(values)
    if _scale(values) == "log":
        room = (high / low) ** 0.06
        return low / room, high * room
    room = 0.08 * (high - low) or 0.5 * abs(high) or 1.0
    return max(low - room, 0.0) if low >= 0.0 else low - room, high + room


def _schedule(event: ev.Event) -> tuple[int | None, float | None]:
    """Return the rounds and the sampling rate of an event, None for what it does not say."""
    rounds = 1
    while isinstance(event, (ev.Group, ev.Repeat)):
        rounds *= event.count if isinstance(event, ev.Repeat) else 1
        event = event.event
    match event:
        case ev.Compose():
            return None, None
        case ev.Poisson():
            return rounds, event.rate
        case ev.FixedSize():
            return rounds, event.batch / event.population
        case ev.Gaussian() | ev.Laplace():
            return rounds, 1.0
    return rounds, None
