"""A chart of characters, as wide as a terminal: what it marks has a sign, and no colour.

A cell that a guarantee crosses shows its worst number there, so that a coarse chart errs on the
safe side.  Where a terminal knows no Unicode, each sign has one of ASCII.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from .chart import Axis, Band, Chart, Gap, Intervals, Level, Line, Mark, Numbers, Points

MIN_COLUMNS, MAX_COLUMNS = 40, 100
CHART_LINES: Final = 14
"""Lines of a chart without names."""

CERTIFIED, INSIDE, LEVEL, GAP, BOUND = "●", "░", "─", "╱", "◇"
SIGNS: Final = {"claimed": "◆", "limit": LEVEL, "measured": "▲", "reference": "·"}
SERIES_SIGNS: Final = "■○△□×+"
ASCII: Final = str.maketrans("●░─╱◆◇▲·■○△□×→│┤└┴…", "*:-/#%^.=oAQx>|+++~")
"""What stands for each sign where a terminal knows no Unicode."""


def text_chart(chart: Chart, columns: int = 80, *, unicode: bool = True) -> str:
    """Return a chart as lines of at most `columns` characters, within 40 and 100.

    >>> from .chart import Points
    >>> points = Points("a", (1.0, 3.0), (0.0, 2.0))
    >>> chart = Chart("Two", "", Axis("rounds", whole=True), Axis("epsilon"), (points,))
    >>> for line in text_chart(chart, 40).splitlines()[-4:]:
    ...     print(line)
         └┴──────────────┴──────────────┴
          1              2              3
                                   rounds
    ▲ a
    """
    width = min(max(columns, MIN_COLUMNS), MAX_COLUMNS)
    lines = [*_wrapped(chart.title, width), *_wrapped(chart.subtitle, width), ""]
    lines += _Canvas.of(chart, width).lines()
    lines += [line for sign, label in _legend(chart) for line in _wrapped(label, width, f"{sign} ")]
    lines += [line for note in chart.notes for line in _wrapped(note, width)]
    text = "\n".join(line.rstrip() for line in lines)
    return text if unicode else text.translate(ASCII).encode("ascii", "replace").decode()


def _wrapped(text: str, width: int, label: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=label, subsequent_indent=" " * len(label))


@dataclass(frozen=True)
class _Scale:
    """Numbers of an axis as cells 0 to `cells` - 1."""

    low: float
    high: float
    cells: int
    log: bool
    whole: bool = False

    @classmethod
    def of(cls, axis: Axis, values: Iterator[float], cells: int) -> _Scale:
        log = axis.scale == "log"
        known = [value for value in values if math.isfinite(value) and (value > 0.0 or not log)]
        low, high = axis.limits or (min(known, default=0.1), max(known, default=1.0))
        if low == high:
            low, high = (low / 2.0, high * 2.0) if log else (low - 0.5, high + 0.5)
        return cls(low, high, cells, log, axis.whole)

    def at(self, value: float) -> float:
        """Return where a number lies, in cells, cut off at both ends."""
        if self.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0) * (self.cells - 1)

    def cell(self, value: float) -> int:
        """Return the cell of a number."""
        return round(self.at(value))

    def shows(self, value: float) -> bool:
        """Return whether a number lies on the axis."""
        slack = 1e-9 * abs(self.high)
        return self.low - slack <= value <= self.high + slack

    def ticks(self, most: int) -> list[float]:
        """Return at most so many round numbers on the axis."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            decades = [10.0**power for power in range(first, last + 1)]
            fine = [step * 10.0**k for k in range(first - 1, last + 1) for step in (1.0, 2.0, 5.0)]
            chosen = decades if len(decades) > 2 else [each for each in fine if self.shows(each)]
            return chosen[:: max(1, math.ceil(len(chosen) / most))]
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(each * power for each in (1.0, 2.0, 5.0, 10.0) if each * power >= rough * 0.999)
        step = max(step, 1.0) if self.whole else step
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [count * step for count in range(first, last + 1)]


@dataclass
class _Canvas:
    """Cells of characters, the first row on top, with what is written along both axes."""

    chart: Chart
    x: _Scale
    y: _Scale
    cells: list[list[str]]
    margin: int
    tick_rows: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, chart: Chart, width: int) -> _Canvas:
        if chart.y.rows:
            names = [_cut(name, width // 2) for name in chart.y.rows]
            margin = max(map(len, names)) + 2
            rows = len(names)
            y = _Scale(rows - 1.0, 0.0, rows, log=False) if rows > 1 else _Scale(0.0, 1.0, 1, False)
            ticks = dict(enumerate(names))
        else:
            rows = CHART_LINES
            y = _Scale.of(chart.y, chart.ys(), rows)
            # The lowest tick of two on one line is the one that stays.
            ticks = {
                rows - 1 - _line_of(chart, y, each): _number(each) for each in reversed(y.ticks(5))
            }
            margin = max(map(len, ticks.values()), default=1) + 3
        x = _Scale.of(chart.x, chart.xs(), max(width - margin - 3, 16))
        canvas = cls(chart, x, y, [[" "] * x.cells for _ in range(rows)], margin, ticks)
        # What is more certain is written over what is less.
        for mark, sign in sorted(
            zip(chart.marks, _signs(chart), strict=True), key=lambda each: _rank(each[0])
        ):
            canvas.put(mark, sign)
        return canvas

    def lines(self) -> list[str]:
        """Return the chart with both axes."""
        label = [] if self.chart.y.rows else [self.chart.y.label]
        body = []
        for row, cells in enumerate(self.cells):
            name = self.tick_rows.get(row, "")
            edge = "┤" if name else "│"
            body.append(f"{name:>{self.margin - 2}} {edge}{''.join(cells)}")
        axis, numbers = ["─"] * self.x.cells, [" "] * (self.x.cells + 8)
        free = 0
        for tick in self.x.ticks(5):
            word = _number(tick)
            column = self.x.cell(tick)
            start = min(max(column - len(word) // 2, 0), self.x.cells - len(word))
            if start >= free:
                axis[column] = "┴"
                numbers[start : start + len(word)] = word
                free = start + len(word) + 1
        pad = " " * (self.margin - 1)
        last = textwrap.wrap(self.chart.x.label, self.x.cells + self.margin - 1)
        return [
            *label,
            *body,
            f"{pad}└{''.join(axis)}",
            f"{pad} {''.join(numbers)}",
            *(f"{line:>{self.margin + self.x.cells}}" for line in last),
        ]

    def put(self, mark: Mark, sign: str) -> None:
        """Write one mark into the cells."""
        match mark:
            case Band():
                self._put_band(mark)
            case Line():
                for column, (low, high) in self._columns(mark.x, mark.y):
                    for cell in range(self.y.cell(low), self.y.cell(high) + 1):
                        self.cells[len(self.cells) - 1 - cell][column] = sign
            case Level():
                if self.y.shows(mark.y):
                    row = self.cells[len(self.cells) - 1 - _line_of(self.chart, self.y, mark.y)]
                    row[:] = [sign if cell == " " else cell for cell in row]
            case Points():
                for x, y in zip(mark.x, mark.y, strict=True):
                    if self.x.shows(x):
                        self._write(self.x.cell(x), y, sign)
            case Gap():
                start, end = self.x.cell(mark.start), self.x.cell(mark.end)
                for row in self.cells:
                    row[start : end + 1] = [GAP] * (end + 1 - start)
            case Intervals():
                for y, low, high in zip(mark.y, mark.lower, mark.upper, strict=True):
                    row = self.cells[len(self.cells) - 1 - self.y.cell(y)]
                    beyond = high > self.x.high
                    end = self.x.cells - 1 if beyond else math.ceil(self.x.at(high))
                    for column in range(self.x.cell(low), end + 1):
                        row[column] = INSIDE
                    row[end] = "→" if beyond else CERTIFIED

    def _put_band(self, band: Band) -> None:
        upper, rows = dict(self._columns(band.x, band.upper)), len(self.cells)
        for column, (low, _) in self._columns(band.x, band.lower):
            high = upper[column][1]
            bottom = math.floor(self.y.at(low) + 1e-9)
            top = math.ceil(self.y.at(high) - 1e-9)
            for cell in range(bottom, top + 1):
                self.cells[rows - 1 - cell][column] = INSIDE
            worst = top if band.certified == "upper" else bottom
            self.cells[rows - 1 - worst][column] = CERTIFIED

    def _columns(self, x: Numbers, y: Numbers) -> Iterator[tuple[int, tuple[float, float]]]:
        """Yield each column that a line crosses, with the least and the largest number in it."""
        where = [self.x.at(each) for each in x]
        if len(where) == 1:
            where, y = where * 2, y * 2
        for column in range(self.x.cells):
            left, right = column - 0.5, column + 0.5
            seen: list[float] = []
            for a, b, start, end in zip(where, where[1:], y, y[1:], strict=False):
                if a > right or b < left:
                    continue
                slope = (end - start) / (b - a) if b > a else 0.0
                seen += [start + slope * (max(a, left) - a), end - slope * (b - min(b, right))]
            if seen:
                yield column, (min(seen), max(seen))

    def _write(self, column: int, y: float, sign: str) -> None:
        if self.y.cells != 1 and not self.chart.y.rows and not self.y.shows(y):
            return
        self.cells[len(self.cells) - 1 - self.y.cell(y)][column] = sign


def _line_of(chart: Chart, scale: _Scale, value: float) -> int:
    """Return on which line from below a tick or a budget stands.

    Rounded as a guarantee of the same value is: what is within a budget is not drawn above it.
    """
    ends = {mark.certified for mark in chart.marks if isinstance(mark, Band)}
    if ends == {"upper"}:
        return math.ceil(scale.at(value) - 1e-9)
    return math.floor(scale.at(value) + 1e-9) if ends == {"lower"} else scale.cell(value)


def _rank(mark: Mark) -> int:
    if isinstance(mark, Gap):
        return 0
    if isinstance(mark, Line):
        return 1 if mark.role == "reference" else 3
    return {Intervals: 2, Band: 2, Level: 4, Points: 5}.get(type(mark), 3)


def _signs(chart: Chart) -> list[str]:
    """Return the sign of each mark; several of a kind have different ones."""
    series, signs = 0, []
    for mark in chart.marks:
        match mark:
            case Band() | Intervals():
                signs.append(CERTIFIED)
            case Gap():
                signs.append(GAP)
            case Points(role="limit"):
                signs.append(BOUND)
            case Line() | Level() | Points() if mark.role in SIGNS:
                signs.append(SIGNS[mark.role])
            case _:
                signs.append(SERIES_SIGNS[series % len(SERIES_SIGNS)])
                series += 1
    return signs


def _legend(chart: Chart) -> list[tuple[str, str]]:
    listed = list(zip(_signs(chart), (mark.label for mark in chart.marks), strict=True))
    if any(
        isinstance(mark, Intervals) or (isinstance(mark, Band) and mark.spread)
        for mark in chart.marks
    ):
        listed.append((INSIDE, "between both ends"))
    return list(dict.fromkeys(listed))


def _number(value: float) -> str:
    """Return a tick as people write it.

    >>> _number(0.5), _number(2000.0), _number(1e-6)
    ('0.5', '2,000', '1e-06')
    """
    return f"{value:,.10g}" if value == 0.0 or 1e-4 <= abs(value) < 1e7 else f"{value:.3g}"


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
