"""What a plot shows, without saying how it is drawn: two axes, marks on them, and words.

Pictures, charts of characters and JSON are made of the same `Chart`, so they hold the same numbers.

**Between two computed points nothing is interpolated.**  A chord of epsilon by rounds, or of the
logarithm of delta by epsilon, may lie below the truth.  Each of these numbers only rises, or only
falls, along its axis, so one end of each stretch bounds all of it: `stairs` takes the upper end
from where it is larger, and the lower end from where it is smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias

Role = Literal["claimed", "limit", "measured", "reference", "series"]
"""What a mark that is no band stands for; `series` is one of several of a kind."""

End = Literal["lower", "upper"]
Numbers: TypeAlias = tuple[float, ...]

MAX_SHOWN_CHARACTERS: Final = 76
"""Longest name of a file or a setting that is shown."""


def shown(name: str) -> str:
    """Return a stranger's words on one line, without what a terminal would obey, and cut off.

    >>> shown("run\\n\\x1b[2J")
    'run \\ufffd[2J'
    """
    line = " ".join(name.split())
    text = "".join(char if char.isprintable() else "\ufffd" for char in line)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 1]}…"


@dataclass(frozen=True)
class Axis:
    """What runs along an axis, with its unit; `rows` are names, the first one on top.

    `whole` is for counts.  `limits` are the ends of the axis, None where the marks decide.
    """

    label: str
    scale: Literal["linear", "log"] = "linear"
    limits: tuple[float, float] | None = None
    rows: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Band:
    """A number between two ends along x; the guarantee is the end that `certified` names."""

    label: str
    x: Numbers
    lower: Numbers
    upper: Numbers
    certified: End = "upper"

    @property
    def guarantee(self) -> Numbers:
        """The end that is the guarantee."""
        return self.upper if self.certified == "upper" else self.lower

    @property
    def spread(self) -> bool:
        """Whether the ends differ anywhere by more than rounding."""
        pairs = zip(self.lower, self.upper, strict=True)
        return any(upper - lower > 1e-9 * abs(upper) for lower, upper in pairs)


@dataclass(frozen=True)
class Line:
    """A line through points, such as what guessing reaches, or what a block has spent."""

    label: str
    x: Numbers
    y: Numbers
    role: Role = "series"


@dataclass(frozen=True)
class Level:
    """One number for every x, such as a budget."""

    label: str
    y: float
    role: Role = "limit"


@dataclass(frozen=True)
class Points:
    """Single points, such as what an attack measured."""

    label: str
    x: Numbers
    y: Numbers
    role: Role = "measured"


@dataclass(frozen=True)
class Intervals:
    """Numbers between two ends along x, each at its y; the upper end is the guarantee.

    An infinite upper end says that no finite number is proven.
    """

    label: str
    y: Numbers
    lower: Numbers
    upper: Numbers


@dataclass(frozen=True)
class Gap:
    """A stretch of x for which no finite number is proven."""

    label: str
    start: float
    end: float


Mark: TypeAlias = Band | Line | Level | Points | Intervals | Gap


@dataclass(frozen=True)
class Chart:
    """A whole plot; `subtitle` names unit, relation, delta and observer, as far as there are any.

    `notes` are what a reader must know, a sentence each.
    """

    title: str
    subtitle: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    notes: tuple[str, ...] = ()

    def xs(self) -> Iterator[float]:
        """Yield every number along x that is drawn."""
        for mark in self.marks:
            match mark:
                case Intervals():
                    yield from (*mark.lower, *mark.upper)
                case Gap():
                    yield from (mark.start, mark.end)
                case Band() | Line() | Points():
                    yield from mark.x

    def ys(self) -> Iterator[float]:
        """Yield every number along y that is drawn."""
        for mark in self.marks:
            match mark:
                case Band():
                    yield from (*mark.lower, *mark.upper)
                case Level():
                    yield mark.y
                case Line() | Points() | Intervals():
                    yield from mark.y

    def to_json(self) -> dict[str, object]:
        """Return the chart as a JSON object; infinite numbers are floats still."""
        return {
            "title": self.title,
            "subtitle": self.subtitle,
            "x": _fields(self.x),
            "y": _fields(self.y),
            "marks": [
                {"kind": type(mark).__name__.lower(), **_fields(mark)} for mark in self.marks
            ],
            "notes": list(self.notes),
        }

    @property
    def description(self) -> str:
        """The chart in sentences, for who cannot see it."""
        against = f"{self.y.label} against {self.x.label}." if not self.y.rows else self.x.label
        return " ".join(
            [f"{self.subtitle}.", against, *map(_sentence, self.marks), *self.notes],
        )


def stairs(x: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> Band:
    """Return a band without a name, in which each stretch has the ends that hold on all of it.

    For numbers that only rise, or only fall, along x; x rises.

    >>> band = stairs([1, 2], [3, 5], [4, 6])
    >>> band.x, band.lower, band.upper
    ((1, 2, 2), (3, 3, 5), (6, 6, 6))
    """
    points: list[tuple[float, float, float]] = []
    listed = list(zip(x, lower, upper, strict=True))
    for before, after in itertools.pairwise(listed):
        low, high = min(before[1], after[1]), max(before[2], after[2])
        points += [(before[0], low, high), (after[0], low, high)]
    # The last point by itself closes the band; a first stretch that falls begins at its own end.
    points += listed[-1:]
    columns: list[Numbers] = list(zip(*points, strict=True)) if points else [(), (), ()]
    return Band("", columns[0], columns[1], columns[2])


def conditions(**said: object) -> str:
    """Return a subtitle: each fact with its name, those that are None left out.

    >>> conditions(unit="record", neighbours="add-remove", delta=1e-5, observer=None)
    'unit: record; neighbours: add-remove; delta: 1e-05'
    """
    return "; ".join(
        f"{name.replace('_', ' ')}: {f'{value:g}' if isinstance(value, float) else value}"
        for name, value in said.items()
        if value is not None
    )


def _fields(part: object) -> dict[str, object]:
    values = {field.name: getattr(part, field.name) for field in fields(part)}  # type: ignore[arg-type]
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def _sentence(mark: Mark) -> str:
    """Return what a mark says, with its first and its last numbers."""
    match mark:
        case Band():
            ends = zip(mark.x, mark.lower, mark.upper, strict=True)
            first, *_, last = [*ends] * 2
            words = [f"at {x:.4g} from {low:.4g} to {high:.4g}" for x, low, high in (first, last)]
            return f"{mark.label}: {', '.join(words)}; the {mark.certified} end is the guarantee."
        case Level():
            return f"{mark.label}: {mark.y:.4g}."
        case Gap():
            return f"{mark.label}: from {mark.start:.4g} to {mark.end:.4g}."
        case Intervals():
            spans = [
                f"{low:.4g} to {'no finite number' if math.isinf(high) else f'{high:.4g}'}"
                for low, high in zip(mark.lower, mark.upper, strict=True)
            ]
            return f"{mark.label}: {', '.join(spans)}."
    points = tuple(zip(mark.x, mark.y, strict=True))
    return f"{mark.label}: {', '.join(f'{y:.4g} at {x:.4g}' for x, y in _some(points))}."


def _some(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    return points if len(points) <= MAX_LISTED_POINTS else (points[0], points[-1])


MAX_LISTED_POINTS: Final = 12
"""Most points that a description lists."""
