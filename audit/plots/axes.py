"""A chart on axes of matplotlib, in colours and styles that need no sense of colour.

The colours are those of Okabe and Ito; whatever has a colour of its own has a line style or a
marker of its own, too.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ...accountant.errors import MissingExtra
from ...accountant.rounding import up
from .chart import Band, Chart, Gap, Intervals, Level, Line, Points, Role

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

BLUE: Final = "#0072B2"
SKY: Final = "#56B4E9"
VERMILLION: Final = "#D55E00"
GREEN: Final = "#009E73"
PURPLE: Final = "#CC79A7"
ORANGE: Final = "#E69F00"
INK: Final = "#1c2733"
GREY: Final = "#6b7785"

SERIES: Final = (
    (BLUE, "-", "o"),
    (VERMILLION, "--", "s"),
    (GREEN, "-.", "^"),
    (PURPLE, ":", "D"),
    (ORANGE, (0, (7, 2, 1, 2, 1, 2)), "v"),
    (SKY, (0, (3, 1)), "P"),
    (INK, (0, (1, 3)), "X"),
)
"""Colour, line style and marker of each series of a kind; a further one begins anew."""

STYLES: Final[dict[Role, tuple[str, Any, str]]] = {
    "claimed": (VERMILLION, "--", "D"),
    "limit": (INK, (0, (5, 2)), "s"),
    "measured": (GREEN, "-.", "^"),
    "reference": (GREY, ":", "."),
}

SETTINGS: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "privplan",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
"""What a figure of ours is drawn with, wherever it is drawn."""

WIDTH_INCHES: Final = 6.4
HEIGHT_INCHES: Final = 4.2
ROW_INCHES: Final = 0.38
"""The size of a figure, and what each row of names adds to its height."""

TITLE_POINTS, SMALL_POINTS = 11.0, 8.5
LINE_POINTS: Final = 11.5
CHARACTERS_AN_INCH: Final = 15.5
"""Characters of small print that fit an inch."""

MAX_COLUMN_CHARACTERS: Final = 42
"""Longest label of a legend in two columns."""


def require_matplotlib() -> None:
    """Raise `MissingExtra` where matplotlib is not installed."""
    try:
        import matplotlib.axes  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "A plot needs the package matplotlib, which is not installed.",
            "It draws pictures; a chart of characters in a terminal needs nothing.",
            'Install the extra: pip install "privplan[plots]".',
        ) from None


def size(chart: Chart) -> tuple[float, float]:
    """Return the width and height of a figure of a chart, in inches."""
    if not chart.y.rows:
        return WIDTH_INCHES, HEIGHT_INCHES
    return WIDTH_INCHES, 2.0 + ROW_INCHES * len(chart.y.rows)


def drawn(chart: Chart, ax: Axes | None) -> Axes:
    """Draw a chart on axes, and return them; without any, on those of a new figure.

    Raises `MissingExtra` without matplotlib.
    """
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(figsize=size(chart), layout="constrained")
        _draw(chart, ax)
    return ax


def _draw(chart: Chart, ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    styles = itertools.cycle(SERIES)
    # A logarithmic axis has no 0: what lies left of it is drawn at its edge.
    cut = chart.x.scale == "log" and chart.x.limits is not None
    left = chart.x.limits[0] if cut and chart.x.limits else -math.inf
    right = chart.x.limits[1] if chart.x.limits else math.inf
    for mark in chart.marks:
        _put(mark, ax, styles, (left, right))
    ax.grid(color="#dfe4ea", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xscale(chart.x.scale)
    ax.set_yscale(chart.y.scale)
    ax.set(xlabel=chart.x.label, ylabel=chart.y.label)
    if chart.x.limits is not None:
        ax.set_xlim(*chart.x.limits)
    if chart.y.limits is not None:
        ax.set_ylim(*chart.y.limits)
    for part, axis in ((chart.x, ax.xaxis), (chart.y, ax.yaxis)):
        if part.whole and part.scale == "linear":
            axis.set_major_locator(MaxNLocator(integer=True))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if chart.y.rows:
        _name_rows(chart, ax)
    _plain_numbers(chart, ax)
    _words(chart, ax)


def _name_rows(chart: Chart, ax: Axes) -> None:
    """Write the name of each row above its bar: so long names are neither cut nor in the way."""
    from matplotlib.transforms import ScaledTranslation

    ax.set_ylabel("")
    ax.set_yticks(range(len(chart.y.rows)), chart.y.rows)
    ax.set_ylim(len(chart.y.rows) - 0.5, -0.9)
    ax.tick_params(axis="y", length=0.0, pad=-5.0)
    above = ScaledTranslation(0.0, 6.5 / 72.0, ax.figure.dpi_scale_trans)
    for name in ax.get_yticklabels():
        name.set(ha="left", va="bottom", fontsize=SMALL_POINTS, parse_math=False)
        name.set_transform(name.get_transform() + above)


def _plain_numbers(chart: Chart, ax: Axes) -> None:
    """Write the ticks of a logarithmic axis of few decades as people write numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, part, values in ((ax.xaxis, chart.x, chart.xs()), (ax.yaxis, chart.y, chart.ys())):
        if part.scale != "log":
            continue
        known = [value for value in values if 0.0 < value < math.inf]
        ends = part.limits or (min(known, default=1.0), max(known, default=1.0))
        decades = math.log10(ends[1] / ends[0]) if ends[1] > ends[0] else 0.0
        steps = (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.7 else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=steps, numticks=9))
        axis.set_minor_formatter(NullFormatter())
        if decades <= 5.0 and ends[0] >= 1e-4:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _put(
    mark: object, ax: Axes, styles: Iterator[tuple[str, Any, str]], ends: tuple[float, float]
) -> None:
    """Put one mark on the axes."""
    match mark:
        case Band():
            if mark.spread:
                ax.fill_between(
                    mark.x,
                    mark.lower,
                    mark.upper,
                    color=SKY,
                    alpha=0.45,
                    linewidth=0.0,
                    label="between both ends",
                )
                attained = mark.lower if mark.certified == "upper" else mark.upper
                ax.plot(mark.x, attained, color=SKY, linestyle="-.", linewidth=1.0, zorder=2.4)
            ax.plot(mark.x, mark.guarantee, color=BLUE, label=mark.label, zorder=2.5)
        case Line():
            colour, style, _ = STYLES.get(mark.role) or next(styles)
            ax.plot(mark.x, mark.y, color=colour, linestyle=style, label=mark.label)
        case Level():
            colour, style, _ = STYLES.get(mark.role) or next(styles)
            ax.axhline(mark.y, color=colour, linestyle=style, linewidth=1.3, label=mark.label)
        case Points():
            colour, _, marker = STYLES.get(mark.role) or next(styles)
            ax.plot(
                mark.x,
                mark.y,
                color=colour,
                marker=marker,
                markersize=5.5,
                linestyle="none",
                label=mark.label,
                zorder=3.0,
                clip_on=False,
            )
        case Gap():
            ax.axvspan(mark.start, mark.end, color="#f3dcda", hatch="//", label=mark.label)
        case Intervals():
            _put_intervals(mark, ax, ends)


def _put_intervals(mark: Intervals, ax: Axes, ends: tuple[float, float]) -> None:
    """Draw each interval with a bar at its upper end, and words where that is off the axis."""
    left, right = ends
    label: str | None = mark.label
    inside: str | None = "between both ends"
    for y, lower, upper in zip(mark.y, mark.lower, mark.upper, strict=True):
        if upper > right or math.isinf(upper):
            ax.annotate(
                "no finite bound" if math.isinf(upper) else f"at most {up(upper)}",
                (1.0, y),
                (0.99, y),
                xycoords=ax.get_yaxis_transform(),
                ha="right",
                va="center",
                fontsize=SMALL_POINTS,
                color=BLUE,
            )
            continue
        ax.plot(
            [max(lower, left), max(upper, left)],
            [y, y],
            color=SKY,
            linewidth=5.0,
            solid_capstyle="butt",
            alpha=0.6,
            label=inside,
        )
        ax.plot(
            [max(upper, left)],
            [y],
            color=BLUE,
            clip_on=False,
            marker="|",
            markersize=10.0,
            markeredgewidth=2.4,
            linestyle="none",
            label=label,
        )
        label = inside = None


def _words(chart: Chart, ax: Axes) -> None:
    """Write title, subtitle, legend and notes, none of which is read as a formula."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.figure
    width = ax.bbox.width / figure.dpi
    columns = max(30, int(max(width, 0.88 * figure.bbox.width / figure.dpi) * CHARACTERS_AN_INCH))
    lines = textwrap.wrap(chart.subtitle, columns)
    ax.set_title(
        chart.title,
        loc="left",
        fontsize=TITLE_POINTS,
        fontweight="bold",
        pad=6.0 + LINE_POINTS * len(lines),
    )
    subtitle = ax.annotate(
        "\n".join(lines),
        (0.0, 1.0),
        (0.0, 5.0),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=SMALL_POINTS,
        color=GREY,
        va="bottom",
    )
    subtitle.set_gid("subtitle")
    texts: list[Text] = [ax.title, subtitle, *ax.texts]
    handles, labels = _unique_legend(ax)
    below = 38.0
    if handles:
        wide = max(map(len, labels)) > MAX_COLUMN_CHARACTERS or len(handles) == 1
        legend = ax.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(0.0, 0.0),
            bbox_transform=ax.transAxes
            + ScaledTranslation(0.0, -below / 72.0, figure.dpi_scale_trans),
            ncols=1 if wide else 2,
            frameon=False,
            borderaxespad=0.0,
            borderpad=0.0,
            fontsize=SMALL_POINTS,
            handlelength=2.8,
        )
        texts += legend.get_texts()
        rows = len(handles) if wide else (len(handles) + 1) // 2
        below += 14.5 * rows + 4.0
    if chart.notes:
        noted = [line for note in chart.notes for line in textwrap.wrap(note, columns)]
        notes = ax.annotate(
            "\n".join(noted),
            (0.0, 0.0),
            (0.0, -below),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=SMALL_POINTS,
            color=GREY,
            va="top",
        )
        texts.append(notes)
    for text in texts:  # a name may hold a dollar sign
        text.set_parse_math(False)


def _unique_legend(ax: Axes) -> tuple[list[Any], list[str]]:
    """Return the handles of the legend, each label once."""
    handles, labels = ax.get_legend_handles_labels()
    known = dict(zip(reversed(labels), reversed(handles), strict=True))
    unique = list(dict.fromkeys(labels))
    return [known[label] for label in unique], unique
